//! Where an index goes: the directory, the collection it becomes, and the model its vectors are made by.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use redrive_core::id::ContentHash;
use redrive_engine::env::system_now;
use redrive_index::mail::{self, Archives, ArchivesSpec, ListTally, Threads, ThreadsSpec, find_archives};
use redrive_index::{Files, FilesSpec, canonical_root};
use redrive_ingest::walk::WalkOptions;
use redrive_pipeline::{Definition, MailStep, SourceKind, StageDef, StageKind};
use redrive_store::Index;
use redrive_store::index::{Collection, NewCollection};

use super::model::{Embedding, embedding_of};
use crate::Floor;
use crate::error::{Code, Error, Result};
use crate::sources::walk_of;
use crate::wiring::Wiring;

/// How files are taken apart beside what a pipeline says of it. Another one has every file taken apart anew at the next
/// look; texts that were embedded are not embedded again.
const WAY: &[u8] = b"2";

/// The same of how threads are made and summarised.
const SUMMARY_WAY: &str = "1";

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
    /// Counts what is found in mail archives.
    pub listed: Arc<Mutex<ListTally>>,
    /// Whether it is mail.
    pub is_mail: bool,
    /// The model that writes summaries, where one does.
    pub chat_model: Option<String>,
}

/// Whether a pipeline makes an index.
#[must_use]
pub fn makes_index(definition: &Definition) -> bool {
    let with_model = walk_of(definition).is_some() || definition.source.kind == SourceKind::Mbox;
    (with_model && embedding_of(definition).is_some()) || definition.source.kind == SourceKind::Threads
}

impl IndexTarget {
    /// Where the index of the directory `root` goes that a pipeline makes; `None` when it makes none.
    ///
    /// # Errors
    /// When there is no such directory, a key is missing, its index was made with another model, or the store fails.
    pub async fn open(floor: &Floor, definition: &Definition, root: &str) -> Result<Option<Self>> {
        match definition.source.kind {
            SourceKind::Threads => return Self::of_threads(floor, definition).await.map(Some),
            SourceKind::Mbox => return Self::of_mail(floor, definition).await,
            SourceKind::Files(_) | SourceKind::Lines(_) | SourceKind::Inbox => {}
        }
        let (Some(walk), Some(embedding)) = (walk_of(definition), embedding_of(definition)) else {
            return Ok(None);
        };
        let (path, root) = canonical_root(Path::new(root)).map_err(|problem| {
            Error::wrong(problem).hint("name a directory, for example `redrive index .`")
        })?;
        let collection = opened(floor, definition, &root, &embedding).await?;
        let parse = definition.all_stages().find(|stage| matches!(stage.kind, StageKind::Parse { .. }));
        let parse = parse.map(StageDef::config_hash).unwrap_or_default();
        Ok(Some(Self {
            walk,
            mark: ContentHash::of(&[parse.as_bytes(), collection.spec.model.as_bytes(), WAY]).short(),
            ..Self::plain(floor, path, collection)
        }))
    }

    /// Where something goes whose marks and walk are still to be said.
    fn plain(floor: &Floor, root: PathBuf, collection: Collection) -> Self {
        Self {
            root,
            walk: WalkOptions::default(),
            index: floor.index.clone(),
            collection,
            mark: 0,
            words_only: Arc::default(),
            listed: Arc::default(),
            is_mail: false,
            chat_model: None,
        }
    }

    /// Where mail goes.
    async fn of_mail(floor: &Floor, definition: &Definition) -> Result<Option<Self>> {
        let Some(embedding) = embedding_of(definition) else { return Ok(None) };
        let collection = opened(floor, definition, mail::ROOT, &embedding).await?;
        let is_read =
            |stage: &&StageDef| matches!(stage.kind, StageKind::Mail { step: MailStep::Read { .. } });
        let read = definition.all_stages().find(is_read).map(StageDef::config_hash).unwrap_or_default();
        let mark = ContentHash::of(&[read.as_bytes(), collection.spec.model.as_bytes(), WAY]).short();
        Ok(Some(Self { mark, is_mail: true, ..Self::plain(floor, PathBuf::from("/"), collection) }))
    }

    /// Where summaries of threads go.
    async fn of_threads(floor: &Floor, definition: &Definition) -> Result<Self> {
        check_keys(&*floor.wiring, definition)?;
        let all = floor.index.collections().await?;
        let collection = all.into_iter().find(|one| one.spec.root == mail::ROOT).ok_or_else(no_mail)?;
        let mut parts: Vec<String> = vec![SUMMARY_WAY.to_owned()];
        let mut chat_model = None;
        for stage in definition.all_stages() {
            parts.push(stage.config_hash());
            if let StageKind::Chat { model, .. } = &stage.kind {
                chat_model = Some(model.model.clone());
            }
        }
        let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
        let mark = ContentHash::of(&parts).short();
        Ok(Self { mark, is_mail: true, chat_model, ..Self::plain(floor, PathBuf::from("/"), collection) })
    }

    /// The archives at these paths that are not in the index as they are.
    ///
    /// # Errors
    /// When one is not there.
    pub fn archives(&self, paths: &[String]) -> Result<Archives> {
        let found = find_archives(paths).map_err(|why| {
            Error::wrong(why).hint("name mbox files or Maildirs, for example `redrive mail list.mbox`")
        })?;
        Ok(Archives::new(ArchivesSpec {
            found,
            index: self.index.clone(),
            collection: self.collection.no,
            mark: self.mark,
            now: system_now,
        }))
    }

    /// The threads whose summaries are not those of what they are.
    #[must_use]
    pub fn threads(&self) -> Threads {
        Threads::new(ThreadsSpec {
            index: self.index.clone(),
            collection: self.collection.no,
            mark: self.mark,
        })
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

/// Opens the collection of a root for a model, or makes it.
async fn opened(
    floor: &Floor,
    definition: &Definition,
    root: &str,
    embedding: &Embedding,
) -> Result<Collection> {
    // What is missing is told before the directory is bound to a model.
    check_keys(&*floor.wiring, definition)?;
    let index = &floor.index;
    let new = NewCollection {
        root: root.to_owned(),
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
        .hint(if root == mail::ROOT {
            "go on with that model, or keep this mail in a store of its own: --store sqlite:PATH"
        } else {
            "go on with that model, or make the index anew with --rebuild"
        }));
    }
    // The same model may have moved, or its key.
    if collection.spec.settings != embedding.settings {
        index.change_settings(collection.no, embedding.settings.clone()).await?;
        collection.spec.settings.clone_from(&embedding.settings);
    }
    Ok(collection)
}

/// There is no mail to look at.
pub(crate) fn no_mail() -> Error {
    Error::not_found("this store has no mail")
        .code(Code::IndexNotFound)
        .hint("`redrive mail ARCHIVE` takes an archive in")
}

/// Sees to it that every key of a pipeline's models is there, but for stages that others are told to do.
///
/// # Errors
/// With the first that is missing.
pub fn check_keys(wiring: &dyn Wiring, definition: &Definition) -> Result<()> {
    for stage in definition.all_stages().filter(|stage| stage.event.is_none()) {
        if let StageKind::Embed { model, .. } | StageKind::Chat { model, .. } = &stage.kind {
            wiring.check_model(model).map_err(Error::wrong)?;
        }
    }
    Ok(())
}
