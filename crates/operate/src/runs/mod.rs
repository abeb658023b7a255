//! Runs: find one, begin or go on with it, change its pipeline, pause, resume, cancel it, and say how it stands.
//!
//! A run belongs to a pipeline and a source. [`begin`] goes on with the run of both if there is one; [`resume`] names the
//! run. Both answer with [`Work`](crate::work::Work) that [`work`](crate::work::work) does.

mod begin;
mod control;
mod edit;
mod reader;
mod show;

pub use begin::{Begin, Begun, Next, Other, Prepared, Resume, Resumed, begin, prepare, resume};
pub(crate) use control::cancel_known;
pub use control::{cancel, pause, refuse_finished};
pub use edit::Edit;
pub use reader::{KnownRun, Runs};
pub use show::{List, RunList, list, report, show};
