//! What has happened since it was looked at last.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::id::RunId;
use redrive_core::item::StateKind;
use redrive_core::time::{Timestamp, millis};
use redrive_engine::crash;
use redrive_engine::report::RunReport;
use redrive_pipeline::NotifyOn;
use redrive_store::{Applied, ChangeQuery, ItemFilter, Memo};
use serde_json::{Value, json};

use super::send::Target;
use super::{Known, MEMO, Notice};
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::gates;
use crate::items::{Standstill, Stuck, stuck};
use crate::memo;
use crate::pipelines::Pipeline;
use crate::runs::{self, List};
use crate::{Asker, Floor};

/// In whose name messages are handed over.
const NAME: &str = "notify";
/// So many of the newest runs are looked at, and those that had not ended.
const NEWEST: usize = 50;
/// Most runs that are remembered to be open.
const OPEN: usize = 1_000;
/// So many dead items of a run are counted where that is told.
const COUNTED: usize = 10_000;

/// What was told of a pipeline, for a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The pipeline.
    pub pipeline: String,
    /// How many messages were handed over; or why that is left for later.
    pub messages: std::result::Result<usize, Error>,
}

/// Looks at every pipeline that tells somebody something, and hands over what is to be told.
///
/// # Errors
/// When the store fails.
pub async fn look(floor: &Floor, catalog: &Catalog) -> Result<Vec<Told>> {
    let floor = Floor { asker: Asker::admin(NAME), ..floor.clone() };
    let mut told = Vec::new();
    for pipeline in catalog.in_force() {
        if pipeline.definition.notify.is_empty() {
            continue;
        }
        let messages = look_at(&floor, &pipeline).await;
        if messages != Ok(0) {
            told.push(Told { pipeline: pipeline.definition.name.clone(), messages });
        }
    }
    Ok(told)
}

async fn look_at(floor: &Floor, pipeline: &Pipeline) -> Result<usize> {
    let name = format!("{MEMO}{}", pipeline.definition.name);
    let memo = floor.store.memos(name.clone()).await?.into_iter().find(|memo| memo.name == name);
    let before = memo.as_ref().map(memo::read::<Known>).transpose()?;
    let mut rev = memo.map_or(0, |memo| memo.rev);
    let targets = Target::all(&pipeline.definition);
    let mut known = before.clone().unwrap_or_default();
    Look { floor, pipeline, targets: &targets, now: floor.now() }.changed(&mut known).await?;
    if before.is_none() {
        // What happened before anybody wanted to know is not told.
        known.pending.clear();
    }
    // Where somebody else was faster, that one hands it over.
    if before.as_ref() != Some(&known) && !save(floor, &name, &known, &mut rev).await? {
        return Ok(0);
    }
    if known.pending.is_empty() {
        return Ok(0);
    }
    crash::point("notify.decided");
    for target in &targets {
        target.hand_over(floor, &pipeline.folder, &known.pending).await?;
    }
    crash::point("notify.handed_over");
    let messages = std::mem::take(&mut known.pending).len();
    save(floor, &name, &known, &mut rev).await?;
    Ok(messages)
}

/// Writes what is known; `false` when somebody else was faster.
async fn save(floor: &Floor, name: &str, known: &Known, rev: &mut i64) -> Result<bool> {
    let memo =
        Memo { name: name.to_owned(), rev: *rev, state: memo::written(known)?, updated_at: floor.now() };
    let saved = floor.store.save_memo(memo).await? == Applied::Done;
    *rev += i64::from(saved);
    Ok(saved)
}

/// One look at one pipeline.
struct Look<'a> {
    floor: &'a Floor,
    pipeline: &'a Pipeline,
    targets: &'a [Target<'a>],
    now: Timestamp,
}

impl Look<'_> {
    /// Brings what is known up to date, with what is to be told of that.
    async fn changed(&self, known: &mut Known) -> Result<()> {
        let reports = self.reports(known).await?;
        self.runs(&reports, known);
        if self.wants(NotifyOn::GatePaused) {
            self.gates(known).await?;
        }
        for target in self.targets {
            if target.def.on.contains(&NotifyOn::DeadGrowth) {
                self.dead(target, &reports, known).await?;
            }
            if target.def.on.contains(&NotifyOn::Starved) {
                self.starved(target, &reports, known).await?;
            }
        }
        Ok(())
    }

    fn wants(&self, on: NotifyOn) -> bool {
        self.targets.iter().any(|target| target.def.on.contains(&on))
    }

    /// The newest runs, and those that had not ended when it was looked before.
    async fn reports(&self, known: &Known) -> Result<Vec<RunReport>> {
        let pipeline = Some(self.pipeline.definition.name.clone());
        let newest = List { pipeline, limit: NEWEST, ..List::default() };
        let mut reports = runs::list(self.floor, &newest).await?.runs;
        let listed: BTreeSet<RunId> = reports.iter().map(|report| report.run).collect();
        for run in known.open.difference(&listed) {
            // One that was forgotten meanwhile had ended.
            reports.extend(runs::show(self.floor, Some(*run)).await.ok());
        }
        Ok(reports)
    }

    fn notice(&self, on: NotifyOn, key: &str, to: Option<&Target<'_>>, data: Value) -> Notice {
        let kind = on.name().to_owned();
        let key = format!("{kind}/{key}");
        Notice { key, kind, at: self.now, to: to.map(|target| target.name.clone()), data }
    }

    /// Runs that have ended, or were paused.
    fn runs(&self, reports: &[RunReport], known: &mut Known) {
        let (mut open, mut ended, mut paused) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let mut done = BTreeMap::new();
        for report in reports {
            let run = report.run;
            if let Some(at) = &report.finished_at {
                ended.insert(run, at.clone());
            } else if open.len() < OPEN {
                open.insert(run);
            }
            let came_to = json!([report.counts, report.attempts.total]);
            if let Some(at) = &report.finished_at
                && known.is_news(run, at, &came_to)
                && self.wants(NotifyOn::RunEnded)
            {
                known.pending.push(self.notice(
                    NotifyOn::RunEnded,
                    &format!("{run}/{at}"),
                    None,
                    of_run(report),
                ));
            }
            // One that goes on is compared with what it came to before.
            let before = report.finished_at.is_none().then(|| known.done.remove(&run));
            done.extend(before.unwrap_or(Some(came_to)).map(|came_to| (run, came_to)));
            let status = report.status.name();
            if !status.starts_with("paused") {
                continue;
            }
            paused.insert(run, status.to_owned());
            if known.paused.get(&run).is_none_or(|before| before != status) && self.wants(NotifyOn::RunPaused)
            {
                let key = format!("{run}/{}", self.now.0);
                known.pending.push(self.notice(NotifyOn::RunPaused, &key, None, of_run(report)));
            }
        }
        (known.open, known.ended, known.done, known.paused) = (open, ended, done, paused);
    }

    /// Gates of the pipeline's stages that wait for somebody.
    async fn gates(&self, known: &mut Known) -> Result<()> {
        let gates = gates::list(self.floor).await?.gates;
        let own = gates.iter().filter(|gate| self.pipeline.definition.passes(&gate.name));
        let mut paused = BTreeSet::new();
        for gate in own.filter(|gate| gate.state == "paused") {
            paused.insert(gate.name.clone());
            if !known.gates.contains(&gate.name) {
                let pipeline = &self.pipeline.definition.name;
                let data =
                    json!({"pipeline": pipeline, "gate": gate.name, "why": gate.why, "since": gate.since});
                let key = format!("{}/{}", gate.name, self.now.0);
                known.pending.push(self.notice(NotifyOn::GatePaused, &key, None, data));
            }
        }
        known.gates = paused;
        Ok(())
    }

    /// Whether many items have died of late. That is told once in the span that is looked at.
    async fn dead(&self, target: &Target<'_>, reports: &[RunReport], known: &mut Known) -> Result<()> {
        let (count, span) = (u64::from(target.def.dead_count), millis(target.def.dead_within));
        let told = known.dead.get(&target.name);
        if told.is_some_and(|at| self.now.0.saturating_sub(at.0).saturating_abs() < span) {
            return Ok(());
        }
        let since = Timestamp(self.now.0.saturating_sub(span));
        let enough = usize::try_from(count).unwrap_or(usize::MAX);
        if self.died(reports, since, enough).await?.values().sum::<u64>() < count {
            return Ok(());
        }
        let by_run = self.died(reports, since, enough.max(COUNTED)).await?;
        let died: u64 = by_run.values().sum();
        let within = target.def.dead_within.as_secs();
        let pipeline = &self.pipeline.definition.name;
        let data = json!({"pipeline": pipeline, "at_least": died, "within_seconds": within, "runs": by_run});
        let key = format!("{pipeline}/{}", self.now.0);
        known.pending.push(self.notice(NotifyOn::DeadGrowth, &key, Some(target), data));
        known.dead.insert(target.name.clone(), self.now);
        Ok(())
    }

    /// How many items of each run are dead since then, counted up to so many.
    async fn died(
        &self,
        reports: &[RunReport],
        since: Timestamp,
        limit: usize,
    ) -> Result<BTreeMap<String, u64>> {
        let mut by_run = BTreeMap::new();
        for report in
            reports.iter().filter(|report| !report.dead.by_class.is_empty() || report.counts.dead > 0)
        {
            let filter = ItemFilter {
                run: Some(report.run),
                state: Some(StateKind::Dead),
                since: Some(since),
                ..ItemFilter::default()
            };
            let query = ChangeQuery { filter, newest_first: true, after: None, limit };
            let found = self.floor.store.items_by_change(query).await?.len() as u64;
            if found > 0 {
                by_run.insert(report.run.to_string(), found);
            }
        }
        Ok(by_run)
    }

    /// Runs with items that are due for long and that nobody takes. One that is paused is told as that.
    async fn starved(&self, target: &Target<'_>, reports: &[RunReport], known: &mut Known) -> Result<()> {
        let mut starved = BTreeSet::new();
        let going = reports.iter().filter(|report| report.finished_at.is_none());
        for report in going.filter(|report| !known.paused.contains_key(&report.run)) {
            let asked =
                Stuck { run: Some(report.run), older_than_ms: millis(target.def.starved_after), limit: 1 };
            let found = stuck(self.floor, &asked).await?.items;
            let Some(item) = found.into_iter().find(|item| item.what == Standstill::Starved) else {
                continue;
            };
            starved.insert(report.run);
            if known.starved.get(&target.name).is_none_or(|told| !told.contains(&report.run)) {
                let data = json!({"pipeline": self.pipeline.definition.name, "run": report.run,
                    "item": item.id, "key": item.key, "stage": item.stage, "since": item.since, "why": item.why});
                let key = format!("{}/{}", report.run, self.now.0);
                known.pending.push(self.notice(NotifyOn::Starved, &key, Some(target), data));
            }
        }
        known.starved.insert(target.name.clone(), starved);
        Ok(())
    }
}

/// What there is to know about a run.
fn of_run(report: &RunReport) -> Value {
    json!({"run": report.run, "pipeline": report.pipeline, "category": report.category, "status": report.status,
        "reason": report.reason, "counts": report.counts, "finished_at": report.finished_at})
}

impl Known {
    /// Whether a run that ended at this time, having come to this, has anything to tell that was not told.
    fn is_news(&self, run: RunId, at: &str, came_to: &Value) -> bool {
        self.ended.get(&run).is_none_or(|before| before != at) && self.done.get(&run) != Some(came_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_went_on_and_did_nothing_is_no_news() {
        let (run, came_to) = (RunId(1), json!([{"admitted": 5}, 5]));
        let mut known = Known::default();
        assert!(known.is_news(run, "03:00", &came_to));
        known.ended.insert(run, "03:00".to_owned());
        known.done.insert(run, came_to.clone());
        assert!(!known.is_news(run, "03:00", &came_to), "it was told");
        assert!(!known.is_news(run, "04:00", &came_to), "it did nothing");
        assert!(known.is_news(run, "04:00", &json!([{"admitted": 5}, 6])), "an item was tried again");
    }
}
