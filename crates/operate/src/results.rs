//! Results: what became of a run's items, at any time, for the whole pipeline or for one stage of it.

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_core::id::{ItemSeq, RunId, StageNo};
use redrive_core::status::{Control, RunStatus};
use redrive_core::tally::Counter;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_engine::report::{ResultOutcome, ResultReader, StageOutputs, Wanted};
use redrive_store::{RunRow, WorkerRow};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::Floor;
use crate::error::{Error, Result};
use crate::runs::{KnownRun, Runs, edit_is_under_way, report};

/// How soon a run is looked at again, at the soonest and at the latest.
const SOONEST: Duration = Duration::from_millis(200);
const LATEST: Duration = Duration::from_secs(5);
/// A look may take this part of the time.
const SHARE: u32 = 10;
/// How long a run of which all is done may be without its end: whoever works on it looks at its source once more before. One
/// that died there leaves it so.
const UNFINISHED: Duration = Duration::from_secs(30);

/// Which results.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Asked {
    /// Of this run; `None`: of the newest.
    pub run: Option<RunId>,
    /// What this stage made of the items that passed it; `None`: what came out at the end.
    pub stage: Option<String>,
    /// Only of items that succeeded with this verdict.
    pub verdict: Option<Verdict>,
}

/// Takes results as they come.
pub trait Taker: Send {
    /// Takes what there is of an item; `true` when that was a result or will never be one.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn take(&mut self, outcome: ResultOutcome) -> Result<bool>;

    /// Whether nobody wants more.
    fn is_done(&self) -> bool;

    /// Passes on what was taken.
    ///
    /// # Errors
    /// When that fails.
    fn flush(&mut self) -> Result<()>;

    /// Takes note that nobody works on the run, which stands like this.
    fn rests(&mut self, run: RunId, status: RunStatus);
}

/// Results of a run that was found.
pub struct Results<'a> {
    floor: &'a Floor,
    known: KnownRun,
    wanted: Wanted,
    verdict: Option<Verdict>,
}

impl<'a> Results<'a> {
    /// Finds the run and the stage that are asked for.
    ///
    /// # Errors
    /// When there is none, or the store fails.
    pub async fn find(floor: &'a Floor, asked: &Asked) -> Result<Self> {
        floor.require_payloads()?;
        let known = Runs::of(&*floor.store).find(asked.run).await?;
        let wanted = wanted(&known, asked.stage.as_deref())?;
        Ok(Self { floor, known, wanted, verdict: asked.verdict })
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.known.row.id
    }

    /// Reads every result that the run has now, as fast as it is asked for.
    #[must_use]
    pub fn read(&self) -> ResultReader<'_> {
        ResultReader::all(&*self.floor.store, self.run(), &self.wanted).with_verdict(self.verdict)
    }

    /// Gives every result that the run has now.
    ///
    /// # Errors
    /// When the store or the taker fails.
    pub async fn all(&self, taker: &mut dyn Taker) -> Result<()> {
        give(self.read(), taker).await
    }

    /// Gives every result once, as it becomes final, until the run ends; `true` when somebody broke it off before.
    ///
    /// # Errors
    /// When the store or the taker fails.
    pub async fn follow(&self, taker: &mut dyn Taker, stop: watch::Receiver<bool>) -> Result<bool> {
        let follow = Follow { results: self, below: None, given: BTreeSet::new(), without: BTreeSet::new() };
        follow.until_the_end(taker, stop).await
    }
}

/// Gives every result that runs have now.
///
/// # Errors
/// When the store or the taker fails.
pub async fn of_runs(floor: &Floor, runs: &[RunId], taker: &mut dyn Taker) -> Result<()> {
    floor.require_payloads()?;
    for run in runs {
        give(ResultReader::all(&*floor.store, *run, &Wanted::Succeeded), taker).await?;
    }
    Ok(())
}

async fn give(mut reader: ResultReader<'_>, taker: &mut dyn Taker) -> Result<()> {
    while let Some((_, outcome)) = reader.next(&BTreeSet::new()).await? {
        taker.take(outcome)?;
        if taker.is_done() {
            break;
        }
    }
    Ok(())
}

/// What is asked for: of the whole pipeline, or of one stage.
fn wanted(known: &KnownRun, stage: Option<&str>) -> Result<Wanted> {
    let Some(name) = stage else { return Ok(Wanted::Succeeded) };
    let marks: Vec<Option<i64>> = known.definition.all_stages().map(|stage| stage.reuse_mark()).collect();
    let kept = |no: StageNo| marks.get(no.index()).copied().flatten();
    let found = known.plan.find(name).and_then(|no| StageOutputs::new(&known.plan, no, kept));
    found.map(Wanted::Of).ok_or_else(|| {
        let names: Vec<&str> = known.plan.stages().map(|(_, stage)| stage.name.as_str()).collect();
        Error::not_found(format!("run {} has no stage {name:?}", known.row.id))
            .hint(format!("its stages are {}", names.join(", ")))
    })
}

/// Follows a run: looks again whenever its counters have moved.
struct Follow<'a> {
    results: &'a Results<'a>,
    /// Everything up to here had its end when it was looked at.
    below: Option<ItemSeq>,
    /// What was given of the items above that.
    given: BTreeSet<ItemSeq>,
    /// What ended without a result; it may be sent back and have one in the end.
    without: BTreeSet<ItemSeq>,
}

/// What is known of a run that nothing moves in.
#[derive(Default)]
struct Rest {
    /// What was said of it.
    told: Option<RunStatus>,
    /// Since when all of it is done, and nobody has said that it is finished.
    done_since: Option<Timestamp>,
}

impl Follow<'_> {
    async fn until_the_end(mut self, taker: &mut dyn Taker, mut stop: watch::Receiver<bool>) -> Result<bool> {
        let (floor, mut row) = (self.results.floor, self.results.known.row.clone());
        let clock = &floor.env.clock;
        let mut seen: Option<Vec<Counter>> = None;
        let mut rest = Rest::default();
        loop {
            // The end is read before the items, so that nothing that ended before it is missed.
            let mut over = self.is_over(&row).await?;
            let begun = clock.now();
            let counters = floor.store.counters(row.id).await?;
            if over || seen.as_ref() != Some(&counters) {
                self.look(&row, taker).await?;
                seen = Some(counters);
            } else {
                over = self.rests(&row, &mut rest, taker).await?;
            }
            if over {
                self.look_back(&row, taker).await?;
            }
            if over || taker.is_done() {
                return Ok(false);
            }
            let wait = (clock.now().since(begun) * SHARE).clamp(SOONEST, LATEST);
            tokio::select! {
                () = clock.sleep(wait) => {}
                _ = stop.changed() => return Ok(true),
            }
            let Some(now) = floor.store.run(row.id).await? else { return Ok(false) };
            row = now;
        }
    }

    /// Whether the run has ended and nobody is about to go on with it: whoever has it open may yet find more in its source,
    /// and an edited pipeline sends items again.
    async fn is_over(&self, row: &RunRow) -> Result<bool> {
        if row.control == Control::Cancelled {
            return Ok(true);
        }
        if row.finished_at.is_none() || edit_is_under_way(row) {
            return Ok(false);
        }
        let Floor { store, env, .. } = self.results.floor;
        let now = env.clock.now();
        let has_it_open =
            |worker: &WorkerRow| worker.attends(row.id, now) && !env.processes.is_gone(&worker.spec.identity);
        Ok(!store.workers().await?.iter().any(has_it_open))
    }

    /// Says once that nobody works on the run; `true` when nothing is left to work on, and nobody will say so.
    async fn rests(&self, row: &RunRow, rest: &mut Rest, taker: &mut dyn Taker) -> Result<bool> {
        let now = self.results.floor.now();
        let known = KnownRun { row: row.clone(), ..self.results.known.clone() };
        let status = report(self.results.floor, &known).await?.status;
        match status {
            RunStatus::Running => {
                rest.done_since = None;
                return Ok(false);
            }
            RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed | RunStatus::Cancelled => {
                let since = *rest.done_since.get_or_insert(now);
                return Ok(row.finished_at.is_none() && now.since(since) >= UNFINISHED);
            }
            RunStatus::PartiallyCompleted
            | RunStatus::PausedBudget
            | RunStatus::PausedQuota
            | RunStatus::PausedOutage
            | RunStatus::Paused
            | RunStatus::Open
            | RunStatus::Queued
            | RunStatus::Interrupted => {}
        }
        rest.done_since = None;
        if rest.told.replace(status) != Some(status) {
            taker.rests(row.id, status);
        }
        Ok(false)
    }

    /// Gives what has ended since the last look.
    async fn look(&mut self, row: &RunRow, taker: &mut dyn Taker) -> Result<()> {
        let Results { floor, wanted, verdict, .. } = self.results;
        let mut reader =
            ResultReader::all(&*floor.store, row.id, wanted).with_verdict(*verdict).after(self.below);
        let mut gapless = true;
        while let Some((seq, outcome)) = reader.next(&self.given).await? {
            let (known, ended) = (outcome == ResultOutcome::Known, outcome != ResultOutcome::NotYet);
            if taker.take(outcome)? {
                self.given.insert(seq);
                self.without.remove(&seq);
            } else if ended && !known {
                self.without.insert(seq);
            }
            gapless &= ended;
            if gapless {
                self.below = Some(seq);
                self.given.remove(&seq);
            }
            if taker.is_done() {
                break;
            }
        }
        taker.flush()
    }

    /// Gives the results of items that had ended without one.
    async fn look_back(&mut self, row: &RunRow, taker: &mut dyn Taker) -> Result<()> {
        let Results { floor, wanted, verdict, .. } = self.results;
        let mut reader = ResultReader::all(&*floor.store, row.id, wanted).with_verdict(*verdict);
        for seq in std::mem::take(&mut self.without) {
            taker.take(reader.one(seq).await?)?;
        }
        Ok(())
    }
}
