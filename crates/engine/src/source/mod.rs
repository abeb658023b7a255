//! Where items come from.

mod jsonl;

pub use jsonl::JsonLines;
pub(crate) use jsonl::refusal;

use redrive_core::item::NewItem;

/// Something that is read piece by piece, never whole.
pub trait Source: Send {
    /// Reads the next piece, of bounded size.
    ///
    /// # Errors
    /// When the source cannot be read; what was read before stays admitted, and a later run goes on from there.
    fn next_piece(&mut self) -> Result<Piece, SourceError>;
}

/// A piece of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Its items; an unusable line is an item too, marked as refused.
    pub items: Vec<NewItem>,
    /// How far the source is read with it.
    pub position: String,
    /// Whether that is the end.
    pub done: bool,
}

/// A source that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what}: {cause}")]
pub struct SourceError {
    /// Which source.
    pub what: String,
    /// Why.
    #[source]
    pub cause: std::io::Error,
}
