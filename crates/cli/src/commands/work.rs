//! Works on a run: admission, calls, progress, and the report at the end.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::status::RunStatus;
use redrive_engine::admit::{Admission, AdmitError, Admitted, News};
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_engine::report::{ReadReport, RunReport, Wanted, run_report};
use redrive_engine::source::{Source, SourceError};
use redrive_engine::worker::{Ending, Session, Settings, Stop};
use redrive_operate::Error;
use redrive_store::{RunRow, Store};
use tokio::sync::{Notify, watch};

use super::{Answer, Context};
use crate::args::WorkArgs;
use crate::exit;
use crate::output::asleep::Asleep;
use crate::output::progress::Progress;
use crate::output::results::{Form, Written};
use crate::output::target::{Existing, Guard, Target};
use crate::output::text::count;
use crate::output::{json, lines, note, summary};

/// A run that is ready to be worked on.
pub struct Work {
    /// Where its items are.
    pub store: Arc<dyn Store>,
    /// The run.
    pub row: RunRow,
    /// Its pipeline.
    pub recipe: Recipe,
    /// What is left to be read; `None` when all was.
    pub source: Option<Box<dyn Source>>,
}

/// How the work went.
pub struct Worked {
    /// How the run stands.
    pub report: RunReport,
    /// Whether it was told to stop.
    pub interrupted: bool,
}

/// Works on a run until it ends, and tells how it stands.
pub async fn work(context: &Context, work: Work, args: &WorkArgs, results: Option<Target>) -> Answer {
    let store = work.store.clone();
    let worked = work_quietly(context, work, args).await?;
    let whole = match &results {
        Some(target) => write_results(context, &*store, &[worked.report.run], target).await?,
        None => true,
    };
    tell(context, &worked.report)?;
    Ok(match (worked.interrupted, whole) {
        (true, _) => exit::of(RunStatus::Interrupted),
        (false, true) => exit::of(worked.report.status),
        (false, false) => exit::broken(),
    })
}

/// Looks at where results are to go, before the work. `guard` spares what the command itself names.
pub fn results_target(args: &WorkArgs, guard: Guard) -> Result<Option<Target>, Error> {
    let asked = args.results.as_ref();
    asked.map(|path| Target::look("--results", path, Existing::Replaced, guard)).transpose()
}

/// Writes the results of runs; `false` when some had to be left out.
pub async fn write_results(
    context: &Context,
    store: &dyn Store,
    runs: &[RunId],
    target: &Target,
) -> Result<bool, Error> {
    let mut written = Written::default();
    let done = async {
        let mut sink = target.open().await?;
        for run in runs {
            written.all(store, *run, &Wanted::Succeeded, Form::Lines, &mut sink).await?;
        }
        sink.finish()
    };
    let ids: Vec<String> = runs.iter().map(|run| format!("`redrive results {run} -o FILE`")).collect();
    done.await.map_err(|failure: Error| {
        failure
            .hint(format!("the work itself is recorded; {} writes its results at any time", ids.join(", ")))
    })?;
    written.tell_the_rest();
    if !context.global.quiet {
        note(&format!("{} results in {}", count(written.written), target.shown()));
    }
    Ok(written.left_out == 0)
}

/// Tells how a run stands.
pub fn tell(context: &Context, report: &RunReport) -> Result<ExitCode, Error> {
    if context.global.json {
        json(report)?;
    } else {
        lines(&summary::run(report))?;
    }
    if let Some(hint) = summary::hint(report) {
        context.hint(&hint);
    }
    Ok(exit::of(report.status))
}

/// How often a source that keeps changing is read again at the end of a run.
const ROUNDS: u32 = 20;

/// Works on a run until it ends, and its source is as it was read.
pub async fn work_quietly(context: &Context, work: Work, args: &WorkArgs) -> Result<Worked, Error> {
    let Work { store, row, mut recipe, mut source } = work;
    let paused = Duration::from_millis(u64::try_from(row.pause.before_ms).unwrap_or(0));
    recipe.plan = recipe.plan.with_grace(paused);
    let recipe = Arc::new(recipe);
    let env = context.env.clone();
    let (teller, stop) = watch::channel(Stop::No);
    let signals = tokio::spawn(listen(teller.clone()));
    let progress = Progress::follow(store.clone(), row.id, &recipe, env.clone(), context.global.quiet);
    let asleep = Asleep::follow(store.clone(), row.id, &recipe, env.clone(), context.global.quiet);
    let reads = source.is_some();
    let mut news = News::default();
    let (mut rounds, mut last) = (0, row.reading);
    let ending = loop {
        let round = Round {
            last,
            context,
            store: &store,
            row: &row,
            recipe: &recipe,
            stop: &stop,
            teller: &teller,
            args,
        };
        let (ending, admitted) = round.work(source.take()).await;
        let ending = match ending {
            Ok(ending) => ending,
            Err(error) => break Err(error.into()),
        };
        let elsewhere = admitted.as_ref().is_none_or(|told| told.source.is_none() && told.outcome.is_ok());
        if reads && elsewhere && ending == Ending::Stopped && *stop.borrow() == Stop::No && rounds < ROUNDS {
            // Somebody else reads the source anew; what comes of it is worked on together.
            rounds += 1;
            admitted.iter().for_each(|told| news.add(&told.news));
            env.clock.sleep(Duration::from_millis(300)).await;
            continue;
        }
        let Some(admitted) = admitted else { break Ok(ending) };
        news.add(&admitted.news);
        last = admitted.last;
        if let Err(error) = told(admitted.outcome) {
            break Err(error);
        }
        let over = matches!(ending, Ending::Finished | Ending::Waiting { .. });
        match admitted.source {
            Some(left) if over && *stop.borrow() == Stop::No => {
                rounds += 1;
                source = has_more(&*store, &row, left, rounds, &env).await?;
            }
            _ => break Ok(ending),
        }
        if source.is_none() {
            break Ok(ending);
        }
    };
    drop((progress, asleep));
    signals.abort();
    let ending = ending?;
    let row = store.run(row.id).await?.unwrap_or(row);
    let mut report = run_report(&*store, &row, &recipe.plan, recipe.thresholds, env.clock.now()).await?;
    report.read = reads.then(|| ReadReport::new(news, &report.counts));
    let interrupted = ending == Ending::Stopped;
    match ending {
        Ending::Stopped => report.status = RunStatus::Interrupted,
        Ending::Waiting { .. } => report.status = RunStatus::PartiallyCompleted,
        Ending::Finished | Ending::Halted(_) => {}
    }
    Ok(Worked { report, interrupted })
}

/// Looks at a source once more when all of it is done; it is given back when there is more to be done.
async fn has_more(
    store: &dyn Store,
    row: &RunRow,
    mut source: Box<dyn Source>,
    rounds: u32,
    env: &Env,
) -> Result<Option<Box<dyn Source>>, Error> {
    let unread = store.run(row.id).await?.is_some_and(|row| !row.admitted_all);
    let looked = tokio::task::spawn_blocking(move || {
        let changed = if unread { Ok(true) } else { source.has_changed(true) };
        (source, changed)
    });
    let Ok((source, changed)) = looked.await else { return Ok(None) };
    match changed {
        Ok(true) if rounds >= ROUNDS => {
            note("the source keeps changing; the next run takes in what is not here yet");
            Ok(None)
        }
        Ok(true) => {
            // Somebody may be in the middle of writing it.
            env.clock.sleep(Duration::from_secs(1)).await;
            Ok(Some(source))
        }
        Ok(false) => Ok(None),
        Err(error) => {
            note(&format!("warning: {error}; what was read of it before is done"));
            Ok(None)
        }
    }
}

/// Work on a run until nothing is left, or it has to stop.
struct Round<'a> {
    /// The last reading of the source that is known here.
    last: u32,
    context: &'a Context,
    store: &'a Arc<dyn Store>,
    row: &'a RunRow,
    recipe: &'a Arc<Recipe>,
    stop: &'a watch::Receiver<Stop>,
    teller: &'a watch::Sender<Stop>,
    args: &'a WorkArgs,
}

impl Round<'_> {
    async fn work(
        &self,
        source: Option<Box<dyn Source>>,
    ) -> (Result<Ending, redrive_store::Error>, Option<Admitted>) {
        let env = self.context.env.clone();
        let admitting = Arc::new(AtomicBool::new(source.is_some()));
        let wake = Arc::new(Notify::new());
        // Reading ends with the session, and for nobody else's sake.
        let (closer, closing) = watch::channel(Stop::No);
        let admission = source.map(|source| {
            let admission = Admission {
                store: self.store.clone(),
                recipe: self.recipe.clone(),
                env: env.clone(),
                run: self.row.id,
                last: self.last,
                wake: wake.clone(),
                admitting: admitting.clone(),
                stop: closing,
            };
            let teller = self.teller.clone();
            tokio::spawn(async move {
                let admitted = admission.admit(source).await;
                if admitted.outcome.is_err() {
                    // Nobody will say that the source is at its end: finish what is there.
                    teller.send_if_modified(|stop| {
                        let drains = *stop == Stop::No;
                        *stop = (*stop).max(Stop::Drain);
                        drains
                    });
                }
                admitted
            })
        });
        let passing_on = tokio::spawn(pass_on(self.stop.clone(), closer.clone()));
        let settings =
            Settings { lease: self.args.lease, max_wait: self.args.max_wait, ..Settings::default() };
        let session = Session {
            store: self.store.clone(),
            recipe: self.recipe.clone(),
            env: env.clone(),
            settings,
            wake,
            admitting,
            stop: self.stop.clone(),
        };
        let ending = session.work(self.row.clone()).await;
        // What is still being read now is read again next time.
        passing_on.abort();
        closer.send_replace(Stop::Now);
        let admitted = match admission {
            Some(task) => Some(finish_admission(task, &env).await),
            None => None,
        };
        (ending, admitted)
    }
}

/// Passes on what a session is told.
async fn pass_on(mut told: watch::Receiver<Stop>, to: watch::Sender<Stop>) {
    loop {
        let stop = *told.borrow_and_update();
        to.send_replace(stop);
        if told.changed().await.is_err() {
            return;
        }
    }
}

async fn finish_admission(mut task: tokio::task::JoinHandle<Admitted>, env: &Env) -> Admitted {
    let nothing = |outcome| Admitted { source: None, last: 0, news: News::default(), outcome };
    // A read from a terminal or a pipe may never return; it must not hold the process.
    tokio::select! {
        joined = &mut task => joined.unwrap_or_else(|panic| {
            let cause = std::io::Error::other(format!("admission broke: {panic}"));
            nothing(Err(AdmitError::Source(SourceError { what: "the source".to_owned(), cause })))
        }),
        () = env.clock.sleep(Duration::from_millis(500)) => nothing(Ok(())),
    }
}

fn told(outcome: Result<(), AdmitError>) -> Result<(), Error> {
    match outcome {
        Ok(()) => Ok(()),
        Err(AdmitError::Source(error)) => Err(Error::internal(error.to_string())
            .hint("what was read before is admitted; the same command goes on once the source can be read")),
        Err(AdmitError::Store(error)) => Err(error.into()),
    }
}

/// The first signal drains, the second breaks off; a closed terminal is as good as a word to stop.
async fn listen(teller: watch::Sender<Stop>) {
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
        teller.send_replace(told);
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
