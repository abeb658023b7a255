//! Search: find passages in what was indexed, by what they mean and by the words in them.
//!
//! ```
//! # use std::path::Path;
//! # use std::sync::Arc;
//! # use redrive_engine::env::Env;
//! # use redrive_operate::index::{IndexTarget, ServiceModel};
//! # use redrive_operate::{Asker, Floor, Wiring};
//! # use redrive_pipeline::{ModelDef, StageDef};
//! # use redrive_store::MemoryStore;
//! # use redrive_engine::handler::Handler;
//! # use redrive_index::search::Mode;
//! # use redrive_operate::Kind;
//! use redrive_operate::search::{Request, search};
//! # struct Nothing;
//! # impl Wiring for Nothing {
//! #     fn handler(&self, _: &StageDef, _: &Path, _: Option<&IndexTarget>) -> Result<Arc<dyn Handler>, String> {
//! #         Err("nothing runs here".to_owned())
//! #     }
//! #     fn check_model(&self, _: &ModelDef) -> Result<(), String> {
//! #         Ok(())
//! #     }
//! #     fn query_embedder(&self, _: &ServiceModel) -> Result<Arc<dyn Handler>, String> {
//! #         Err("no model is reached here".to_owned())
//! #     }
//! # }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = Arc::new(MemoryStore::new());
//! # let (asker, wiring) = (Asker::admin("me"), Arc::new(Nothing));
//! # let floor = Floor { store: store.clone(), index: store, env: Env::system(), asker, wiring };
//! let request = Request {
//!     query: "how to restore a backup".to_owned(),
//!     count: 8,
//!     mode: Mode::Hybrid,
//!     paths: vec!["docs/**/*.md".to_owned()],
//!     kind: None,
//!     page: None,
//!     dir: None,
//!     model: None,
//!     mail: Default::default(),
//! };
//! let refused = search(&floor, &request).await.unwrap_err();
//! assert_eq!((refused.kind, refused.message.as_str()), (Kind::NotFound, "this store has no index"));
//! # use redrive_store::index::NewCollection;
//! # let settings = r#"{"provider":"builtin"}"#.to_owned();
//! # let new = NewCollection { root: "/docs".to_owned(), model: "m".to_owned(), dimensions: 0, settings };
//! # floor.index.open_collection(new, floor.now()).await?;
//! // Once a directory is indexed:
//! let found = search(&floor, &request).await?;
//! assert_eq!(found.report.hits.len(), 0, "there is no file in it yet");
//! # Ok(())
//! # }
//! ```

use std::path::PathBuf;
use std::time::Duration;

use redrive_core::event::ItemReply;
use redrive_core::id::{ItemId, RunId};
use redrive_core::pool::Rank;
use redrive_core::time::Timestamp;
use redrive_core::vector::{Quantised, normalise};
use redrive_engine::handler::{Input, Reply, Request as Call};
use redrive_index::canonical_root;
use redrive_index::search::{self as index_search, MailFilter, Mode, SearchReport, SearchRequest};
use redrive_store::index::Collection;
use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::error::{Code, Error, Result};
use crate::index::Reached;

/// How long a model may take to embed a query.
const PATIENCE: Duration = Duration::from_secs(30);
const MAKE_ONE: &str = "`redrive index DIR` makes one";

/// What to look for, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What to look for, in the user's words.
    pub query: String,
    /// At most so many passages.
    pub count: usize,
    /// By meaning and words, by meaning, or by words.
    #[serde(default)]
    pub mode: Mode,
    /// Only in files that match one of these globs.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Only in files of this language or kind.
    pub kind: Option<String>,
    /// Only on this page.
    pub page: Option<u32>,
    /// Only in the index of this directory.
    pub dir: Option<PathBuf>,
    /// The model that the index is expected to be made with.
    pub model: Option<String>,
    /// Only in messages like this.
    #[serde(default)]
    pub mail: MailFilter,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// The passages.
    #[serde(flatten)]
    pub report: SearchReport,
    /// Whether it was searched by words alone though meaning was asked for, too: there was no vector to compare.
    #[serde(skip)]
    pub by_words_alone: bool,
}

/// Finds passages.
///
/// # Errors
/// When there is no such index, the query cannot be embedded, or the store fails.
pub async fn search(floor: &Floor, request: &Request) -> Result<Found> {
    floor.require_payloads()?;
    let collections = chosen(&floor.index.collections().await?, request)?;
    let query = &request.query;
    if query.trim().is_empty() {
        return Err(Error::wrong("the query is empty")
            .hint("for example `redrive search \"how to restore a backup\"`"));
    }
    let vector = match request.mode {
        Mode::Words => None,
        // The index is being made, or made anew for another model.
        Mode::Hybrid if collections[0].spec.dimensions == 0 => None,
        Mode::Hybrid | Mode::Meaning => query_vector(floor, &collections[0], query).await?,
    };
    let has_words = !index_search::words::Terms::of(query).is_empty();
    let by_words_alone = request.mode == Mode::Hybrid && vector.is_none() && has_words;
    if !by_words_alone && request.mode != Mode::Words && vector.is_none() {
        let unknown = Error::wrong("there is no word in the query that the model knows");
        let words = "`--mode words` searches by words alone";
        return Err(if has_words { unknown.hint(words) } else { unknown });
    }
    let asked = SearchRequest {
        query: query.clone(),
        count: request.count,
        mode: if by_words_alone { Mode::Words } else { request.mode },
        paths: request.paths.clone(),
        kind: request.kind.clone(),
        page: request.page,
        mail: request.mail.clone(),
    };
    let report = index_search::search(&*floor.index, &collections, vector.as_ref(), &asked)
        .await
        .map_err(|error| Error::wrong(error.to_string()))?;
    Ok(Found { report, by_words_alone })
}

/// The collections to search: all of one model.
fn chosen(all: &[Collection], request: &Request) -> Result<Vec<Collection>> {
    let chosen: Vec<Collection> = match &request.dir {
        None => all.to_vec(),
        Some(dir) => {
            let (_, root) = canonical_root(dir).map_err(Error::wrong)?;
            let of_dir: Vec<Collection> = all.iter().filter(|one| one.spec.root == root).cloned().collect();
            if of_dir.is_empty() {
                return Err(Error::not_found(format!("there is no index of {root}"))
                    .code(Code::IndexNotFound)
                    .hint(MAKE_ONE));
            }
            of_dir
        }
    };
    if let Some(model) = &request.model
        && let Some(other) = chosen.iter().map(|one| &one.spec.model).find(|name| *name != model)
    {
        return Err(Error::wrong(format!("the index was made with the model {other}, not with {model}"))
            .hint("leave --model out, or make the index anew: `redrive index DIR --rebuild`"));
    }
    let Some(first) = chosen.first() else {
        return Err(Error::not_found("this store has no index").code(Code::IndexNotFound).hint(MAKE_ONE));
    };
    if request.mode != Mode::Words && chosen.iter().any(|one| one.model_no != first.model_no) {
        let roots: Vec<String> =
            chosen.iter().map(|one| format!("{} ({})", one.spec.root, one.spec.model)).collect();
        let message = format!("these indexes were made with different models: {}", roots.join(", "));
        return Err(Error::wrong(message).hint("name one with --in DIR"));
    }
    Ok(chosen)
}

/// The vector of a query, made by the model that made the collection; `None` when it knows no word of it.
async fn query_vector(floor: &Floor, collection: &Collection, query: &str) -> Result<Option<Quantised>> {
    let Some(vector) = embed(floor, collection, query).await? else { return Ok(None) };
    let (made, has) = (vector.codes.len(), collection.spec.dimensions);
    if has == 0 {
        return Err(Error::refused("nothing has been embedded for this index yet")
            .hint("`redrive index` again, or look at `redrive failures`"));
    }
    if made == has as usize {
        return Ok(Some(vector));
    }
    Err(Error::wrong(format!(
        "the model answered with a vector of {made} dimensions, the index has {has}: it is another model"
    ))
    .hint("search with the model the index was made with, or `redrive index DIR --reembed`"))
}

async fn embed(floor: &Floor, collection: &Collection, query: &str) -> Result<Option<Quantised>> {
    let settings = &collection.spec.settings;
    let reached: Reached = serde_json::from_str(settings)
        .map_err(|error| Error::internal(format!("how the model is reached cannot be read: {error}")))?;
    let Reached::Openai(model) = reached else {
        return Ok(redrive_embed::builtin().embed_one(query).and_then(direction));
    };
    let embedder = floor.wiring.query_embedder(&model).map_err(Error::wrong)?;
    let failed = |why: &str| {
        Error::internal(format!("the query could not be embedded: {why}"))
            .hint("`--mode words` searches without the model")
    };
    let text = serde_json::to_string(query).map_err(|error| failed(&error.to_string()))?;
    let payload = format!("{{\"text\":{text}}}").into_bytes().into();
    let input = Input::new(ItemId([0; 16]), "query", payload, "query");
    let (run, stage) = (RunId(0), "search".into());
    let rank = Rank::new(0, Timestamp(0), run);
    let call = Call { run, rank, stage, items: vec![input], timeout: PATIENCE };
    let reply = match embedder.call(call).await.reply {
        Reply::Items(mut replies) => replies.pop(),
        Reply::Part { mut replies, .. } => replies.pop().flatten(),
        Reply::Whole(failure) => return Err(failed(failure.message())),
    };
    match reply {
        Some(ItemReply::Output(Some(output))) => {
            let numbers: Vec<f32> =
                serde_json::from_slice(&output).map_err(|error| failed(&error.to_string()))?;
            let vector = direction(numbers);
            vector.map(Some).ok_or_else(|| failed("the model answered with a vector without a direction"))
        }
        Some(ItemReply::Failed { failure, .. }) => Err(failed(failure.message())),
        _ => Err(failed("the model did not answer")),
    }
}

fn direction(mut numbers: Vec<f32>) -> Option<Quantised> {
    normalise(&mut numbers).then(|| Quantised::new(&numbers))
}
