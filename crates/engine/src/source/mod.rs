//! Where items come from.
//!
//! A source is read in pieces, and can change at any time: while it is read, while its items are worked on, between two
//! starts, after the end of its run. So nothing of it is believed for long. What was read is known by a running hash
//! (`trail`); where the source is not that any more, it is read again from the place up to which it still is.

mod feed;
mod lines;
mod record;
mod trail;

pub use feed::{expand, is_pattern, is_stream};
pub use lines::{LineSpec, Lines};
pub(crate) use record::mark;
pub use record::{Format, MAX_LINE, NoKey, document, key_of, unread_in, without_line};

use std::sync::Arc;

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::fingerprint::fingerprint;
use redrive_core::item::{LastFailure, NewItem};

/// Something that is read piece by piece, never whole.
pub trait Source: Send {
    /// Reads the next piece, of bounded size.
    ///
    /// # Errors
    /// When the source cannot be read; what was read before stays admitted, and a later run goes on from there.
    fn next_piece(&mut self) -> Result<Piece, SourceError>;

    /// How it stands to what was read of it before.
    fn standing(&self) -> Standing {
        Standing::Anew
    }

    /// Where this reading starts, to be kept with the run.
    fn start(&self) -> Start {
        Start::default()
    }

    /// Whether it is other than it was read; it then starts again where it still agrees, and that is a new reading.
    /// `thorough` looks at the content even where nothing else tells of a change, if that takes no more than a moment.
    ///
    /// # Errors
    /// When it cannot be looked at.
    fn has_changed(&mut self, thorough: bool) -> Result<bool, SourceError> {
        let _ = thorough;
        Ok(false)
    }

    /// Goes back to its very beginning; `false` when it cannot be gone back in.
    ///
    /// # Errors
    /// When it cannot be read.
    fn rewind(&mut self) -> Result<bool, SourceError> {
        Ok(false)
    }

    /// Whether it is the whole of what there is: what it does not have any more has left it.
    fn is_whole(&self) -> bool {
        false
    }

    /// Whether it was read to its end and has nothing at all.
    fn is_empty(&self) -> bool {
        false
    }

    /// What it has besides its items, and leaves out because a rule says so.
    fn left_out(&self) -> u64 {
        0
    }
}

/// Reads the next piece of a source where waiting for a disk holds nobody up; at once where there is no such place, as in a
/// simulation. The source comes back with it.
///
/// # Errors
/// When reading it panicked; the source is gone then.
pub(crate) async fn read_apart(mut source: Box<dyn Source>) -> Result<ReadApart, SourceError> {
    let read = move || {
        let piece = source.next_piece();
        (source, piece)
    };
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return Ok(read()) };
    let read = runtime.spawn_blocking(read);
    let lost = || std::io::Error::other("reading it panicked");
    read.await.map_err(|_| SourceError { what: "the source".to_owned(), cause: lost() })
}

/// A source and what was read of it.
type ReadApart = (Box<dyn Source>, Result<Piece, SourceError>);

/// How a source stands to what was read of it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It was read to its end, and is what was read.
    Unchanged,
    /// It is being read here.
    GoesOn,
    /// A new reading starts: from the beginning, or from where it agrees with what was read of it before.
    Anew,
}

/// Where a reading starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Start {
    /// In the source's own terms; `None` at the beginning.
    pub position: Option<String>,
    /// The first line that is read again.
    pub agreed: u64,
    /// Whether something that was read before comes after it: that may not be there any more.
    pub lost: bool,
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

/// A failure that happened before any stage was reached.
pub(crate) fn refusal(why: &str) -> LastFailure {
    let failure = Failure::new(Class::Final, Kind::Input, why);
    LastFailure {
        class: failure.class,
        kind: failure.kind,
        message: Arc::from(failure.message()),
        group: Arc::from(fingerprint(failure.class, "source", failure.message())),
        shared: false,
    }
}
