//! Working on one run with tokio: calls are tasks, answers come through a channel.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::id::{RunId, WorkerId};
use redrive_store::{Error, RunRow, Store};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;

use super::desk::{Call, CallId};
use super::driver::{Driver, Stop};
use super::execute::execute;
use super::heartbeat::Pulse;
use super::run_loop::{Ending, Mates, Settings, Workplace, work};
use crate::env::Env;
use crate::handler::Answer;
use crate::recipe::Recipe;

/// Work on one run.
pub struct Session {
    /// Where the items are.
    pub store: Arc<dyn Store>,
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// Clock and dice.
    pub env: Env,
    /// Behaviour.
    pub settings: Settings,
    /// Rings when items were submitted.
    pub wake: Arc<Notify>,
    /// Whether somebody here still reads the source.
    pub admitting: Arc<AtomicBool>,
    /// What the session is told to do.
    pub stop: watch::Receiver<Stop>,
    /// The worker that it is a part of, and its other runs; `None`: the session is a worker by itself.
    pub among: Option<Among>,
}

/// A worker that has other runs open, too.
#[derive(Clone)]
pub struct Among {
    /// What is shared with them.
    pub mates: Mates,
    /// The worker's lease.
    pub pulse: Pulse,
    /// Wakes them.
    pub rings: Rings,
}

/// Wakes the sessions of a worker. Clones are the same.
#[derive(Clone, Default)]
pub struct Rings(Arc<Mutex<BTreeMap<RunId, Arc<Notify>>>>);

impl Rings {
    /// What wakes the session of a run, from now on.
    #[must_use]
    pub fn of(&self, run: RunId) -> Arc<Notify> {
        self.lock().entry(run).or_default().clone()
    }

    /// The session of a run has ended.
    pub fn forget(&self, run: RunId) {
        self.lock().remove(&run);
    }

    fn ring(&self, run: RunId) {
        if let Some(wake) = self.lock().get(&run) {
            wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Works on `run` until it ends. The handlers stay open: its source may have changed, and the work goes on;
    /// [`Recipe::close`] ends them.
    ///
    /// # Errors
    /// When the store fails and stays so for longer than the settings' patience.
    pub async fn work(self, run: RunRow) -> Result<Ending, Error> {
        let Self { store, recipe, env, settings, wake, admitting, stop, among } = self;
        recipe.stages.iter().for_each(|work| work.handler.rings_for_room(&wake));
        let (pulse, beat) = match &among {
            Some(among) => (among.pulse.clone(), None),
            None => {
                let name = format!("{} on {}", settings.name, run.id);
                let runs = vec![run.id];
                let pulse = Pulse::begin(store.clone(), env.clone(), name, runs, settings.lease).await?;
                let beat = tokio::spawn(pulse.clone().beat()).abort_handle();
                (pulse, Some(beat))
            }
        };
        let (mates, rings) = among.map(|among| (among.mates, among.rings)).unzip();
        let (sender, replies) = mpsc::unbounded_channel();
        let driver = Tasks {
            pulse,
            beat,
            recipe: recipe.clone(),
            env: env.clone(),
            wake,
            admitting,
            stop,
            sender,
            replies,
            first: None,
            tasks: BTreeMap::new(),
            rings,
        };
        work(Workplace { store, recipe, env, settings, mates }, driver, run).await
    }
}

/// Calls as tasks of their own.
struct Tasks {
    pulse: Pulse,
    beat: Option<AbortHandle>,
    recipe: Arc<Recipe>,
    env: Env,
    wake: Arc<Notify>,
    admitting: Arc<AtomicBool>,
    stop: watch::Receiver<Stop>,
    sender: mpsc::UnboundedSender<(CallId, Answer)>,
    replies: mpsc::UnboundedReceiver<(CallId, Answer)>,
    /// The answer that ended a wait.
    first: Option<(CallId, Answer)>,
    tasks: BTreeMap<CallId, AbortHandle>,
    rings: Option<Rings>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.beat.iter().for_each(AbortHandle::abort);
    }
}

#[async_trait]
impl Driver for Tasks {
    fn worker(&self) -> WorkerId {
        self.pulse.worker()
    }

    fn stop(&mut self) -> Stop {
        *self.stop.borrow_and_update()
    }

    fn is_admitting(&self) -> bool {
        self.admitting.load(Ordering::SeqCst)
    }

    fn start(&mut self, call: Call) {
        let Some(work) = self.recipe.work(call.stage) else { return };
        let (id, handler) = (call.id, work.handler.clone());
        let task = tokio::spawn(execute(call, handler, self.env.clone(), self.sender.clone()));
        self.tasks.insert(id, task.abort_handle());
    }

    fn answered(&mut self) -> Option<(CallId, Answer)> {
        let (id, answer) = self.first.take().or_else(|| self.replies.try_recv().ok())?;
        self.tasks.remove(&id);
        Some((id, answer))
    }

    fn break_off(&mut self) {
        std::mem::take(&mut self.tasks).into_values().for_each(|task| task.abort());
    }

    async fn wait(&mut self, at_most: Duration) {
        tokio::select! {
            answer = self.replies.recv() => self.first = answer,
            () = self.wake.notified() => {}
            () = self.env.clock.sleep(at_most) => {}
            _ = self.stop.changed() => {}
        }
        // Answers come in swarms: one more turn for the others gathers more of them into one transaction.
        tokio::task::yield_now().await;
    }

    fn ring(&mut self, run: RunId) {
        self.rings.iter().for_each(|rings| rings.ring(run));
    }

    async fn breathe(&mut self) {
        tokio::task::yield_now().await;
    }
}
