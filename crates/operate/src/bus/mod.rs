//! The world is told what happened, and hands items in: what is said over a bus, and by whom.
//!
//! A [`Relay`] passes on the facts that the store keeps. It knows no bus: it hands [`Letter`]s to a [`Post`], which says what
//! became of each, and forgets a fact only once the bus has taken it over. One relay at a time does so for a store; the next one
//! takes over when it is gone. Facts of one item, or of one run, are passed on in their order: the next is handed over when
//! the one before has been taken. A fact may be passed on twice and is then the same [`Letter::id`] again; none is left out.
//!
//! [`Intake`] takes messages for the standing runs of pipelines that name a queue, [`Replies`] answers of items that were handed over, and a
//! [`Service`] the events by which they are, to do what their stage does. Taking one twice changes nothing.

mod benches;
pub(crate) mod event;
mod intake;
mod letter;
mod relay;
mod replies;
mod service;
mod turn;
mod waves;

pub use intake::{Intake, Taken, Taker, Wire, queues_of_runs};
pub use letter::Letter;
pub use relay::{
    Failed, Held, Post, Relay, Round, Sent, Unrouted, are_late, somebody_relays, stop_telling, waiting,
};
pub use replies::Replies;
pub use service::{Service, services};
