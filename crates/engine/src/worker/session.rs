//! Working on one run with tokio: calls are tasks, answers come through a channel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::id::WorkerId;
use redrive_store::{Error, RunRow, Store};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;

use super::desk::{Call, CallId};
use super::driver::{Driver, Stop};
use super::execute::execute;
use super::heartbeat::Pulse;
use super::run_loop::{Ending, Settings, Workplace, work};
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
}

impl Session {
    /// Works on `run` until it ends. The handlers stay open: its source may have changed, and the work goes on;
    /// [`Recipe::close`] ends them.
    ///
    /// # Errors
    /// When the store fails and stays so for longer than the settings' patience.
    pub async fn work(self, run: RunRow) -> Result<Ending, Error> {
        let Self { store, recipe, env, settings, wake, admitting, stop } = self;
        let name = format!("{} on {}", settings.name, run.id);
        let pulse = Pulse::begin(store.clone(), env.clone(), name, vec![run.id], settings.lease).await?;
        let beat = tokio::spawn(pulse.clone().beat()).abort_handle();
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
        };
        work(Workplace { store, recipe, env, settings }, driver, run).await
    }
}

/// Calls as tasks of their own.
struct Tasks {
    pulse: Pulse,
    beat: AbortHandle,
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
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.beat.abort();
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

    async fn breathe(&mut self) {
        tokio::task::yield_now().await;
    }
}
