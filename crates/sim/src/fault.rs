//! What can go wrong between a process and its store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use redrive_core::item::Item;
use redrive_store::Error;

use crate::campaign::is_listed;
use crate::hub::{Event, Hub};
use crate::met::Met;
use crate::rng::{Rng, mix};

/// What a verb does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Writes outcomes.
    Commit,
    /// Leases items.
    Claim,
    /// Writes what is known about gates.
    Gate,
    /// What a worker does at one go, and which parts it has.
    Turn {
        /// It writes outcomes.
        commit: bool,
        /// It writes what is known about gates.
        gates: bool,
        /// It leases items.
        claim: bool,
    },
    /// Writes something else.
    Other,
    /// Only looks.
    Read,
}

impl Verb {
    /// Whether it writes outcomes.
    #[must_use]
    pub fn commits(self) -> bool {
        matches!(self, Self::Commit | Self::Turn { commit: true, .. })
    }

    /// What a run meets when its answer is lost.
    fn lost(self) -> Vec<Met> {
        match self {
            Self::Commit => vec![Met::LostCommit],
            Self::Claim => vec![Met::LostClaim],
            Self::Gate => vec![Met::LostGate],
            Self::Other | Self::Read => vec![Met::LostOther],
            Self::Turn { commit, gates, claim } => {
                let parts = [(commit, Met::LostCommit), (gates, Met::LostGate), (claim, Met::LostClaim)];
                parts.into_iter().filter(|(has, _)| *has).map(|(_, met)| met).collect()
            }
        }
    }
}

/// How likely each fault is in a run, in a thousand calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// [`Error::Busy`]; nothing is written.
    pub busy: u64,
    /// [`Error::Unavailable`]; it **is** written.
    pub lost: u64,
    /// [`Error::Unavailable`]; it is not written.
    pub away: u64,
    /// [`Error::Full`]; nothing is written.
    pub full: u64,
    /// [`Error::Busy`] for one part of a turn; that part is not written, and the others are.
    pub part: u64,
    /// A read fails.
    pub read: u64,
    /// Longest way to the store and back, in milliseconds each.
    pub latency: i64,
    /// The content of a claimed item is read with other bytes than it has.
    pub damage: Damage,
}

/// How likely it is that a content is read damaged. Which are is a function of the seed, so that no other draw depends on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Damage {
    seed: u64,
    permille: u64,
}

impl Damage {
    /// In every fourth run, a few in a hundred; never where a seed stands for a course of events that once was wrong.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let luck = mix(&[seed, 11]);
        let met = luck.is_multiple_of(4) && !is_listed(seed);
        Self { seed, permille: if met { 5 + (luck >> 8) % 40 } else { 0 } }
    }

    /// Whether this claim of an item finds its content damaged.
    #[must_use]
    pub fn strikes(self, item: &Item) -> bool {
        let luck = mix(&[self.seed, 12, item.seq.0.cast_unsigned(), item.rev.0.cast_unsigned()]);
        luck % 1_000 < self.permille
    }
}

impl Faults {
    /// Some of the faults, each with a likelihood of its own: a run with all of them at once would hide some.
    #[must_use]
    pub fn draw(rng: &Rng) -> Self {
        let some = |most: u64| if rng.permille(500) { rng.range(5, most) } else { 0 };
        Self {
            busy: some(60),
            lost: some(120),
            away: some(80),
            full: some(40),
            part: some(60),
            read: some(40),
            latency: rng.span(1, 8),
            damage: Damage::default(),
        }
    }
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// All goes well.
    Fine,
    /// It is written, and the answer is lost.
    Lost,
    /// It is refused and not written.
    Refused(Refusal),
}

impl Fate {
    /// A number for the log's hash.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::Fine => 0,
            Self::Lost => 1,
            Self::Refused(refusal) => 2 + refusal as i64,
        }
    }
}

/// How a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// See [`Error::Busy`].
    Busy,
    /// See [`Error::Unavailable`].
    Away,
    /// See [`Error::Full`].
    Full,
}

impl Refusal {
    /// The error the caller gets.
    #[must_use]
    pub fn error(self) -> Error {
        match self {
            Self::Busy => Error::Busy("simulated".to_owned()),
            Self::Away => Error::Unavailable("simulated, not applied".to_owned()),
            Self::Full => Error::Full("simulated".to_owned()),
        }
    }
}

/// A process that uses the store.
#[derive(Debug)]
pub struct Actor {
    /// Its place in the run; it keeps it when it comes up again.
    pub slot: usize,
    /// Its name in the log.
    pub name: String,
    doom: AtomicU8,
}

const SAFE: u8 = 0;
const BEFORE: u8 = 1;
const AFTER: u8 = 2;

impl Actor {
    /// A process.
    #[must_use]
    pub fn new(slot: usize, name: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { slot, name: name.into(), doom: AtomicU8::new(SAFE) })
    }

    /// Its place as a number for the log's hash.
    #[must_use]
    pub fn number(&self) -> i64 {
        i64::try_from(self.slot).unwrap_or(i64::MAX)
    }

    /// It dies at its next write: before it, or after it and before its answer.
    pub fn doom(&self, after: bool) {
        self.doom.store(if after { AFTER } else { BEFORE }, Ordering::SeqCst);
    }

    /// Dies here if it is to; then the caller must never go on.
    pub fn dies(&self, hub: &Hub, after: bool) -> bool {
        let due = if after { AFTER } else { BEFORE };
        if self.doom.load(Ordering::SeqCst) != due {
            return false;
        }
        self.doom.store(SAFE, Ordering::SeqCst);
        hub.meet(if after { Met::CrashAfter } else { Met::CrashBefore });
        hub.at(hub.now(), Event::Crash(self.slot));
        true
    }
}

/// Draws what happens to a call.
pub fn fate(hub: &Hub, faults: &Faults, verb: Verb) -> Fate {
    if hub.healed() {
        return Fate::Fine;
    }
    let roll = hub.rng.below(1_000);
    if verb == Verb::Read {
        if roll < faults.read {
            hub.meet(Met::ReadFailed);
            return Fate::Refused(if roll.is_multiple_of(2) { Refusal::Busy } else { Refusal::Away });
        }
        return Fate::Fine;
    }
    let limits = [faults.busy, faults.lost, faults.away, faults.full];
    let mut upto = 0;
    let which = limits.iter().position(|limit| {
        upto += limit;
        roll < upto
    });
    match which {
        Some(0) => {
            hub.meet(Met::Busy);
            Fate::Refused(Refusal::Busy)
        }
        Some(1) => {
            verb.lost().into_iter().for_each(|met| hub.meet(met));
            Fate::Lost
        }
        Some(2) => {
            hub.meet(Met::NotApplied);
            Fate::Refused(Refusal::Away)
        }
        Some(3) => {
            hub.meet(Met::Full);
            Fate::Refused(Refusal::Full)
        }
        _ => Fate::Fine,
    }
}
