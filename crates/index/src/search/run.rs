//! One search, from the request to the report.

use std::collections::{HashMap, HashSet};

use redrive_core::vector::{Hit, Quantised};
use redrive_store::Index;
use redrive_store::index::{Collection, FoundChunk, NearestQuery, Scope, WordsQuery};

use super::report::{By, Candidates, Mode, SearchError, SearchHit, SearchReport, SearchRequest};
use super::snippet::snippet;
use super::words::Terms;
use super::{Filter, fuse};

/// The two lists; one that was not asked for is empty.
#[derive(Default)]
struct Lists {
    meaning: Vec<Hit>,
    words: Vec<Hit>,
}

/// Searches collections of one model. `vector` is the query's, made by that model; a search by words needs none.
///
/// # Errors
/// [`SearchError`].
pub async fn search(
    index: &dyn Index,
    collections: &[Collection],
    vector: Option<&Quantised>,
    request: &SearchRequest,
) -> Result<SearchReport, SearchError> {
    let terms = checked(collections, vector, request)?;
    let filter = Filter::new(&request.paths, request.kind.as_deref())?.of_mail(&request.mail);
    let docs = filter.docs(index, collections).await?;
    let files = docs.as_ref().map(|docs| docs.len());
    let scope = Scope {
        collections: collections.iter().map(|collection| collection.no).collect(),
        docs,
        page: request.page,
    };
    let lists = if files == Some(0) || request.count == 0 {
        Lists::default()
    } else {
        lists(index, collections, vector, request, &terms, scope).await?
    };
    let candidates = Candidates { files, meaning: lists.meaning.len(), words: lists.words.len() };
    let hits = hits(index, collections, request, &terms, &lists).await?;
    Ok(SearchReport { query: request.query.clone(), mode: request.mode, candidates, hits })
}

fn checked(
    collections: &[Collection],
    vector: Option<&Quantised>,
    request: &SearchRequest,
) -> Result<Terms, SearchError> {
    if request.query.trim().is_empty() {
        return Err(SearchError::EmptyQuery);
    }
    let Some(first) = collections.first() else { return Err(SearchError::NoCollection) };
    let other = collections.iter().find(|collection| collection.model_no != first.model_no);
    if let Some(other) = other.filter(|_| request.mode != Mode::Words) {
        return Err(SearchError::Models {
            roots: Box::new([first.spec.root.clone(), other.spec.root.clone()]),
            models: Box::new([first.spec.model.clone(), other.spec.model.clone()]),
        });
    }
    let terms = Terms::of(&request.query);
    match request.mode {
        Mode::Words if terms.is_empty() => Err(SearchError::NoWords),
        Mode::Hybrid | Mode::Meaning if vector.is_none() => Err(SearchError::NoVector),
        Mode::Words | Mode::Hybrid | Mode::Meaning => Ok(terms),
    }
}

async fn lists(
    index: &dyn Index,
    collections: &[Collection],
    vector: Option<&Quantised>,
    request: &SearchRequest,
    terms: &Terms,
    scope: Scope,
) -> Result<Lists, SearchError> {
    let count = fuse::depth(request.count);
    let mut lists = Lists::default();
    if let (Some(vector), Some(first), Mode::Hybrid | Mode::Meaning) =
        (vector, collections.first(), request.mode)
    {
        let query =
            NearestQuery { model: first.model_no, vector: vector.clone(), scope: scope.clone(), count };
        lists.meaning = index.nearest(query).await?;
    }
    if !terms.is_empty() && matches!(request.mode, Mode::Hybrid | Mode::Words) {
        lists.words = index.containing(WordsQuery { words: terms.lookups(), scope, count }).await?;
    }
    Ok(lists)
}

async fn hits(
    index: &dyn Index,
    collections: &[Collection],
    request: &SearchRequest,
    terms: &Terms,
    lists: &Lists,
) -> Result<Vec<SearchHit>, SearchError> {
    let mut ids: Vec<i64> = lists.meaning.iter().chain(&lists.words).map(|hit| hit.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let chunks: HashMap<i64, FoundChunk> =
        index.chunks(ids).await?.into_iter().map(|chunk| (chunk.id, chunk)).collect();
    let list = match request.mode {
        Mode::Meaning => scored(&lists.meaning),
        Mode::Words => scored(&lists.words),
        Mode::Hybrid => fuse::fused(&lists.meaning, &lists.words, |id| {
            let text =
                |chunk: &FoundChunk| fuse::strength(terms, &format!("{}\n{}", chunk.context, chunk.text));
            chunks.get(&id).map_or(0.0, text)
        }),
    };
    // A chunk that was replaced since it was found is not there any more.
    // Of a document that is being replaced, the old and the new edition can have the same chunk: it is shown once.
    let mut shown = HashSet::new();
    let found = list.into_iter().filter_map(|(id, score)| Some((chunks.get(&id)?, score)));
    let found = found
        .filter(|(chunk, _)| shown.insert((chunk.collection, chunk.path.clone(), chunk.key.clone())))
        .collect();
    let picked = fuse::spread(found, request.count, |(chunk, _)| (chunk.collection, chunk.path.clone()));
    let (meaning, words) = (by_id(&lists.meaning), by_id(&lists.words));
    let hit = |(chunk, score): (&FoundChunk, f64)| {
        let by = By { meaning: meaning.get(&chunk.id).copied(), words: words.get(&chunk.id).copied() };
        let root = collections.iter().find(|collection| collection.no == chunk.collection);
        SearchHit {
            path: chunk.path.to_string(),
            page: chunk.place.page,
            start: chunk.place.lines.0,
            end: chunk.place.lines.1,
            score: rounded(score),
            by,
            root: root.map(|collection| collection.spec.root.clone()).unwrap_or_default(),
            kind: chunk.kind.clone(),
            context: chunk.context.clone(),
            snippet: snippet(&chunk.text, chunk.place.lines.0, terms),
            text: chunk.text.clone(),
        }
    };
    Ok(picked.into_iter().map(hit).collect())
}

fn scored(list: &[Hit]) -> Vec<(i64, f64)> {
    list.iter().map(|hit| (hit.id, f64::from(hit.score))).collect()
}

fn by_id(list: &[Hit]) -> HashMap<i64, f64> {
    list.iter().map(|hit| (hit.id, rounded(f64::from(hit.score)))).collect()
}

/// Four digits: what follows is noise of single precision.
fn rounded(score: f64) -> f64 {
    (score * 1e4).round() / 1e4
}
