//! Searching: every vector is looked at, words are looked up.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use redrive_core::grams;
use redrive_core::index::{ChunkPlace, CollectionNo, ModelNo};
use redrive_core::vector::{Hit, Nearest};
use redrive_store::index::{FoundChunk, NearestQuery, WordsQuery};
use redrive_store::rule::index::is_within;
use rusqlite::{Connection, OptionalExtension};

use crate::error::Result;

/// The vectors that a search may look at.
#[derive(Debug, Clone)]
pub(crate) enum Candidates {
    /// Those of the query's model.
    All,
    /// These.
    Only(Arc<HashSet<i64>>),
}

/// Says which vectors a search may look at, and the highest number of one.
pub(crate) fn candidates(conn: &Connection, query: &NearestQuery) -> Result<(Candidates, i64)> {
    let last: Option<i64> =
        conn.prepare_cached("SELECT max(no) FROM vector")?.query_row([], |row| row.get(0))?;
    let last = last.unwrap_or(0);
    let scope = &query.scope;
    let others = conn
        .prepare_cached("SELECT no FROM collection WHERE model = ?1")?
        .query_map([query.model.0], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?
        .iter()
        .any(|no| !scope.collections.contains(&CollectionNo(*no)));
    if scope.docs.is_none() && scope.page.is_none() && !others {
        return Ok((Candidates::All, last));
    }
    let mut select = conn.prepare_cached(
        "SELECT chunk.vector, chunk.doc, doc.collection, chunk.page FROM chunk JOIN doc ON doc.no = chunk.doc",
    )?;
    let mut rows = select.query([])?;
    let mut only = HashSet::new();
    while let Some(row) = rows.next()? {
        if is_within(scope, row.get(1)?, CollectionNo(row.get(2)?), row.get(3)?) {
            only.insert(row.get(0)?);
        }
    }
    Ok((Candidates::Only(Arc::new(only)), last))
}

/// Looks at the vectors with these numbers; the hits are vectors.
pub(crate) fn scan(
    conn: &Connection,
    query: &NearestQuery,
    among: &Candidates,
    numbers: Range<i64>,
    count: usize,
) -> Result<Vec<Hit>> {
    let ModelNo(model) = query.model;
    let mut nearest = Nearest::new(&query.vector, count);
    let mut select =
        conn.prepare_cached("SELECT no, model, scale, codes FROM vector WHERE no >= ?1 AND no < ?2")?;
    let mut rows = select.query((numbers.start, numbers.end))?;
    while let Some(row) = rows.next()? {
        let no: i64 = row.get(0)?;
        let wanted = match among {
            Candidates::All => true,
            Candidates::Only(these) => these.contains(&no),
        };
        if wanted && row.get::<_, i64>(1)? == model {
            let scale: f64 = row.get(2)?;
            nearest.look(no, row.get_ref(3)?.as_blob()?, scale as f32);
        }
    }
    Ok(nearest.found())
}

/// The chunks of the vectors that were found, best first.
pub(crate) fn chunks_of(conn: &Connection, vectors: &[Hit], query: &NearestQuery) -> Result<Vec<Hit>> {
    let mut select = conn.prepare_cached(
        "SELECT chunk.no, chunk.doc, doc.collection, chunk.page FROM chunk JOIN doc ON doc.no = chunk.doc
         WHERE chunk.vector = ?1 ORDER BY chunk.no",
    )?;
    let mut hits = Vec::new();
    for vector in vectors {
        let mut rows = select.query([vector.id])?;
        while let Some(row) = rows.next()? {
            if is_within(&query.scope, row.get(1)?, CollectionNo(row.get(2)?), row.get(3)?) {
                hits.push(Hit { id: row.get(0)?, score: vector.score });
            }
        }
    }
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    hits.truncate(query.count);
    Ok(hits)
}

/// Finds the chunks in which words occur, or pieces of words that no word search takes apart.
pub(crate) fn containing(conn: &Connection, query: &WordsQuery) -> Result<Vec<Hit>> {
    // In quotes a word is a word, whatever else it would mean; a NUL would end the whole expression.
    let quote = |word: &str| format!("\"{}\"", word.replace('\0', " ").replace('"', "\"\""));
    let words: Vec<String> = query.words.iter().map(|word| quote(word)).collect();
    let pieces = query.words.iter().flat_map(|word| grams::lookups(word)).map(|lookup| {
        let row = quote(&lookup.grams.join(" "));
        if lookup.open { format!("{row} *") } else { row }
    });
    let by_words = "SELECT words.rowid, bm25(words, 0.5, 1.0) AS rank, chunk.doc, doc.collection, chunk.page
         FROM words JOIN chunk ON chunk.no = words.rowid JOIN doc ON doc.no = chunk.doc
         WHERE words MATCH ?1 ORDER BY rank, words.rowid";
    let by_pieces = "SELECT gram.rowid, bm25(gram) AS rank, chunk.doc, doc.collection, chunk.page
         FROM gram JOIN chunk ON chunk.no = gram.rowid JOIN doc ON doc.no = chunk.doc
         WHERE gram MATCH ?1 ORDER BY rank, gram.rowid";
    let mut scores: HashMap<i64, f32> = HashMap::new();
    for hit in matching(conn, by_words, &words, query)?.into_iter().chain(matching(
        conn,
        by_pieces,
        &pieces.collect::<Vec<_>>(),
        query,
    )?) {
        *scores.entry(hit.id).or_default() += hit.score;
    }
    let mut hits: Vec<Hit> = scores.into_iter().map(|(id, score)| Hit { id, score }).collect();
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    hits.truncate(query.count);
    Ok(hits)
}

/// The best chunks in which any of these is, by one of the two tables.
fn matching(conn: &Connection, select: &str, any: &[String], query: &WordsQuery) -> Result<Vec<Hit>> {
    if any.is_empty() {
        return Ok(Vec::new());
    }
    let mut select = conn.prepare_cached(select)?;
    let mut rows = select.query([any.join(" OR ")])?;
    let mut hits = Vec::new();
    while hits.len() < query.count
        && let Some(row) = rows.next()?
    {
        if is_within(&query.scope, row.get(2)?, CollectionNo(row.get(3)?), row.get(4)?) {
            let rank: f64 = row.get(1)?;
            hits.push(Hit { id: row.get(0)?, score: -rank as f32 });
        }
    }
    Ok(hits)
}

/// Reads chunks.
pub(crate) fn chunks(conn: &Connection, ids: &[i64]) -> Result<Vec<FoundChunk>> {
    let mut select = conn.prepare_cached(
        "SELECT chunk.no, collection, path, kind, key, ordinal, page, first_line, last_line, first_byte, end_byte,
                context, text
         FROM chunk JOIN doc ON doc.no = chunk.doc WHERE chunk.no = ?1",
    )?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(select.query_row([id], found_chunk).optional()?);
    }
    Ok(found)
}

/// Reads chunks of a document in their order; of two editions, those of the one that was there first.
pub(crate) fn chunks_in(conn: &Connection, doc: i64, from: u32, limit: usize) -> Result<Vec<FoundChunk>> {
    let mut select = conn.prepare_cached(
        "SELECT chunk.no, collection, path, kind, key, ordinal, page, first_line, last_line, first_byte, end_byte,
                context, text
         FROM chunk JOIN doc ON doc.no = chunk.doc
         WHERE chunk.doc = ?1 AND ordinal >= ?2
           AND edition = (SELECT edition FROM chunk WHERE doc = ?1 ORDER BY no LIMIT 1)
         ORDER BY ordinal, chunk.no LIMIT ?3",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = select.query_map((doc, from, limit), found_chunk)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn found_chunk(row: &rusqlite::Row<'_>) -> rusqlite::Result<FoundChunk> {
    Ok(FoundChunk {
        id: row.get(0)?,
        collection: CollectionNo(row.get(1)?),
        path: Arc::from(row.get_ref(2)?.as_str()?),
        kind: row.get(3)?,
        key: row.get(4)?,
        place: ChunkPlace {
            ordinal: row.get(5)?,
            page: row.get(6)?,
            lines: (row.get(7)?, row.get(8)?),
            bytes: (row.get::<_, i64>(9)?.cast_unsigned(), row.get::<_, i64>(10)?.cast_unsigned()),
        },
        context: row.get(11)?,
        text: row.get(12)?,
    })
}
