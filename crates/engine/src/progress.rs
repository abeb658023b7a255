//! How far something long is, told to whoever wants to know.

/// Hears how far something long is. It is told after every page, and must not keep the teller.
pub trait Progress: Send + Sync {
    /// So much is done, of so much in all where that is known.
    fn reached(&self, done: u64, all: Option<u64>);
}

/// Nobody wants to know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unheard;

impl Progress for Unheard {
    fn reached(&self, _done: u64, _all: Option<u64>) {}
}
