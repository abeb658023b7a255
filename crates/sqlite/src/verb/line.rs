//! The lines that waiting items of a stage stand in, each with the index that it is read along.

/// A line of waiting items. All are read by run (`?1`) and stage (`?2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Not tried at their stage.
    Fresh,
    /// Tried before.
    Retry,
    /// Handed over: their answer is awaited.
    Awaited,
}

impl Line {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Fresh, Self::Retry, Self::Awaited];
}

/// Where new items stand.
macro_rules! fresh {
    () => {
        "INDEXED BY item_ready WHERE state = 0 AND handed IS NULL AND run = ?1 AND stage = ?2 AND lane = 0"
    };
}
/// Where items stand that were tried before.
macro_rules! retry {
    () => {
        "INDEXED BY item_ready WHERE state = 0 AND handed IS NULL AND run = ?1 AND stage = ?2 AND lane = 1"
    };
}
/// Where items stand that wait for an answer.
macro_rules! awaited {
    () => {
        "INDEXED BY item_awaited WHERE state = 0 AND handed IS NOT NULL AND run = ?1 AND stage = ?2"
    };
}
pub(crate) use {awaited, fresh, retry};
