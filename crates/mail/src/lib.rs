//! Mail archives become messages, messages become threads, threads get summaries.
//!
//! Everything here is values in, values out; bytes come from readers that the caller opens. [`mbox`] finds the messages of an
//! archive without holding one, [`head`] reads what identifies a message, [`body`] takes it apart, [`thread`] puts messages
//! together, [`summary`] says what a thread is about in its own sentences. [`corpus`] makes archives up, for tests and measurements.
//!
//! What comes from outside may be hostile: nothing here panics on any input, and every buffer has a bound.

pub mod body;
pub mod corpus;
pub mod head;
pub mod mbox;
pub mod summary;
pub mod thread;
