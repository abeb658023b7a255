//! The source of a run: how it is called, and how it is opened.

use std::path::{Path, PathBuf};

use redrive_engine::source::{Format, LineSpec, Lines, Source, is_pattern, is_stream};
use redrive_index::{Listing, ListingSpec};
use redrive_operate::Error;
use redrive_pipeline::{Definition, FilesDef, LineFormat, SourceKind};
use redrive_store::RunRow;

use super::{Shelf, walk_of};

/// Standard input.
const STDIN: &str = "-";

/// The source of a run by its name: what a second command has to say to mean the same run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named(String);

impl Named {
    /// The source of a run that is there.
    pub fn of(row: &RunRow) -> Self {
        Self(row.spec.source.clone())
    }

    /// The name, as it is kept.
    pub fn name(&self) -> &str {
        &self.0
    }

    fn is_stdin(&self) -> bool {
        self.0 == STDIN
    }

    /// Whether it is standard input or a pipe, which can be read once only.
    pub fn is_read_once(&self) -> bool {
        self.is_stdin() || is_stream(Path::new(&self.0))
    }

    /// Files and patterns, one a line.
    fn paths(&self) -> Vec<String> {
        self.0.lines().map(ToOwned::to_owned).collect()
    }
}

/// The source that a pipeline, or the command line in its place, names.
pub fn named_source(definition: &Definition, input: &[String], folder: &Path) -> Result<Named, Error> {
    let given: Vec<PathBuf> = match (input, &definition.source.paths[..]) {
        ([only], _) | ([], [only]) if only == STDIN => return Ok(Named(STDIN.to_owned())),
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
    let mut names = Vec::with_capacity(given.len());
    for path in given {
        let text = path.display().to_string();
        if text == STDIN || text.contains('\n') {
            return Err(Error::wrong(format!("'{text}' cannot be one of several sources"))
                .hint("give standard input alone"));
        }
        let whole = if !files && (is_pattern(&text) || is_stream(&path)) {
            std::path::absolute(&path)
        } else {
            std::fs::canonicalize(&path)
        };
        let whole = whole.map_err(|error| {
            Error::wrong(format!("cannot read the source {text}: {error}"))
                .hint("say --input FILE, or mend path in the pipeline's [source]")
        })?;
        names.push(whole.display().to_string());
    }
    Ok(Named(names.join("\n")))
}

/// Opens what is left of a run's source; `None` when it was read to its end, or cannot be read again.
pub fn source_left(
    row: &RunRow,
    definition: &Definition,
    shelf: Option<&Shelf>,
) -> Result<Option<Box<dyn Source>>, Error> {
    let named = Named::of(row);
    if row.admitted_all || named.is_read_once() {
        return Ok(None);
    }
    open_source(&named, definition, row.cursor.as_deref(), shelf).map(Some)
}

/// Opens a source. `position` is how far it was read before.
pub fn open_source(
    named: &Named,
    definition: &Definition,
    position: Option<&str>,
    shelf: Option<&Shelf>,
) -> Result<Box<dyn Source>, Error> {
    let format = match (definition.source.kind, shelf) {
        (SourceKind::Files(_), Some(shelf)) => return Ok(Box::new(shelf.files(None)?)),
        (SourceKind::Files(files), None) => return Ok(Box::new(listing(named, definition, &files)?)),
        (SourceKind::Lines(LineFormat::ByName), _) => Format::ByName,
        (SourceKind::Lines(LineFormat::Jsonl), _) => Format::Jsonl,
        (SourceKind::Lines(LineFormat::Csv { delimiter }), _) => Format::Csv { delimiter },
    };
    let spec = LineSpec { paths: named.paths(), format, key: definition.source.key.clone() };
    if named.is_stdin() {
        return Ok(Box::new(Lines::stream("standard input", Box::new(std::io::stdin()), spec)));
    }
    let lines = Lines::open(spec, position).map_err(|error| {
        Error::wrong(error.to_string())
            .hint("name the source with --input FILE, or in the pipeline's [source] path")
    })?;
    Ok(Box::new(lines))
}

fn listing(named: &Named, definition: &Definition, files: &FilesDef) -> Result<Listing, Error> {
    let options = walk_of(definition).unwrap_or_default();
    let spec = ListingSpec { root: PathBuf::from(named.name()), options, text: files.text };
    Listing::open(spec)
        .map_err(|error| Error::wrong(error.to_string()).hint("name a directory with --input DIR"))
}
