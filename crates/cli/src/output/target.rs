//! Files that are written because somebody named them: every one of them goes through here.
//!
//! Nothing is written over the store, a source or a pipeline ([`guard`]), whatever name leads there. What is no regular
//! file is written through and stays what it is; links are followed and stay links; a regular file is replaced at the end,
//! whole or not at all. Whether all of that is possible is looked at before the work, and once more when it is done.

mod guard;
mod sink;
mod spot;

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use redrive_operate::{Code, Error};
use redrive_store::Store;
use rustix::fs::{Access, access};

pub use guard::Guard;
pub use sink::Sink;
use spot::Spot;

/// What becomes of a regular file that is there already and holds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced: that is what was asked for.
    Replaced,
    /// It is replaced if it is a picture.
    ReplacedIfSvg,
    /// It is left as it is, unless `--overwrite` is said: somebody may have edited it.
    Kept,
    /// A store is written: only a regular file is one, only its owner reads it, and only another store is replaced by it.
    Store {
        /// Whether a store that is there may be replaced.
        overwrite: bool,
    },
}

/// A file that somebody named for output.
#[derive(Debug)]
pub struct Target {
    option: &'static str,
    named: PathBuf,
    existing: Existing,
    guard: Guard,
}

/// Why a file is not written, and what can be done about it.
struct Refusal {
    why: String,
    remedy: String,
}

impl Refusal {
    fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: remedy.into() }
    }
}

const ELSEWHERE: &str = "name another file";

impl Target {
    /// Looks whether the file that `option` names can be written, and is none that must stay.
    ///
    /// # Errors
    /// Wrong usage, with the file, the reason and a remedy.
    pub fn look(option: &'static str, named: &Path, existing: Existing, guard: Guard) -> Result<Self, Error> {
        let target = Self { option, named: named.to_owned(), existing, guard };
        let spot = target.allowed()?;
        target.writable(&spot).map_err(|refusal| target.refused(refusal))?;
        Ok(target)
    }

    /// Spares what every run of a store was made of as well.
    ///
    /// # Errors
    /// When the store cannot be read, or the file is one of those.
    pub async fn spare_runs(&mut self, store: &dyn Store) -> Result<(), Error> {
        // What is not there yet, or is no file, is no run's source either.
        if let Ok(Spot::File { there: Some(_), .. }) = Spot::of(&self.named) {
            self.guard.runs(store).await?;
            self.allowed()?;
        }
        Ok(())
    }

    /// The file as it was named.
    pub fn shown(&self) -> String {
        self.named.display().to_string()
    }

    /// Whether a regular file with something in it is there, which would be replaced.
    pub fn holds_something(&self) -> bool {
        matches!(Spot::of(&self.named), Ok(Spot::File { there: Some(there), .. }) if there.len() > 0)
    }

    /// Opens it. Time has passed since it was looked at, so everything is looked at once more.
    ///
    /// # Errors
    /// When it cannot be written any more.
    pub async fn open(&self) -> Result<Sink, Error> {
        let spot = self.allowed()?;
        let private = matches!(self.existing, Existing::Store { .. });
        Sink::open(spot, self.shown(), private).await
    }

    /// Where it leads, if that is nothing that must stay as it is.
    fn allowed(&self) -> Result<Spot, Error> {
        let spot = Spot::of(&self.named).map_err(|refusal| self.refused(refusal))?;
        if let Some(what) = self.guard.keeps(&spot) {
            return Err(self.refused(Refusal::new(format!("it is {what}"), ELSEWHERE)));
        }
        if let Existing::Store { .. } = self.existing {
            guard::takes_a_store(&spot).map_err(|refusal| self.refused(refusal))?;
        }
        if let Spot::File { path, there: Some(there) } = &spot {
            self.replaceable(path, there).map_err(|refusal| self.refused(refusal))?;
        }
        Ok(spot)
    }

    /// Whether a regular file that is there may be replaced.
    fn replaceable(&self, path: &Path, there: &Metadata) -> Result<(), Refusal> {
        if there.len() == 0 {
            return Ok(());
        }
        if let Existing::Store { overwrite } = self.existing {
            return guard::store_is_replaceable(path, overwrite);
        }
        if let Some(what) = guard::known_by_content(path) {
            return Err(Refusal::new(format!("it is {what}"), ELSEWHERE));
        }
        match self.existing {
            Existing::Replaced => Ok(()),
            Existing::ReplacedIfSvg if guard::is_svg(path) => Ok(()),
            Existing::ReplacedIfSvg => Err(Refusal::new(
                "it is there already and is no picture",
                "name another file, or remove that one",
            )),
            Existing::Kept | Existing::Store { .. } => Err(Refusal::new(
                "it is there already, and somebody may have edited it",
                "name another file, or say --overwrite",
            )),
        }
    }

    fn writable(&self, spot: &Spot) -> Result<(), Refusal> {
        let permitted = |path: &Path| {
            access(path, Access::WRITE_OK).map_err(|error| {
                Refusal::new(std::io::Error::from(error).to_string(), "change its mode, or name another file")
            })
        };
        match spot {
            Spot::Standard(_) => Ok(()),
            Spot::Through { path, .. } => permitted(path),
            Spot::File { path, there } => {
                if there.is_some() {
                    permitted(path)?;
                }
                sink::try_beside(path).map_err(|error| {
                    let folder = path.parent().unwrap_or(Path::new("/")).display();
                    Refusal::new(
                        format!("its folder {folder} takes no new file: {error}"),
                        "make room or change the folder's mode, or name a file in another folder",
                    )
                })
            }
        }
    }

    fn refused(&self, refusal: Refusal) -> Error {
        let message = format!("{} {} cannot be written: {}", self.option, self.shown(), refusal.why);
        Error::wrong(message).code(Code::OutputRefused).hint(refusal.remedy)
    }
}
