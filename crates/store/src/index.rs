//! The index that a store keeps beside its items: collections, documents, chunks and vectors.
//!
//! Stages write into it by [`Effect`](redrive_core::index::Effect)s, which are part of a commit. The verbs here are for
//! what is not an item's outcome: setting up, looking at files, and searching. Numbers of collections, documents and
//! chunks are not given again.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::id::ContentHash;
use redrive_core::index::{ChunkPlace, CollectionNo, ModelNo, VectorKey};
use redrive_core::time::Timestamp;
use redrive_core::vector::{Hit, Quantised};
use serde::Serialize;

use crate::Result;

/// The index of a store.
#[async_trait]
pub trait Index: Send + Sync {
    /// Reads all collections, by number.
    async fn collections(&self) -> Result<Vec<Collection>>;
    /// Finds the collection of this root, or makes it; one that is there stays as it is. The dimensions are the model's:
    /// where it has none yet, it gets those of the new collection.
    async fn open_collection(&self, new: NewCollection, now: Timestamp) -> Result<Collection>;
    /// Notes how the model of a collection is reached from now on.
    async fn change_settings(&self, collection: CollectionNo, settings: String) -> Result<()>;
    /// Notes how many numbers the vectors of a model have, where that is not known yet; returns how many they have.
    /// [`Error::NotFound`](crate::Error) for a model that is not there.
    async fn learn_dimensions(&self, model: ModelNo, dimensions: u32) -> Result<u32>;
    /// Has the collection of this root made anew with this model: every document is to be read and indexed again, and what is
    /// in it can be found until then. `false` when there is no such collection.
    async fn renew_collection(&self, new: NewCollection) -> Result<bool>;
    /// Forgets a collection with its documents and chunks. Vectors stay, to be used again.
    async fn drop_collection(&self, collection: CollectionNo) -> Result<()>;

    /// Forgets what a model that no collection has was used for: its vectors, and how many numbers they have. `false` when a
    /// collection has it: nothing is forgotten then.
    async fn drop_model(&self, name: &str) -> Result<bool>;

    /// Reads documents by path, in the order they were asked for.
    async fn docs(&self, collection: CollectionNo, paths: Vec<Arc<str>>) -> Result<Vec<Option<Doc>>>;
    /// Reads documents by number, after one.
    async fn docs_after(&self, collection: CollectionNo, after: i64, limit: usize) -> Result<Vec<Doc>>;
    /// Notes how files looked when their content was read.
    async fn observe(&self, collection: CollectionNo, seen: Vec<Seen>) -> Result<()>;
    /// Notes that these files cannot be indexed as they are.
    async fn refuse(&self, collection: CollectionNo, refused: Vec<Refused>) -> Result<()>;

    /// Tells which of these vectors are kept.
    async fn known(&self, keys: Vec<VectorKey>) -> Result<Vec<bool>>;
    /// Forgets vectors that no chunk points to, some a call; returns how many went. Not while a run is unfinished: its
    /// items may count on them.
    async fn drop_unused_vectors(&self, limit: usize) -> Result<u64>;

    /// Forgets documents whose files are gone and of which nothing is left but their change numbers, some a call; returns how
    /// many went. Not while a run is unfinished: its items may be about them.
    async fn drop_gone_docs(&self, limit: usize) -> Result<u64>;

    /// Finds the chunks nearest to a vector, best first; equal ones by number.
    async fn nearest(&self, query: NearestQuery) -> Result<Vec<Hit>>;
    /// Finds the chunks in which words occur, best first. Whatever is in a word, it is a word and never an operator. What
    /// no word search takes apart is found by its [pieces](redrive_core::grams).
    async fn containing(&self, query: WordsQuery) -> Result<Vec<Hit>>;
    /// Reads chunks, in the order they were asked for; those that are gone are left out.
    async fn chunks(&self, ids: Vec<i64>) -> Result<Vec<FoundChunk>>;
    /// Reads chunks of a document in their order, from this place among them on. Of a document that is being replaced, they are
    /// those that were there first.
    async fn chunks_of(&self, doc: i64, from: u32, limit: usize) -> Result<Vec<FoundChunk>>;
    /// What is not as it must be: a chunk that has lost its vector or its document.
    async fn index_faults(&self, limit: usize) -> Result<Vec<String>>;
    /// Counts what is in a collection.
    async fn size(&self, collection: CollectionNo) -> Result<IndexSize>;
}

/// A collection to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCollection {
    /// The directory.
    pub root: String,
    /// Name of the model: two names, two kinds of vectors.
    pub model: String,
    /// How many numbers its vectors have; 0 while nobody knows.
    pub dimensions: u32,
    /// How the model is reached, as JSON, for embedding queries.
    pub settings: String,
}

/// A directory that is made searchable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// Its number.
    pub no: CollectionNo,
    /// The number of its model.
    pub model_no: ModelNo,
    /// What it was made with.
    pub spec: NewCollection,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A file as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doc {
    /// Its number.
    pub no: i64,
    /// Its path below the root, in printable form.
    pub path: Arc<str>,
    /// What it is: `rust`, `markdown`, `pdf` …; empty where nobody looked.
    pub kind: String,
    /// How it looked when it was read last.
    #[serde(skip)]
    pub seen: Option<SeenAs>,
    /// The version that is published; `None` when there is none.
    #[serde(skip)]
    pub published: Option<ContentHash>,
    /// Mark of how that was taken apart and embedded.
    #[serde(skip)]
    pub mark: i64,
    /// Grows with every publication and every time it is forgotten.
    #[serde(skip)]
    pub rev: i64,
    /// Grows each time its content is seen to be another than before.
    #[serde(skip)]
    pub looks: i64,
    /// The version that cannot be indexed, and why.
    #[serde(skip)]
    pub refused: Option<(ContentHash, String)>,
    /// What its publication said of it, as JSON.
    #[serde(skip)]
    pub facts: Option<Arc<str>>,
}

/// How a file looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenAs {
    /// Its size.
    pub size: u64,
    /// What the system noted of it; `None` when it was written so short a time before it was read that another write
    /// could look the same.
    pub stamp: Option<SeenStamp>,
    /// Hash of its content.
    pub hash: ContentHash,
}

/// What the system notes of a file beside its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenStamp {
    /// When it was last written, in UTC milliseconds.
    pub modified_ms: i64,
    /// When anything about it changed last, in UTC nanoseconds.
    pub changed_ns: i64,
    /// Its number in its file system.
    pub inode: u64,
}

/// A file that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its path.
    pub path: Arc<str>,
    /// What it is.
    pub kind: String,
    /// How it looked.
    pub seen: SeenAs,
}

/// A file that cannot be indexed as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its path.
    pub path: Arc<str>,
    /// Which version of it.
    pub version: ContentHash,
    /// Why.
    pub why: String,
}

/// Where to search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Only in these collections.
    pub collections: Vec<CollectionNo>,
    /// Only in these documents.
    pub docs: Option<BTreeSet<i64>>,
    /// Only on this page.
    pub page: Option<u32>,
}

/// A search by meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct NearestQuery {
    /// The model that made the query's vector.
    pub model: ModelNo,
    /// The query's vector.
    pub vector: Quantised,
    /// Where.
    pub scope: Scope,
    /// At most so many.
    pub count: usize,
}

/// A search by words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordsQuery {
    /// The words; a chunk with any of them is found, rare ones count more.
    pub words: Vec<String>,
    /// Where.
    pub scope: Scope,
    /// At most so many.
    pub count: usize,
}

/// A chunk that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundChunk {
    /// Its number.
    pub id: i64,
    /// The collection it is in.
    pub collection: CollectionNo,
    /// The path of its document.
    pub path: Arc<str>,
    /// What the document is.
    pub kind: String,
    /// Its name within the document.
    pub key: String,
    /// Where it is.
    pub place: ChunkPlace,
    /// Title and headings above it.
    pub context: String,
    /// Its text.
    pub text: String,
}

/// How much is in a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct IndexSize {
    /// Documents that are published.
    pub documents: u64,
    /// Documents that cannot be indexed as they are.
    pub refused: u64,
    /// Documents that are published without a chunk: there is no text in them.
    pub empty: u64,
    /// Chunks.
    pub chunks: u64,
    /// Those of them that have no vector and are found by words only.
    pub words_only: u64,
    /// Vectors of its model that are kept, also those no chunk points to any more.
    pub vectors: u64,
    /// Bytes of text.
    pub text_bytes: u64,
}
