//! Opens runs for the roster of a simulated worker, each a task of the simulation.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::id::{RunId, WorkerId};
use redrive_core::time::{Timestamp, millis};
use redrive_engine::worker::{Ending, Host, Mates, Pulse, Settings, Stop, Workplace, work};
use redrive_store::{Error, Has, OpenRun};

use crate::driver::SimDriver;
use crate::hub::TaskId;
use crate::met::Met;
use crate::worker::Worker;

/// How runs ended that nobody has heard of yet.
type Ended = Arc<Mutex<VecDeque<(RunId, Result<Ending, Error>)>>>;

/// Opens runs for one worker.
pub struct SimHost {
    worker: Worker,
    settings: Settings,
    pulse: Pulse,
    beat: TaskId,
    closing: BTreeMap<RunId, Arc<AtomicBool>>,
    ended: Ended,
}

impl Drop for SimHost {
    fn drop(&mut self) {
        self.worker.hub.kill(self.beat);
    }
}

impl SimHost {
    /// Opens runs for a worker that is registered.
    #[must_use]
    pub fn new(worker: Worker, settings: Settings, pulse: Pulse) -> Self {
        let beat = worker.hub.spawn(Box::pin(pulse.clone().beat()));
        Self { worker, settings, pulse, beat, closing: BTreeMap::new(), ended: Ended::default() }
    }
}

#[async_trait]
impl Host for SimHost {
    fn worker(&self) -> WorkerId {
        self.pulse.worker()
    }

    fn stop(&mut self) -> Stop {
        self.worker.orders.stop()
    }

    fn takes(&mut self, run: &OpenRun, _now: Timestamp) -> bool {
        // The source is read elsewhere: only whoever sits beside it waits for more of it.
        run.has != Has::Source || self.worker.admitting.load(Ordering::SeqCst)
    }

    fn open(&mut self, run: OpenRun, mates: Mates) {
        let (id, ended) = (run.row.id, self.ended.clone());
        let closing = Arc::new(AtomicBool::new(false));
        self.closing.insert(id, closing.clone());
        let driver = SimDriver::among(self.worker.clone(), self.pulse.clone(), closing);
        let at = Workplace {
            store: Arc::new(self.worker.store.clone()),
            recipe: self.worker.recipe.clone(),
            env: self.worker.env.clone(),
            settings: self.settings.clone(),
            mates: Some(mates),
        };
        self.worker.hub.meet(Met::Roster);
        // A desk that is opened anew counts its lanes anew.
        self.worker.store.oracle().forget_windows();
        self.worker.hub.spawn(Box::pin(async move {
            let ending = work(at, driver, run.row).await;
            ended.lock().unwrap_or_else(PoisonError::into_inner).push_back((id, ending));
        }));
    }

    fn close(&mut self, run: RunId) {
        self.closing
            .iter()
            .filter(|(of, _)| **of == run)
            .for_each(|(_, flag)| flag.store(true, Ordering::SeqCst));
    }

    fn ended(&mut self) -> Option<(RunId, Result<Ending, Error>)> {
        let (run, ending) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        self.closing.remove(&run);
        match &ending {
            Ok(Ending::Waiting { .. }) => self.worker.hub.meet(Met::WaitsNoLonger),
            Ok(_) => {}
            Err(_) => self.worker.hub.meet(Met::GaveUp),
        }
        Some((run, ending))
    }

    async fn wait(&mut self, at_most: Duration) {
        // A run that ended is heard of soon, though not at once.
        let soon = self.worker.pace.tick / 4;
        self.worker.hub.sleep(millis(at_most).clamp(1, soon.max(1))).await;
    }
}
