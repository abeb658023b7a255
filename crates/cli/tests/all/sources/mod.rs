//! Sources that change: every line of the file, as it is in the end, is accounted for, and nothing is paid for twice.

mod changes;
mod files;
mod kinds;
mod stages;
mod table;
mod world;
