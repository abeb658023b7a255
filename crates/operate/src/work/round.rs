//! One round of work: the source is read and what is there is worked on, side by side.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive_engine::admit::{Admission, AdmitError, Admitted, News, Pace, Part};
use redrive_engine::env::Env;
use redrive_engine::journal;
use redrive_engine::recipe::Recipe;
use redrive_engine::source::{Source, SourceError};
use redrive_engine::worker::{Among, Ending, Session, Settings, Stop};
use redrive_store::{RunRow, Store};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::WorkSettings;

/// How long a read from a terminal or a pipe, which may never return, is waited for at the end.
const PATIENCE: Duration = Duration::from_millis(500);

/// Work on a run until nothing is left, or it has to stop.
pub(super) struct Round<'a> {
    /// The last reading of the source that is known here.
    pub(super) last: u32,
    pub(super) store: &'a Arc<dyn Store>,
    pub(super) env: &'a Env,
    pub(super) row: &'a RunRow,
    pub(super) recipe: &'a Arc<Recipe>,
    pub(super) settings: WorkSettings,
    pub(super) stop: &'a watch::Sender<Stop>,
    pub(super) stopped: &'a watch::Receiver<Stop>,
    /// The worker that has other runs open, too.
    pub(super) among: Option<&'a Among>,
    /// Which part of the source is admitted.
    pub(super) part: Option<&'a Arc<Part>>,
}

impl Round<'_> {
    pub(super) async fn work(
        &self,
        source: Option<Box<dyn Source>>,
    ) -> (redrive_store::Result<Ending>, Option<Admitted>) {
        journal::run_begins(self.row);
        let admitting = Arc::new(AtomicBool::new(source.is_some()));
        let wake = self.among.map_or_else(Arc::default, |among| among.rings.of(self.row.id));
        // Reading ends with the session, and for nobody else's sake.
        let (closer, closing) = watch::channel(Stop::No);
        let looks_again = source.is_some();
        let admission = source.map(|source| {
            let admission = Admission {
                store: self.store.clone(),
                recipe: self.recipe.clone(),
                env: self.env.clone(),
                run: self.row.id,
                last: self.last,
                wake: wake.clone(),
                admitting: admitting.clone(),
                stop: closing,
                pace: Pace::Working,
                part: self.part.cloned(),
            };
            self.admit(admission, source)
        });
        let passing_on = tokio::spawn(pass_on(self.stopped.clone(), closer.clone()));
        let WorkSettings { lease, max_wait, answers_within, full_disk } = self.settings;
        let settings =
            Settings { lease, max_wait, answers_within, full_disk, looks_again, ..Settings::default() };
        let session = Session {
            store: self.store.clone(),
            recipe: self.recipe.clone(),
            env: self.env.clone(),
            settings,
            wake,
            admitting,
            stop: self.stopped.clone(),
            among: self.among.cloned(),
        };
        let ending = session.work(self.row.clone()).await;
        // What is still being read now is read again next time.
        passing_on.abort();
        closer.send_replace(Stop::Now);
        let admitted = match admission {
            Some(task) => Some(finish_admission(task, self.env).await),
            None => None,
        };
        (ending, admitted)
    }

    fn admit(&self, admission: Admission, source: Box<dyn Source>) -> JoinHandle<Admitted> {
        let stop = self.stop.clone();
        tokio::spawn(async move {
            let admitted = admission.admit(source).await;
            if admitted.outcome.is_err() {
                // Nobody will say that the source is at its end: finish what is there.
                stop.send_if_modified(|stop| {
                    let drains = *stop == Stop::No;
                    *stop = (*stop).max(Stop::Drain);
                    drains
                });
            }
            admitted
        })
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

async fn finish_admission(mut task: JoinHandle<Admitted>, env: &Env) -> Admitted {
    let nothing = |outcome| Admitted { source: None, last: 0, news: News::default(), outcome };
    // A read from a terminal or a pipe may never return; it must not hold the process.
    tokio::select! {
        joined = &mut task => joined.unwrap_or_else(|panic| {
            let cause = std::io::Error::other(format!("admission broke: {panic}"));
            nothing(Err(AdmitError::Source(SourceError { what: "the source".to_owned(), cause })))
        }),
        () = env.clock.sleep(PATIENCE) => nothing(Ok(())),
    }
}
