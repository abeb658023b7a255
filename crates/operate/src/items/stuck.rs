//! Items that nothing happens to: held by nobody, in hand for long, or due for long and not taken.
//!
//! Stuck is not starved. A stuck item is held by a worker that vanished, or was handed over and has no answer: it is taken over by
//! whoever works on its run. A starved one waits in line past its time, and is never failed for that.

use std::time::Duration;

use redrive_core::id::{ItemId, ItemSeq, RunId};
use redrive_core::item::{Item, State, StateKind};
use redrive_core::tally::Metric;
use redrive_core::time::Timestamp;
use redrive_engine::report::Crew;
use redrive_store::{ItemFilter, ItemQuery, Pauses, RunFilter, RunRow};
use serde::{Deserialize, Serialize};

use super::cause::{Around, Cause};
use crate::Floor;
use crate::error::{Error, Result};
use crate::gates::{self, GateList};
use crate::pipelines::definition_of;
use crate::runs::Runs;

/// Items read at a time.
const PAGE: usize = 500;

/// Which items that nothing happens to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stuck {
    /// Only of this run.
    pub run: Option<RunId>,
    /// Those that were in hand, or due, for at least so many milliseconds.
    pub older_than_ms: i64,
    /// At most so many.
    pub limit: usize,
}

/// Items that nothing happens to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StuckList {
    /// Each of them; those that wait longest first.
    pub items: Vec<StuckItem>,
    /// Whether there are more.
    pub more: bool,
}

/// What kind of standstill it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standstill {
    /// Its worker vanished, or its answer has not come in time.
    Stuck,
    /// A worker that is alive has had it for long.
    Slow,
    /// It was handed over for long, and its answer is awaited.
    Awaited,
    /// It is due, and nobody takes it.
    Starved,
}

/// An item that nothing happens to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StuckItem {
    /// What kind of standstill it is.
    pub what: Standstill,
    /// Its id.
    pub id: ItemId,
    /// Its key.
    pub key: String,
    /// Its run.
    pub run: RunId,
    /// The stage it is at.
    pub stage: String,
    /// Since when.
    pub since: String,
    /// For how many milliseconds.
    pub for_ms: i64,
    /// Why, in one sentence.
    pub why: String,
    /// What can be done about it, as a command; `null` when it goes on by itself.
    pub way_out: Option<String>,
}

/// A page of items that nothing happens to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StuckPage {
    /// Each of them; those that wait longest first.
    pub items: Vec<StuckItem>,
    /// Where the next page goes on; `None` when this is the last.
    pub next: Option<String>,
}

/// Lists items that nothing happens to.
///
/// # Errors
/// When the run does not exist, or the store fails.
pub async fn stuck(floor: &Floor, request: &Stuck) -> Result<StuckList> {
    let (look, limit) = (Look::at(floor, request).await?, request.limit.max(1));
    let mut found = Vec::new();
    for row in &rows(floor, request.run).await? {
        look.held(row, None, usize::MAX, &mut found).await?;
        for part in [Part::Awaited, Part::Due] {
            let most = found.len() + limit + 1;
            look.part(part, row, None, most, &mut found).await?;
        }
    }
    let mut items: Vec<StuckItem> = found.into_iter().map(|(_, item)| item).collect();
    longest_first(&mut items);
    let more = items.len() > limit;
    items.truncate(limit);
    Ok(StuckList { items, more })
}

/// The same, one page after another: run by run, the newest first, so that a page looks at no more than it shows.
///
/// # Errors
/// When the run does not exist, the cursor is none, or the store fails.
pub async fn stuck_page(floor: &Floor, request: &Stuck, after: Option<&str>) -> Result<StuckPage> {
    let after = after.map(Place::read).transpose()?;
    let (look, limit) = (Look::at(floor, request).await?, request.limit.max(1));
    // One more tells whether there is another page.
    let (most, mut found) = (limit + 1, Vec::new());
    for row in &rows(floor, request.run).await? {
        if found.len() == most || after.as_ref().is_some_and(|after| row.id > after.run) {
            continue;
        }
        let here = after.as_ref().filter(|after| after.run == row.id);
        for part in Part::ALL.into_iter().filter(|part| here.is_none_or(|after| *part >= after.part)) {
            let after = here.filter(|after| after.part == part).map(|after| after.item);
            look.part(part, row, after, most, &mut found).await?;
        }
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|(place, _)| place.cursor());
    let mut items: Vec<StuckItem> = found.into_iter().map(|(_, item)| item).collect();
    longest_first(&mut items);
    Ok(StuckPage { items, next })
}

async fn rows(floor: &Floor, run: Option<RunId>) -> Result<Vec<RunRow>> {
    let runs = Runs::of(&*floor.store);
    match run {
        Some(run) => Ok(vec![runs.find(Some(run)).await?.row]),
        None => runs.all(RunFilter { unfinished: true, ..RunFilter::default() }).await,
    }
}

fn longest_first(items: &mut [StuckItem]) {
    items.sort_by(|a, b| b.for_ms.cmp(&a.for_ms).then_with(|| a.id.cmp(&b.id)));
}

/// What of a run is looked through, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Held,
    Awaited,
    Due,
}

impl Part {
    const ALL: [Self; 3] = [Self::Held, Self::Awaited, Self::Due];
}

/// Where an item was found: in which part of its run, each by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    run: RunId,
    part: Part,
    item: ItemSeq,
}

impl Place {
    fn cursor(self) -> String {
        format!("{}.{}.{}", self.run.0, self.part as u8, self.item.0)
    }

    fn read(cursor: &str) -> Result<Self> {
        let numbers: Vec<i64> = cursor.split('.').filter_map(|part| part.parse().ok()).collect();
        let place = match numbers[..] {
            [run, part @ 0..=2, item] => Some((run, Part::ALL[part as usize], item)),
            _ => None,
        };
        let Some((run, part, item)) = place else {
            let hint = "take `next` of the page before, and nothing else";
            return Err(Error::wrong("that is no cursor of this list").hint(hint));
        };
        Ok(Self { run: RunId(run), part, item: ItemSeq(item) })
    }
}

/// What everything is compared with.
struct Look<'a> {
    floor: &'a Floor,
    crew: Crew,
    gates: GateList,
    pauses: Pauses,
    now: Timestamp,
    before: Timestamp,
}

/// Items that nothing happens to, and where they were found.
type Found = Vec<(Place, StuckItem)>;

impl<'a> Look<'a> {
    async fn at(floor: &'a Floor, request: &Stuck) -> Result<Self> {
        Ok(Self {
            floor,
            crew: Crew::read(&*floor.store, &floor.env).await?,
            gates: gates::list(floor).await?,
            pauses: floor.store.pauses().await?,
            now: floor.now(),
            before: Timestamp(floor.now().0.saturating_sub(request.older_than_ms)),
        })
    }

    /// Items of one part of a run, until so many are found.
    async fn part(
        &self,
        part: Part,
        row: &RunRow,
        after: Option<ItemSeq>,
        most: usize,
        found: &mut Found,
    ) -> Result<()> {
        match part {
            Part::Held => self.held(row, after, most, found).await,
            Part::Awaited => self.awaited(row, after, most, found).await,
            Part::Due => self.due(row, after, most, found).await,
        }
    }

    /// Items that a worker holds, or held when it vanished, until so many are found.
    async fn held(&self, row: &RunRow, after: Option<ItemSeq>, most: usize, found: &mut Found) -> Result<()> {
        let filter =
            ItemFilter { run: Some(row.id), state: Some(StateKind::Running), ..ItemFilter::default() };
        let mut query = ItemQuery { filter, after, limit: PAGE };
        loop {
            let page = self.floor.store.items(query.clone()).await?;
            let Some(last) = page.last().map(|item| item.seq) else { return Ok(()) };
            query.after = Some(last);
            for item in &page {
                let State::Running { worker, since } = item.state else { continue };
                let alive = self.crew.has(worker);
                if alive && since > self.before {
                    continue;
                }
                let (what, why, way_out) = match alive {
                    true => (Standstill::Slow, format!("worker {worker} has it in hand"), None),
                    false => {
                        let way_out = self.nobody(row).then(|| format!("redrive resume {}", row.id));
                        (Standstill::Stuck, format!("worker {worker} vanished with it"), way_out)
                    }
                };
                let place = Place { run: row.id, part: Part::Held, item: item.seq };
                found.push((place, self.told(item, what, since, why, way_out).await?));
                if found.len() >= most {
                    return Ok(());
                }
            }
        }
    }

    /// Items that were handed over for long, or whose answer has not come in time, until so many are found.
    async fn awaited(
        &self,
        row: &RunRow,
        after: Option<ItemSeq>,
        most: usize,
        found: &mut Found,
    ) -> Result<()> {
        if found.len() >= most {
            return Ok(());
        }
        let counters = self.floor.store.counters(row.id).await?;
        if !counters.iter().any(|counter| counter.metric == Metric::Awaited && counter.n > 0) {
            return Ok(());
        }
        let filter =
            ItemFilter { run: Some(row.id), state: Some(StateKind::Waiting), ..ItemFilter::default() };
        let mut query = ItemQuery { filter, after, limit: PAGE };
        loop {
            let page = self.floor.store.items(query.clone()).await?;
            let Some(last) = page.last().map(|item| item.seq) else { return Ok(()) };
            query.after = Some(last);
            for (item, handed) in page.iter().filter_map(|item| Some((item, item.handed.as_ref()?))) {
                let over = handed.until <= self.now;
                if !over && handed.at > self.before {
                    continue;
                }
                let (what, why) = match over {
                    true => (Standstill::Stuck, format!("no answer has come until {}", handed.until)),
                    false => (Standstill::Awaited, format!("its answer is awaited until {}", handed.until)),
                };
                let way_out = (over && self.nobody(row)).then(|| format!("redrive resume {}", row.id));
                let place = Place { run: row.id, part: Part::Awaited, item: item.seq };
                found.push((place, self.told(item, what, handed.at, why, way_out).await?));
                if found.len() >= most {
                    return Ok(());
                }
            }
        }
    }

    /// Items that are due and that nobody takes, until so many are found.
    async fn due(&self, row: &RunRow, after: Option<ItemSeq>, most: usize, found: &mut Found) -> Result<()> {
        let next = self.floor.store.next_due(row.id).await?.at;
        if found.len() >= most || next.is_none_or(|next| next > self.before) {
            return Ok(());
        }
        let filter =
            ItemFilter { run: Some(row.id), state: Some(StateKind::Waiting), ..ItemFilter::default() };
        let mut query = ItemQuery { filter, after, limit: PAGE };
        loop {
            let page = self.floor.store.items(query.clone()).await?;
            let Some(last) = page.last().map(|item| item.seq) else { return Ok(()) };
            query.after = Some(last);
            for item in &page {
                let State::Waiting { due, .. } = item.state else { continue };
                // What waits for an answer is not in line.
                if due > self.before || item.handed.is_some() {
                    continue;
                }
                let (why, way_out) = self.why_starved(row, item);
                let place = Place { run: row.id, part: Part::Due, item: item.seq };
                found.push((place, self.told(item, Standstill::Starved, due, why, way_out).await?));
                if found.len() >= most {
                    return Ok(());
                }
            }
        }
    }

    fn nobody(&self, row: &RunRow) -> bool {
        !self.crew.may_take(row.id)
    }

    fn why_starved(&self, row: &RunRow, item: &Item) -> (String, Option<String>) {
        let run = row.id;
        let definition = definition_of(row);
        let around = Around { crew: &self.crew, gates: &self.gates, pauses: &self.pauses };
        match around.cause(row, definition.as_ref(), item.stage) {
            Cause::Cancelling => (format!("run {run} is being cancelled"), None),
            Cause::RunPaused => {
                let why = row.reason.clone().unwrap_or_else(|| "somebody paused it".to_owned());
                (format!("run {run} is paused: {why}"), Some(format!("redrive resume {run}")))
            }
            Cause::Paused(paused) => (paused.said(), Some(paused.resume)),
            Cause::Gate(gate) => (
                format!("gate {}: {}", gate.name, gate.why),
                Some(format!("redrive gates resume {}", gate.name)),
            ),
            Cause::External => ("no external worker asks for its stage".to_owned(), None),
            Cause::Nobody => (format!("nobody works on run {run}"), Some(format!("redrive resume {run}"))),
            Cause::Line => ("others go first, or its stage has no place free".to_owned(), None),
        }
    }

    async fn told(
        &self,
        item: &Item,
        what: Standstill,
        since: Timestamp,
        why: String,
        way_out: Option<String>,
    ) -> Result<StuckItem> {
        let stage = Runs::of(&*self.floor.store).stage_name(item.run, item.stage).await?;
        let span: Duration = self.now.since(since);
        Ok(StuckItem {
            what,
            id: item.id,
            key: item.key.to_string(),
            run: item.run,
            stage,
            since: since.to_string(),
            for_ms: redrive_core::time::millis(span),
            why,
            way_out,
        })
    }
}
