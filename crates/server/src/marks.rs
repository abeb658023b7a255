//! A number for each subject of events that is another one when something of it changed.
//!
//! Looked at is what can change, not the newest of everything: all runs that are not finished, all operations that are under
//! way, and the items that died last, in whatever group. What happens to a finished run is done by an operation, or has items go
//! again and the run with them.

use std::hash::{DefaultHasher, Hash, Hasher};

use redrive_core::id::RunId;
use redrive_core::item::StateKind;
use redrive_operate::{Floor, Result};
use redrive_store::{ChangeQuery, ItemFilter, Operation, RunFilter, RunRow, RunSet, Store};

/// What can change.
pub const SUBJECTS: [&str; 4] = ["runs", "gates", "dead", "operations"];
/// A number for each of them.
pub type Marks = [u64; SUBJECTS.len()];

/// Rows that are read at a time.
const PAGE: usize = 200;
/// The newest runs, operations, dead items and the largest groups that are looked at beside.
const NEWEST: usize = 50;

/// What the subjects are at now.
///
/// # Errors
/// When the store fails.
pub async fn read(floor: &Floor) -> Result<Marks> {
    let store = &*floor.store;
    let gates = store.gates().await?.into_iter().map(|gate| (gate.name, gate.rev)).collect::<Vec<_>>();
    let operations = operations(store).await?;
    let dead = dead(store, operations).await?;
    Ok([runs(store, dead).await?, mark(&gates), dead, operations])
}

/// Runs that are not finished with their counters, the newest, what is paused, and what is dead in any.
async fn runs(store: &dyn Store, dead: u64) -> Result<u64> {
    let mut told = Told::default();
    told.add(&dead);
    told.add(&format!("{:?}", store.pauses().await?));
    let newest = store.runs(RunFilter::default(), None, NEWEST).await?;
    told.runs(store, &newest).await?;
    let unfinished = RunFilter { unfinished: true, ..RunFilter::default() };
    let mut before = None;
    loop {
        let page = store.runs(unfinished.clone(), before, PAGE).await?;
        let Some(last) = page.last() else { return Ok(told.mark()) };
        before = Some(last.id);
        told.runs(store, &page).await?;
    }
}

/// Operations that are under way, and the newest.
async fn operations(store: &dyn Store) -> Result<u64> {
    let mut told = Told::default();
    store.operations(None, NEWEST).await?.iter().for_each(|one| told.operation(one));
    let mut after = None;
    loop {
        let page = store.open_operations(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(told.mark()) };
        after = Some(last.id);
        page.iter().for_each(|one| told.operation(one));
    }
}

/// What died last, wherever, and what operations make of dead items: one that goes, goes by an operation.
async fn dead(store: &dyn Store, operations: u64) -> Result<u64> {
    let filter = ItemFilter { state: Some(StateKind::Dead), ..ItemFilter::default() };
    let last = ChangeQuery { filter: filter.clone(), newest_first: true, after: None, limit: NEWEST };
    let mut told = Told::default();
    told.add(&operations);
    for item in store.items_by_change(last).await? {
        told.add(&(item.seq.0, item.updated_at.0));
    }
    for group in store.groups(filter, NEWEST).await? {
        told.add(&(group.group, group.items));
    }
    told.add(&format!("{:?}", store.group_notes().await?));
    Ok(told.mark())
}

/// What was found so far.
#[derive(Default)]
struct Told(DefaultHasher);

impl Told {
    fn add(&mut self, what: &impl Hash) {
        what.hash(&mut self.0);
    }

    async fn runs(&mut self, store: &dyn Store, rows: &[RunRow]) -> Result<()> {
        let ids: Vec<RunId> = rows.iter().map(|row| row.id).collect();
        for row in rows {
            self.add(&format!("{:?}", (row.id, row.control, row.finished_at, row.edition)));
        }
        self.add(&format!("{:?}", store.counters_of_all(RunSet::Of(ids)).await?));
        Ok(())
    }

    fn operation(&mut self, one: &Operation) {
        self.add(&format!("{:?}", (one.id, one.state, one.changed, one.skipped)));
    }

    /// Never 0, which stands for nothing seen yet.
    fn mark(&self) -> u64 {
        self.0.finish().max(1)
    }
}

fn mark(what: &impl Hash) -> u64 {
    let mut told = Told::default();
    told.add(what);
    told.mark()
}
