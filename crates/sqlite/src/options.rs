//! How a store is opened.

use std::time::Duration;

/// Is called at every place of [`CRASH_POINTS`], with its name; a test ends the process there.
pub type CrashHook = fn(&'static str);

/// Is asked at [`INDEX_WRITE`] whether the write is to fail; for tests.
pub type FaultHook = fn(&'static str) -> bool;

/// Where a write into the index can be made to fail.
pub const INDEX_WRITE: &str = "sqlite.index_write";

/// The places at which a crash is worth testing.
pub const CRASH_POINTS: &[&str] = &[BEFORE_BEGIN, BEFORE_COMMIT, AFTER_COMMIT, MID_MIGRATION];

pub(crate) const BEFORE_BEGIN: &str = "sqlite.before_begin";
pub(crate) const BEFORE_COMMIT: &str = "sqlite.before_commit";
pub(crate) const AFTER_COMMIT: &str = "sqlite.after_commit";
pub(crate) const MID_MIGRATION: &str = "sqlite.mid_migration";

/// How much a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// For the disk: what was acknowledged survives a power cut.
    #[default]
    Full,
    /// For the operating system: what was acknowledged survives the death of the process; a power cut may take back
    /// the last commits, and never leaves half of one.
    Normal,
}

impl Synchronous {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

/// How a store is opened.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How much a commit waits for. Default: [`Synchronous::Full`].
    pub synchronous: Synchronous,
    /// Most pages of 4 kB the file may have; `None`: as many as the disk holds. Default: `None`.
    pub max_pages: Option<u32>,
    /// How long a write waits for another process that is writing. Default: 5 s.
    pub busy_timeout: Duration,
    /// Is asked, at every write into the index, whether it is to fail. Default: never.
    pub fault_hook: FaultHook,
    /// Is called at every crash point. Default: does nothing.
    pub crash_hook: CrashHook,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::default(),
            max_pages: None,
            busy_timeout: Duration::from_secs(5),
            crash_hook: |_| {},
            fault_hook: |_| false,
        }
    }
}
