//! The shell around the core: submit, claim, execute, record, maintain, report.
//!
//! | step | open |
//! |---|---|
//! | a source's lines become items | [`source`], [`admit`] |
//! | claim, execute, record | [`worker`] |
//! | a worker vanished, children finished, old runs | [`maintain`] |
//! | redrive, purge, cancel, resume | [`admin`] |
//! | what a person or a program is told | [`report`] |
//! | what is logged | [`journal`] |
//! | what is traced, and who takes it | [`trace`], [`collector`] |
//!
//! What follows from what is not decided here but in [`redrive_core::decide`].
pub mod admin;
pub mod admit;
pub mod collector;
mod counts;
pub mod crash;
pub mod env;
pub mod external;
pub mod fault;
pub mod handler;
mod identity;
pub mod journal;
pub mod last_words;
pub mod maintain;
mod patience;
mod pause_words;
pub mod progress;
pub mod receipt;
pub mod recipe;
pub mod report;
mod shared;
pub mod source;
pub mod tap;
pub mod trace;
pub mod worker;
