//! A directory becomes a searchable index that heals itself.
//!
//! [`Files`] is the source: the files that are not in the index as they are. [`IndexEmbed`], [`UpsertHandler`] and
//! [`PublishHandler`] are stages that write into the index with their outcomes. [`Listing`] gives the files of a directory to
//! any stage, without an index. [`search`] finds passages in it.

mod embed;
mod files;
mod flights;
mod listing;
pub mod mail;
mod parse;
pub mod search;
mod shelve;

pub use embed::IndexEmbed;
pub use files::{Files, FilesSpec, WalkTally, canonical_root};
pub use listing::{Listing, ListingSpec};
pub use parse::ParseHandler;
pub use shelve::{PublishHandler, UpsertHandler};
