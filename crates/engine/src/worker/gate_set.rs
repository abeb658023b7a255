//! The gates of one worker, shared by all the runs that it works on.
//!
//! Each gate is one row in the store, which all workers share. Within a worker the runs share one view of it, so that a call of
//! one run counts for the others, and what one of them is told holds for all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::gate::{Gate, GateSpec, GateState, Notice, Standing};
use redrive_core::time::{Steps, Timestamp};
use redrive_store::{Applied, GateRow, Result};

use crate::env::Env;
use crate::recipe::GateWork;
use crate::shared;

/// One gate, as this worker has it.
pub(super) struct SharedGate {
    pub(super) name: Arc<str>,
    pub(super) gate: Gate,
    /// Change number of what was last read or written.
    rev: i64,
    /// What is being written.
    in_save: Option<GateState>,
    /// What may have been written: the answer was lost.
    in_doubt: Option<GateState>,
    /// How it stood when that was last asked for.
    stood: &'static str,
}

/// What a worker knows of gates.
#[derive(Default)]
pub(super) struct Gates {
    me: String,
    list: Vec<SharedGate>,
    /// What the store has must be read before anything is written.
    stale: bool,
    /// When what others wrote was last read.
    read_at: Option<Timestamp>,
    notices: Vec<(Arc<str>, Notice)>,
    steps: Option<Steps>,
}

/// A worker's gates. Clones are the same gates.
#[derive(Clone, Default)]
pub struct GateSet(Arc<Mutex<Gates>>);

impl GateSet {
    /// The gates of a worker by this name, which differs from all others': none so far.
    #[must_use]
    pub fn new(me: &str) -> Self {
        Self(Arc::new(Mutex::new(Gates { me: me.to_owned(), ..Gates::default() })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Gates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a gate of these is not here yet.
    pub(super) fn lacks(&self, wanted: &[GateWork]) -> bool {
        let gates = self.lock();
        wanted.iter().any(|work| gates.place(work).is_none())
    }

    /// Takes in gates that are not here yet, as the store has them, and says where each is found. `live` are the names of the
    /// workers that are not gone.
    ///
    /// # Errors
    /// [`Error::Unreadable`](redrive_store::Error) when a newer version wrote one.
    pub(super) fn open(
        &self,
        wanted: &[GateWork],
        live: &[String],
        rows: &[GateRow],
        now: Timestamp,
    ) -> Result<Vec<usize>> {
        let mut gates = self.lock();
        wanted
            .iter()
            .map(|work| match gates.place(work) {
                Some(at) => Ok(at),
                None => gates.add(work, live, rows, now),
            })
            .collect()
    }

    /// What others should know about the gates.
    #[must_use]
    pub fn to_save(&self, now: Timestamp) -> Vec<GateRow> {
        let mut gates = self.lock();
        if gates.stale {
            return Vec::new();
        }
        let mut rows: Vec<GateRow> = Vec::new();
        for shared in gates.list.iter_mut().filter(|shared| shared.in_save.is_none()) {
            // Where runs give a gate of one name other limits there are two views of it; they take turns.
            if rows.iter().any(|row| *row.name == *shared.name) {
                continue;
            }
            if let Some(state) = shared.gate.to_save(now) {
                rows.push(shared.row(&state, now));
                shared.in_save = Some(state);
            }
        }
        rows
    }

    /// What was handed out is written, or was not because others had written; `None` when its fate is unknown.
    pub fn saved(&self, sent: &[GateRow], applied: Option<&[Applied]>, now: Timestamp) {
        let mut gates = self.lock();
        for (at, row) in sent.iter().enumerate() {
            let mut of_name = gates.list.iter_mut().filter(|shared| *shared.name == *row.name);
            let Some(shared) = of_name.find(|shared| shared.is_sent(row)) else { continue };
            let Some(state) = shared.in_save.take() else { continue };
            match applied.and_then(|applied| applied.get(at)) {
                Some(Applied::Done) => {
                    shared.rev += 1;
                    shared.gate.saved(&state, now);
                }
                Some(Applied::Stale) => gates.stale = true,
                None => {
                    shared.in_doubt = Some(state);
                    gates.stale = true;
                }
            }
        }
    }

    /// Whether others should know something about a gate at once.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.lock().list.iter().any(|shared| shared.gate.is_urgent())
    }

    /// Whether what the store has must be read before anything is written.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.lock().stale
    }

    /// Somebody else wrote: what the store has must be read first.
    pub fn mark_stale(&self) {
        self.lock().stale = true;
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().list.is_empty()
    }

    /// When what others wrote was last read; none: never.
    pub(super) fn read_at(&self) -> Option<Timestamp> {
        self.lock().read_at
    }

    /// Takes in what the store has about the gates.
    ///
    /// # Errors
    /// [`Error::Unreadable`](redrive_store::Error) when a newer version wrote one: nothing is written over it.
    pub fn hear(&self, rows: &[GateRow], now: Timestamp) -> Result<()> {
        let mut gates = self.lock();
        gates.stale = false;
        gates.read_at = Some(now);
        gates.list.iter_mut().try_for_each(|shared| shared.hear(rows, now))
    }

    /// Looks at the clock: where it was put, nothing that a gate waits for is put off or brought forward by that.
    pub(super) fn look_at_clock(&self, env: &Env) {
        let Some((now, uptime)) = env.reading() else { return };
        let mut gates = self.lock();
        let step = gates.steps.get_or_insert_with(|| Steps::new(now, uptime)).look(now, uptime);
        match step {
            Some(ms) if ms < 0 => gates.list.iter_mut().for_each(|shared| shared.gate.put_back(-ms, now)),
            Some(ms) => gates.list.iter_mut().for_each(|shared| shared.gate.put_forward(ms, now)),
            None => {}
        }
    }

    /// What is written when the worker leaves.
    #[must_use]
    pub fn leave(&self, now: Timestamp) -> Vec<GateRow> {
        let mut gates = self.lock();
        let leave = |shared: &mut SharedGate| {
            let state = shared.gate.leave(now);
            let row = shared.row(&state, now);
            shared.in_save = Some(state);
            row
        };
        gates.list.iter_mut().map(leave).collect()
    }

    /// The gates that stand otherwise than when this was last asked.
    pub(super) fn changed_standings(&self, now: Timestamp) -> Vec<(Arc<str>, Standing)> {
        let mut gates = self.lock();
        let changed = gates.list.iter_mut().filter_map(|shared| {
            let standing = shared.gate.shared().standing(now);
            let before = std::mem::replace(&mut shared.stood, standing.state);
            (before != standing.state).then(|| (shared.name.clone(), standing))
        });
        changed.collect()
    }

    /// What people should know about the gates since this was last asked.
    #[must_use]
    pub fn take_notices(&self) -> Vec<(Arc<str>, Notice)> {
        std::mem::take(&mut self.lock().notices)
    }
}

impl Gates {
    /// Where a gate is, with just these limits.
    fn place(&self, work: &GateWork) -> Option<usize> {
        self.list.iter().position(|shared| shared.is(&work.name, &work.spec))
    }

    fn add(&mut self, work: &GateWork, live: &[String], rows: &[GateRow], now: Timestamp) -> Result<usize> {
        // A second view of a gate, for runs that give it other limits, takes part under a name of its own.
        let views = self.list.iter().filter(|shared| shared.name == work.name).count();
        let me = if views == 0 { self.me.clone() } else { format!("{}/{}", self.me, views + 1) };
        let mut shared = SharedGate {
            name: work.name.clone(),
            gate: Gate::new(work.spec.clone(), GateState::default(), &me, now),
            rev: 0,
            in_save: None,
            in_doubt: None,
            stood: "open",
        };
        if let Some(row) = rows.iter().find(|row| *row.name == *work.name) {
            let mut state = shared::gate(row, now)?;
            state.keep_members(live);
            shared.gate = Gate::new(work.spec.clone(), state, &me, now);
            shared.rev = row.rev;
        }
        self.list.push(shared);
        Ok(self.list.len() - 1)
    }

    pub(super) fn at(&self, at: usize) -> Option<&SharedGate> {
        self.list.get(at)
    }

    pub(super) fn at_mut(&mut self, at: usize) -> Option<&mut SharedGate> {
        self.list.get_mut(at)
    }

    pub(super) fn note(&mut self, gate: Arc<str>, notice: Notice) {
        self.notices.push((gate, notice));
    }
}

impl SharedGate {
    fn is(&self, name: &str, spec: &GateSpec) -> bool {
        *self.name == *name && self.gate.spec() == spec
    }

    /// Whether this is the view that handed out a row.
    fn is_sent(&self, row: &GateRow) -> bool {
        self.rev == row.rev && self.in_save.as_ref().is_some_and(|state| state.write() == row.state)
    }

    fn row(&self, state: &GateState, now: Timestamp) -> GateRow {
        GateRow { name: self.name.to_string(), rev: self.rev, state: state.write(), updated_at: now }
    }

    fn hear(&mut self, rows: &[GateRow], now: Timestamp) -> Result<()> {
        let in_doubt = self.in_doubt.take();
        let Some(row) = rows.iter().find(|row| *row.name == *self.name) else { return Ok(()) };
        if row.rev != self.rev {
            let theirs = shared::gate(row, now)?;
            // The next change number went to what was sent, unless it can be seen that it went to something else.
            if let Some(sent) = in_doubt.filter(|sent| row.rev > self.rev + 1 || row.state == sent.write()) {
                self.gate.settle(&sent);
            }
            self.rev = row.rev;
            self.gate.merge(&theirs, now);
        }
        Ok(())
    }
}
