//! What became of items: one line for each, and why there is none for some.
//!
//! Items are read page by page and contents a few at a time, so that a run of any size takes little memory. A content that
//! cannot be read, or is not JSON, concerns its own item only.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use redrive_core::id::{ContentHash, ItemId, ItemSeq, RunId, StageNo};
use redrive_core::item::{Item, Payload, StateKind};
use redrive_core::plan::Plan;
use redrive_core::verdict::Verdict;
use redrive_store::{
    Content, Error, ItemContent, ItemFilter, ItemQuery, KeptOutput, OutputKey, Result, Store,
};
use serde::Serialize;
use serde_json::value::RawValue;

const PAGE: usize = 500;
/// So many bytes of contents are read at once.
const AHEAD: usize = 4 << 20;

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
    /// It is one of those that were not to be read again.
    Known,
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
    /// Only of items with this verdict.
    verdict: Option<Verdict>,
    /// Whether items are read that have no result yet.
    open: bool,
    page: VecDeque<Item>,
    after: Option<ItemSeq>,
    /// Contents that were read together with one before them.
    ahead: BTreeMap<ItemSeq, (Item, Content)>,
    parent: Option<(ItemSeq, ItemId)>,
    /// Whether the parent that was looked at last, or one above it, is taken out.
    gone: Option<(ItemSeq, bool)>,
}

/// Where the result of an item is.
enum Place {
    /// It is the content that the item has now.
    Present,
    /// It may be among the outputs that are kept.
    Kept,
    /// It is nowhere.
    Nowhere(Outcome),
}

impl<'a> ResultReader<'a> {
    /// Reads every result there is now.
    #[must_use]
    pub fn all(store: &'a dyn Store, run: RunId, wanted: &'a Wanted) -> Self {
        let (page, ahead) = (VecDeque::new(), BTreeMap::new());
        let (after, parent, gone) = (None, None, None);
        Self { store, run, wanted, verdict: None, open: false, page, after, ahead, parent, gone }
    }

    /// Reads only results of items with this verdict, where one is given.
    #[must_use]
    pub fn with_verdict(self, verdict: Option<Verdict>) -> Self {
        Self { verdict, ..self }
    }

    /// Reads on after an item, those that have no result yet as well.
    #[must_use]
    pub fn after(self, after: Option<ItemSeq>) -> Self {
        Self { after, open: true, ..self }
    }

    /// Whether what an item came from is not what the source has any more.
    async fn is_gone(&mut self, parent: ItemSeq) -> Result<bool> {
        if let Some((_, gone)) = self.gone.filter(|(seq, _)| *seq == parent) {
            return Ok(gone);
        }
        let (mut above, mut gone) = (Some(parent), false);
        while let Some(seq) = above.filter(|_| !gone) {
            let item = self.store.item(seq).await?;
            gone = item.as_ref().is_none_or(|item| item.state.kind() == StateKind::Superseded);
            above = item.and_then(|item| item.parent);
        }
        self.gone = Some((parent, gone));
        Ok(gone)
    }

    /// The next item, and what there is of it unless it is one of `known`.
    ///
    /// # Errors
    /// When the store fails as a whole; damage to one item is its own matter.
    pub async fn next(&mut self, known: &BTreeSet<ItemSeq>) -> Result<Option<(ItemSeq, Outcome)>> {
        if self.page.is_empty() {
            self.page = self.read_page().await?.into();
        }
        let Some(item) = self.page.pop_front() else { return Ok(None) };
        let seq = item.seq;
        self.after = Some(seq);
        if known.contains(&seq) {
            return Ok(Some((seq, Outcome::Known)));
        }
        if let Some(parent) = item.parent
            && self.is_gone(parent).await?
        {
            return Ok(Some((seq, Outcome::Never)));
        }
        let outcome = match self.place(&item) {
            Place::Nowhere(outcome) => outcome,
            Place::Kept => self.kept(&item).await?,
            Place::Present => {
                if !self.ahead.contains_key(&seq) {
                    self.read_ahead(seq, known).await?;
                }
                match self.ahead.remove(&seq) {
                    Some((item, content)) => self.told(&item, content).await?,
                    None => Outcome::Never,
                }
            }
        };
        Ok(Some((seq, outcome)))
    }

    /// What there is of one item now.
    ///
    /// # Errors
    /// As for [`ResultReader::next`].
    pub async fn one(&mut self, seq: ItemSeq) -> Result<Outcome> {
        match self.store.contents(vec![seq], 0).await?.pop() {
            Some(ItemContent { item, content }) => self.told(&item, content).await,
            None => Ok(Outcome::Never),
        }
    }

    async fn read_page(&self) -> Result<Vec<Item>> {
        let succeeded = !self.open && matches!(self.wanted, Wanted::Succeeded);
        let filter = ItemFilter {
            run: Some(self.run),
            state: succeeded.then_some(StateKind::Succeeded),
            verdict: self.verdict.filter(|_| !self.open),
            top: !matches!(self.wanted, Wanted::Of(stage) if stage.nested),
            ..ItemFilter::default()
        };
        self.store.items(ItemQuery { filter, after: self.after, limit: PAGE }).await
    }

    /// Reads the content of an item, and of those behind it as far as they are small.
    async fn read_ahead(&mut self, seq: ItemSeq, known: &BTreeSet<ItemSeq>) -> Result<()> {
        let behind = self.page.iter().filter(|item| !known.contains(&item.seq));
        let behind = behind.filter(|item| matches!(self.place(item), Place::Present)).map(|item| item.seq);
        let seqs = std::iter::once(seq).chain(behind).collect();
        let found = self.store.contents(seqs, AHEAD).await?;
        self.ahead = found.into_iter().map(|found| (found.item.seq, (found.item, found.content))).collect();
        Ok(())
    }

    /// What there is of an item that was read with its content. It may have moved on since it was listed.
    async fn told(&mut self, item: &Item, content: Content) -> Result<Outcome> {
        match (self.place(item), content) {
            (Place::Nowhere(outcome), _) => Ok(outcome),
            (Place::Kept, _) => self.kept(item).await,
            (Place::Present, Content::Whole(payload)) => self.line(item, &payload).await,
            (Place::Present, Content::Damaged(what)) => {
                Ok(left_out(item, format!("its content is damaged: {what}")))
            }
        }
    }

    fn place(&self, item: &Item) -> Place {
        let state = item.state.kind();
        let none = || Place::Nowhere(if state.is_terminal() { Outcome::Never } else { Outcome::NotYet });
        if self.verdict.is_some_and(|verdict| item.verdict() != Some(verdict)) {
            return none();
        }
        let stage = match self.wanted {
            Wanted::Succeeded if state == StateKind::Succeeded => return Place::Present,
            Wanted::Succeeded => return none(),
            Wanted::Of(stage) => stage,
        };
        match stage.passed(item) {
            // A newer version has taken its place.
            _ if state == StateKind::Superseded => Place::Nowhere(Outcome::Never),
            None => Place::Nowhere(Outcome::Never),
            Some(passed) if passed <= stage.at => none(),
            Some(passed) if passed == stage.at + 1 => Place::Present,
            Some(_) => Place::Kept,
        }
    }

    /// Follows kept outputs from what the item was submitted with: each is what the next stage was given.
    async fn kept(&mut self, item: &Item) -> Result<Outcome> {
        let Wanted::Of(stage) = self.wanted else { return Ok(Outcome::NotKept) };
        let mut input = item.version;
        let mut output: Option<Payload> = None;
        for (_, mark) in &stage.list[..=stage.at] {
            let Some(config) = *mark else { return Ok(Outcome::NotKept) };
            let found = self.store.outputs(vec![OutputKey { config, input }]).await?.into_iter().next();
            let Some(KeptOutput { payload, .. }) = found.flatten() else { return Ok(Outcome::NotKept) };
            input = ContentHash::of(&[&payload]);
            output = Some(payload);
        }
        match output {
            Some(payload) => self.line(item, &payload).await,
            None => Ok(Outcome::NotKept),
        }
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
        if let Some(verdict) = item.verdict() {
            line.push_str(&format!(",\"verdict\":\"{verdict}\""));
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

fn left_out(item: &Item, why: String) -> Outcome {
    Outcome::LeftOut(LeftOut { id: item.id, key: item.key.to_string(), why })
}
