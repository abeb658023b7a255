//! Indexes: a directory becomes searchable, and stays so.
//!
//! An [`Indexer`] does one pass after the other over a directory: each is an ordinary run of the pipeline that
//! [`IndexSettings`] describe, and takes in what changed since the last one. An [`IndexTarget`] is where an index goes.

pub(crate) mod begin;
mod indexer;
mod left_out;
mod model;
mod refusals;
mod report;
pub(crate) mod settings;
mod status;
mod target;

pub use indexer::{Begin, Indexer, Pass, root_of};
pub use left_out::{LeftOut, LeftOutEntry, REFUSED, left_out};
pub use model::{Embedding, Reached, ServiceModel, embedding_of};
pub use report::{Figures, IndexReport};
pub use settings::{Embedder, IndexSettings, PIPELINE};
pub use status::{IndexStatus, LastPass, OneIndex, status};
pub(crate) use target::no_mail;
pub use target::{IndexTarget, check_keys, makes_index};
