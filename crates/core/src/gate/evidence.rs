//! What kind of limit a dependency keeps, and what shows it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How long what was found about chance is believed at first.
const BELIEVED: Duration = Duration::from_secs(5);
/// And at most, after it was found again and again.
const LONGEST_BELIEVED: Duration = Duration::from_secs(300);

/// About so many calls tell which share chance turns away.
const REMEMBERED: f64 = 100.0;

/// What turns calls away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// So many per second: fewer were turned away when it went slower.
    Rate,
    /// So many until a time that answers tell, when all are there again.
    Window,
    /// Tokens: answers say that fewer are left than a call takes.
    Tokens,
    /// So many at once: those with more beside them were turned away.
    AtOnce,
    /// Chance: as many were turned away when it went slower.
    Chance,
    /// Everything: no call passes.
    Shut,
    /// Load: more at once brought no more, or calls got lost.
    Overload,
}

/// What workers share about the kind of a dependency's limit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// What was found last.
    pub kind: Option<LimitKind>,
    /// When.
    pub at: Timestamp,
    /// The share of calls that is turned away whatever is done, as it was found: no more is expected.
    pub background: f64,
    /// The same, as it is lately.
    pub(super) share: f64,
    /// Until when that is believed, and how often it was found.
    asked_again_at: Timestamp,
    found: u32,
}

impl Evidence {
    pub(super) fn find(&mut self, kind: LimitKind, now: Timestamp) {
        (self.kind, self.at) = (Some(kind), now);
    }

    /// This share of calls is turned away whatever is done, and this one was lately.
    pub(super) fn find_background(&mut self, share: f64, lately: f64, now: Timestamp) {
        if self.background == 0.0 {
            self.share = lately;
        }
        self.background = share.clamp(0.0, 0.8);
        let believed = BELIEVED * (1 << self.found.min(6));
        self.found = self.found.saturating_add(1);
        self.asked_again_at = now.after(believed.min(LONGEST_BELIEVED));
        self.find(LimitKind::Chance, now);
    }

    /// A call was turned away, or passed: the share of those that are is known ever better.
    pub(super) fn meets(&mut self, turned_away: bool) {
        if self.background > 0.0 {
            self.share += (f64::from(u8::from(turned_away)) - self.share) / REMEMBERED;
        }
    }

    /// It is not chance, or not any more.
    pub(super) fn forget_background(&mut self) {
        (self.background, self.found) = (0.0, 0);
    }

    /// Whether what was found is the same, whatever share of calls is turned away by now.
    pub(super) fn finds_the_same(&self, other: &Self) -> bool {
        *self == Self { share: self.share, ..other.clone() }
    }

    /// The share that needs no explanation now.
    pub(super) fn expected(&self, now: Timestamp) -> f64 {
        if now < self.asked_again_at { self.background } else { 0.0 }
    }

    pub(super) fn put_back(&mut self, ms: i64) {
        for at in [&mut self.at, &mut self.asked_again_at] {
            *at = Timestamp(at.0.saturating_sub(ms));
        }
    }
}
