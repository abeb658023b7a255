//! `redrive index --watch`: stays, and follows changes of files and retries that fall due.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use redrive_core::status::RunStatus;
use tokio::sync::{Notify, watch};

use super::{Pass, Passed, refusals, summary};
use crate::exit::{self, Failure};
use crate::output::note;
use crate::wiring::Shelf;

/// A burst of changes is waited out this long.
const SETTLE: Duration = Duration::from_millis(300);
/// Everything is looked at once in a while, whatever was heard.
const SWEEP: Duration = Duration::from_secs(60);
/// The same where changes cannot be heard of.
const SWEEP_DEAF: Duration = Duration::from_secs(5);

/// Indexes, and stays until told to stop.
pub(super) async fn stay(pass: &Pass<'_>) -> Result<ExitCode, Failure> {
    let changed = Arc::new(Notify::new());
    let own = own_files(pass)?;
    let watcher = listen(&pass.shelf.root, &changed, own);
    if let Err(error) = &watcher {
        pass.say(&format!("changes cannot be heard of ({error}); the directory is looked at every 5 s"));
    }
    let sweep = if watcher.is_ok() { SWEEP } else { SWEEP_DEAF };
    // One listener for as long as it watches: whenever the word comes, it is heard.
    let (teller, told) = watch::channel(false);
    let listener = tokio::spawn(stop(teller));
    let ended = follow(pass, &changed, told, sweep).await;
    listener.abort();
    ended
}

/// Passes until told to stop.
async fn follow(
    pass: &Pass<'_>,
    changed: &Notify,
    mut told: watch::Receiver<bool>,
    sweep: Duration,
) -> Result<ExitCode, Failure> {
    let mut first = true;
    loop {
        // What goes wrong once it watches may pass: the directory is away for a moment, the store is busy.
        let passed = match news(pass, first).await {
            Ok(passed) => passed,
            Err(failure) if !first => {
                note(&format!("warning: {}; trying again", crate::output::text::safe(failure.message())));
                None
            }
            Err(failure) => return Err(failure),
        };
        if let Some(passed) = passed {
            if passed.worked.interrupted || *told.borrow() {
                return Ok(exit::of(RunStatus::Interrupted));
            }
            if first || has_news(&passed) {
                summary::tell(pass, &passed).await?;
            }
            let status = passed.worked.report.status;
            if matches!(
                status,
                RunStatus::PausedBudget
                    | RunStatus::PausedQuota
                    | RunStatus::PausedOutage
                    | RunStatus::Paused
            ) {
                return Ok(exit::of(status));
            }
        }
        if first {
            pass.say("watching; Ctrl-C ends it");
            first = false;
        }
        let due = pass.due_in().await?;
        let wait = due.map_or(sweep, |due| due.min(sweep)).max(SETTLE);
        tokio::select! {
            () = rest(pass, changed, wait) => {}
            _ = told.wait_for(|told| *told) => {}
        }
        if *told.borrow() {
            return Ok(exit::of(RunStatus::Interrupted));
        }
    }
}

/// Works on what there is to do; `None` when there is nothing.
async fn news(pass: &Pass<'_>, first: bool) -> Result<Option<Passed>, Failure> {
    // Opened anew each time: somebody may have made the index anew meanwhile.
    let now = pass.context.env.clock.now();
    let shelf = Shelf::open(pass.definition, pass.root, &pass.stores.index, now).await?;
    let shelf = shelf.ok_or_else(|| Failure::internal("the pipeline of an index makes none"))?;
    let pass = &Pass { shelf: &shelf, ..*pass };
    refusals::remember(pass.stores, pass.shelf, pass.root).await?;
    let mut files = pass.files(first && pass.args.retry_refused).await?;
    let looked = tokio::task::spawn_blocking(move || {
        let news = files.has_news();
        (files, news)
    });
    let (files, news) =
        looked.await.map_err(|error| Failure::internal(format!("the walk broke: {error}")))?;
    let news = news.map_err(|error| Failure::internal(error.to_string()))?;
    if !first && !news && pass.due_in().await?.is_none_or(|due| !due.is_zero()) {
        return Ok(None);
    }
    pass.run(files).await.map(Some)
}

/// Waits for a change, or so long, and for the end of a burst.
async fn rest(pass: &Pass<'_>, changed: &Notify, most: Duration) {
    tokio::select! {
        () = changed.notified() => {}
        () = pass.context.env.clock.sleep(most) => {}
    }
    pass.context.env.clock.sleep(SETTLE).await;
}

/// How the names of the store's own files begin.
fn own_files(pass: &Pass<'_>) -> Result<PathBuf, Failure> {
    let store = crate::wiring::store_path(&pass.context.global.store)?;
    Ok(std::fs::canonicalize(&store).unwrap_or(store))
}

/// Whether a pass did something worth telling.
fn has_news(passed: &Passed) -> bool {
    passed.tally.changed + passed.tally.gone > 0 || passed.worked.report.status != RunStatus::Completed
}

fn listen(root: &Path, changed: &Arc<Notify>, own: PathBuf) -> notify::Result<notify::RecommendedWatcher> {
    let bell = changed.clone();
    let own = own.into_os_string();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let is_own = |path: &PathBuf| path.as_os_str().as_encoded_bytes().starts_with(own.as_encoded_bytes());
        match event {
            Ok(event)
                if event.kind.is_access() || (!event.paths.is_empty() && event.paths.iter().all(is_own)) => {}
            Ok(_) => bell.notify_one(),
            Err(error) => note(&format!("warning: {error}")),
        }
    })?;
    watcher.watch(root, RecursiveMode::Recursive)?;
    Ok(watcher)
}

/// Tells when somebody says to stop.
async fn stop(teller: watch::Sender<bool>) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    teller.send_replace(true);
}
