//! Items go again by somebody's word: those that wait, now or at a time; those that have ended, from a stage they have passed.

mod rerun;
mod retry;

pub(crate) use rerun::{GatheredAgain, dead_request, gather_again, gather_rerun, rerun_requests};
pub use rerun::{Rerun, Rerunning, preview_rerun, rerun};
pub(crate) use retry::retry_requests;
pub use retry::{Held, Retried, Retry, preview_retry, retry};
