//! Works on a run: admission, calls, progress, and the report at the end.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive_core::status::RunStatus;
use redrive_engine::admit::{Admission, AdmitError};
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_engine::report::{RunReport, run_report, write_results};
use redrive_engine::source::Source;
use redrive_engine::worker::{Ending, Session, Settings, Stop};
use redrive_store::{RunRow, Store};
use tokio::sync::{Notify, watch};

use super::{Answer, Context};
use crate::args::WorkArgs;
use crate::exit::{self, Failure};
use crate::output::progress::Progress;
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
pub async fn work(context: &Context, work: Work, args: &WorkArgs) -> Answer {
    let store = work.store.clone();
    let worked = work_quietly(context, work, args).await?;
    if let Some(path) = &args.results {
        let written = write_results(&*store, worked.report.run, path).await.map_err(|error| {
            Failure::internal(format!("cannot write results to {}: {error}", path.display()))
                .hint("the run itself is recorded; `redrive resume RUN --results FILE` writes them again")
        })?;
        if !context.global.quiet {
            note(&format!("{written} results in {}", path.display()));
        }
    }
    tell(context, &worked.report)?;
    Ok(if worked.interrupted { exit::of(RunStatus::Interrupted) } else { exit::of(worked.report.status) })
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
