//! Everything that goes on in a store, at one moment: runs with their stages, gates, dead groups, workers.
//!
//! [`overview`] is one look, from one snapshot and from maintained counters; no item is counted. What one look cannot know (how
//! fast something goes, how it grows, how long it still takes) a [`Trend`] says from the looks it was shown.

mod flow;
mod look;
mod trend;

pub use flow::StageView;
pub use look::{Look, Overview, RunView, Totals, overview};
pub use trend::{Flow, Trend};
