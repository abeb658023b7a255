//! A worker: claims, executes, records, and keeps its lease.

mod clock;
mod desk;
mod driver;
mod execute;
mod heartbeat;
mod run_loop;
mod session;

pub use clock::ClockWatch;
pub use desk::{Blocked, Call, CallId, Desk, Halt, NeedsSomebody};
pub use driver::{Driver, Part, Step, Stop};
pub use heartbeat::Pulse;
pub use run_loop::{Ending, Settings, Workplace, work};
pub use session::Session;
