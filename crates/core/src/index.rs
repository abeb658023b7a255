//! What a stage can have written into the store's own index, in the transaction of its outcome.
//!
//! A collection is one directory. It holds documents, a document holds chunks, and a chunk points to the vector of what
//! was embedded for it, or to none where the model had nothing to say: it is found by its words then. Vectors are kept by the model and the text they were made of, so that a text is embedded once
//! whatever file, chunk size or run it turns up in.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::ContentHash;
use crate::vector::Quantised;

/// A directory that is made searchable; numbered by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CollectionNo(pub i64);

/// A model that vectors were made by; numbered by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelNo(pub i64);

/// Something to be written into the index.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Keeps a vector. One that is there already stays as it is.
    Keep(Arc<KeptVector>),
    /// Puts a chunk into its document, in place of the one with the same key and edition.
    Put(Arc<Chunk>),
    /// The document is complete as this version: chunks of what it takes the place of go.
    Publish(Publish),
    /// The document is gone, and its chunks with it.
    Forget(DocKey),
}

/// Names a vector: who made it of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VectorKey {
    /// The model.
    pub model: ModelNo,
    /// Hash of the text.
    pub text: ContentHash,
}

/// A vector to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptVector {
    /// Its name.
    pub key: VectorKey,
    /// Its numbers.
    pub vector: Quantised,
}

/// Names a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocKey {
    /// The collection.
    pub collection: CollectionNo,
    /// Its path below the collection's root, in printable form.
    pub path: Arc<str>,
}

/// A piece of a document, to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The document.
    pub doc: DocKey,
    /// The edition that it is part of: one version of the document, cut in one way.
    pub edition: ContentHash,
    /// Its name within the document; stays while its content stays.
    pub key: Arc<str>,
    /// Where it is.
    pub place: ChunkPlace,
    /// Title and headings above it.
    pub context: String,
    /// Its text.
    pub text: String,
    /// The vector it is found by; `None` when the model could make none of it, and it is found by words only.
    pub vector: Option<VectorKey>,
}

/// Where in a document a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChunkPlace {
    /// Its place among the chunks, from 0.
    pub ordinal: u32,
    /// The page, from 1, where there are pages.
    pub page: Option<u32>,
    /// The first and the last line, from 1.
    pub lines: (u32, u32),
    /// The first byte and the one after the last, in the document's text.
    pub bytes: (u64, u64),
}

/// A document is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// The document.
    pub doc: DocKey,
    /// As this version.
    pub version: ContentHash,
    /// With the chunks of this edition.
    pub edition: ContentHash,
    /// What it may take the place of. Where it may not, nothing is published, and the edition goes.
    pub over: Over,
    /// Mark of how it was taken apart and embedded.
    pub mark: i64,
    /// What is known of the document beside its chunks, as JSON; `None` for nothing.
    pub facts: Option<Arc<str>>,
}

/// The edition of a document: one version of it, cut and embedded in one way.
#[must_use]
pub fn edition(version: ContentHash, mark: i64) -> ContentHash {
    ContentHash::of(&[&version.0, &mark.to_le_bytes()])
}

/// What a publication may take the place of; the very same version, cut in the same way, in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Whatever is there.
    Any,
    /// The document with this change number, which it had when this was begun: one that has changed since has a newer version.
    Rev(i64),
    /// A version that is not greater than this one, as bytes: whoever comes first, the greatest stays. Others that are greater
    /// may be on their way at the same time, so that only what was published before goes.
    Lesser,
}
