//! Works on a run: progress, signals, and the report at the end.

use std::any::Any;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use redrive_core::id::RunId;
use redrive_core::status::RunStatus;
use redrive_engine::env::Env;
use redrive_engine::report::RunReport;
use redrive_engine::worker::Stop;
use redrive_operate::work::{self, Notice, Observer, UnderWay, Work};
use redrive_operate::{Error, Floor, gates, results};
use redrive_store::WorkerRow;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::on_end::{End, OnEnd};
use super::signals::Signals;
use super::{Answer, Context};
use crate::args::WorkArgs;
use crate::exit;
use crate::output::asleep::Asleep;
use crate::output::progress::Progress;
use crate::output::results::{Form, Writer};
use crate::output::target::{Existing, Guard, Target};
use crate::output::text::{safe, things};
use crate::output::{advice, aside, json, note, summary};

/// Works on a run until it ends, and tells how it stands.
pub async fn work(
    context: &Context,
    floor: &Floor,
    ready: Work,
    args: &WorkArgs,
    results: Option<Target>,
) -> Answer {
    let (run, pipeline) = (ready.row.id, ready.row.spec.pipeline.clone());
    let done = async {
        let worked = work::work(floor, ready, args.settings(), &Watching::of(context)).await?;
        let whole = match &results {
            Some(target) => write_results(context, floor, &[worked.report.run], target).await?,
            None => true,
        };
        if !worked.missing.is_empty() {
            let keys: Vec<String> = worked.missing.iter().map(|key| format!("{key:?}")).collect();
            note(&safe(&format!("warning: nothing in the source has the key {}", keys.join(" or "))));
        }
        tell_of(context, floor, &worked.report).await?;
        Ok((exit::work_code([worked.report.status], worked.interrupted, whole), worked.report))
    };
    let done = done.await;
    if let Some(on_end) = OnEnd::of(context, args.end.on_end.as_deref()) {
        let end = match &done {
            Ok((code, report)) => End::of(report, *code),
            Err(error) => End::broken(run.to_string(), pipeline, error),
        };
        on_end.start(&end).await;
    }
    done.map(|(code, _)| code.into())
}

/// Looks at where results are to go, before the work. `guard` spares what the command itself names.
pub fn results_target(args: &WorkArgs, guard: Guard) -> Result<Option<Target>, Error> {
    let asked = args.results.as_ref();
    asked.map(|path| Target::look("--results", path, Existing::Replaced, guard)).transpose()
}

/// Writes the results of runs; `false` when some had to be left out.
pub async fn write_results(
    context: &Context,
    floor: &Floor,
    runs: &[RunId],
    target: &Target,
) -> Result<bool, Error> {
    let done = async {
        let mut writer = Writer::new(target.open().await?, Form::Lines);
        results::of_runs(floor, runs, &mut writer).await?;
        writer.finish()
    };
    let ids: Vec<String> = runs.iter().map(|run| format!("`redrive results {run} -o FILE`")).collect();
    let written = done.await.map_err(|error: Error| {
        let ids = ids.join(", ");
        error.hint(format!("the work itself is recorded; {ids} writes its results at any time"))
    })?;
    written.tell_the_rest();
    context.say(&format!("{} in {}", things(written.written, "result"), target.shown()));
    Ok(written.left_out == 0)
}

/// Says who works on what was sent back to a run: somebody who is at it, or waits for any, or else whoever is told to.
pub async fn hint_at_work(context: &Context, floor: &Floor, run: RunId, what: &str) -> Result<(), Error> {
    let (workers, now) = (floor.store.workers().await?, floor.now());
    let takes = |worker: &WorkerRow| {
        let waits = worker.lease_until >= now && worker.spec.runs.is_empty();
        (waits || worker.attends(run, now)) && !floor.env.processes.is_gone(&worker.spec.identity)
    };
    context.hint(&match workers.iter().any(takes) {
        true => format!("a worker is there and takes {what} up; `redrive show {run}` tells how far it is"),
        false => format!("`redrive resume {run}` works on {what}"),
    });
    Ok(())
}

/// Tells how a run stands, and which gates keep it waiting.
pub async fn tell_of(context: &Context, floor: &Floor, report: &RunReport) -> Result<ExitCode, Error> {
    let shut = match report.counts.live() {
        0 => Vec::new(),
        _ => gates::shut(floor, report.run).await?,
    };
    if context.global.json {
        json(report)?;
    } else {
        context.tell(&summary::run(report, &shut, &context.screen()))?;
    }
    if let Some(rest) = summary::rest(report) {
        context.hint(rest);
    }
    if let Some(hint) = advice::next(report, &shut) {
        context.hint(&hint);
    }
    Ok(exit::of(report.status))
}

/// Shows how work goes, and passes on signals to stop.
pub struct Watching {
    env: Env,
    quiet: bool,
    /// What is started when a run among others ends.
    on_end: Option<OnEnd>,
    /// Those that were started.
    started: Mutex<JoinSet<()>>,
    /// How runs were left that were left unfinished, as was told of them.
    told: Mutex<BTreeMap<RunId, RunStatus>>,
}

impl Watching {
    /// Shows what the context lets be shown.
    pub fn of(context: &Context) -> Self {
        Self {
            env: context.env.clone(),
            quiet: context.global.quiet,
            on_end: None,
            started: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// The same, and something is started whenever a run among others ends.
    pub fn with_end(self, on_end: Option<OnEnd>) -> Self {
        Self { on_end, ..self }
    }

    /// Waits for what was started.
    pub async fn finish(&self) {
        let started = std::mem::take(&mut *self.started.lock().unwrap_or_else(PoisonError::into_inner));
        started.join_all().await;
    }

    /// Starts what is to be started when a run ends or is paused.
    fn run_ended(&self, report: &RunReport) {
        let over = report.finished_at.is_some() || exit::is_paused(report.status);
        if let Some(on_end) = self.on_end.clone().filter(|_| over) {
            let end = End::of(report, exit::status_code(report.status));
            let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            while started.try_join_next().is_some() {}
            started.spawn(async move { on_end.start(&end).await });
        }
    }
}

impl Observer for Watching {
    fn begins(&self, work: UnderWay) -> Box<dyn Any + Send> {
        let UnderWay { store, run, recipe, stop } = work;
        let unseen = self.quiet || aside::for_machines();
        let progress = Progress::follow(store.clone(), run, &recipe, self.env.clone(), unseen);
        let asleep = Asleep::follow(store, run, &recipe, self.env.clone(), self.quiet);
        Box::new((progress, asleep, Listening(tokio::spawn(listen(stop)))))
    }

    fn notice(&self, notice: &Notice) {
        let said = match notice {
            Notice::SourceKeepsChanging => {
                note("the source keeps changing; the next run takes in what is not here yet");
                return;
            }
            Notice::SourceUnreadable { why } => {
                note(&format!("warning: {why}; what was read of it before is done"));
                return;
            }
            Notice::NobodyCanAsk { stages } => {
                note(&format!(
                    "external workers do {}, and nobody can ask this process for it: what comes there waits for a `redrive serve` of this store",
                    stages.join(" and ")
                ));
                return;
            }
            Notice::Unworkable { run, why } => {
                note(&format!(
                    "warning: run {run} cannot be worked on here, and is left alone for a while: {why}"
                ));
                return;
            }
            Notice::PipelineChanged { run } => {
                format!("the pipeline of run {run} was changed meanwhile; going on with the new one")
            }
            Notice::GoingOn { run } => format!("going on with run {run}"),
            Notice::Replaced { run, asked } => {
                let why = if *asked { "--new was said" } else { "it was made with other settings" };
                format!("run {run} is cancelled: {why}; what it embedded is kept")
            }
        };
        if !self.quiet {
            note(&said);
        }
    }

    fn serving(&self, stop: watch::Sender<Stop>) -> Box<dyn Any + Send> {
        if !self.quiet {
            note("working on the runs of this store, whenever there is something to do; Ctrl-C stops");
        }
        Box::new(Listening(tokio::spawn(listen(stop))))
    }

    fn left(&self, report: &RunReport) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match report.finished_at.is_some() {
            true => {
                told.remove(&report.run);
                None
            }
            false => told.insert(report.run, report.status),
        };
        drop(told);
        // One that waits is looked at again and again.
        if before == Some(report.status) {
            return;
        }
        if !self.quiet {
            note(&summary::one_line(report));
        }
        self.run_ended(report);
    }
}

/// Listens for signals until it is dropped.
struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The first signal drains, the second breaks off; a closed terminal is as good as a word to stop.
async fn listen(stop: watch::Sender<Stop>) {
    let Ok(mut signals) = Signals::listen() else { return };
    for told in [Stop::Drain, Stop::Now] {
        signals.next().await;
        stop.send_replace(told);
        if told == Stop::Drain {
            note("stopping: what runs is finished and recorded; once more breaks it off");
        }
    }
}
