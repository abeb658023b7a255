//! Where an index goes: the directory, the collection it becomes, and the model its vectors are made by.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use redrive_core::id::{ContentHash, ItemId};
use redrive_core::time::Timestamp;
use redrive_core::vector::{Quantised, normalise};
use redrive_embed::Embedder;
use redrive_engine::env::system_now;
use redrive_engine::handler::{Handler, Input, Reply, Request};
use redrive_index::{Files, FilesSpec};
use redrive_ingest::walk::WalkOptions;
use redrive_operate::Error;
use redrive_pipeline::{Definition, ModelDef, SourceKind, StageKind};
use redrive_store::Index;
use redrive_store::index::{Collection, NewCollection};
use serde::{Deserialize, Serialize};

use super::handlers;

/// How files are taken apart beside what a pipeline says of it. Another one has every file taken apart anew at the next
/// look; texts that were embedded are not embedded again.
const WAY: &[u8] = b"2";

/// Where an index goes.
pub struct Shelf {
    /// The directory.
    pub root: PathBuf,
    /// Which files of it.
    pub walk: WalkOptions,
    /// The index.
    pub index: Arc<dyn Index>,
    /// The collection in it.
    pub collection: Collection,
    /// Mark of how files are taken apart and embedded.
    pub mark: i64,
    /// Counts the chunks that the model could make no vector of.
    pub words_only: Arc<AtomicU64>,
}

/// What a child that parses is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct ParseSettings {
    pub max_tokens: usize,
    pub min_tokens: usize,
    pub overlap: usize,
    pub max_pages: u32,
    pub max_bytes: u64,
    pub max_container_bytes: u64,
    pub follow_symlinks: bool,
    pub hidden: bool,
    pub ignore_rules: bool,
    pub memory: u64,
}

/// What a child that embeds is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct EmbedSettings {
    /// Where in a payload the text is.
    pub input: String,
    /// Whether a vector is written as a list of numbers.
    pub numbers: bool,
    pub memory: u64,
}

/// The model of an index, as its pipeline describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedding {
    /// Its name: two names, two kinds of vectors.
    pub model: String,
    /// How many numbers its vectors have; 0 when only its first answer will tell.
    pub dimensions: u32,
    /// How it is reached, as JSON, for queries.
    pub settings: String,
}

/// How a model is reached for a query; no secret is in it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "provider", rename_all = "snake_case")]
enum Reached {
    Builtin,
    Openai {
        base_url: String,
        model: String,
        api_key_env: Option<String>,
        dimensions: Option<u32>,
        headers: std::collections::BTreeMap<String, String>,
        header_env: std::collections::BTreeMap<String, String>,
    },
}

/// The model whose vectors a pipeline keeps in the index, if it does.
pub fn embedding_of(definition: &Definition) -> Option<Embedding> {
    definition.all_stages().find_map(|stage| match &stage.kind {
        StageKind::EmbedBuiltin { index: true, .. } => {
            let model = redrive_embed::builtin();
            Some(Embedding {
                model: format!("builtin/{}", model.id().name()),
                dimensions: u32::try_from(model.dimensions()).unwrap_or(0),
                settings: written(&Reached::Builtin),
            })
        }
        StageKind::Embed { model, dimensions, index: true, .. } => Some(Embedding {
            model: match dimensions {
                Some(dimensions) => format!("{}/{dimensions}", model.model),
                None => model.model.clone(),
            },
            dimensions: dimensions.unwrap_or(0),
            settings: written(&reached(model, *dimensions)),
        }),
        _ => None,
    })
}

fn reached(model: &ModelDef, dimensions: Option<u32>) -> Reached {
    Reached::Openai {
        base_url: model.base_url.clone(),
        model: model.model.clone(),
        api_key_env: model.api_key_env.clone(),
        dimensions,
        headers: model.headers.clone(),
        header_env: model.header_env.clone(),
    }
}

fn written(reached: &Reached) -> String {
    serde_json::to_string(reached).unwrap_or_default()
}

impl Shelf {
    /// The shelf of a pipeline that makes an index of the directory `root`; `None` when it makes none.
    pub async fn open(
        definition: &Definition,
        root: &str,
        index: &Arc<dyn Index>,
        now: Timestamp,
    ) -> Result<Option<Self>, Error> {
        let (Some(walk), Some(embedding)) = (walk_of(definition), embedding_of(definition)) else {
            return Ok(None);
        };
        let (path, root) = redrive_index::canonical_root(std::path::Path::new(root)).map_err(|problem| {
            Error::wrong(problem).hint("name a directory, for example `redrive index .`")
        })?;
        // What is missing is told before the directory is bound to a model.
        check_keys(definition)?;
        let new = NewCollection {
            root: root.clone(),
            model: embedding.model.clone(),
            dimensions: embedding.dimensions,
            settings: embedding.settings.clone(),
        };
        let mut collection = index.open_collection(new, now).await?;
        if collection.spec.model != embedding.model {
            return Err(Error::wrong(format!(
                "the index of {root} was made with the model {}, not with {}",
                collection.spec.model, embedding.model
            ))
            .hint("go on with that model, or make the index anew with --rebuild"));
        }
        // The same model may have moved, or its key.
        if collection.spec.settings != embedding.settings {
            index.change_settings(collection.no, embedding.settings.clone()).await?;
            collection.spec.settings.clone_from(&embedding.settings);
        }
        let parse = definition.all_stages().find(|stage| matches!(stage.kind, StageKind::Parse { .. }));
        let parse = parse.map(redrive_pipeline::StageDef::config_hash).unwrap_or_default();
        Ok(Some(Self {
            root: path,
            walk,
            index: index.clone(),
            mark: ContentHash::of(&[parse.as_bytes(), collection.spec.model.as_bytes(), WAY]).short(),
            collection,
            words_only: Arc::default(),
        }))
    }

    /// The files of the directory that are not in the index as they are. `again` takes in those that were refused, and
    /// these.
    pub fn files(&self, again: Option<HashSet<String>>) -> Result<Files, Error> {
        let spec = FilesSpec {
            root: self.root.clone(),
            options: self.walk.clone(),
            index: self.index.clone(),
            collection: self.collection.no,
            mark: self.mark,
            again,
            now: system_now,
        };
        Files::open(spec).map_err(|error| Error::wrong(error.to_string()))
    }
}

/// Which files of a directory a pipeline takes; `None` when its source is no directory.
pub fn walk_of(definition: &Definition) -> Option<WalkOptions> {
    let SourceKind::Files(files) = definition.source.kind else { return None };
    Some(WalkOptions {
        hidden: files.hidden,
        follow_symlinks: files.follow_symlinks,
        ignore_rules: files.ignore_rules,
        max_bytes: files.max_bytes,
        max_container_bytes: files.max_container_bytes,
    })
}

/// Sees to it that every key of a pipeline's models is there.
pub fn check_keys(definition: &Definition) -> Result<(), Error> {
    for stage in definition.all_stages() {
        if let StageKind::Embed { model, .. } | StageKind::Chat { model, .. } = &stage.kind {
            handlers::model(model, 1).map_err(Error::wrong)?;
        }
    }
    Ok(())
}

/// The vector of a query, made by the model that made the collection; `None` when it knows no word of it.
pub async fn query_vector(collection: &Collection, query: &str) -> Result<Option<Quantised>, Error> {
    let Some(vector) = vector_of(collection, query).await? else { return Ok(None) };
    let (made, has) = (vector.codes.len(), collection.spec.dimensions);
    if has == 0 {
        return Err(Error::wrong("nothing has been embedded for this index yet")
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

async fn vector_of(collection: &Collection, query: &str) -> Result<Option<Quantised>, Error> {
    let settings = &collection.spec.settings;
    let reached: Reached = serde_json::from_str(settings)
        .map_err(|error| Error::internal(format!("how the model is reached cannot be read: {error}")))?;
    let Reached::Openai { base_url, model, api_key_env, dimensions, headers, header_env } = reached else {
        return Ok(redrive_embed::builtin().embed_one(query).and_then(direction));
    };
    redrive_stages::install_tls();
    let def =
        handlers::Reach { api_key_env: api_key_env.as_deref(), headers: &headers, header_env: &header_env };
    let spec = redrive_stages::EmbedSpec {
        output: String::new(),
        dimensions: dimensions.map(|dimensions| dimensions as usize),
        ..redrive_stages::EmbedSpec::new(def.model(&base_url, &model).map_err(Error::wrong)?)
    };
    let embed = redrive_stages::EmbedHandler::new(spec, Arc::new(system_now)).map_err(Error::wrong)?;
    let payload = serde_json::json!({ "text": query }).to_string().into_bytes();
    let id = ItemId([0; 16]);
    let input = Input {
        id,
        key: "query".into(),
        attempt: 1,
        payload: payload.into(),
        idempotency_key: "query".into(),
    };
    let request =
        Request { stage: "search".into(), items: vec![input], timeout: std::time::Duration::from_secs(30) };
    let failed = |why: &str| {
        Error::internal(format!("the query could not be embedded: {why}"))
            .hint("`--mode words` searches without the model")
    };
    let verdict = match embed.call(request).await.reply {
        Reply::Items(mut verdicts) => verdicts.pop(),
        Reply::Whole(failure) => return Err(failed(failure.message())),
    };
    match verdict {
        Some(redrive_core::event::Verdict::Output(Some(output))) => {
            let numbers: Vec<f32> =
                serde_json::from_slice(&output).map_err(|error| failed(&error.to_string()))?;
            let vector = direction(numbers);
            vector.map(Some).ok_or_else(|| failed("the model answered with a vector without a direction"))
        }
        Some(redrive_core::event::Verdict::Failed { failure, .. }) => Err(failed(failure.message())),
        _ => Err(failed("the model did not answer")),
    }
}

fn direction(mut numbers: Vec<f32>) -> Option<Quantised> {
    normalise(&mut numbers).then(|| Quantised::new(&numbers))
}
