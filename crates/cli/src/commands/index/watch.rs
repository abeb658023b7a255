//! `redrive index --watch`: stays, and follows changes of files and retries that fall due.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use redrive_core::status::RunStatus;
use redrive_operate::Error;
use redrive_operate::index::{Indexer, Pass};
use tokio::sync::{Notify, watch};

use super::{Ended, summary};
use crate::args::IndexArgs;
use crate::commands::Context;
use crate::commands::signals::Signals;
use crate::commands::work::Watching;
use crate::exit;
use crate::output::note;
use crate::output::text::safe;
use crate::wiring;

/// Old passes are forgotten after so many new ones.
const TIDY_EVERY: u32 = 20;
/// A burst of changes is waited out this long.
const SETTLE: Duration = Duration::from_millis(300);
/// Everything is looked at once in a while, whatever was heard.
const SWEEP: Duration = Duration::from_secs(60);
/// The same where changes cannot be heard of.
const SWEEP_DEAF: Duration = Duration::from_secs(5);

/// Indexes, and stays until told to stop.
pub(super) async fn stay(
    context: &Context,
    args: &IndexArgs,
    indexer: &mut Indexer<'_>,
) -> Result<Ended, Error> {
    let ear = Arc::new(Ear::default());
    let own = own_files(context)?;
    // It hears for as long as it is kept.
    let _watcher = listen(indexer.directory(), &ear, own)
        .inspect_err(|error| ear.deafen(error).into_iter().for_each(|told| context.say(&told)));
    // One listener for as long as it watches: whenever the word comes, it is heard.
    let (teller, told) = watch::channel(false);
    let listener = tokio::spawn(stop(teller));
    let ended = Watch { context, args, indexer, ear: &ear, told }.follow().await;
    listener.abort();
    ended
}

/// A directory that is watched.
struct Watch<'a, 'f> {
    context: &'a Context,
    args: &'a IndexArgs,
    indexer: &'a mut Indexer<'f>,
    ear: &'a Ear,
    told: watch::Receiver<bool>,
}

impl Watch<'_, '_> {
    /// Passes until told to stop.
    async fn follow(mut self) -> Result<Ended, Error> {
        let (mut first, mut last) = (true, None);
        let mut passes = 0_u32;
        loop {
            if let Some(pass) = self.pass(first).await? {
                if passes.is_multiple_of(TIDY_EVERY) {
                    self.tidy().await;
                }
                passes = passes.wrapping_add(1);
                if pass.worked.interrupted || *self.told.borrow() {
                    return Ok(Ended::of(RunStatus::Interrupted, Some(pass.worked.report)));
                }
                if first || has_news(&pass) {
                    summary::tell(self.context, self.args, self.indexer, &pass).await?;
                }
                let status = pass.worked.report.status;
                last = Some(pass.worked.report);
                if exit::is_paused(status) {
                    return Ok(Ended::of(status, last));
                }
            }
            if first {
                self.context.say("watching; Ctrl-C ends it");
                first = false;
            }
            let due = self.indexer.due_in().await?;
            let sweep = self.ear.sweep();
            let wait = due.map_or(sweep, |due| due.min(sweep)).max(SETTLE);
            tokio::select! {
                () = rest(self.context, &self.ear.changed, wait) => {}
                _ = self.told.wait_for(|told| *told) => {}
            }
            if *self.told.borrow() {
                return Ok(Ended::of(RunStatus::Interrupted, last));
            }
        }
    }

    /// Works on what there is to do; `None` when there is nothing. What goes wrong once it watches may pass: the directory is
    /// away for a moment, the store is busy.
    async fn pass(&mut self, first: bool) -> Result<Option<Pass>, Error> {
        let watching = Watching::of(self.context);
        if first {
            return self.indexer.pass(self.args.retry_refused, &watching).await.map(Some);
        }
        Ok(self.indexer.pass_if_news(&watching).await.unwrap_or_else(|error| {
            note(&format!("warning: {}; trying again", safe(&error.message)));
            None
        }))
    }

    /// Keeps the store small. That it fails is no reason to stop watching.
    async fn tidy(&self) {
        if let Err(error) = self.indexer.tidy().await {
            note(&format!("warning: old passes could not be forgotten: {error}"));
        }
    }
}

/// Waits for a change, or so long, and for the end of a burst.
async fn rest(context: &Context, changed: &Notify, most: Duration) {
    tokio::select! {
        () = changed.notified() => {}
        () = context.env.clock.sleep(most) => {}
    }
    context.env.clock.sleep(SETTLE).await;
}

/// How the names of the store's own files begin.
fn own_files(context: &Context) -> Result<PathBuf, Error> {
    let store = wiring::store_path(&context.global.store)?;
    Ok(std::fs::canonicalize(&store).unwrap_or(store))
}

/// Whether a pass did something worth telling.
fn has_news(pass: &Pass) -> bool {
    pass.tally.changed + pass.tally.gone > 0 || pass.worked.report.status != RunStatus::Completed
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
    let Ok(mut signals) = Signals::listen() else { return };
    signals.next().await;
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
