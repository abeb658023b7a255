//! Whoever hears of an item that was handed over does what its stage does, and answers.
//!
//! A message only says where to look: the item, its content and its pipeline are read from the store. A message whose attempt has ended, or that names nothing, is
//! done with. What a handler replies goes to the store as any answer does, before the message is acknowledged; so one that comes again because somebody
//! was killed in between finds its attempt ended, or has the call made again.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use redrive_core::answer::AnswerToken;
use redrive_core::event::ItemReply;
use redrive_core::id::{RunId, StageNo};
use redrive_core::item::Item;
use redrive_engine::worker::{StandIn, StoodIn};
use redrive_store::{ClaimedItem, Content};
use serde::Deserialize;

use super::benches::{Bench, Benches};
use super::intake::{Taken, Taker, Wire};
use crate::answers::{AnswerView, CONTENTS, Fate, find, take_replies};
use crate::error::Result;
use crate::{Asker, Floor, Role};

/// In whose name answers are given.
const NAME: &str = "service";
/// Messages that are in hand at a time: what one process has, another one cannot begin with.
const IN_HAND: u16 = 128;

/// Does the work of stages that are told as events of one name.
pub struct Service {
    floor: Floor,
    event: String,
    queue: String,
    benches: Benches,
}

/// What is read of a message.
#[derive(Deserialize)]
struct Heard {
    #[serde(default)]
    token: Option<String>,
}

/// What became of the messages that name one attempt.
type Fates = BTreeMap<AnswerToken, Taken>;

impl Service {
    /// The one for events of this name, whose messages come by this queue.
    #[must_use]
    pub fn of(floor: &Floor, event: &str, queue: String) -> Self {
        let asker = Asker { name: NAME.to_owned(), role: Role::Worker, payloads_hidden: false };
        let floor = Floor { asker, ..floor.clone() };
        Self { floor, event: event.to_owned(), queue, benches: Benches::of(event) }
    }

    /// Works on the attempts that are named, as far as they are open.
    async fn work(&self, tokens: impl Iterator<Item = AnswerToken>) -> Fates {
        let mut fates = Fates::new();
        let mut by_run: BTreeMap<RunId, Vec<Item>> = BTreeMap::new();
        for token in tokens {
            if fates.contains_key(&token) {
                continue;
            }
            let (fate, found) = match find(&self.floor, token.item).await {
                Ok(found) => (Taken::Done, found.filter(|item| token.is_open(item))),
                Err(error) => (Taken::Later(error.to_string()), None),
            };
            fates.insert(token, fate);
            if let Some(item) = found {
                by_run.entry(item.run).or_default().push(item);
            }
        }
        for (run, items) in by_run {
            let tokens: Vec<AnswerToken> = items.iter().map(AnswerToken::of).collect();
            match self.work_on(run, items).await {
                Ok(some) => fates.extend(some),
                Err(error) => {
                    let later = Taken::Later(error.to_string());
                    fates.extend(tokens.into_iter().map(|token| (token, later.clone())));
                }
            }
        }
        fates
    }

    /// Works on items of one run. What is not told of is done with: it is no work of this event, or is in other hands.
    async fn work_on(&self, run: RunId, items: Vec<Item>) -> Result<Fates> {
        let Some(bench) = self.benches.bench(&self.floor, run).await? else { return Ok(Fates::new()) };
        let mut by_stage: BTreeMap<StageNo, Vec<ClaimedItem>> = BTreeMap::new();
        for claimed in self.read(items).await? {
            if bench.does(claimed.item.stage) {
                by_stage.entry(claimed.item.stage).or_default().push(claimed);
            }
        }
        let mut fates = Fates::new();
        for (stage, items) in by_stage {
            self.stand_in(&bench, stage, items, &mut fates).await;
        }
        Ok(fates)
    }

    /// Reads contents of items whose attempts are open still.
    async fn read(&self, items: Vec<Item>) -> Result<Vec<ClaimedItem>> {
        let mut left: Vec<Item> = items;
        let mut read = Vec::new();
        while !left.is_empty() {
            let seqs = left.iter().map(|item| item.seq).collect();
            let found = self.floor.store.contents(seqs, CONTENTS).await?;
            let Some(last) = found.last().map(|found| found.item.seq) else { break };
            let at = left.iter().position(|item| item.seq == last).map_or(left.len(), |at| at + 1);
            let asked: Vec<Item> = left.drain(..at).collect();
            for found in found {
                let known = asked.iter().find(|item| item.seq == found.item.seq);
                let is_open = known.is_some_and(|known| AnswerToken::of(known).is_open(&found.item));
                match found.content {
                    Content::Whole(payload) if is_open => {
                        read.push(ClaimedItem { item: found.item, payload });
                    }
                    Content::Whole(_) => {}
                    // Its run finds that out when no answer has come.
                    Content::Damaged(what) => {
                        let item = found.item.id;
                        tracing::warn!(target: "redrive::bus", %item, what, "its content is damaged");
                    }
                }
            }
        }
        Ok(read)
    }

    /// Calls for items that are at one stage: as many at once as the stage says.
    async fn stand_in(&self, bench: &Bench, stage: StageNo, items: Vec<ClaimedItem>, fates: &mut Fates) {
        let Some(work) = bench.recipe.work(stage) else { return };
        let (known, items) = recalled(bench, stage, items).await;
        let replies = known.iter().map(|claimed| {
            let reply = Some(ItemReply::Reused(claimed.payload.clone(), None));
            StoodIn { reply, usage: None }
        });
        fates.extend(self.answer(&known, replies.collect()).await);
        let at = StandIn { run: &bench.row, recipe: &bench.recipe, env: &self.floor.env };
        let calls = at.batches(stage, items).into_iter().map(|batch| {
            let at = &at;
            async move {
                let replies = at.call(stage, &batch).await;
                self.answer(&batch, replies).await
            }
        });
        let mut calls = futures_util::stream::iter(calls).buffer_unordered(work.concurrency.max(1));
        while let Some(some) = calls.next().await {
            fates.extend(some);
        }
    }

    /// Takes what came of items to the store.
    async fn answer(&self, items: &[ClaimedItem], came: Vec<StoodIn>) -> Fates {
        let mut fates = Fates::new();
        let mut replies = Vec::new();
        for (claimed, StoodIn { reply, usage }) in items.iter().zip(came) {
            let token = AnswerToken::of(&claimed.item);
            match reply {
                Some(reply) => replies.push((token, reply, usage)),
                None => _ = fates.insert(token, Taken::Later("nobody has begun with it".to_owned())),
            }
        }
        if replies.is_empty() {
            return fates;
        }
        let tokens: Vec<AnswerToken> = replies.iter().map(|(token, ..)| *token).collect();
        match take_replies(&self.floor, replies).await {
            Ok(taken) => fates.extend(tokens.into_iter().zip(taken.answers.iter().map(fate))),
            Err(error) => {
                let later = Taken::Later(error.to_string());
                fates.extend(tokens.into_iter().map(|token| (token, later.clone())));
            }
        }
        fates
    }
}

/// Takes out the items that need no call.
async fn recalled(
    bench: &Bench,
    stage: StageNo,
    items: Vec<ClaimedItem>,
) -> (Vec<ClaimedItem>, Vec<ClaimedItem>) {
    let handler = bench.recipe.work(stage).map(|work| work.handler.clone());
    let Some(handler) = handler.filter(|handler| handler.remembers()) else { return (Vec::new(), items) };
    let payloads: Vec<_> = items.iter().map(|claimed| claimed.payload.clone()).collect();
    let known = handler.recall(&payloads).await;
    let all = items.into_iter().zip(known.into_iter().chain(std::iter::repeat(false)));
    let (known, rest): (Vec<_>, Vec<_>) = all.partition(|(_, known)| *known);
    let bare = |some: Vec<(ClaimedItem, bool)>| some.into_iter().map(|(claimed, _)| claimed).collect();
    (bare(known), bare(rest))
}

/// What was answered by somebody else meanwhile is done with, too.
fn fate(view: &AnswerView) -> Taken {
    match view.fate {
        Fate::Busy => Taken::Later(view.message.clone()),
        Fate::Taken | Fate::Late | Fate::Unknown => Taken::Done,
        Fate::Wrong => {
            tracing::warn!(target: "redrive::bus", token = view.token, why = view.message, "an answer is not taken");
            Taken::Done
        }
    }
}

/// The attempt that a message names; `None` where it names none that could be open.
fn attempt(message: &Wire) -> std::result::Result<Option<AnswerToken>, String> {
    let heard: Heard =
        serde_json::from_slice(&message.body).map_err(|error| format!("the message is no event: {error}"))?;
    Ok(heard.token.and_then(|token| token.parse().ok()))
}

#[async_trait]
impl Taker for Service {
    fn queue(&self) -> &str {
        &self.queue
    }

    fn hears(&self) -> Option<&str> {
        Some(&self.event)
    }

    fn in_hand(&self) -> u16 {
        IN_HAND
    }

    async fn take(&self, messages: &[Wire]) -> Vec<Taken> {
        let named: Vec<_> = messages.iter().map(attempt).collect();
        let fates = self.work(named.iter().filter_map(|named| named.as_ref().ok().copied().flatten())).await;
        let taken = named.into_iter().map(|named| match named {
            Err(why) => Taken::Poison(why),
            Ok(token) => token.and_then(|token| fates.get(&token).cloned()).unwrap_or(Taken::Done),
        });
        taken.collect()
    }

    async fn close(&self) {
        self.benches.close().await;
    }
}

/// The services for these events, each with the queue that its messages come by.
#[must_use]
pub fn services(floor: &Floor, events: &[String], queue: impl Fn(&str) -> String) -> Vec<Arc<dyn Taker>> {
    let one = |event: &String| Arc::new(Service::of(floor, event, queue(event))) as Arc<dyn Taker>;
    events.iter().map(one).collect()
}
