//! Works on a run: admission, calls, progress, and the report at the end.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::status::RunStatus;
use redrive_engine::admit::{Admission, AdmitError};
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_engine::report::{RunReport, Wanted, run_report};
use redrive_engine::source::Source;
use redrive_engine::worker::{Ending, Session, Settings, Stop};
use redrive_store::{RunRow, Store};
use tokio::sync::{Notify, watch};

use super::{Answer, Context};
use crate::args::WorkArgs;
use crate::exit::{self, Failure};
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
pub fn results_target(args: &WorkArgs, guard: Guard) -> Result<Option<Target>, Failure> {
    let asked = args.results.as_ref();
    asked.map(|path| Target::look("--results", path, Existing::Replaced, guard)).transpose()
}

/// Writes the results of runs; `false` when some had to be left out.
pub async fn write_results(
    context: &Context,
    store: &dyn Store,
    runs: &[RunId],
    target: &Target,
) -> Result<bool, Failure> {
    let mut written = Written::default();
    let done = async {
        let mut sink = target.open().await?;
        for run in runs {
            written.all(store, *run, &Wanted::Succeeded, Form::Lines, &mut sink).await?;
        }
        sink.finish()
    };
    let ids: Vec<String> = runs.iter().map(|run| format!("`redrive results {run} -o FILE`")).collect();
    done.await.map_err(|failure: Failure| {
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
pub fn tell(context: &Context, report: &RunReport) -> Result<ExitCode, Failure> {
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

/// Works on a run until it ends.
pub async fn work_quietly(context: &Context, work: Work, args: &WorkArgs) -> Result<Worked, Failure> {
    let Work { store, row, mut recipe, source } = work;
    let paused = Duration::from_millis(u64::try_from(row.pause.before_ms).unwrap_or(0));
    recipe.plan = recipe.plan.with_grace(paused);
    let recipe = Arc::new(recipe);
    let admitting = Arc::new(AtomicBool::new(source.is_some()));
    let env = context.env.clone();
    let wake = Arc::new(Notify::new());
    let (teller, stop) = watch::channel(Stop::No);
    let signals = tokio::spawn(listen(teller.clone()));
    let progress = Progress::follow(store.clone(), row.id, &recipe, env.clone(), context.global.quiet);
    let admission = source.map(|source| {
        let admission = Admission {
            store: store.clone(),
            recipe: recipe.clone(),
            env: env.clone(),
            run: row.id,
            wake: wake.clone(),
            admitting: admitting.clone(),
            stop: stop.clone(),
        };
        let teller = teller.clone();
        tokio::spawn(async move {
            let admitted = admission.admit(source).await;
            if admitted.is_err() {
                // Nobody will say that the source is at its end: finish what is there.
                teller.send_replace(Stop::Drain);
            }
            admitted
        })
    });
    let settings = Settings { lease: args.lease, max_wait: args.max_wait, ..Settings::default() };
    let session = Session {
        store: store.clone(),
        recipe: recipe.clone(),
        env: env.clone(),
        settings,
        wake,
        admitting,
        stop: stop.clone(),
    };
    let ending = session.work(row.clone()).await;
    // What is still being read now is read again next time.
    teller.send_replace(Stop::Now);
    let admitted = match admission {
        Some(task) => finish_admission(task, &env).await,
        None => Ok(()),
    };
    drop(progress);
    signals.abort();
    let ending = ending?;
    admitted?;
    let row = store.run(row.id).await?.unwrap_or(row);
    let mut report = run_report(&*store, &row, &recipe.plan, recipe.thresholds, env.clock.now()).await?;
    let interrupted = ending == Ending::Stopped;
    match ending {
        Ending::Stopped => report.status = RunStatus::Interrupted,
        Ending::Waiting { .. } => report.status = RunStatus::PartiallyCompleted,
        Ending::Finished | Ending::Halted(_) => {}
    }
    Ok(Worked { report, interrupted })
}

async fn finish_admission(
    mut task: tokio::task::JoinHandle<Result<(), AdmitError>>,
    env: &Env,
) -> Result<(), Failure> {
    // A read from a terminal or a pipe may never return; it must not hold the process.
    let joined = tokio::select! {
        joined = &mut task => Some(joined),
        () = env.clock.sleep(Duration::from_millis(500)) => None,
    };
    match joined {
        Some(Ok(Err(AdmitError::Source(error)))) => Err(Failure::internal(error.to_string())
            .hint("what was read before is admitted; the same command goes on once the source can be read")),
        Some(Ok(Err(AdmitError::Store(error)))) => Err(error.into()),
        Some(Ok(Ok(()))) | None => Ok(()),
        Some(Err(panic)) => Err(Failure::internal(format!("admission broke: {panic}"))),
    }
}

/// The first signal drains, the second breaks off.
async fn listen(teller: watch::Sender<Stop>) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    for told in [Stop::Drain, Stop::Now] {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        teller.send_replace(told);
        if told == Stop::Drain {
            note("stopping: what runs is finished and recorded; once more breaks it off");
        }
    }
}
