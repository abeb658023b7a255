//! Texts to vectors, in this process and without a network.
//!
//! [`Embedder`] is what a stage or an index needs of a model; [`builtin`] is the one that comes with the binary (see
//! `model/MODEL.md`). [`worker`] is the loop of a child process that embeds for the engine.
//!
//! Everything here is a pure function of its input: the same text gives the same bits, whatever was embedded before
//! or beside it. There is no training, no download, and no model chosen at run time.

mod builtin;
mod embedder;
mod wordpiece;
pub mod worker;

pub use builtin::{StaticModel, builtin};
pub use embedder::{EmbedError, Embedder, ModelId};
pub use wordpiece::WordPiece;
