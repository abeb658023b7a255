//! What may be written into the index, and what a search may look at.

use redrive_core::id::ContentHash;
use redrive_core::index::{CollectionNo, Over, Publish, edition};

use crate::index::Scope;

/// A document as a publication finds it.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    /// Its change number.
    pub rev: i64,
    /// The version that is published.
    pub version: Option<ContentHash>,
    /// The mark that it was published with.
    pub mark: i64,
}

/// Whether a publication takes the place of what is there. One that was made for an older state of the document gives way to
/// whoever was faster, unless that published the very same.
#[must_use]
pub fn may_publish(publish: &Publish, now: Published) -> bool {
    let is_this = (now.version, now.mark) == (Some(publish.version), publish.mark);
    is_this
        || match publish.over {
            Over::Any => true,
            Over::Rev(rev) => rev == now.rev,
            Over::Lesser => now.version.is_none_or(|version| version <= publish.version),
        }
}

/// Which chunks of a document go when a publication takes the place of what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    /// Those of every other edition.
    Others,
    /// Those of this one; `None`: none.
    Edition(Option<ContentHash>),
}

/// Which chunks go with a publication that may take the place of what is there.
#[must_use]
pub fn outdated(publish: &Publish, now: Published) -> Outdated {
    match publish.over {
        Over::Any | Over::Rev(_) => Outdated::Others,
        Over::Lesser => {
            let before = now.version.map(|version| edition(version, now.mark));
            Outdated::Edition(before.filter(|before| *before != publish.edition))
        }
    }
}

/// Whether it is noted that a version of a document is refused. What is published is not, and of two reasons for one version the
/// first stays.
#[must_use]
pub fn may_refuse(
    version: ContentHash,
    published: Option<ContentHash>,
    refused: Option<ContentHash>,
) -> bool {
    published != Some(version) && refused != Some(version)
}

/// Whether a chunk is in the scope of a search.
#[must_use]
pub fn is_within(scope: &Scope, doc: i64, collection: CollectionNo, page: Option<u32>) -> bool {
    scope.collections.contains(&collection)
        && scope.docs.as_ref().is_none_or(|docs| docs.contains(&doc))
        && scope.page.is_none_or(|wanted| page == Some(wanted))
}
