//! A worker: claims, executes, records, and keeps its lease.

mod clock;
mod desk;
mod driver;
mod execute;
mod gate_set;
mod heartbeat;
mod places;
mod roster;
mod run_loop;
mod session;
mod stand_in;
mod tryout;

pub use clock::{ClockWatch, Jumps};
pub use desk::{Blocked, Call, CallId, Desk, Halt, NeedsSomebody, PausesHeard};
pub use driver::{Driver, Part, Step, Stop};
pub use gate_set::GateSet;
pub use heartbeat::Pulse;
pub use places::PlaceSet;
pub use roster::{Host, Roster, RosterSettings};
pub use run_loop::{Ending, Mates, Settings, Workplace, finish, work};
pub use session::{Among, Rings, Session};
pub use stand_in::{StandIn, StoodIn};
pub use tryout::{TriedCall, Tryout, try_once};
