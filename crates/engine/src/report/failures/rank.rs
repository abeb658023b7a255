//! The order in which failures are told.

use std::sync::Arc;

use redrive_core::id::ItemId;
use redrive_core::item::{Item, State};
use serde::{Deserialize, Serialize};

/// In what order failures are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureOrder {
    /// By the run's own item they belong to, then by key.
    #[default]
    Key,
    /// Those with the most retries first.
    Retries,
    /// Those that changed last first.
    Last,
    /// Those that are tried next first; those that are running before them, the dead last.
    Next,
}

/// A place in an order that is not that of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailurePlace {
    number: u64,
    id: ItemId,
}

impl FailurePlace {
    /// Reads what `Rank::cursor` wrote.
    #[must_use]
    pub fn read(cursor: &str) -> Option<Self> {
        let (number, id) = cursor.split_once('.')?;
        Some(Self { number: number.parse().ok()?, id: id.parse().ok()? })
    }
}

/// The place of an item in an order. Ranks of different orders are not compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Key(String, Arc<str>, ItemId),
    Most(std::cmp::Reverse<u64>, ItemId),
    Least(u64, ItemId),
}

impl Rank {
    /// What a next page goes on after.
    pub(super) fn cursor(&self) -> String {
        match self {
            Self::Key(_, _, id) => id.to_string(),
            Self::Most(std::cmp::Reverse(number), id) | Self::Least(number, id) => format!("{number}.{id}"),
        }
    }
}

impl FailureOrder {
    /// The place of an item; `of` is the key of the run's own item it belongs to.
    pub(super) fn rank(self, item: &Item, of: &str) -> Rank {
        let number = match self {
            Self::Key => return Rank::Key(of.to_owned(), item.key.clone(), item.id),
            Self::Retries => u64::from(item.tries()),
            Self::Last => item.updated_at.0.max(0).unsigned_abs(),
            Self::Next => match item.state {
                State::Running { .. } => 0,
                State::Waiting { due, .. } => due.0.max(1).unsigned_abs(),
                _ => u64::MAX,
            },
        };
        self.rank_of(FailurePlace { number, id: item.id })
    }

    /// A place as a rank of this order.
    pub(super) fn rank_of(self, FailurePlace { number, id }: FailurePlace) -> Rank {
        match self {
            Self::Retries | Self::Last => Rank::Most(std::cmp::Reverse(number), id),
            Self::Key | Self::Next => Rank::Least(number, id),
        }
    }
}
