//! What is asked, and what is answered.

use redrive_core::time::Timestamp;
use redrive_store::Error as StoreError;
use serde::{Deserialize, Serialize};

use super::snippet::SnippetLine;

/// What to look for, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchRequest {
    /// What to look for, in the user's words.
    pub query: String,
    /// At most so many hits.
    pub count: usize,
    /// By what.
    pub mode: Mode,
    /// Only in files that match one of these globs; all files when there is none. See [`Filter`](super::Filter).
    pub paths: Vec<String>,
    /// Only in files of this kind or language, such as `markdown` or `rust`.
    pub kind: Option<String>,
    /// Only on this page, from 1.
    pub page: Option<u32>,
    /// Only in messages like this.
    pub mail: MailFilter,
}

/// Which messages may be searched; where anything is said, nothing else is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MailFilter {
    /// Only from senders whose name or address has this in it.
    pub from: Option<String>,
    /// Only of lists whose name has this in it.
    pub list: Option<String>,
    /// Only sent then or later.
    pub since: Option<Timestamp>,
    /// Only sent before.
    pub until: Option<Timestamp>,
}

/// What a passage is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By meaning and by words.
    #[default]
    Hybrid,
    /// By meaning alone.
    Meaning,
    /// By words alone; the query needs no vector.
    Words,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchReport {
    /// The query.
    pub query: String,
    /// What was searched by.
    pub mode: Mode,
    /// How much there was to choose from.
    pub candidates: Candidates,
    /// The passages, best first.
    pub hits: Vec<SearchHit>,
}

/// How many chunks were looked at closely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Candidates {
    /// Files that the globs and the kind left over; `None` when there was neither.
    pub files: Option<usize>,
    /// Chunks found by meaning.
    pub meaning: usize,
    /// Chunks found by words.
    pub words: usize,
}

/// A passage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchHit {
    /// The file, below the root.
    pub path: String,
    /// The page, from 1, where there are pages.
    pub page: Option<u32>,
    /// The first line, from 1.
    pub start: u32,
    /// The last line.
    pub end: u32,
    /// How good it is, to compare hits of one report: in hybrid mode from 0 to 1, else the score of the list.
    pub score: f64,
    /// What it was found by.
    pub by: By,
    /// The directory that the file is in.
    pub root: String,
    /// What the file is.
    pub kind: String,
    /// Title and headings above it.
    pub context: String,
    /// The lines to show.
    pub snippet: Vec<SnippetLine>,
    /// All of its text, as it is in the file.
    pub text: String,
}

/// The scores in the lists that a passage was in.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct By {
    /// Nearness to the query, at most 1.
    pub meaning: Option<f64>,
    /// Weight of the query's words that occur in it; comparable within one report.
    pub words: Option<f64>,
}

/// Why nothing was looked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// There is nothing to look for.
    #[error("the query is empty")]
    EmptyQuery,
    /// A search by words, of a query without a letter or digit.
    #[error("the query has no word to look for")]
    NoWords,
    /// There is nowhere to look.
    #[error("there is no index to search")]
    NoCollection,
    /// Vectors of two models cannot be compared.
    #[error("'{}' and '{}' were indexed by different models, '{}' and '{}'", roots[0], roots[1], models[0], models[1])]
    Models {
        /// Two of the directories.
        roots: Box<[String; 2]>,
        /// Their models.
        models: Box<[String; 2]>,
    },
    /// A search by meaning needs the query's vector. A mistake in the program.
    #[error("a search by meaning needs the query's vector")]
    NoVector,
    /// A glob cannot be read.
    #[error("'{glob}' is not a glob: {why}")]
    BadGlob {
        /// As it was given.
        glob: String,
        /// What is wrong with it.
        why: String,
    },
    /// No file is of this kind.
    #[error("no file is of kind '{given}'; there are: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    UnknownKind {
        /// As it was given.
        given: String,
        /// The kinds there are.
        known: Vec<String>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
