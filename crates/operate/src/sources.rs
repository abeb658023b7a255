//! Sources: how the source of a run is called, and how it is opened.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use redrive_core::id::RunId;
use redrive_core::plan::Plan;
use redrive_engine::admin::Plans;
use redrive_engine::source::{Format, LineSpec, Lines, Source, is_pattern, is_stream};
use redrive_index::{Listing, ListingSpec};
use redrive_ingest::walk::WalkOptions;
use redrive_pipeline::{Definition, FilesDef, LineFormat, SourceKind};
use redrive_store::{NewRun, RunRow};

use crate::Floor;
use crate::error::{Code, Error, Result};
use crate::index::IndexTarget;
use crate::runs::Runs;
use crate::wiring::Wiring;

/// The threads of the mail in the store.
pub(crate) const THREADS: &str = "mail:threads";
/// Standard input.
const STDIN: &str = "-";

/// The source of a run by its name: what a second request has to say to mean the same run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceName(String);

impl SourceName {
    /// The source that a pipeline, or a request in its place, names. Relative paths of the pipeline start from `folder`.
    ///
    /// # Errors
    /// When nothing is named, or what is named is not there.
    pub fn find(definition: &Definition, input: &[String], folder: &Path) -> Result<Self> {
        if definition.source.kind == SourceKind::Inbox {
            if !input.is_empty() {
                return Err(Error::wrong("the pipeline has an inbox, which reads nothing")
                    .hint("`redrive submit PIPELINE.toml --items FILE` hands items in"));
            }
            return Ok(Self::inbox(definition.category.as_deref()));
        }
        if definition.source.kind == SourceKind::Threads {
            return Ok(Self(THREADS.to_owned()));
        }
        let given: Vec<PathBuf> = match (input, &definition.source.paths[..]) {
            ([only], _) | ([], [only]) if only == STDIN => return Ok(Self(STDIN.to_owned())),
            ([], []) => {
                return Err(Error::wrong("the pipeline names no source")
                    .hint("say --input FILE, or give the file a [source] with a path"));
            }
            ([], paths) => paths.iter().map(|path| folder.join(path)).collect(),
            (input, _) => input.iter().map(PathBuf::from).collect(),
        };
        let files = matches!(definition.source.kind, SourceKind::Files(_));
        if files && given.len() > 1 {
            return Err(Error::wrong("a source of files is one directory").hint("say --input DIR once"));
        }
        let names: Result<Vec<String>> = given.iter().map(|path| whole_name(path, files)).collect();
        Ok(Self(names?.join("\n")))
    }

    /// The source of the standing run of a category.
    pub(crate) fn inbox(category: Option<&str>) -> Self {
        Self(NewRun::inbox(category))
    }

    /// The source of a run that is there.
    #[must_use]
    pub fn of(row: &RunRow) -> Self {
        Self(row.spec.source.clone())
    }

    /// The name, as it is kept.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether nothing is read: items are handed in.
    #[must_use]
    pub fn is_inbox(&self) -> bool {
        NewRun::is_inbox(&self.0)
    }

    /// Whether it can be read again, by anybody.
    #[must_use]
    pub fn can_be_read_again(&self) -> bool {
        !self.is_inbox() && !self.is_read_once()
    }

    fn is_stdin(&self) -> bool {
        self.0 == STDIN
    }

    /// Whether it is standard input or a pipe, which can be read once only.
    #[must_use]
    pub fn is_read_once(&self) -> bool {
        self.is_stdin() || (!self.is_inbox() && is_stream(Path::new(&self.0)))
    }

    /// Files and patterns, one a line.
    fn paths(&self) -> Vec<String> {
        self.0.lines().map(ToOwned::to_owned).collect()
    }

    /// Opens the source. `position` is how far it was read before; `index` is where an index of it goes.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(
        &self,
        wiring: &dyn Wiring,
        definition: &Definition,
        position: Option<&str>,
        index: Option<&IndexTarget>,
    ) -> Result<Box<dyn Source>> {
        let format = match (definition.source.kind, index) {
            (SourceKind::Files(_), Some(target)) => return Ok(Box::new(target.files(None)?)),
            (SourceKind::Files(files), None) => return Ok(Box::new(self.listing(&files)?)),
            (SourceKind::Mbox, Some(target)) => return Ok(Box::new(target.archives(&self.paths())?)),
            (SourceKind::Threads, Some(target)) => return Ok(Box::new(target.threads())),
            (SourceKind::Mbox | SourceKind::Threads, None) => {
                return Err(Error::wrong("mail goes into an index, and the pipeline makes none")
                    .hint("`redrive mail ARCHIVE` has a pipeline that does"));
            }
            (SourceKind::Inbox, _) => {
                return Err(Error::wrong("an inbox is not read; items are handed to it"));
            }
            (SourceKind::Lines(LineFormat::ByName), _) => Format::ByName,
            (SourceKind::Lines(LineFormat::Jsonl), _) => Format::Jsonl,
            (SourceKind::Lines(LineFormat::Csv { delimiter }), _) => Format::Csv { delimiter },
        };
        let spec = LineSpec { paths: self.paths(), format, key: definition.source.key.clone() };
        if self.is_stdin() {
            let input = wiring.standard_input();
            let input = input.ok_or_else(|| Error::wrong("there is no standard input to be read here"))?;
            return Ok(Box::new(Lines::stream("standard input", input, spec)));
        }
        let lines = Lines::open(spec, position).map_err(|error| {
            Error::wrong(error.to_string())
                .code(Code::UnreadableSource)
                .hint("name the source with --input FILE, or in the pipeline's [source] path")
        })?;
        Ok(Box::new(lines))
    }

    fn listing(&self, files: &FilesDef) -> Result<Listing> {
        let spec =
            ListingSpec { root: PathBuf::from(self.name()), options: walk_options(files), text: files.text };
        Listing::open(spec).map_err(|error| {
            Error::wrong(error.to_string())
                .code(Code::UnreadableSource)
                .hint("name a directory with --input DIR")
        })
    }
}

/// A source's name by which it is found from any folder.
fn whole_name(path: &Path, files: bool) -> Result<String> {
    let text = path.display().to_string();
    if text == STDIN || text.contains('\n') {
        return Err(Error::wrong(format!("'{text}' cannot be one of several sources"))
            .hint("give standard input alone"));
    }
    let whole = if !files && (is_pattern(&text) || is_stream(path)) {
        std::path::absolute(path)
    } else {
        std::fs::canonicalize(path)
    };
    let whole = whole.map_err(|error| {
        Error::wrong(format!("cannot read the source {text}: {error}"))
            .code(Code::UnreadableSource)
            .hint("say --input FILE, or mend path in the pipeline's [source]")
    })?;
    Ok(whole.display().to_string())
}

/// Opens what is left of a run's source; `None` when it was read to its end, or cannot be read again.
///
/// # Errors
/// When it cannot be read.
pub fn open_left(
    wiring: &dyn Wiring,
    row: &RunRow,
    definition: &Definition,
    index: Option<&IndexTarget>,
) -> Result<Option<Box<dyn Source>>> {
    let name = SourceName::of(row);
    if row.admitted_all || !name.can_be_read_again() {
        return Ok(None);
    }
    let opened = name.open(wiring, definition, row.cursor.as_deref(), index);
    let way_out = || format!("bring it back where it was, or `redrive cancel {}` ends the run", row.id);
    opened.map(Some).map_err(|error| error.hint(way_out()))
}

/// The source of a run that is worked on again.
pub struct Reopened {
    /// What is left to be read of it, or to be looked at because it may have changed since; `None` when there is nothing.
    pub source: Option<Box<dyn Source>>,
    /// Why it cannot be looked at, though it was read to its end before: what was admitted goes on all the same.
    pub unreadable: Option<String>,
}

/// Opens the source of a run that is worked on again.
///
/// # Errors
/// When it was not read to its end and cannot be read now.
pub fn reopen(
    wiring: &dyn Wiring,
    row: &RunRow,
    definition: &Definition,
    index: Option<&IndexTarget>,
) -> Result<Reopened> {
    let name = SourceName::of(row);
    if row.is_part() {
        // Only whoever names the source again takes in the rest of it.
        return Ok(Reopened { source: None, unreadable: None });
    }
    // An index knows itself what has changed.
    if !row.admitted_all || !name.can_be_read_again() || index.is_some() {
        let source = open_left(wiring, row, definition, index)?;
        return Ok(Reopened { source, unreadable: None });
    }
    Ok(match name.open(wiring, definition, row.cursor.as_deref(), None) {
        Ok(source) => Reopened { source: Some(source), unreadable: None },
        Err(error) => Reopened { source: None, unreadable: Some(error.message) },
    })
}

/// Runs with their plans and their sources, for an operation that may have to read these from their beginning.
pub(crate) struct Readable<'a> {
    floor: &'a Floor,
    runs: Runs<'a>,
}

impl<'a> Readable<'a> {
    pub(crate) fn of(floor: &'a Floor) -> Self {
        Self { floor, runs: Runs::of(&*floor.store) }
    }
}

#[async_trait]
impl Plans for Readable<'_> {
    async fn plan(&self, run: RunId) -> redrive_store::Result<Option<Plan>> {
        self.runs.plan(run).await
    }

    async fn source(&self, run: RunId) -> redrive_store::Result<Option<Box<dyn Source>>> {
        let Some(known) = self.runs.known(run).await? else { return Ok(None) };
        let source = SourceName::of(&known.row);
        if !source.can_be_read_again() {
            return Ok(None);
        }
        Ok(source.open(&*self.floor.wiring, &known.definition, None, None).ok())
    }
}

/// Which files of a directory a pipeline takes; `None` when its source is no directory.
#[must_use]
pub fn walk_of(definition: &Definition) -> Option<WalkOptions> {
    match &definition.source.kind {
        SourceKind::Files(files) => Some(walk_options(files)),
        SourceKind::Lines(_) | SourceKind::Inbox | SourceKind::Mbox | SourceKind::Threads => None,
    }
}

/// Which files of a directory are taken, in the words of the walk.
#[must_use]
pub fn walk_options(files: &FilesDef) -> WalkOptions {
    WalkOptions {
        hidden: files.hidden,
        follow_symlinks: files.follow_symlinks,
        ignore_rules: files.ignore_rules,
        max_bytes: files.max_bytes,
        max_container_bytes: files.max_container_bytes,
    }
}
