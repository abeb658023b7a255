//! `redrive results`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use redrive_core::id::{ItemSeq, StageNo};
use redrive_core::status::{Control, RunStatus};
use redrive_core::tally::Metric;
use redrive_engine::report::{ResultOutcome, ResultReader, StageOutputs, Wanted, run_report};
use redrive_operate::Error;
use redrive_store::{RunRow, Store};
use tokio::sync::watch;

use super::{Answer, Context, KnownRun, known_run};
use crate::args::ResultsArgs;
use crate::exit;
use crate::output::results::{Form, Written};
use crate::output::target::{Existing, Guard, Sink, Target};
use crate::output::text::count;
use crate::output::{json, note};
use crate::wiring;

/// How soon a run is looked at again, at the soonest and at the latest.
const SOONEST: Duration = Duration::from_millis(200);
const LATEST: Duration = Duration::from_secs(5);
/// A look may take this part of the time.
const SHARE: u32 = 10;

/// Prints what became of a run's items.
pub async fn results(context: &Context, args: ResultsArgs) -> Answer {
    let mut target = match &args.output {
        Some(path) => {
            let guard = Guard::of_store(&context.global.store)?;
            Some(Target::look("--output", path, Existing::Replaced, guard)?)
        }
        None => None,
    };
    let store = context.store_to_read()?;
    if let Some(target) = &mut target {
        target.spare_runs(&*store).await?;
    }
    let known = known_run(&*store, args.run).await?;
    let wanted = wanted(&known, args.stage.as_deref())?;
    let mut sink = match &target {
        Some(target) => target.open().await?,
        None => Sink::standard_output()?,
    };
    // A file holds lines; a document is for standard output.
    let form = if context.global.json && target.is_none() { Form::List } else { Form::Lines };
    if form == Form::List {
        let head = serde_json::json!({ "run": known.row.id, "stage": args.stage }).to_string();
        sink.put(format!("{},\"items\":[\n", head.trim_end_matches('}')).as_bytes())?;
    }
    let mut written = Written::default();
    let run = known.row.id;
    let interrupted = if args.follow {
        let (given, without) = (BTreeSet::new(), BTreeSet::new());
        let (row, known) = (known.row.clone(), &known);
        Follow { context, store: &*store, known, wanted: &wanted, form, below: None, given, without }
            .until_the_end(row, &mut sink, &mut written)
            .await?
    } else {
        written.all(&*store, run, &wanted, form, &mut sink).await?;
        false
    };
    if form == Form::List {
        let tail = serde_json::to_string(&written).map_err(|error| Error::internal(error.to_string()))?;
        sink.put(format!("\n],{}\n", tail.trim_start_matches('{')).as_bytes())?;
    }
    sink.finish()?;
    written.tell_the_rest();
    told(context, &args, target.as_ref(), run, &written)?;
    Ok(match (interrupted, written.left_out) {
        (true, _) => exit::interrupted(),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => exit::broken(),
    })
}

fn told(
    context: &Context,
    args: &ResultsArgs,
    target: Option<&Target>,
    run: redrive_core::id::RunId,
    written: &Written,
) -> Result<(), Error> {
    if let (Some(target), true) = (target, context.global.json) {
        json(&serde_json::json!({
            "run": run, "stage": args.stage, "file": target.shown(), "written": written.written,
            "left_out": written.left_out, "left_out_items": written.left_out_items, "not_kept": written.not_kept,
        }))?;
    }
    if context.global.quiet {
        return Ok(());
    }
    if let Some(target) = target {
        note(&format!("{} results in {}", count(written.written), target.shown()));
    }
    if written.not_kept > 0 {
        let stage = args.stage.as_deref().unwrap_or_default();
        note(&format!(
            "{} items passed {stage} and what it made of them is not kept; `reuse = true` keeps it for later runs",
            count(written.not_kept)
        ));
    }
    Ok(())
}

/// What is asked for: of the whole pipeline, or of one stage.
fn wanted(known: &KnownRun, stage: Option<&str>) -> Result<Wanted, Error> {
    let Some(name) = stage else { return Ok(Wanted::Succeeded) };
    let marks: Vec<Option<i64>> = known.definition.all_stages().map(wiring::reuse_mark).collect();
    let kept = |no: StageNo| marks.get(no.index()).copied().flatten();
    let found = known.plan.find(name).and_then(|no| StageOutputs::new(&known.plan, no, kept));
    found.map(Wanted::Of).ok_or_else(|| {
        let names: Vec<&str> = known.plan.stages().map(|(_, stage)| stage.name.as_str()).collect();
        Error::wrong(format!("run {} has no stage {name:?}", known.row.id))
            .hint(format!("its stages are {}", names.join(", ")))
    })
}

/// Follows a run: looks again whenever its counters have moved.
struct Follow<'a> {
    context: &'a Context,
    store: &'a dyn Store,
    known: &'a KnownRun,
    wanted: &'a Wanted,
    form: Form,
    /// Everything up to here had its end when it was looked at.
    below: Option<ItemSeq>,
    /// What was given of the items above that.
    given: BTreeSet<ItemSeq>,
    /// What ended without a result; it may be sent back and have one in the end.
    without: BTreeSet<ItemSeq>,
}

impl Follow<'_> {
    /// Gives every result once, until the run ends; `true` when somebody broke it off before.
    async fn until_the_end(
        mut self,
        mut row: RunRow,
        sink: &mut Sink,
        written: &mut Written,
    ) -> Result<bool, Error> {
        let mut asked = asked_to_stop();
        let clock = &self.context.env.clock;
        let mut seen: Option<Vec<(StageNo, Metric, i64)>> = None;
        let mut told = None;
        loop {
            // The end is read before the items, so that nothing that ended before it is missed.
            let mut over = row.finished_at.is_some() || row.control == Control::Cancelled;
            let begun = clock.now();
            let counters = self.store.counters(row.id).await?;
            if over || seen.as_ref() != Some(&counters) {
                self.look(&row, sink, written).await?;
                seen = Some(counters);
            } else {
                over = self.rests(&row, &mut told).await?;
            }
            if over {
                self.look_back(&row, sink, written).await?;
            }
            if over || sink.reader_left() {
                return Ok(false);
            }
            let wait = (clock.now().since(begun) * SHARE).clamp(SOONEST, LATEST);
            tokio::select! {
                () = clock.sleep(wait) => {}
                _ = asked.changed() => return Ok(true),
            }
            let Some(now) = self.store.run(row.id).await? else { return Ok(false) };
            row = now;
        }
    }

    /// Says once that nobody works on the run; `true` when nothing is left to work on.
    async fn rests(&self, row: &RunRow, told: &mut Option<RunStatus>) -> Result<bool, Error> {
        let (plan, thresholds) = (&self.known.plan, self.known.thresholds());
        let report = run_report(self.store, row, plan, thresholds, self.context.env.clock.now()).await?;
        let (run, status) = (row.id, report.status);
        match status {
            RunStatus::Running => return Ok(false),
            RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed | RunStatus::Cancelled => {
                return Ok(true);
            }
            RunStatus::PartiallyCompleted
            | RunStatus::PausedBudget
            | RunStatus::PausedQuota
            | RunStatus::PausedOutage
            | RunStatus::Paused
            | RunStatus::Interrupted => {}
        }
        if told.replace(status) != Some(status) {
            self.context.hint(&format!("run {run} is {status}; `redrive resume {run}` goes on with it"));
        }
        Ok(false)
    }

    /// Gives what has ended since the last look.
    async fn look(&mut self, row: &RunRow, sink: &mut Sink, written: &mut Written) -> Result<(), Error> {
        let mut reader = ResultReader::all(self.store, row.id, self.wanted).after(self.below);
        let mut gapless = true;
        while let Some((seq, outcome)) = reader.next(&self.given).await? {
            let (known, ended) = (outcome == ResultOutcome::Known, outcome != ResultOutcome::NotYet);
            if written.take(outcome, self.form, sink)? {
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
            if sink.reader_left() {
                break;
            }
        }
        sink.flush()
    }

    /// Gives the results of items that had ended without one.
    async fn look_back(&mut self, row: &RunRow, sink: &mut Sink, written: &mut Written) -> Result<(), Error> {
        let mut reader = ResultReader::all(self.store, row.id, self.wanted);
        for seq in std::mem::take(&mut self.without) {
            let outcome = reader.one(seq).await?;
            written.take(outcome, self.form, sink)?;
        }
        Ok(())
    }
}

/// Changes when somebody wants an end.
fn asked_to_stop() -> watch::Receiver<bool> {
    use tokio::signal::unix::{SignalKind, signal};
    let (teller, asked) = watch::channel(false);
    // Listened to from now on, whenever the task begins.
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    tokio::spawn(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return std::future::pending().await };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        teller.send_replace(true);
    });
    asked
}
