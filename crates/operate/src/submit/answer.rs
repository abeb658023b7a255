//! What became of items that were handed in.

use std::collections::BTreeMap;

use redrive_core::id::{ItemId, RunId};
use serde::Serialize;

use crate::runs::Edit;

/// Most runs, and most refused items of a stream, that an answer lists.
pub(super) const LISTED: usize = 1_000;

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Its key is new.
    Admitted,
    /// It was there with this very content.
    Known,
    /// Its key was there with other content, which gives way to this one.
    Changed,
    /// It cannot be used; nothing was written for it.
    Refused,
}

/// What became of one item that was handed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Handed {
    /// Its place among all that were handed in, from 1: of a stream, its line.
    pub line: u64,
    /// Its key; absent when it was refused without one.
    pub key: Option<String>,
    /// Its id.
    pub id: Option<ItemId>,
    /// The run it is in.
    pub run: Option<RunId>,
    /// Its category.
    pub category: Option<String>,
    /// What became of it.
    pub outcome: Fate,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How many items had which fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// See [`Fate::Admitted`].
    pub admitted: u64,
    /// See [`Fate::Known`].
    pub known: u64,
    /// See [`Fate::Changed`].
    pub changed: u64,
    /// See [`Fate::Refused`].
    pub refused: u64,
}

impl Tally {
    fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Admitted => self.admitted += 1,
            Fate::Known => self.known += 1,
            Fate::Changed => self.changed += 1,
            Fate::Refused => self.refused += 1,
        }
    }

    /// How many were taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.admitted + self.known + self.changed
    }
}

/// A standing run that items went to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StandingRun {
    /// The run.
    pub run: RunId,
    /// Its category.
    pub category: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// Whether it was begun for these items.
    pub created: bool,
    /// Whether it is paused: its items wait until it is resumed.
    pub paused: bool,
    /// What the edited pipeline brings about in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<Edit>,
}

/// What became of everything that was handed in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HandedIn {
    /// The pipeline.
    pub pipeline: String,
    /// The runs that items went to, at most a thousand of them.
    pub runs: Vec<StandingRun>,
    /// How many items had which fate.
    pub counts: Tally,
    /// The items: all that were handed in one by one; of a stream only those that were refused, at most a thousand.
    pub items: Vec<Handed>,
    /// Refused items that are not listed.
    pub left_off: u64,
}

/// Adds up what becomes of items.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) counts: Tally,
    pub(super) items: Vec<Handed>,
    pub(super) left_off: u64,
}

impl Sum {
    /// Takes in one item, and lists it.
    pub(super) fn list(&mut self, item: Handed) {
        self.counts.count(item.outcome);
        self.items.push(item);
    }

    /// Takes in one item, and lists it only where it was refused and there is room.
    pub(super) fn count(&mut self, item: Handed) {
        self.counts.count(item.outcome);
        if item.outcome != Fate::Refused {
            return;
        }
        match self.items.len() < LISTED {
            true => self.items.push(item),
            false => self.left_off += 1,
        }
    }

    pub(super) fn told(self, pipeline: &str, runs: &BTreeMap<RunId, StandingRun>) -> HandedIn {
        HandedIn {
            pipeline: pipeline.to_owned(),
            runs: runs.values().cloned().collect(),
            counts: self.counts,
            items: self.items,
            left_off: self.left_off,
        }
    }
}
