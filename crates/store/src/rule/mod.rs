//! Rules that every store follows alike, without a driver: the store in memory and each database ask them here.

pub mod run;
