//! `redrive index --watch`: stays, and follows changes of files and retries that fall due.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use redrive_core::status::RunStatus;
use redrive_engine::maintain;
use redrive_operate::Error;
use tokio::sync::{Notify, watch};

use super::{Pass, Passed, refusals, summary};
use crate::exit;
use crate::output::note;
use crate::wiring::Shelf;

/// Passes of a directory that are kept, those with dead letters not counted: they stay until somebody says otherwise.
const PASSES: usize = 100;
/// Old passes are forgotten after so many new ones.
const TIDY_EVERY: u32 = 20;
/// Documents that are gone are forgotten so many at a time.
const GONE: usize = 1_000;
/// A burst of changes is waited out this long.
const SETTLE: Duration = Duration::from_millis(300);
/// Everything is looked at once in a while, whatever was heard.
const SWEEP: Duration = Duration::from_secs(60);
/// The same where changes cannot be heard of.
const SWEEP_DEAF: Duration = Duration::from_secs(5);

/// Indexes, and stays until told to stop.
pub(super) async fn stay(pass: &Pass<'_>) -> Result<ExitCode, Error> {
    let ear = Arc::new(Ear::default());
    let own = own_files(pass)?;
    // It hears for as long as it is kept.
    let _watcher = listen(&pass.shelf.root, &ear, own)
        .inspect_err(|error| ear.deafen(error).into_iter().for_each(|told| pass.say(&told)));
    // One listener for as long as it watches: whenever the word comes, it is heard.
    let (teller, told) = watch::channel(false);
    let listener = tokio::spawn(stop(teller));
    let ended = follow(pass, &ear, told).await;
    listener.abort();
    ended
}

/// Passes until told to stop.
async fn follow(pass: &Pass<'_>, ear: &Ear, mut told: watch::Receiver<bool>) -> Result<ExitCode, Error> {
    let mut first = true;
    let mut passes = 0_u32;
    loop {
        // What goes wrong once it watches may pass: the directory is away for a moment, the store is busy.
        let passed = match news(pass, first).await {
            Ok(passed) => passed,
            Err(failure) if !first => {
                note(&format!("warning: {}; trying again", crate::output::text::safe(&failure.message)));
                None
            }
            Err(failure) => return Err(failure),
        };
        if passed.is_some() {
            if passes.is_multiple_of(TIDY_EVERY) {
                tidy(pass).await;
            }
            passes = passes.wrapping_add(1);
        }
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
        let sweep = ear.sweep();
        let wait = due.map_or(sweep, |due| due.min(sweep)).max(SETTLE);
        tokio::select! {
            () = rest(pass, &ear.changed, wait) => {}
            _ = told.wait_for(|told| *told) => {}
        }
        if *told.borrow() {
            return Ok(exit::of(RunStatus::Interrupted));
        }
    }
}

/// Keeps the store small: a pass is a run, and a directory that is worked in makes thousands a day. It is no reason to stop
/// watching.
async fn tidy(pass: &Pass<'_>) {
    let Pass { stores, definition, root, .. } = pass;
    let tidied = async {
        maintain::keep_last(&*stores.store, &definition.name, root, PASSES).await?;
        stores.index.drop_gone_docs(GONE).await
    };
    if let Err(error) = tidied.await {
        note(&format!("warning: old passes could not be forgotten: {error}"));
    }
}

/// Works on what there is to do; `None` when there is nothing.
async fn news(pass: &Pass<'_>, first: bool) -> Result<Option<Passed>, Error> {
    // Opened anew each time: somebody may have made the index anew meanwhile.
    let now = pass.context.env.clock.now();
    let shelf = Shelf::open(pass.definition, pass.root, &pass.stores.index, now).await?;
    let shelf = shelf.ok_or_else(|| Error::internal("the pipeline of an index makes none"))?;
    let pass = &Pass { shelf: &shelf, ..*pass };
    refusals::remember(pass.stores, pass.shelf, pass.root).await?;
    let mut files = pass.files(first && pass.args.retry_refused).await?;
    let looked = tokio::task::spawn_blocking(move || {
        let news = files.has_news();
        (files, news)
    });
    let (files, news) = looked.await.map_err(|error| Error::internal(format!("the walk broke: {error}")))?;
    let news = news.map_err(|error| Error::internal(error.to_string()))?;
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
fn own_files(pass: &Pass<'_>) -> Result<PathBuf, Error> {
    let store = crate::wiring::store_path(&pass.context.global.store)?;
    Ok(std::fs::canonicalize(&store).unwrap_or(store))
}

/// Whether a pass did something worth telling.
fn has_news(passed: &Passed) -> bool {
    passed.tally.changed + passed.tally.gone > 0 || passed.worked.report.status != RunStatus::Completed
}

/// What is heard of changes.
#[derive(Debug, Default)]
struct Ear {
    /// Rings when something changed.
    changed: Notify,
    /// Whether some changes cannot be heard of.
    deaf: AtomicBool,
}

impl Ear {
    /// How long nothing may be heard of before everything is looked at.
    fn sweep(&self) -> Duration {
        if self.deaf.load(Ordering::SeqCst) { SWEEP_DEAF } else { SWEEP }
    }

    /// Takes in what the system says; returns what people should be told.
    fn hear(&self, event: notify::Result<notify::Event>, own: &OsStr) -> Option<String> {
        let is_own = |path: &PathBuf| path.as_os_str().as_encoded_bytes().starts_with(own.as_encoded_bytes());
        match event {
            Ok(event)
                if event.kind.is_access() || (!event.paths.is_empty() && event.paths.iter().all(is_own)) =>
            {
                None
            }
            Ok(_) => {
                self.changed.notify_one();
                None
            }
            Err(error) => self.deafen(&error),
        }
    }

    /// From now on some changes are not heard of. It is told once: a large directory has a thousand such errors.
    fn deafen(&self, error: &notify::Error) -> Option<String> {
        let was_deaf = self.deaf.swap(true, Ordering::SeqCst);
        // Whoever rests for a minute would not look earlier.
        self.changed.notify_one();
        let why = match error.kind {
            notify::ErrorKind::MaxFilesWatch => {
                "there are more directories than may be watched; `sysctl fs.inotify.max_user_watches` says how many, and \
                 a higher number hears of changes at once"
                    .to_owned()
            }
            _ => format!("not every change can be heard of ({error})"),
        };
        (!was_deaf).then(|| format!("{why}; everything is looked at every {} s", SWEEP_DEAF.as_secs()))
    }
}

fn listen(root: &Path, ear: &Arc<Ear>, own: PathBuf) -> notify::Result<notify::RecommendedWatcher> {
    let (ear, own) = (ear.clone(), own.into_os_string());
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if let Some(told) = ear.hear(event, &own) {
            note(&format!("warning: {told}"));
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

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, EventKind};

    use super::*;

    fn full() -> notify::Result<notify::Event> {
        Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch))
    }

    /// Tells whether the bell has been rung.
    async fn rings(ear: &Ear) -> bool {
        tokio::select! {
            biased;
            () = ear.changed.notified() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[test]
    fn the_limit_of_watches_is_told_once_and_has_everything_looked_at_every_5_s() {
        let (ear, own) = (Ear::default(), OsStr::new("/store"));
        assert_eq!(ear.sweep(), SWEEP);
        let told: Vec<String> = (0..1_000).filter_map(|_| ear.hear(full(), own)).collect();
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("fs.inotify.max_user_watches") && told[0].contains("every 5 s"), "{told:?}");
        assert_eq!(ear.sweep(), Duration::from_secs(5));
    }

    #[tokio::test]
    async fn changes_of_others_are_heard_and_those_of_the_store_are_not() {
        let created =
            |path: &str| Ok(notify::Event::new(EventKind::Create(CreateKind::File)).add_path(path.into()));
        let (ear, own) = (Ear::default(), OsStr::new("/store"));
        assert_eq!(ear.hear(created("/store-wal"), own), None);
        assert!(!rings(&ear).await);
        assert_eq!(ear.hear(created("/file"), own), None);
        assert!(rings(&ear).await);
        ear.hear(full(), own);
        assert!(rings(&ear).await, "what was missed is looked for at once");
    }
}
