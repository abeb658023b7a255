//! Which processes of a simulated machine still live.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_engine::env::Processes;

use crate::hub::Hub;
use crate::met::Met;

/// The processes of a run: how often each was started, and whether it lives.
#[derive(Debug, Default)]
pub struct Lives(Mutex<BTreeMap<usize, (u32, bool)>>);

impl Lives {
    fn all(&self) -> MutexGuard<'_, BTreeMap<usize, (u32, bool)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process comes up; gives how many there were in this slot before.
    pub fn begin(&self, slot: usize) -> u32 {
        let mut all = self.all();
        let life = all.entry(slot).or_default();
        *life = (life.0 + 1, true);
        life.0
    }

    /// A process is no more.
    pub fn end(&self, slot: usize) {
        self.all().entry(slot).or_default().1 = false;
    }

    fn is_gone(&self, slot: usize, life: u32) -> bool {
        self.all().get(&slot).is_some_and(|(now, lives)| *now != life || !lives)
    }
}

/// The machine as one process sees it. Processes in slots of the same parity share one.
pub struct Machine {
    hub: Arc<Hub>,
    lives: Arc<Lives>,
    slot: usize,
    /// How this process is described; empty where the system does not say.
    identity: String,
}

impl Machine {
    /// The machine of the process that just came up in this slot.
    #[must_use]
    pub fn new(hub: &Arc<Hub>, lives: &Arc<Lives>, slot: usize) -> Self {
        let life = lives.begin(slot);
        let identity = if hub.rng.permille(500) { format!("{slot} {life}") } else { String::new() };
        Self { hub: hub.clone(), lives: lives.clone(), slot, identity }
    }
}

impl Processes for Machine {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn is_gone(&self, identity: &str) -> bool {
        let mut numbers = identity.split(' ').map(str::parse);
        let (Some(Ok(slot)), Some(Ok(life))) = (numbers.next(), numbers.next()) else { return false };
        let slot: usize = slot;
        let gone = slot % 2 == self.slot % 2 && self.lives.is_gone(slot, u32::try_from(life).unwrap_or(0));
        if gone {
            self.hub.meet(if slot == self.slot { Met::RetiredLost } else { Met::NeighbourLost });
        }
        gone
    }
}

/// For those who look after no other process.
pub struct Alone;

impl Processes for Alone {
    fn identity(&self) -> String {
        String::new()
    }

    fn is_gone(&self, _identity: &str) -> bool {
        false
    }
}
