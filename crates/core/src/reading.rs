//! Reading a source again after it changed.

use crate::item::Item;

/// One reading of a source. A source is read anew whenever it is found to be other than it was read: from where it still
/// agrees, for what comes before that was seen already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Its number within the run, from 1. What an older reading still says is refused. 0 is no reading at all.
    pub number: u32,
    /// What came from a line before this one is seen without being read again.
    pub agreed: u64,
}

impl Reading {
    /// The first reading of a source.
    pub const FIRST: Self = Self { number: 1, agreed: 0 };

    /// What is handed in stands in no reading: nothing of it was seen before, so the newest version of a key is the one
    /// that holds.
    pub const NONE: Self = Self { number: 0, agreed: 0 };

    /// Whether this reading has seen an item: it then stands in the source as it is now.
    #[must_use]
    pub fn has_seen(&self, item: &Item) -> bool {
        self.has(item.reading, item.origin)
    }

    /// The same, for stores that have only these two at hand.
    #[must_use]
    pub fn has(&self, reading: u32, origin: u64) -> bool {
        (reading == self.number && self.number > 0) || origin < self.agreed
    }
}
