//! Where an index goes: the directory, the collection it becomes, and the model its vectors are made by.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use redrive_core::id::ContentHash;
use redrive_engine::env::system_now;
use redrive_index::{Files, FilesSpec, canonical_root};
use redrive_ingest::walk::WalkOptions;
use redrive_pipeline::{Definition, StageDef, StageKind};
use redrive_store::Index;
use redrive_store::index::{Collection, NewCollection};

use super::model::embedding_of;
use crate::Floor;
use crate::error::{Error, Result};
use crate::sources::walk_of;
use crate::wiring::Wiring;

/// How files are taken apart beside what a pipeline says of it. Another one has every file taken apart anew at the next
/// look; texts that were embedded are not embedded again.
const WAY: &[u8] = b"2";

/// Where an index goes.
pub struct IndexTarget {
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

/// Whether a pipeline makes an index.
#[must_use]
pub fn makes_index(definition: &Definition) -> bool {
    walk_of(definition).is_some() && embedding_of(definition).is_some()
}

impl IndexTarget {
    /// Where the index of the directory `root` goes that a pipeline makes; `None` when it makes none.
    ///
    /// # Errors
    /// When there is no such directory, a key is missing, its index was made with another model, or the store fails.
    pub async fn open(floor: &Floor, definition: &Definition, root: &str) -> Result<Option<Self>> {
        let (Some(walk), Some(embedding)) = (walk_of(definition), embedding_of(definition)) else {
            return Ok(None);
        };
        let (path, root) = canonical_root(Path::new(root)).map_err(|problem| {
            Error::wrong(problem).hint("name a directory, for example `redrive index .`")
        })?;
        // What is missing is told before the directory is bound to a model.
        check_keys(&*floor.wiring, definition)?;
        let index = &floor.index;
        let new = NewCollection {
            root: root.clone(),
            model: embedding.model.clone(),
            dimensions: embedding.dimensions,
            settings: embedding.settings.clone(),
        };
        let mut collection = index.open_collection(new, floor.now()).await?;
        if collection.spec.model != embedding.model {
            return Err(Error::refused(format!(
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
        let parse = parse.map(StageDef::config_hash).unwrap_or_default();
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
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn files(&self, again: Option<HashSet<String>>) -> Result<Files> {
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

/// Sees to it that every key of a pipeline's models is there.
///
/// # Errors
/// With the first that is missing.
pub fn check_keys(wiring: &dyn Wiring, definition: &Definition) -> Result<()> {
    for stage in definition.all_stages() {
        if let StageKind::Embed { model, .. } | StageKind::Chat { model, .. } = &stage.kind {
            wiring.check_model(model).map_err(Error::wrong)?;
        }
    }
    Ok(())
}
