//! What became of items: one line for each, and why there is none for some.
//!
//! Items are read page by page and contents one at a time, so that a run of any size takes little memory. A content that
//! cannot be read, or is not JSON, concerns its own item only.

use std::collections::VecDeque;

use redrive_core::id::{ContentHash, ItemId, ItemSeq, RunId, StageNo};
use redrive_core::item::{Item, Payload, StateKind};
use redrive_core::plan::Plan;
use redrive_store::{Content, Error, ItemFilter, ItemQuery, OutputKey, Result, Store};
use serde::Serialize;
use serde_json::value::RawValue;

const PAGE: usize = 500;
/// An item that moves on while it is read is read again so often, and then left for the next look.
const LOOKS: usize = 8;

/// Which results are wanted.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// What the items of a run ended with that succeeded.
    Succeeded,
    /// What a stage made of items, as far as it is kept.
    Of(StageOutputs),
}

/// What is known of a stage whose outputs are wanted.
#[derive(Debug, Clone)]
pub struct StageOutputs {
    name: String,
    /// The stages of its list, in order, each with the mark its outputs are kept by.
    list: Vec<(StageNo, Option<i64>)>,
    /// Its place in the list.
    at: usize,
    nested: bool,
}

impl StageOutputs {
    /// The outputs of a stage. `kept` tells by which mark a stage's outputs are kept, for those that keep them.
    #[must_use]
    pub fn new(plan: &Plan, stage: StageNo, kept: impl Fn(StageNo) -> Option<i64>) -> Option<Self> {
        let wanted = plan.stage(stage)?;
        let before = |no: StageNo| plan.stages().find(|(_, other)| other.next == Some(no)).map(|(no, _)| no);
        let mut list: Vec<StageNo> = std::iter::successors(Some(stage), |no| before(*no)).collect();
        list.reverse();
        let at = list.len() - 1;
        list.extend(std::iter::successors(wanted.next, |no| plan.stage(*no).and_then(|stage| stage.next)));
        let list = list.into_iter().map(|no| (no, kept(no))).collect();
        Some(Self { name: wanted.name.clone(), list, at, nested: wanted.owner.is_some() })
    }

    /// How many stages of the list an item has passed; `None` when it is in another list.
    fn passed(&self, item: &Item) -> Option<usize> {
        let here = self.list.iter().position(|(no, _)| *no == item.stage)?;
        Some(here + usize::from(item.state.kind() == StateKind::Succeeded))
    }
}

/// What there is of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its result, as a line of JSON without its end.
    Line(Vec<u8>),
    /// Its result cannot be told.
    LeftOut(LeftOut),
    /// It passed the stage, and what the stage made of it was not kept.
    NotKept,
    /// It may have a result later.
    NotYet,
    /// It has none.
    Never,
}

/// An item whose result cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The item.
    pub id: ItemId,
    /// Its key.
    pub key: String,
    /// Why.
    pub why: String,
}

/// Reads items of a run in the order of submission, with what there is of each.
pub struct ResultReader<'a> {
    store: &'a dyn Store,
    run: RunId,
    wanted: &'a Wanted,
    /// Whether items are read that have no result yet.
    open: bool,
    page: VecDeque<Item>,
    after: Option<ItemSeq>,
    parent: Option<(ItemSeq, ItemId)>,
}

impl<'a> ResultReader<'a> {
    /// Reads every result there is now.
    #[must_use]
    pub fn all(store: &'a dyn Store, run: RunId, wanted: &'a Wanted) -> Self {
        Self { store, run, wanted, open: false, page: VecDeque::new(), after: None, parent: None }
    }

    /// Reads on after an item, those that have no result yet as well.
    #[must_use]
    pub fn after(self, after: Option<ItemSeq>) -> Self {
        Self { after, open: true, page: VecDeque::new(), ..self }
    }

    /// The next item.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn next(&mut self) -> Result<Option<Item>> {
        if self.page.is_empty() {
            let filter = ItemFilter {
                run: Some(self.run),
                state: (!self.open && matches!(self.wanted, Wanted::Succeeded))
                    .then_some(StateKind::Succeeded),
                top: !matches!(self.wanted, Wanted::Of(stage) if stage.nested),
                ..ItemFilter::default()
            };
            let page = self.store.items(ItemQuery { filter, after: self.after, limit: PAGE }).await?;
            self.page = page.into();
        }
        let next = self.page.pop_front();
        if let Some(item) = &next {
            self.after = Some(item.seq);
        }
        Ok(next)
    }

    /// What there is of an item.
    ///
    /// # Errors
    /// When the store fails as a whole; damage to this item is its own matter.
    pub async fn read(&mut self, mut item: Item) -> Result<Outcome> {
        for _ in 0..LOOKS {
            let found = self.payload(&item).await?;
            // A content that was read while the item moved on may be another stage's.
            match self.store.item(item.seq).await? {
                None => return Ok(Outcome::Never),
                Some(now) if now.rev != item.rev => item = now,
                Some(_) => {
                    return match found {
                        Found::Content(payload) => self.line(&item, &payload).await,
                        Found::Damaged(what) => {
                            Ok(left_out(&item, format!("its content is damaged: {what}")))
                        }
                        Found::NotKept => Ok(Outcome::NotKept),
                        Found::NotYet => Ok(Outcome::NotYet),
                        Found::Never => Ok(Outcome::Never),
                    };
                }
            }
        }
        Ok(Outcome::NotYet)
    }

    async fn payload(&self, item: &Item) -> Result<Found> {
        let state = item.state.kind();
        let live = !state.is_terminal();
        let none = || if live { Found::NotYet } else { Found::Never };
        let present = async || {
            Ok(match self.store.payload(item.seq).await? {
                Some(Content::Whole(payload)) => Found::Content(payload),
                Some(Content::Damaged(what)) => Found::Damaged(what),
                None => Found::Never,
            })
        };
        let stage = match self.wanted {
            Wanted::Succeeded if state == StateKind::Succeeded => return present().await,
            Wanted::Succeeded => return Ok(none()),
            Wanted::Of(stage) => stage,
        };
        match stage.passed(item) {
            // A newer version has taken its place.
            _ if state == StateKind::Superseded => Ok(Found::Never),
            None => Ok(Found::Never),
            Some(passed) if passed <= stage.at => Ok(none()),
            Some(passed) if passed == stage.at + 1 => present().await,
            Some(_) => self.kept(item, stage).await,
        }
    }

    /// Follows kept outputs from what the item was submitted with: each is what the next stage was given.
    async fn kept(&self, item: &Item, stage: &StageOutputs) -> Result<Found> {
        let mut input = item.version;
        let mut output: Option<Payload> = None;
        for (_, mark) in &stage.list[..=stage.at] {
            let Some(config) = *mark else { return Ok(Found::NotKept) };
            let found = self.store.outputs(vec![OutputKey { config, input }]).await?.into_iter().next();
            let Some(payload) = found.flatten() else { return Ok(Found::NotKept) };
            input = ContentHash::of(&[&payload]);
            output = Some(payload);
        }
        Ok(output.map_or(Found::NotKept, Found::Content))
    }

    async fn line(&mut self, item: &Item, payload: &[u8]) -> Result<Outcome> {
        if let Err(error) = serde_json::from_slice::<&RawValue>(payload) {
            return Ok(left_out(item, format!("its content is damaged: not JSON: {error}")));
        }
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut line = format!("{{\"id\":\"{}\",\"key\":{}", item.id, quoted(&item.key));
        if let Wanted::Of(stage) = self.wanted {
            if let Some(parent) = item.parent {
                line.push_str(&format!(",\"parent\":\"{}\"", self.id_of(parent).await?));
            }
            line.push_str(&format!(",\"stage\":{},\"state\":\"{}\"", quoted(&stage.name), item.state.kind()));
        }
        line.push_str(",\"output\":");
        let mut line = line.into_bytes();
        // Outside of strings an end of line is white space, and inside of them there is none.
        line.extend(payload.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        line.push(b'}');
        Ok(Outcome::Line(line))
    }

    /// The id of a parent; children of one parent come one after the other.
    async fn id_of(&mut self, parent: ItemSeq) -> Result<ItemId> {
        if let Some((seq, id)) = self.parent
            && seq == parent
        {
            return Ok(id);
        }
        let gone = || Error::Corrupt(format!("item {} has children and is not there", parent.0));
        let id = self.store.item(parent).await?.ok_or_else(gone)?.id;
        self.parent = Some((parent, id));
        Ok(id)
    }
}

/// What the store has of an item.
enum Found {
    Content(Payload),
    Damaged(String),
    NotKept,
    NotYet,
    Never,
}

fn left_out(item: &Item, why: String) -> Outcome {
    Outcome::LeftOut(LeftOut { id: item.id, key: item.key.to_string(), why })
}
