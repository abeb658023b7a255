//! The index in maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::grams;
use redrive_core::index::{Chunk, CollectionNo, DocKey, Effect, ModelNo, VectorKey};
use redrive_core::time::Timestamp;
use redrive_core::vector::{Hit, Nearest, Quantised};

use super::MemoryStore;
use crate::index::{
    Collection, Doc, FoundChunk, IndexSize, NearestQuery, NewCollection, Refused, Scope, Seen, SeenAs,
    WordsQuery,
};
use crate::rule::index::{Outdated, Published, is_within, may_publish, may_refuse, outdated};
use crate::{Error, Index, Result, RunFilter};

#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    /// Names, and how many numbers their vectors have.
    models: Vec<(String, u32)>,
    collections: BTreeMap<CollectionNo, Collection>,
    docs: BTreeMap<i64, (DocKey, Doc)>,
    chunks: BTreeMap<i64, Chunk>,
    vectors: BTreeMap<VectorKey, Quantised>,
    last: i64,
}

impl Kept {
    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Keep(kept) => {
                self.vectors.entry(kept.key).or_insert_with(|| kept.vector.clone());
            }
            Effect::Put(chunk) => {
                self.doc(&chunk.doc);
                let alike =
                    |at: &Chunk| (&at.doc, &at.key, at.edition) == (&chunk.doc, &chunk.key, chunk.edition);
                let there = self.chunks.iter().find(|(_, at)| alike(at));
                let id = there.map_or_else(|| self.last + 1, |(id, _)| *id);
                self.last = self.last.max(id);
                self.chunks.insert(id, Chunk::clone(&chunk));
            }
            Effect::Publish(publish) => {
                let now = self.doc(&publish.doc);
                let now = Published { rev: now.rev, version: now.published, mark: now.mark };
                if !may_publish(&publish, now) {
                    self.chunks
                        .retain(|_, chunk| chunk.doc != publish.doc || chunk.edition != publish.edition);
                    return;
                }
                let outdated = outdated(&publish, now);
                self.chunks.retain(|_, chunk| {
                    let goes = match outdated {
                        Outdated::Others => chunk.edition != publish.edition,
                        Outdated::Edition(edition) => Some(chunk.edition) == edition,
                    };
                    chunk.doc != publish.doc || !goes
                });
                let doc = self.doc(&publish.doc);
                (doc.published, doc.mark, doc.refused) = (Some(publish.version), publish.mark, None);
                doc.facts = publish.facts;
                doc.rev += 1;
            }
            Effect::Forget(key) => {
                self.chunks.retain(|_, chunk| chunk.doc != key);
                let doc = self.doc(&key);
                (doc.published, doc.seen, doc.refused, doc.facts) = (None, None, None, None);
                doc.rev += 1;
            }
        }
    }

    /// Notes how many numbers the vectors of a model have, where that is not known yet.
    fn learn(&mut self, model: ModelNo, dimensions: u32) -> Option<u32> {
        let at = usize::try_from(model.0).ok()?.checked_sub(1)?;
        let (_, known) = self.models.get_mut(at)?;
        *known = if *known == 0 { dimensions } else { *known };
        let known = *known;
        for collection in self.collections.values_mut().filter(|collection| collection.model_no == model) {
            collection.spec.dimensions = known;
        }
        Some(known)
    }

    /// The number of a model; it gets one when it has none.
    fn model(&mut self, name: &str) -> ModelNo {
        let at = self.models.iter().position(|(model, _)| model == name).unwrap_or_else(|| {
            self.models.push((name.to_owned(), 0));
            self.models.len() - 1
        });
        ModelNo(i64::try_from(at).unwrap_or(i64::MAX).saturating_add(1))
    }

    fn no_of(&self, key: &DocKey) -> Option<i64> {
        self.docs.iter().find(|(_, (its, _))| its == key).map(|(no, _)| *no)
    }

    /// Refuses a collection that somebody has forgotten meanwhile.
    fn require(&self, collection: CollectionNo) -> Result<()> {
        self.collections.contains_key(&collection).then_some(()).ok_or(Error::IndexReplaced)
    }

    /// Refuses an effect on a collection that is not there.
    pub(super) fn accepts(&self, effect: &Effect) -> Result<()> {
        match effect {
            Effect::Keep(_) => Ok(()),
            Effect::Put(chunk) => self.require(chunk.doc.collection),
            Effect::Publish(publish) => self.require(publish.doc.collection),
            Effect::Forget(doc) => self.require(doc.collection),
        }
    }

    fn doc(&mut self, key: &DocKey) -> &mut Doc {
        let no = self.no_of(key).unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        let new = || Doc {
            no,
            path: key.path.clone(),
            kind: String::new(),
            seen: None,
            published: None,
            mark: 0,
            rev: 0,
            looks: 0,
            refused: None,
            facts: None,
        };
        &mut self.docs.entry(no).or_insert_with(|| (key.clone(), new())).1
    }

    /// A chunk as it is told.
    fn found(&self, id: i64) -> Option<FoundChunk> {
        let chunk = self.chunks.get(&id)?;
        let doc = self.no_of(&chunk.doc).and_then(|no| self.docs.get(&no));
        Some(FoundChunk {
            id,
            collection: chunk.doc.collection,
            path: chunk.doc.path.clone(),
            kind: doc.map(|(_, doc)| doc.kind.clone()).unwrap_or_default(),
            key: chunk.key.to_string(),
            place: chunk.place,
            context: chunk.context.clone(),
            text: chunk.text.clone(),
        })
    }

    fn is_within(&self, chunk: &Chunk, scope: &Scope) -> bool {
        let doc = self.no_of(&chunk.doc);
        doc.is_some_and(|doc| is_within(scope, doc, chunk.doc.collection, chunk.place.page))
    }
}

/// What a word or a text is looked up by; `it's` is two in a row.
fn split_words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[async_trait]
impl Index for MemoryStore {
    async fn collections(&self) -> Result<Vec<Collection>> {
        Ok(self.lock().index.collections.values().cloned().collect())
    }

    async fn open_collection(&self, new: NewCollection, now: Timestamp) -> Result<Collection> {
        let index = &mut self.change()?.index;
        if let Some(there) = index.collections.values().find(|collection| collection.spec.root == new.root) {
            return Ok(there.clone());
        }
        index.last += 1;
        let no = CollectionNo(index.last);
        let model_no = index.model(&new.model);
        let dimensions = index.learn(model_no, new.dimensions).unwrap_or(new.dimensions);
        let spec = NewCollection { dimensions, ..new };
        let collection = Collection { no, model_no, spec, created_at: now };
        index.collections.insert(no, collection.clone());
        Ok(collection)
    }

    async fn change_settings(&self, collection: CollectionNo, settings: String) -> Result<()> {
        if let Some(kept) = self.change()?.index.collections.get_mut(&collection) {
            kept.spec.settings = settings;
        }
        Ok(())
    }

    async fn learn_dimensions(&self, model: ModelNo, dimensions: u32) -> Result<u32> {
        let known = self.change()?.index.learn(model, dimensions);
        known.ok_or_else(|| Error::NotFound(format!("model {}", model.0)))
    }

    async fn renew_collection(&self, new: NewCollection) -> Result<bool> {
        let index = &mut self.change()?.index;
        let model_no = index.model(&new.model);
        let Some(no) = index.collections.values().find(|one| one.spec.root == new.root).map(|one| one.no)
        else {
            return Ok(false);
        };
        let dimensions = index.learn(model_no, new.dimensions).unwrap_or(new.dimensions);
        if let Some(kept) = index.collections.get_mut(&no) {
            (kept.model_no, kept.spec) = (model_no, NewCollection { dimensions, ..new });
        }
        for (_, doc) in index.docs.values_mut().filter(|(key, _)| key.collection == no) {
            (doc.mark, doc.refused) = (0, None);
            doc.seen = doc.seen.map(|seen| SeenAs { stamp: None, ..seen });
        }
        Ok(true)
    }

    async fn drop_collection(&self, collection: CollectionNo) -> Result<()> {
        let index = &mut self.change()?.index;
        index.collections.remove(&collection);
        index.docs.retain(|_, (key, _)| key.collection != collection);
        index.chunks.retain(|_, chunk| chunk.doc.collection != collection);
        Ok(())
    }

    async fn drop_model(&self, name: &str) -> Result<bool> {
        let index = &mut self.change()?.index;
        if index.collections.values().any(|collection| collection.spec.model == name) {
            return Ok(false);
        }
        if let Some(at) = index.models.iter().position(|(model, _)| model == name) {
            let model = ModelNo(i64::try_from(at).unwrap_or(i64::MAX) + 1);
            index.models[at].1 = 0;
            index.vectors.retain(|key, _| key.model != model);
        }
        Ok(true)
    }

    async fn docs(&self, collection: CollectionNo, paths: Vec<Arc<str>>) -> Result<Vec<Option<Doc>>> {
        let index = &self.lock().index;
        let doc = |path| {
            let no = index.no_of(&DocKey { collection, path })?;
            index.docs.get(&no).map(|(_, doc)| doc.clone())
        };
        Ok(paths.into_iter().map(doc).collect())
    }

    async fn docs_after(&self, collection: CollectionNo, after: i64, limit: usize) -> Result<Vec<Doc>> {
        let index = &self.lock().index;
        let later = index.docs.range(after.saturating_add(1)..).map(|(_, kept)| kept);
        let docs = later.filter(|(key, _)| key.collection == collection).map(|(_, doc)| doc.clone());
        Ok(docs.take(limit).collect())
    }

    async fn observe(&self, collection: CollectionNo, seen: Vec<Seen>) -> Result<()> {
        let index = &mut self.change()?.index;
        index.require(collection)?;
        for Seen { path, kind, seen } in seen {
            let doc = index.doc(&DocKey { collection, path });
            doc.looks += i64::from(doc.seen.is_some_and(|before| before.hash != seen.hash));
            (doc.kind, doc.seen) = (kind, Some(seen));
        }
        Ok(())
    }

    async fn refuse(&self, collection: CollectionNo, refused: Vec<Refused>) -> Result<()> {
        let index = &mut self.change()?.index;
        for Refused { path, version, why } in refused {
            index.require(collection)?;
            let doc = index.doc(&DocKey { collection, path });
            if may_refuse(version, doc.published, doc.refused.as_ref().map(|(version, _)| *version)) {
                doc.refused = Some((version, why));
            }
        }
        Ok(())
    }

    async fn known(&self, keys: Vec<VectorKey>) -> Result<Vec<bool>> {
        let index = &self.lock().index;
        Ok(keys.iter().map(|key| index.vectors.contains_key(key)).collect())
    }

    async fn drop_unused_vectors(&self, limit: usize) -> Result<u64> {
        let state = &mut *self.change()?;
        let unfinished = RunFilter { unfinished: true, ..RunFilter::default() };
        if !state.list_runs(&unfinished, None, 1).is_empty() {
            return Ok(0);
        }
        let index = &mut state.index;
        let used = |key: &VectorKey| index.chunks.values().any(|chunk| chunk.vector == Some(*key));
        let unused: Vec<VectorKey> =
            index.vectors.keys().filter(|key| !used(key)).take(limit).copied().collect();
        unused.iter().for_each(|key| drop(index.vectors.remove(key)));
        Ok(unused.len() as u64)
    }

    async fn drop_gone_docs(&self, limit: usize) -> Result<u64> {
        let state = &mut *self.change()?;
        let unfinished = RunFilter { unfinished: true, ..RunFilter::default() };
        if !state.list_runs(&unfinished, None, 1).is_empty() {
            return Ok(0);
        }
        let index = &mut state.index;
        let is_gone = |key: &DocKey, doc: &Doc| {
            let known = doc.published.is_some() || doc.seen.is_some() || doc.refused.is_some();
            !known && !index.chunks.values().any(|chunk| chunk.doc == *key)
        };
        let gone: Vec<i64> = index
            .docs
            .iter()
            .filter(|(_, (key, doc))| is_gone(key, doc))
            .map(|(no, _)| *no)
            .take(limit)
            .collect();
        gone.iter().for_each(|no| drop(index.docs.remove(no)));
        Ok(gone.len() as u64)
    }

    async fn nearest(&self, query: NearestQuery) -> Result<Vec<Hit>> {
        let index = &self.lock().index;
        let mut nearest = Nearest::new(&query.vector, query.count);
        for (id, chunk) in index.chunks.iter().filter(|(_, chunk)| index.is_within(chunk, &query.scope)) {
            let of_model = chunk.vector.filter(|key| key.model == query.model);
            if let Some(vector) = of_model.and_then(|key| index.vectors.get(&key)) {
                nearest.look(*id, &vector.codes, vector.scale);
            }
        }
        Ok(nearest.found())
    }

    async fn containing(&self, query: WordsQuery) -> Result<Vec<Hit>> {
        let index = &self.lock().index;
        let words: Vec<(Vec<String>, Vec<grams::Lookup>)> =
            query.words.iter().map(|word| (split_words(word), grams::lookups(word))).collect();
        let mut hits: Vec<Hit> = Vec::new();
        for (id, chunk) in index.chunks.iter().filter(|(_, chunk)| index.is_within(chunk, &query.scope)) {
            let fields = [split_words(&chunk.context), split_words(&chunk.text)];
            let pieces = [grams::of(&chunk.context), grams::of(&chunk.text)].concat();
            let share = |(word, lookups): &(Vec<String>, Vec<grams::Lookup>)| {
                let is_word = !word.is_empty()
                    && fields.iter().any(|there| there.windows(word.len()).any(|at| at == *word));
                let found = lookups.iter().filter(|lookup| lookup.is_in(&pieces)).count();
                f32::from(u8::from(is_word)) + found as f32 / lookups.len().max(1) as f32
            };
            let score: f32 = words.iter().map(share).sum();
            if score > 0.0 {
                hits.push(Hit { id: *id, score });
            }
        }
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
        hits.truncate(query.count);
        Ok(hits)
    }

    async fn chunks(&self, ids: Vec<i64>) -> Result<Vec<FoundChunk>> {
        let index = &self.lock().index;
        Ok(ids.into_iter().filter_map(|id| index.found(id)).collect())
    }

    async fn chunks_of(&self, doc: i64, from: u32, limit: usize) -> Result<Vec<FoundChunk>> {
        let index = &self.lock().index;
        let Some((key, _)) = index.docs.get(&doc) else { return Ok(Vec::new()) };
        let own = || index.chunks.iter().filter(|(_, chunk)| chunk.doc == *key);
        let Some(edition) = own().next().map(|(_, first)| first.edition) else { return Ok(Vec::new()) };
        let mut ids: Vec<(u32, i64)> = own()
            .filter(|(_, chunk)| chunk.edition == edition && chunk.place.ordinal >= from)
            .map(|(id, chunk)| (chunk.place.ordinal, *id))
            .collect();
        ids.sort_unstable();
        ids.truncate(limit);
        Ok(ids.into_iter().filter_map(|(_, id)| index.found(id)).collect())
    }

    async fn index_faults(&self, limit: usize) -> Result<Vec<String>> {
        let index = &self.lock().index;
        let fault = |chunk: &Chunk| {
            if chunk.vector.is_some_and(|key| !index.vectors.contains_key(&key)) {
                return Some(format!("chunk {} of {} has no vector", chunk.key, chunk.doc.path));
            }
            None
        };
        Ok(index.chunks.values().filter_map(fault).take(limit).collect())
    }

    async fn size(&self, collection: CollectionNo) -> Result<IndexSize> {
        let index = &self.lock().index;
        let Some(spec) = index.collections.get(&collection) else { return Ok(IndexSize::default()) };
        let docs = index.docs.values().filter(|(key, _)| key.collection == collection);
        let chunks = index.chunks.values().filter(|chunk| chunk.doc.collection == collection);
        let published = docs.clone().filter(|(_, doc)| doc.published.is_some());
        Ok(IndexSize {
            documents: published.clone().count() as u64,
            refused: docs.filter(|(_, doc)| doc.refused.is_some()).count() as u64,
            empty: published.filter(|(key, _)| !index.chunks.values().any(|chunk| chunk.doc == *key)).count()
                as u64,
            chunks: chunks.clone().count() as u64,
            words_only: chunks.clone().filter(|chunk| chunk.vector.is_none()).count() as u64,
            vectors: index.vectors.keys().filter(|key| key.model == spec.model_no).count() as u64,
            text_bytes: chunks.map(|chunk| chunk.text.len() as u64).sum(),
        })
    }
}
