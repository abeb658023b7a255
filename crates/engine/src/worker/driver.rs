//! What a worker's loop needs besides store, clock and dice: calls that are under way, waiting, and what it is told.
//!
//! The program drives the loop with tokio (`session.rs`), the simulation with its own time and faults. Both drive the same loop.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::gate::Notice;
use redrive_core::id::{RunId, WorkerId};
use redrive_core::time::Timestamp;
use redrive_store::{Claimed, GateRow, Pauses, Retired, Slot};

use super::desk::{Call, CallId, Desk};
use crate::handler::Answer;

/// What a worker is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Go on.
    No,
    /// Take nothing new; finish and record what runs.
    Drain,
    /// Break off what runs, record that, and end.
    Now,
}

/// Drives a worker's loop.
#[async_trait]
pub trait Driver: Send {
    /// The worker as it is registered now. The number changes when its lease was taken away.
    fn worker(&self) -> WorkerId;

    /// What the worker is told to do.
    fn stop(&mut self) -> Stop;

    /// Whether somebody in this process still reads the source.
    fn is_admitting(&self) -> bool;

    /// Begins a call to its stage's handler. Its answer comes out of [`Driver::answered`].
    fn start(&mut self, call: Call);

    /// The next answer that has come, if one has.
    fn answered(&mut self) -> Option<(CallId, Answer)>;

    /// Breaks off every call under way: none of them is answered any more.
    fn break_off(&mut self);

    /// Waits for an answer, for new items, for a word to stop, or for so long.
    async fn wait(&mut self, at_most: Duration);

    /// Wakes another run of the same worker: there is a place for it.
    fn ring(&mut self, _run: RunId) {}

    /// Lets calls that are about to end do so.
    async fn breathe(&mut self);

    /// Is told of every step of the loop, to log it or to check it.
    fn observe(&mut self, _step: Step<'_>, _desk: &Desk, _now: Timestamp) {}

    /// Whether the loop leaves this part out. Only a simulation does that, to show that the checks find it.
    fn omits(&self, _part: Part) -> bool {
        false
    }
}

/// A step of a worker's loop.
#[derive(Debug)]
pub enum Step<'a> {
    /// The clock, or what others changed, was looked at.
    Looked,
    /// What is paused was read.
    PausesRead {
        /// What is taken in.
        pauses: &'a mut Pauses,
    },
    /// The gates were read; `first` when the worker begins.
    GatesRead {
        /// What was read.
        rows: &'a mut Vec<GateRow>,
        /// Whether nothing was known before.
        first: bool,
    },
    /// This is about to be recorded, told and asked for.
    Turns {
        /// How many changes are recorded.
        changes: usize,
        /// What others are told about the gates.
        gates: &'a [GateRow],
        /// What the worker can take, though it may wait a little before it asks.
        wants: &'a [Slot],
    },
    /// Results were dropped because somebody else had the items by then, or could not be recorded.
    Disturbed,
    /// Items were claimed.
    Claimed(&'a mut Claimed),
    /// Items of a claim whose answer was lost were found; they are given back.
    Reconciled,
    /// People are told this about a gate.
    Noticed(&'a Notice),
    /// A turn, and the calls that follow from it, are over.
    Turned {
        /// When the next item is due.
        next_due: Option<Timestamp>,
    },
    /// There is nothing to do at present.
    Idle {
        /// When a gate opens that something waits for.
        opens: Option<Timestamp>,
    },
    /// The worker has left.
    Left(Retired),
}

/// A part of the loop that a planted mistake leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Looking for the items of a claim whose answer was lost.
    Reconcile,
    /// Looking at the store now and then though nothing is due.
    Tick,
    /// Recording what ended before more is claimed.
    Record,
    /// Taking back what a vanished worker held.
    Reap,
    /// Settling the parents of children that ended elsewhere.
    Sweep,
    /// Giving back what is held when the worker leaves.
    Release,
    /// Watching the clock.
    Clock,
}
