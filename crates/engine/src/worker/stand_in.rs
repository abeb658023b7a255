//! Work on items that were handed over, by somebody who hears of them: as a worker calls for them, and without a claim.
//!
//! The items are in nobody's hands and their attempts stay open; whoever calls takes what comes of it to the store as answers. Batches are made, and taken
//! apart when they fail, as a worker does; there are no gates, and nothing is tried twice. What turns calls away ends as a failure that says so, which
//! costs the item no attempt.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::answer::AnswerToken;
use redrive_core::bisect::{Bisect, Ruling, is_worth_splitting};
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ContentHash, StageNo};
use redrive_core::item::Item;
use redrive_core::pool::Rank;
use redrive_core::usage::Usage;
use redrive_store::{ClaimedItem, RunRow};

use super::execute::answer_of;
use crate::env::Env;
use crate::handler::{Answer, Input, Reply, Request};
use crate::recipe::Recipe;
use crate::{crash, trace};

/// Calls for items of one run.
pub struct StandIn<'a> {
    /// The run.
    pub run: &'a RunRow,
    /// Its pipeline, with the handlers of the stages that are stood in for.
    pub recipe: &'a Recipe,
    /// Clock and dice.
    pub env: &'a Env,
}

/// What came of an item.
#[derive(Debug, Clone, Default)]
pub struct StoodIn {
    /// What became of it; `None` when nobody began with it.
    pub reply: Option<ItemReply>,
    /// What was consumed for it.
    pub usage: Option<Usage>,
}

impl StandIn<'_> {
    /// Divides items that are at a stage into calls.
    #[must_use]
    pub fn batches(&self, stage: StageNo, items: Vec<ClaimedItem>) -> Vec<Vec<ClaimedItem>> {
        let Some(work) = self.recipe.work(stage) else { return Vec::new() };
        let mut left: VecDeque<ClaimedItem> = items.into();
        let mut batches = Vec::new();
        while let Some(first) = left.pop_front() {
            let mut tokens = work.handler.tokens(&first.payload);
            let mut most = self.recipe.most_beside(&open(&first), work.batch.max(1));
            let mut batch = vec![first];
            while let Some(next) = left.front() {
                tokens = tokens.saturating_add(work.handler.tokens(&next.payload));
                most = most.min(self.recipe.most_beside(&open(next), work.batch.max(1)));
                if batch.len() >= most || work.batch_tokens.is_some_and(|limit| tokens > limit) {
                    break;
                }
                batch.extend(left.pop_front());
            }
            batches.push(batch);
        }
        batches
    }

    /// Makes one call for these items, and more for parts of them where it fails and one of them may be to blame. What came of
    /// each, in their order.
    pub async fn call(&self, stage: StageNo, items: &[ClaimedItem]) -> Vec<StoodIn> {
        let mut all = vec![StoodIn::default(); items.len()];
        let Some(work) = self.recipe.work(stage) else { return all };
        let (mut asked, mut bisect): (Range<usize>, Option<Bisect>) = (0..items.len(), None);
        loop {
            crash::point("execute.before_call");
            let request = self.request(stage, &items[asked.clone()]);
            let Answer { reply, usage, .. } = answer_of(request, &*work.handler, self.env).await;
            crash::point("execute.after_call");
            if let Some(usage) = usage {
                spend(&mut all[asked.clone()], &items[asked.clone()], usage);
            }
            let failure = match reply {
                Reply::Items(replies) if replies.len() == asked.len() => {
                    put(&mut all[asked.clone()], replies.into_iter().map(Some));
                    bisect.iter_mut().for_each(Bisect::passed);
                    None
                }
                Reply::Items(replies) => {
                    let text = format!("{} replies for {} items", replies.len(), asked.len());
                    Some(Failure::new(Class::Retryable, Kind::Answer, text))
                }
                Reply::Part { replies, .. } => {
                    put(&mut all[asked], replies.into_iter());
                    return all;
                }
                Reply::Whole(failure) => Some(failure),
            };
            if let Some(failure) = failure {
                self.failed(items, &mut all, &mut bisect, &failure);
            }
            match bisect.as_mut().and_then(Bisect::next_call) {
                Some(next) => asked = next,
                None => return all,
            }
        }
    }

    /// A whole call failed: its items are to blame, share it, or are called for in parts.
    fn failed(
        &self,
        items: &[ClaimedItem],
        all: &mut [StoodIn],
        bisect: &mut Option<Bisect>,
        failure: &Failure,
    ) {
        let ruling = match bisect {
            Some(bisect) => bisect.failed(failure),
            None if items.len() == 1 => Ruling::Guilty(0),
            None if is_worth_splitting(failure) => {
                let patient = items.iter().any(|claimed| self.recipe.would_end(&claimed.item, failure));
                *bisect = Some(Bisect::new(items.len(), failure, patient));
                Ruling::Undecided
            }
            None => Ruling::Shared((0..items.len()).collect()),
        };
        let (ended, shared) = match ruling {
            Ruling::Guilty(at) => (vec![at], false),
            Ruling::Shared(ended) => (ended, true),
            Ruling::Undecided => (Vec::new(), false),
        };
        for at in ended {
            all[at].reply = Some(ItemReply::Failed { failure: failure.clone(), shared });
        }
    }

    fn request(&self, stage: StageNo, items: &[ClaimedItem]) -> Request {
        let plan = self.recipe.plan.stage(stage);
        let name = plan.map_or("", |plan| &plan.name);
        let timeout = items.iter().filter_map(|claimed| {
            let last = claimed.item.last.as_ref().map(|last| last.class);
            plan.map(|plan| plan.policy_of(&claimed.item).timeout(plan.timeout, claimed.item.failures, last))
        });
        Request {
            run: self.run.id,
            rank: Rank::new(self.run.spec.priority, self.run.created_at, self.run.id),
            stage: Arc::from(name),
            timeout: timeout.max().unwrap_or(Duration::from_secs(60)),
            items: items.iter().map(|claimed| self.input(claimed, name)).collect(),
        }
    }

    fn input(&self, claimed: &ClaimedItem, stage: &str) -> Input {
        let ClaimedItem { item, payload } = claimed;
        let work = ContentHash::of(&[&item.id.0, stage.as_bytes(), payload]);
        Input {
            attempt: item.attempt,
            token: AnswerToken::of(item),
            traceparent: trace::context(&self.env.traced, item),
            ..Input::new(item.id, item.key.clone(), payload.clone(), work.to_string())
        }
    }
}

/// The item as one that somebody has in hand: it is called for, and not for its answer.
fn open(claimed: &ClaimedItem) -> Item {
    Item { handed: None, ..claimed.item.clone() }
}

fn put(all: &mut [StoodIn], replies: impl Iterator<Item = Option<ItemReply>>) {
    for (one, reply) in all.iter_mut().zip(replies) {
        one.reply = reply.map(as_answer);
    }
}

/// What a handler says, as an answer can say it: it neither hands over again nor stands before a gate.
fn as_answer(reply: ItemReply) -> ItemReply {
    match reply {
        ItemReply::TurnedAway { mut failure, wait } => {
            failure.class = Class::RateLimited;
            ItemReply::Failed { failure: failure.with_hint(Some(wait)), shared: false }
        }
        ItemReply::HandedOver(_) => {
            let text = "whoever heard of it handed it over again";
            ItemReply::Failed { failure: Failure::new(Class::Final, Kind::Answer, text), shared: false }
        }
        ItemReply::Output(_)
        | ItemReply::Indexed(..)
        | ItemReply::Judged(..)
        | ItemReply::Reused(..)
        | ItemReply::Filtered(_)
        | ItemReply::Children(_)
        | ItemReply::Failed { .. } => reply,
    }
}

/// Divides what a call consumed among its items by the size of their contents.
fn spend(all: &mut [StoodIn], items: &[ClaimedItem], usage: Usage) {
    let weights: Vec<u64> = items.iter().map(|claimed| claimed.payload.len() as u64).collect();
    for (one, part) in all.iter_mut().zip(usage.divide(&weights)) {
        one.usage = Some(one.usage.map_or(part, |spent| spent.plus(part)));
    }
}
