//! Work on any number of runs: those that have something to do are opened, a bounded number at a time, each with a loop of its
//! own; they share the worker's lease, its gates and the places of its handlers.
//!
//! Most places are for the runs that go first (higher priority, then submitted earlier). The others take turns in the rest, so
//! that no run starves another. Which runs have something to do is asked of the store; nothing is remembered of the others,
//! however many they are.

mod fill;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::id::{RunId, WorkerId};
use redrive_core::pool::Rank;
use redrive_core::time::Timestamp;
use redrive_store::{Error, OpenRun, Retired, Store, WorkFilter, WorkPosition};

use super::driver::Stop;
use super::gate_set::GateSet;
use super::places::PlaceSet;
use super::run_loop::{Ending, Mates, leave_gates, tell_gates};
use crate::env::Env;
use crate::patience::{Limits, Patience};

/// How long a run is left alone that could not be gone on with.
const LEFT_ALONE: Duration = Duration::from_secs(2);
/// How often the worker's row is told which runs it works on.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// How a worker works on many runs.
#[derive(Debug, Clone)]
pub struct RosterSettings {
    /// Which runs it takes.
    pub filter: WorkFilter,
    /// Most runs that are open at a time.
    pub open: usize,
    /// Longest time between two looks at the store.
    pub tick: Duration,
    /// How soon it is seen that somebody wrote, where little is done here.
    pub glance: Duration,
    /// How long a store that does not answer is asked again before the worker gives up.
    pub patience: Duration,
    /// How long the same is done where the disk has no room.
    pub full_disk: Duration,
    /// Ends when nothing can be done now, nor within this; `None`: goes on until it is told to stop.
    pub until_idle: Option<Duration>,
    /// How many runs are looked at in one request to the store.
    pub looks: usize,
}

impl Default for RosterSettings {
    fn default() -> Self {
        Self {
            filter: WorkFilter::default(),
            open: 256,
            tick: Duration::from_secs(1),
            glance: Duration::from_millis(50),
            patience: Duration::from_secs(30),
            full_disk: Duration::from_secs(30),
            until_idle: None,
            looks: 2_000,
        }
    }
}

/// Opens runs and tells how they ended. The program does that with tasks, the simulation with its own.
#[async_trait]
pub trait Host: Send {
    /// The worker as it is registered now.
    fn worker(&self) -> WorkerId;

    /// What the worker is told to do. Open runs hear it by themselves.
    fn stop(&mut self) -> Stop;

    /// Whether something can be done about a run here: a source may be one that cannot be read from here.
    fn takes(&mut self, run: &OpenRun, now: Timestamp) -> bool;

    /// Opens a run. How it ends comes out of [`Host::ended`].
    fn open(&mut self, run: OpenRun, mates: Mates);

    /// Has an open run end soon: it records what it has under way, and its place goes to another one.
    fn close(&mut self, run: RunId);

    /// The next run that ended, if one has.
    fn ended(&mut self) -> Option<(RunId, Result<Ending, Error>)>;

    /// Waits for a run to end, for new work, for a word to stop, or for so long.
    async fn wait(&mut self, at_most: Duration);
}

/// One open run.
struct Open {
    rank: Rank,
    since: Timestamp,
    /// It has a place that runs take turns in.
    in_turn: bool,
    closing: bool,
}

/// The runs that a worker has open.
pub struct Roster {
    store: Arc<dyn Store>,
    env: Env,
    settings: RosterSettings,
    gates: GateSet,
    places: PlaceSet,
    open: BTreeMap<RunId, Open>,
    /// Runs that are left alone for a while, and when something can be done about them, as far as that is known.
    asleep: BTreeMap<RunId, (Timestamp, Timestamp)>,
    /// Where the runs that take turns go on.
    cursor: Option<WorkPosition>,
    /// When the store was last asked for the runs that go first.
    looked_at: Option<Timestamp>,
    /// What the store was like then.
    stamp: Option<u64>,
    /// How long the last looks took.
    looks_took: [Duration; 3],
    /// The whole list was looked through, those with later items too.
    all_seen: bool,
    /// When it is looked through again, and how many runs with later items it had: a clock that was ahead may have written
    /// when these are due, which is mended where they are opened.
    look_all_at: Timestamp,
    later_seen: u32,
    next_due: Option<Timestamp>,
    /// The last change of what is paused that was heard of, and the pipelines that are paused as a whole.
    pauses: (i64, Vec<String>),
    told: (Timestamp, Vec<RunId>),
    patience: Patience,
}

impl Roster {
    /// An empty roster of a worker by this name, which differs from all others'.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, env: Env, me: &str, settings: RosterSettings) -> Self {
        Self {
            store,
            env,
            settings,
            gates: GateSet::new(me),
            places: PlaceSet::default(),
            open: BTreeMap::new(),
            asleep: BTreeMap::new(),
            cursor: None,
            looked_at: None,
            stamp: None,
            looks_took: [Duration::ZERO; 3],
            all_seen: false,
            look_all_at: Timestamp(i64::MIN),
            later_seen: 0,
            next_due: None,
            pauses: (0, Vec::new()),
            told: (Timestamp(i64::MIN), Vec::new()),
            patience: Patience::default(),
        }
    }

    /// Works until the worker is told to stop, or nothing is left to do where that was asked for. The worker is retired then.
    ///
    /// # Errors
    /// When the store fails and stays so for longer than the settings' patience.
    pub async fn work(mut self, host: &mut dyn Host) -> Result<(), Error> {
        let worked = self.until_stopped(host).await;
        let mut clean = worked.is_ok();
        while !self.open.is_empty() {
            let open: Vec<RunId> = self.open.keys().copied().collect();
            open.into_iter().for_each(|run| host.close(run));
            host.wait(self.settings.tick).await;
            clean &= self.take_ended(host).is_ok();
        }
        leave_gates(&*self.store, &self.gates, &mut |_| {}, self.env.clock.now()).await;
        let how = if clean { Retired::Stopped } else { Retired::Lost };
        if let Err(error) = self.store.retire(host.worker(), how).await {
            tracing::warn!(%error, "could not retire the worker");
        }
        worked
    }

    async fn until_stopped(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        loop {
            self.take_ended(host)?;
            let now = self.env.clock.now();
            if host.stop() != Stop::No {
                return Ok(());
            }
            match self.fill(host, now).await {
                Ok(()) => self.patience.rest(),
                Err(error) => {
                    let limits = Limits { any: self.settings.patience, full: self.settings.full_disk };
                    self.patience.bear(error, limits, &self.env).await?;
                }
            }
            if self.is_idle(now) {
                return Ok(());
            }
            if self.open.is_empty() {
                tell_gates(&*self.store, &self.gates, now).await;
            }
            let due = self.next_due.map_or(self.settings.tick, |due| due.since(now));
            host.wait(due.clamp(Duration::from_millis(1), self.settings.glance)).await;
        }
    }

    /// Takes note of runs that ended. One that failed ends all: what it held is not known to be given back.
    fn take_ended(&mut self, host: &mut dyn Host) -> Result<(), Error> {
        let mut failed = None;
        while let Some((run, ending)) = host.ended() {
            let now = self.env.clock.now();
            self.open.remove(&run);
            match ending {
                Ok(Ending::Waiting { next_due }) => {
                    self.asleep.insert(run, (now.after(LEFT_ALONE).min(next_due), next_due));
                }
                // Its source is not read to the end, and cannot be read here: something may come to it.
                Ok(Ending::Stopped) => {
                    self.asleep.insert(run, (now.after(LEFT_ALONE), Timestamp::MAX));
                }
                Ok(Ending::Finished | Ending::Open | Ending::Halted(_) | Ending::Outdated) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether nothing can be done for longer than the worker waits.
    fn is_idle(&self, now: Timestamp) -> bool {
        let Some(max_wait) = self.settings.until_idle else { return false };
        let soonest = self.asleep.values().map(|(_, due)| *due).chain(self.next_due).min();
        self.open.is_empty()
            && self.all_seen
            && self.looked_at == Some(now)
            && soonest.is_none_or(|due| due > now.after(max_wait))
    }
}
