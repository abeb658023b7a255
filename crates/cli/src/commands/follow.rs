//! Staying: hearing of changes, waiting, and being told to stop.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use redrive_operate::Error;
use tokio::sync::{Notify, watch};

use super::Context;
use super::signals::Signals;
use crate::output::note;
use crate::wiring;

/// Old passes are forgotten after so many new ones.
pub const TIDY_EVERY: u32 = 20;
/// A burst of changes is waited out this long.
const SETTLE: Duration = Duration::from_millis(300);
/// Everything is looked at once in a while, whatever was heard.
const SWEEP: Duration = Duration::from_secs(60);
/// The same where changes cannot be heard of.
const SWEEP_DEAF: Duration = Duration::from_secs(5);

/// Waits for a change, or so long, and for the end of a burst.
pub async fn rest(context: &Context, ear: &Ear, most: Duration) {
    tokio::select! {
        () = ear.changed.notified() => {}
        () = context.env.clock.sleep(most) => {}
    }
    context.env.clock.sleep(SETTLE).await;
}

/// How the names of the store's own files begin.
pub fn own_files(context: &Context) -> Result<PathBuf, Error> {
    let store = wiring::store_path(&context.global.store)?;
    Ok(std::fs::canonicalize(&store).unwrap_or(store))
}

/// How long to wait when the next thing is due then.
pub fn wait_for(due: Option<Duration>, ear: &Ear) -> Duration {
    let sweep = ear.sweep();
    due.map_or(sweep, |due| due.min(sweep)).max(SETTLE)
}

/// What is heard of changes.
#[derive(Debug, Default)]
pub struct Ear {
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
    pub fn deafen(&self, error: &notify::Error) -> Option<String> {
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

/// A place that is listened to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Where.
    pub path: PathBuf,
    /// Whether everything below it counts as well.
    pub below: bool,
}

/// Hears of changes at these places, for as long as what it answers with is kept.
pub fn listen(places: &[Heard], ear: &Arc<Ear>, own: PathBuf) -> notify::Result<notify::RecommendedWatcher> {
    let (ear, own) = (ear.clone(), own.into_os_string());
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if let Some(told) = ear.hear(event, &own) {
            note(&format!("warning: {told}"));
        }
    })?;
    for Heard { path, below } in places {
        watcher.watch(path, if *below { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive })?;
    }
    Ok(watcher)
}

/// Tells when somebody says to stop.
pub async fn stop(teller: watch::Sender<bool>) {
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
