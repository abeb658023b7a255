//! A worker: claims, executes, records, and keeps its lease.

mod clock;
mod desk;
mod execute;
mod heartbeat;
mod identity;
mod session;

pub use clock::ClockWatch;
pub use desk::{Blocked, Call, CallId, Desk, Halt, NeedsSomebody, expansion_key};
pub use identity::{identity, is_gone};
pub(crate) use session::works_on;
pub use session::{Ending, Session, Settings, Stop, leave, leave_idle};
