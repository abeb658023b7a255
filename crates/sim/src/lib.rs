//! Seeded deterministic runs of the real engine, with faults, and every law checked after every write.
//!
//! | part | open |
//! |---|---|
//! | what a seed stands for | [`scenario`], [`policy`], [`script`], [`service`] |
//! | virtual time and the queue of events | [`hub`], [`clock`], [`world`] |
//! | a store that fails | [`fault`], [`store`] |
//! | who must be right | [`oracle`] |
//! | workers, the source, operators | [`worker`], [`driver`], [`host`], [`neighbours`], [`people`] |
//! | proof that it finds something | [`plant`], [`slip`] |
//!
//! Real: the decisions, the worker's loop, its roster and its heartbeat, reaping, joining, admission, every operator's act, both stores.
//! Simulated: time, chance, handlers, processes.

pub mod campaign;
pub mod clock;
pub mod driver;
pub mod fault;
pub mod host;
pub mod hub;
pub mod mailbox;
pub mod met;
pub mod neighbours;
pub mod oracle;
pub mod people;
pub mod plant;
pub mod policy;
pub mod rng;
pub mod scenario;
pub mod script;
pub mod service;
pub mod slip;
pub mod source;
pub mod store;
pub mod worker;
pub mod world;

pub use campaign::{Campaign, Failed, StoreKind, regressions};
pub use plant::{Plant, Planted};
pub use slip::Slip;
pub use world::{Outcome, play, play_with};
