//! When pipelines begin by themselves: the expression, its next time in a time zone, and what is decided at each time.
//!
//! Nothing here reads a clock or a table of time zones: the time comes in as a value, the zone as a [`Zone`].

mod book;
mod cron;
mod next;

pub use book::{
    BEGINS_WITHIN, Book, Fired, Firing, MOST_MISSED, Missed, ON_TIME, Overlap, Rule, Skip, Skipped,
};
pub use cron::Cron;
pub use next::{Recent, Zone, next_after, recent};
