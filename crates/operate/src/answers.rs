//! Answers of items that were handed over: whichever door they come by, they are taken here, many at once.
//!
//! The first answer to an attempt counts. One that comes when the attempt has ended, by another answer or because none came in
//! time, changes nothing, and whoever brings it is told so.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::answer::AnswerToken;
use redrive_core::event::ItemReply;
use redrive_core::id::{ContentHash, ItemId, RunId, StageNo};
use redrive_core::item::{Item, Payload};
use redrive_core::usage::Usage;
use redrive_engine::admin::{self, AnswerRules, Answered};
use redrive_engine::handler::Input;
use redrive_pipeline::StageDef;
use redrive_store::{Applied, Content, ItemFilter, ItemQuery};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Code, Error, Result};
use crate::runs::{KnownRun, Runs};
use crate::{Floor, Role};

/// Most answers of one call.
pub const MOST_ANSWERS: usize = 1_000;
/// How often in a row answers are decided anew because their items changed between reading and writing: they are handed over, or
/// looked after.
const TRIES: usize = 10;
/// Most bytes of contents that are read at a time.
pub(crate) const CONTENTS: usize = 64 << 20;

/// An answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The token that the item was handed over with.
    pub token: String,
    /// What became of it: a result in the words of the handler protocol. Its `id` may be left out.
    pub result: Box<RawValue>,
}

/// Answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    /// Each of them.
    pub answers: Vec<Answer>,
}

/// What became of an answer, by a name that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is kept: the attempt has ended by it.
    Taken,
    /// The attempt had ended already. Nothing was changed.
    Late,
    /// Its item changed all the time, so that it could not be written. Nothing was changed, and the answer is awaited as
    /// before: it has to be brought again.
    Busy,
    /// There is no item that the token names, or it never was in the attempt. Nothing was changed.
    Unknown,
    /// It is no answer that could be taken. Nothing was changed.
    Wrong,
}

/// What became of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnswerView {
    /// The token.
    pub token: String,
    /// What became of it.
    pub fate: Fate,
    /// The item, where there is one.
    pub item: Option<ItemId>,
    /// More about it.
    pub message: String,
}

/// What became of answers, in the order given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnswersTaken {
    /// Each of them.
    pub answers: Vec<AnswerView>,
}

/// Takes one answer.
///
/// # Errors
/// As [`take`]; and when the token names no item, its item changes all the time, or the result is none.
pub async fn take_one(floor: &Floor, token: String, result: Box<RawValue>) -> Result<AnswerView> {
    let taken = take(floor, Answers { answers: vec![Answer { token, result }] }).await?;
    let Some(view) = taken.answers.into_iter().next() else {
        return Err(Error::internal("an answer was lost"));
    };
    alone(view)
}

/// What is answered to whoever brought one answer: what cannot be used, and what has to be brought again, is an error.
fn alone(view: AnswerView) -> Result<AnswerView> {
    match view.fate {
        Fate::Taken | Fate::Late => Ok(view),
        Fate::Busy => {
            Err(Error::refused(view.message).hint("send the same answer again; it is awaited as before"))
        }
        Fate::Unknown => Err(Error::not_found(view.message)
            .code(Code::ItemNotFound)
            .hint("`redrive explain ITEM` shows the token by which an answer finds an item (`awaited`)")),
        Fate::Wrong => {
            Err(Error::wrong(view.message).hint("nothing was changed; the answer is awaited as before"))
        }
    }
}

/// Takes answers, whoever brings them. What became of each is told; a late one is no error.
///
/// # Errors
/// When whoever asks may not work, there are too many, or the store fails.
pub async fn take(floor: &Floor, request: Answers) -> Result<AnswersTaken> {
    floor.require(Role::Worker)?;
    let all = request.answers;
    if all.is_empty() || all.len() > MOST_ANSWERS {
        return Err(Error::wrong(format!(
            "a call has 1 to {MOST_ANSWERS} answers, and this one {}",
            all.len()
        )));
    }
    let all = all.into_iter().map(|Answer { token, result }| Brought { token, said: Said::Result(result) });
    settle(floor, all.collect()).await
}

/// Takes replies of handlers that somebody called for items that were handed over; what became of each, in their order.
///
/// # Errors
/// When whoever asks may not work, or the store fails.
pub(crate) async fn take_replies(
    floor: &Floor,
    replies: Vec<(AnswerToken, ItemReply, Option<Usage>)>,
) -> Result<AnswersTaken> {
    floor.require(Role::Worker)?;
    let all = replies.into_iter().map(|(token, reply, usage)| Brought {
        token: token.to_string(),
        said: Said::Reply(Box::new(reply), usage),
    });
    settle(floor, all.collect()).await
}

/// An answer, as somebody brings it.
struct Brought {
    token: String,
    said: Said,
}

/// What an answer says.
enum Said {
    /// A result in the words of the handler protocol.
    Result(Box<RawValue>),
    /// What a handler of this program replied, and what that took.
    Reply(Box<ItemReply>, Option<Usage>),
}

async fn settle(floor: &Floor, all: Vec<Brought>) -> Result<AnswersTaken> {
    let runs = Runs::of(&*floor.store);
    let mut views: Vec<Option<AnswerView>> = all.iter().map(|_| None).collect();
    let mut open: Vec<usize> = (0..all.len()).collect();
    let mut tries = 0;
    while !open.is_empty() && tries < TRIES {
        let before = open.len();
        open = round(floor, &runs, &all, open, &mut views).await?;
        // Where some were told of, the others have all their tries anew: there may be many.
        tries = if open.len() < before { 0 } else { tries + 1 };
    }
    for place in open {
        views[place] = Some(busy(&all[place]));
    }
    Ok(AnswersTaken { answers: views.into_iter().flatten().collect() })
}

/// Tries these answers once; those whose item changed meanwhile are to be tried again.
async fn round(
    floor: &Floor,
    runs: &Runs<'_>,
    all: &[Brought],
    open: Vec<usize>,
    views: &mut [Option<AnswerView>],
) -> Result<Vec<usize>> {
    let mut by_run: BTreeMap<RunId, Vec<(usize, Answered)>> = BTreeMap::new();
    let (mut again, mut met) = (Vec::new(), BTreeSet::new());
    for place in open {
        match read(floor, runs, &all[place]).await? {
            // The second of two answers to one item sees what became of the first.
            Read::Answer(answered) if !met.insert(answered.item.seq) => again.push(place),
            Read::Answer(answered) => {
                by_run.entry(answered.item.run).or_default().push((place, *answered));
            }
            Read::Told(view) => views[place] = Some(view),
            Read::Again => again.push(place),
        }
    }
    for (run, answers) in by_run {
        let Some(known) = runs.known(run).await? else { continue };
        let ids: Vec<ItemId> = answers.iter().map(|(_, answered)| answered.item.id).collect();
        let (places, answers): (Vec<usize>, Vec<Answered>) = answers.into_iter().unzip();
        let applied = admin::answer(&*floor.store, &rules(&known), answers, &floor.env).await?;
        for ((place, applied), item) in places.into_iter().zip(applied).zip(ids) {
            match applied {
                Applied::Done => {
                    let (fate, message) = (Fate::Taken, "the answer is kept".to_owned());
                    let token = all[place].token.clone();
                    views[place] = Some(AnswerView { token, fate, item: Some(item), message });
                }
                Applied::Stale => again.push(place),
            }
        }
    }
    again.sort_unstable();
    Ok(again)
}

fn rules(known: &KnownRun) -> AnswerRules<'_> {
    AnswerRules {
        run: &known.row,
        plan: &known.plan,
        budget: known.definition.budget.as_ref(),
        reuse: known.definition.all_stages().map(StageDef::reuse_mark).collect(),
    }
}

/// What is known of an answer before it is decided.
enum Read {
    /// What it is for and what it says.
    Answer(Box<Answered>),
    /// What is to be told of it at once.
    Told(AnswerView),
    /// Its item changed in this very moment.
    Again,
}

/// Reads what an answer is for and what it says.
async fn read(floor: &Floor, runs: &Runs<'_>, answer: &Brought) -> Result<Read> {
    let view = |fate, item, message: String| {
        let token = answer.token.chars().take(200).collect();
        Ok(Read::Told(AnswerView { token, fate, item, message }))
    };
    let Ok(token) = answer.token.parse::<AnswerToken>() else {
        return view(Fate::Unknown, None, "it is no token of an answer".to_owned());
    };
    let Some(item) = find(floor, token.item).await? else {
        return view(Fate::Unknown, None, format!("item {} does not exist, or was purged", token.item));
    };
    if !token.is_open(&item) {
        let ended = floor.store.history(item.seq).await?.attempts;
        if !token.was_given(&item, &ended) {
            return view(Fate::Unknown, Some(item.id), never(&token));
        }
        return view(Fate::Late, Some(item.id), late(&token, &item));
    }
    let known = runs.known(item.run).await?;
    let stage = known.as_ref().and_then(|known| known.definition.all_stages().nth(item.stage.index()));
    let Some(stage) = stage.filter(|stage| stage.defer.is_some()) else {
        return view(Fate::Wrong, Some(item.id), "its stage hands nothing over".to_owned());
    };
    let payload = match floor.store.contents(vec![item.seq], CONTENTS).await?.into_iter().next() {
        Some(found) if found.item.rev == item.rev => match found.content {
            Content::Whole(payload) => payload,
            Content::Damaged(what) => {
                return view(Fate::Wrong, Some(item.id), format!("its content is damaged: {what}"));
            }
        },
        _ => return Ok(Read::Again),
    };
    let (said, usage) = match &answer.said {
        Said::Reply(reply, usage) => (Ok((**reply).clone()), *usage),
        Said::Result(result) => {
            let input = Input {
                attempt: item.attempt,
                token,
                handed: item.handed.clone(),
                ..Input::new(item.id, item.key.clone(), payload.clone(), work(&item, &stage.name, &payload))
            };
            (floor.wiring.read_answer(stage, &input, result), None)
        }
    };
    match said {
        Ok(ItemReply::HandedOver(_) | ItemReply::TurnedAway { .. }) => {
            view(Fate::Wrong, Some(item.id), "an answer does not defer its item again".to_owned())
        }
        Ok(reply) => Ok(Read::Answer(Box::new(Answered { item, payload, reply, usage }))),
        Err(wrong) => view(Fate::Wrong, Some(item.id), wrong),
    }
}

/// The name of the work, as handlers know it.
fn work(item: &Item, stage: &str, payload: &Payload) -> String {
    ContentHash::of(&[&item.id.0, stage.as_bytes(), payload]).to_string()
}

pub(crate) async fn find(floor: &Floor, id: ItemId) -> Result<Option<Item>> {
    let filter = ItemFilter { ids: Some((id, id)), ..ItemFilter::default() };
    Ok(floor.store.items(ItemQuery { filter, after: None, limit: 1 }).await?.into_iter().next())
}

fn never(token: &AnswerToken) -> String {
    let StageNo(stage) = token.stage;
    format!("item {} was never in attempt {} at stage #{stage} by that token", token.item, token.attempt)
}

fn late(token: &AnswerToken, item: &Item) -> String {
    let StageNo(stage) = token.stage;
    let moved = item.stage != token.stage || item.generation != token.generation;
    let now = item.state.kind();
    let what = match moved {
        true => format!("attempt {} at stage #{stage} has ended, and the item has gone on", token.attempt),
        false => format!("attempt {} has ended", token.attempt),
    };
    format!("{what}; the item is {now} now. Nothing was changed")
}

fn busy(answer: &Brought) -> AnswerView {
    let message = "its item changes all the time; bring it again. Nothing was changed".to_owned();
    let item = answer.token.parse::<AnswerToken>().ok().map(|token| token.item);
    AnswerView { token: answer.token.clone(), fate: Fate::Busy, item, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn an_answer_that_could_not_be_written_is_to_be_brought_again_and_not_late() {
        let result = RawValue::from_string("{}".to_owned()).expect("JSON");
        let view = busy(&Brought { token: "x".to_owned(), said: Said::Result(result) });
        assert_eq!((view.fate, view.item), (Fate::Busy, None));
        assert_eq!(serde_json::to_value(view.fate).expect("a word"), "busy");
        let error = alone(view.clone()).expect_err("it was not taken");
        assert_eq!(error.kind, Kind::Refused);
        assert!(error.hint.is_some_and(|hint| hint.contains("again")));
        assert!(alone(AnswerView { fate: Fate::Late, ..view }).is_ok(), "nobody has to bring it again");
    }
}
