//! What an item is, and what may happen to it.
//!
//! This crate is pure: no async, no clock, no randomness, no I/O. The time and the dice are parameters.
//!
//! Start at [`decide`]: it is the state machine. [`item`] holds the states, [`event`] what can happen and what follows,
//! [`policy`] when a failed item is tried again, [`bisect`] how a failed batch is taken apart, [`laws`] what must hold
//! whatever happens.
pub mod answer;
pub mod attempt;
pub mod bisect;
pub mod budget;
pub mod classify;
pub mod decide;
pub mod draw;
pub mod event;
pub mod fact;
pub mod failure;
pub mod fingerprint;
pub mod gate;
pub mod grams;
pub mod id;
pub mod index;
pub mod item;
pub mod laws;
pub mod order;
pub mod plan;
pub mod policy;
pub mod pool;
pub mod reading;
pub mod redact;
pub mod schedule;
pub mod secret;
pub mod status;
pub mod suggest;
pub mod tally;
pub mod time;
pub mod trace;
pub mod usage;
pub mod vector;
pub mod verdict;
