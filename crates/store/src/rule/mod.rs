//! Rules that every store follows alike, without a driver: the store in memory and each database ask them here.
//!
//! They are about what a row becomes, or whether something may be written; which rows there are, and how they are found, is each
//! store's own.

pub mod index;
pub mod item;
pub mod operation;
pub mod run;
pub mod submit;
