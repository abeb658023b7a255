//! What has to be done beside the work itself: orphans, parents, old runs.

mod clock;
mod join;
mod prune;
mod reap;

pub use clock::{Mended, mend_clock};
pub use join::{join, join_among};
pub use prune::{Prunable, keep_last, prunable};
pub use reap::{reap, take_over};

use redrive_core::event::Transition;
use redrive_store::Applied;

/// Who is told of every transition that was committed: what dies here counts in the failure budget like what dies at work.
pub type Told<'a> = &'a mut (dyn FnMut(&Transition) + Send);

fn tell(decided: &[Transition], applied: &[Applied], told: Told<'_>) {
    let done = decided.iter().zip(applied).filter(|(_, applied)| **applied == Applied::Done);
    done.for_each(|(transition, _)| told(transition));
}
