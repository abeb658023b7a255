//! What is asked to be done to many items, and whether that makes sense.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::start::{MOST, NAMED};
use crate::again::{Rerun, Retry};
use crate::dead::{Redrive, Selection, Which, check_rate};
use crate::error::{Error, Result};
use crate::whole;

/// How long what is to be removed can be undone at most.
const MOST_UNDO_MS: i64 = 30 * 24 * 3_600_000;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartKind {
    /// Sends dead items back.
    Redrive,
    /// Removes dead items.
    Purge,
    /// Tells waiting items to go.
    Retry,
    /// Has ended items done again from a stage.
    Rerun,
    /// Takes a run out.
    Cancel,
}

/// What is to be done to many items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// What is done.
    pub kind: StartKind,
    /// To which items.
    #[serde(default, deserialize_with = "object")]
    pub filter: Which,
    /// To all of them, where the filter narrows nothing down.
    #[serde(default)]
    pub all: bool,
    /// At most so many are sent back.
    #[serde(default, deserialize_with = "whole::optional")]
    pub limit: Option<u64>,
    /// So many a second are sent back, each when its time is near.
    #[serde(default)]
    pub rate_per_second: Option<f64>,
    /// So many are sent back first, and the others only when all of these have passed.
    #[serde(default, deserialize_with = "whole::optional")]
    pub canary: Option<u64>,
    /// Nothing more is sent back when more than this share of those that ended has failed again.
    #[serde(default)]
    pub stop_at: Option<f64>,
    /// Dead items go again from this stage, which they have passed, and not from the one that failed them.
    #[serde(default)]
    pub from: Option<String>,
    /// The policy that dead items go under at the stage that failed them, in place of the stage's own: a preset's name, or an object
    /// with the keys of `retry`.
    #[serde(default)]
    pub retry: Option<Value>,
    /// Nothing is removed for so many milliseconds, and stopping the operation undoes all of it.
    #[serde(default, deserialize_with = "whole::number")]
    pub undo_ms: i64,
    /// Waiting items go in so many milliseconds; 0: now.
    #[serde(default, deserialize_with = "whole::number")]
    pub in_ms: i64,
    /// Only items with these keys are done again; empty: all of them.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Says what would be done, and does nothing. What would be sent back, removed or done again is frozen, and can be started
    /// as it is.
    #[serde(default)]
    pub dry_run: bool,
}

/// Reads a filter. By serde's rules a list would do for an object, and of a map the last of two words would count.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Which, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    match text.get().starts_with('{') {
        true => serde_json::from_str(text.get()).map_err(D::Error::custom),
        false => Err(D::Error::custom("`filter` has to be a JSON object")),
    }
}

impl Start {
    /// The plainest operation of a kind.
    #[must_use]
    pub fn of(kind: StartKind, filter: Which) -> Self {
        Self {
            kind,
            filter,
            all: false,
            limit: None,
            rate_per_second: None,
            canary: None,
            stop_at: None,
            from: None,
            retry: None,
            undo_ms: 0,
            in_ms: 0,
            keys: Vec::new(),
            dry_run: false,
        }
    }

    /// Looks whether the request makes sense, before a store is opened.
    ///
    /// # Errors
    /// When it does not.
    pub fn check(&self) -> Result<()> {
        let Self {
            kind,
            filter,
            limit,
            rate_per_second,
            canary,
            stop_at,
            from,
            retry,
            undo_ms,
            in_ms,
            keys,
            ..
        } = self;
        let redrive = *kind == StartKind::Redrive;
        let foreign = [
            ("limit", !redrive && limit.is_some()),
            ("rate_per_second", !redrive && rate_per_second.is_some()),
            ("canary", !redrive && canary.is_some()),
            ("stop_at", !redrive && stop_at.is_some()),
            ("from", !redrive && from.is_some()),
            ("retry", !redrive && retry.is_some()),
            ("undo_ms", *kind != StartKind::Purge && *undo_ms != 0),
            ("in_ms", *kind != StartKind::Retry && *in_ms != 0),
            ("keys", *kind != StartKind::Rerun && !keys.is_empty()),
        ];
        if let Some((name, _)) = foreign.iter().find(|(_, given)| *given) {
            return Err(Error::wrong(format!("`{name}` means nothing to this kind of operation")));
        }
        filter.check()?;
        if keys.len() > MOST {
            return Err(Error::wrong(format!("at most {MOST} `keys` at once, and these are {}", keys.len()))
                .hint("ask several times, or leave them out to have all items done again"));
        }
        if *in_ms < 0 {
            return Err(Error::wrong("`in_ms` is a number from 0 on"));
        }
        self.redrive().check()?;
        check_rate(*rate_per_second)?;
        if canary.is_some_and(|first| first == 0 || first > NAMED as u64) {
            return Err(Error::wrong(format!("`canary` is between 1 and {NAMED}")));
        }
        if stop_at.is_some_and(|share| !(0.0..1.0).contains(&share)) {
            return Err(Error::wrong("`stop_at` is a share: from 0 to below 1, for example 0.2"));
        }
        let watched = limit.is_some() || rate_per_second.is_some() || canary.is_some() || stop_at.is_some();
        if from.is_some() && retry.is_some() {
            return Err(Error::wrong(
                "`retry` is for the stage that failed them, and `from` names another one",
            )
            .hint("leave one of them out"));
        }
        if from.is_some() && watched {
            return Err(Error::wrong("with `from` there is no limit, rate, canary or share to stop at"));
        }
        if !(0..=MOST_UNDO_MS).contains(undo_ms) {
            return Err(Error::wrong("what is to be removed can be undone for up to 30 days"));
        }
        match kind {
            StartKind::Redrive => Selection::said_which(filter, self.all, "sent back"),
            StartKind::Purge => Selection::said_which(filter, self.all, "removed"),
            StartKind::Retry => self.retry().said_which(),
            StartKind::Rerun | StartKind::Cancel => self.only_run(),
        }
    }

    /// What a run is enough for names nothing else.
    fn only_run(&self) -> Result<()> {
        let stage = self.filter.stage.clone().filter(|_| self.kind == StartKind::Rerun);
        if self.kind == StartKind::Rerun && stage.is_none() {
            return Err(Error::wrong("from which stage? say it in `filter.stage`"));
        }
        let expected = Which { run: self.filter.run, stage, ..Which::default() };
        match self.filter.run.is_some() && self.filter == expected {
            true => Ok(()),
            false => Err(Error::wrong("`filter` names a run here, and nothing but that")
                .hint("of a rerun, `filter.stage` is the stage and `keys` are the items")),
        }
    }

    /// Whether its items are frozen before anything is done.
    pub(super) fn has_set(&self) -> bool {
        match self.kind {
            StartKind::Redrive => self.dry_run || self.rate_per_second.is_some() || self.is_watched(),
            StartKind::Purge => self.dry_run || self.undo_ms > 0,
            StartKind::Rerun => self.dry_run,
            StartKind::Retry | StartKind::Cancel => false,
        }
    }

    /// Whether it depends on how those go that were sent back.
    pub(super) fn is_watched(&self) -> bool {
        self.canary.is_some() || self.stop_at.is_some()
    }

    fn redrive(&self) -> Redrive {
        Redrive { limit: self.limit, canary: self.canary, work: false, retry: self.retry.clone() }
    }

    pub(super) fn retry(&self) -> Retry {
        Retry { which: self.filter.clone(), in_ms: self.in_ms, work: false }
    }

    pub(super) fn rerun(&self) -> Rerun {
        let stage = self.filter.stage.clone().unwrap_or_default();
        Rerun { run: self.filter.run, stage, keys: self.keys.clone(), work: false }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::id::RunId;

    use super::*;

    #[test]
    fn a_rerun_names_so_many_keys_at_most() {
        let filter = Which { run: Some(RunId(1)), stage: Some("s".to_owned()), ..Which::default() };
        let of =
            |keys| Start { keys: vec!["k".to_owned(); keys], ..Start::of(StartKind::Rerun, filter.clone()) };
        assert!(of(MOST).check().is_ok());
        let told = of(MOST + 1).check().expect_err("refused").message;
        assert!(told.contains("at most 100 `keys`"), "{told}");
    }
}
