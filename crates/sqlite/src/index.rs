//! The index of a store: each verb is handed to the thread that does it.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::index::{CollectionNo, ModelNo, VectorKey};
use redrive_core::time::Timestamp;
use redrive_core::vector::{Hit, Nearest};
use redrive_store::index::{
    Collection, Doc, FoundChunk, IndexSize, NearestQuery, NewCollection, Refused, Seen, WordsQuery,
};
use redrive_store::{Index, Result};

use crate::SqliteStore;
use crate::verb::index::search::Candidates;
use crate::verb::index::{self, collection, doc, search};

impl SqliteStore {
    /// Looks at all vectors, half of them on each reading thread.
    async fn look_at_all(
        &self,
        query: &Arc<NearestQuery>,
        among: &Candidates,
        last: i64,
        count: usize,
    ) -> Result<Vec<Hit>> {
        let half = |numbers: std::ops::Range<i64>| {
            let (query, among) = (query.clone(), among.clone());
            self.read(move |conn| search::scan(conn, &query, &among, numbers, count))
        };
        let middle = last / 2;
        let (first, second) = tokio::join!(half(0..middle), half(middle..last.saturating_add(1)));
        let mut nearest = Nearest::new(&query.vector, count);
        nearest.merge(first?);
        nearest.merge(second?);
        Ok(nearest.found())
    }
}

#[async_trait]
impl Index for SqliteStore {
    async fn collections(&self) -> Result<Vec<Collection>> {
        self.read(collection::all).await
    }

    async fn open_collection(&self, new: NewCollection, now: Timestamp) -> Result<Collection> {
        self.write(2, move |tx| collection::open(tx, &new, now)).await
    }

    async fn change_settings(&self, no: CollectionNo, settings: String) -> Result<()> {
        self.write(1, move |tx| collection::change_settings(tx, no, &settings)).await
    }

    async fn learn_dimensions(&self, model: ModelNo, dimensions: u32) -> Result<u32> {
        self.write(1, move |tx| collection::learn_dimensions(tx, model, dimensions)).await
    }

    async fn renew_collection(&self, new: NewCollection) -> Result<bool> {
        self.write(2, move |tx| collection::renew(tx, &new)).await
    }

    async fn drop_collection(&self, no: CollectionNo) -> Result<()> {
        self.write(1, move |tx| collection::remove(tx, no)).await
    }

    async fn drop_model(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.write(1, move |tx| collection::remove_model(tx, &name)).await
    }

    async fn docs(&self, no: CollectionNo, paths: Vec<Arc<str>>) -> Result<Vec<Option<Doc>>> {
        self.read(move |conn| doc::by_path(conn, no, &paths)).await
    }

    async fn docs_after(&self, no: CollectionNo, after: i64, limit: usize) -> Result<Vec<Doc>> {
        self.read(move |conn| doc::after(conn, no, after, limit)).await
    }

    async fn observe(&self, no: CollectionNo, seen: Vec<Seen>) -> Result<()> {
        self.write(seen.len(), move |tx| doc::observe(tx, no, &seen)).await
    }

    async fn refuse(&self, no: CollectionNo, refused: Vec<Refused>) -> Result<()> {
        self.write(refused.len(), move |tx| doc::refuse(tx, no, &refused)).await
    }

    async fn known(&self, keys: Vec<VectorKey>) -> Result<Vec<bool>> {
        self.read(move |conn| index::known(conn, &keys)).await
    }

    async fn drop_unused_vectors(&self, limit: usize) -> Result<u64> {
        self.write(limit, move |tx| index::drop_unused_vectors(tx, limit)).await
    }

    async fn drop_gone_docs(&self, limit: usize) -> Result<u64> {
        self.write(limit, move |tx| index::drop_gone_docs(tx, limit)).await
    }

    async fn nearest(&self, query: NearestQuery) -> Result<Vec<Hit>> {
        if query.count == 0 {
            return Ok(Vec::new());
        }
        let query = Arc::new(query);
        let asked = query.clone();
        let (among, last) = self.read(move |conn| search::candidates(conn, &asked)).await?;
        // One more than is wanted tells whether the last one wanted has equals that were not looked at.
        let mut count = query.count.saturating_add(1);
        loop {
            let vectors = self.look_at_all(&query, &among, last, count).await?;
            let unseen = vectors.last().filter(|_| vectors.len() >= count).map(|worst| worst.score);
            let asked = query.clone();
            let hits = self.read(move |conn| search::chunks_of(conn, &vectors, &asked)).await?;
            let last_wanted = hits.get(query.count - 1).map(|hit| hit.score);
            // Vectors that no chunk points to any more take places, and of equals the chunk with the lower number goes
            // first, whatever the numbers of their vectors: look again, further down.
            match (unseen, last_wanted) {
                (Some(unseen), Some(wanted)) if wanted > unseen => return Ok(hits),
                (None, _) => return Ok(hits),
                (Some(_), _) => count = count.saturating_mul(4),
            }
        }
    }

    async fn containing(&self, query: WordsQuery) -> Result<Vec<Hit>> {
        self.read(move |conn| search::containing(conn, &query)).await
    }

    async fn chunks(&self, ids: Vec<i64>) -> Result<Vec<FoundChunk>> {
        self.read(move |conn| search::chunks(conn, &ids)).await
    }

    async fn chunks_of(&self, doc: i64, from: u32, limit: usize) -> Result<Vec<FoundChunk>> {
        self.read(move |conn| search::chunks_in(conn, doc, from, limit)).await
    }

    async fn index_faults(&self, limit: usize) -> Result<Vec<String>> {
        self.read(move |conn| index::faults(conn, limit)).await
    }

    async fn size(&self, no: CollectionNo) -> Result<IndexSize> {
        self.read(move |conn| collection::size(conn, no)).await
    }
}
