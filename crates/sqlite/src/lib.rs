//! Store on SQLite.
//!
//! One thread writes: it takes what is queued and commits it as one group, durable before anybody is answered. A few
//! threads read, each from its own read-only connection. Times and decisions come in with the verbs; nothing here
//! reads a clock or decides. Values are only ever bound, never written into SQL.
//!
//! Deliberately absent: memory-mapped reads (a damaged page would be a signal instead of an error), offsets and counts
//! of whole tables on any path that is used while work goes on.

mod content;
mod error;
mod health;
mod index;
mod look;
mod migrate;
mod open;
mod options;
mod reader;
mod row;
mod sequence;
mod store;
mod verb;
mod way;
mod writer;

pub use health::{is_store, library_version, log_bytes};
pub use options::{CRASH_POINTS, CrashHook, FaultHook, INDEX_WRITE, Options, Synchronous};
pub use store::SqliteStore;
