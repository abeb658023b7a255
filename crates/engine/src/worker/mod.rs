//! A worker: claims, executes, records, and keeps its lease.

mod clock;
mod desk;
mod execute;
mod heartbeat;
mod session;

pub use clock::ClockWatch;
pub use desk::{Blocked, Call, CallId, Desk, Halt, NeedsSomebody};
pub use session::{Ending, Session, Settings, Stop, leave, leave_budget, leave_idle};
