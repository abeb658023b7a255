//! How a submitted item is known already.

use redrive_core::id::{ItemId, ItemSeq};
use redrive_core::reading::Reading;

/// A submitted item, as far as it has to be known again.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The id that its key and content give it.
    pub id: ItemId,
    /// Where it stands in its source.
    pub origin: u64,
    /// The reading that has it.
    pub reading: Reading,
    /// Whether it is admitted even though another version of its key is there.
    pub new_versions: bool,
    /// Whether it was superseded, and is brought back by the same request: where it stood then says nothing.
    pub back: bool,
}

/// A version of the same key that is there.
#[derive(Debug, Clone, Copy)]
pub struct Version {
    /// Its number.
    pub seq: ItemSeq,
    /// Its id.
    pub id: ItemId,
    /// Where it stood in its source.
    pub origin: u64,
    /// The reading that saw it there.
    pub reading: u32,
    /// Whether it was superseded.
    pub superseded: bool,
}

/// How the key of a submitted item is known already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// With this content, from this place.
    Same,
    /// With this content, from another place that this reading has seen.
    Elsewhere,
    /// With this content, by an older reading; it stands where this one sees it from now on.
    Before(ItemSeq),
    /// With other content that has not been superseded, or with this content that has been.
    Otherwise(ItemSeq),
}

/// Says how a key is known, from the versions of it that are there, in the order of their ids.
///
/// # Errors
/// The first error among the versions.
pub fn known_as<E>(
    asked: Asked,
    versions: impl IntoIterator<Item = Result<Version, E>>,
) -> Result<Option<Known>, E> {
    let mut other = None;
    for version in versions {
        let version = version?;
        if version.id == asked.id {
            return Ok(Some(known_content(asked, version)));
        }
        if !version.superseded {
            other.get_or_insert(Known::Otherwise(version.seq));
        }
    }
    Ok(other)
}

fn known_content(asked: Asked, version: Version) -> Known {
    let Version { seq, origin, reading, superseded, .. } = version;
    if superseded && !asked.new_versions {
        return Known::Otherwise(seq);
    }
    if asked.back {
        return Known::Before(seq);
    }
    let same = reading == asked.reading.number && origin == asked.origin;
    match (same, asked.reading.has(reading, origin)) {
        (true, _) => Known::Same,
        (false, true) => Known::Elsewhere,
        (false, false) => Known::Before(seq),
    }
}
