//! RabbitMQ: what is told of a store is published, items are taken from queues, and what cannot be used is put aside.
//!
//! Nothing is decided here. [`redrive_operate::bus`] says what is told and in which order, and what becomes of a message; this crate
//! carries both over AMQP 0-9-1. A connection is never mended: whatever goes wrong, it is dropped, and after a wait another
//! is opened that goes on from what the store, or the queue, still has.
//!
//! Exchanges are declared, and queues only where there is none of their name: declaring one with other arguments than it has would be
//! refused, and what a queue is like is for policies to say ([`look`] prints them).

mod address;
mod backoff;
mod bury;
mod consume;
mod link;
mod look;
pub mod names;
mod post;
mod publish;
mod queues;
mod serve;
mod tls;

pub use address::Address;
pub use consume::consume;
pub use look::{Finding, look};
pub use post::RabbitPost;
pub use queues::{Export, Exported, QueueView, Queues, Requeued};
pub use serve::{answers, relay, serve, stand_by, work};

/// The target of what is logged.
const LOG: &str = "redrive::bus";
