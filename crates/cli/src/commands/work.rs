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
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Answer, Context};
use crate::args::WorkArgs;
use crate::exit;
use crate::output::asleep::Asleep;
use crate::output::progress::Progress;
use crate::output::results::{Form, Writer};
use crate::output::target::{Existing, Guard, Target};
use crate::output::text::things;
use crate::output::{advice, json, note, summary};

/// Works on a run until it ends, and tells how it stands.
pub async fn work(
    context: &Context,
    floor: &Floor,
    ready: Work,
    args: &WorkArgs,
    results: Option<Target>,
) -> Answer {
    let worked = work::work(floor, ready, args.settings(), &Watching::of(context)).await?;
    let whole = match &results {
        Some(target) => write_results(context, floor, &[worked.report.run], target).await?,
        None => true,
    };
    tell_of(context, floor, &worked.report).await?;
    Ok(exit::of_work([worked.report.status], worked.interrupted, whole))
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
    if let Some(hint) = advice::next(report, &shut) {
        context.hint(&hint);
    }
    Ok(exit::of(report.status))
}

/// Shows how work goes, and passes on signals to stop.
pub struct Watching {
    env: Env,
    quiet: bool,
    /// How runs were left that were left unfinished, as was told of them.
    told: Mutex<BTreeMap<RunId, RunStatus>>,
}

impl Watching {
    /// Shows what the context lets be shown.
    pub fn of(context: &Context) -> Self {
        Self { env: context.env.clone(), quiet: context.global.quiet, told: Mutex::default() }
    }
}

impl Observer for Watching {
    fn begins(&self, work: UnderWay) -> Box<dyn Any + Send> {
        let UnderWay { store, run, recipe, stop } = work;
        let progress = Progress::follow(store.clone(), run, &recipe, self.env.clone(), self.quiet);
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
        // One that waits is looked at again and again.
        if !self.quiet && before != Some(report.status) {
            note(&summary::one_line(report));
        }
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
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    // Whoever started it with hangups ignored, as `nohup` does, wants it to go on.
    let mut hangup = if hangups_are_ignored() { None } else { signal(SignalKind::hangup()).ok() };
    for told in [Stop::Drain, Stop::Now] {
        let hung_up = async {
            match &mut hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hung_up => {}
        }
        stop.send_replace(told);
        if told == Stop::Drain {
            note("stopping: what runs is finished and recorded; once more breaks it off");
        }
    }
}

/// Whether the process was started with hangups ignored. Where that cannot be read, it was not.
fn hangups_are_ignored() -> bool {
    const HANGUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & HANGUP != 0)
}
