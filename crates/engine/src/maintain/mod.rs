//! What has to be done beside the work itself: orphans, parents, old runs.

mod join;
mod prune;
mod reap;

pub use join::{join, join_among};
pub use prune::prune;
pub use reap::{reap, take_over};
