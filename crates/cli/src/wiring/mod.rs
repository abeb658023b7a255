//! The composition root: the only place that names concrete stores and handlers.

mod children;
mod collector;
mod handlers;
mod program;
mod secret;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redrive_engine::env::Env;
use redrive_engine::{crash, fault};
use redrive_operate::{Asker, Code, Error, Floor};
use redrive_sqlite::{Options, SqliteStore};
use redrive_store::MemoryStore;
use serde_json::value::RawValue;

pub use children::{EmbedSettings, FilterSettings, MailSettings, ParseSettings};
pub use collector::collector;
pub use handlers::Handlers;
pub use program::{command_folder, find_program};
pub use redrive_stages::{Filter, Pushgateway, filter::worker as filter_worker};
pub use secret::secret;

/// How a store is opened.
fn options() -> Options {
    Options { crash_hook: crash::point, fault_hook: fault::strikes, ..Options::default() }
}

/// A store that was opened, and whether its file was there with nothing in it.
pub struct Opened {
    /// What requests are answered with.
    pub floor: Floor,
    /// The file, if it was there and empty: a new store begins in it.
    pub was_empty: Option<PathBuf>,
}

/// Opens the store, and makes it when it is not there.
pub fn make_floor(url: &str, env: Env, asker: Asker) -> Result<Opened, Error> {
    let path = store_path(url)?;
    let empty = std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() == 0);
    let floor = floor(SqliteStore::open(&path, options())?, env, asker);
    Ok(Opened { floor, was_empty: empty.then_some(path) })
}

/// Opens a store that has to be there.
pub fn existing_floor(url: &str, env: Env, asker: Asker) -> Result<Floor, Error> {
    let path = there(url)?;
    Ok(floor(SqliteStore::open_existing(&path, options())?, env, asker))
}

/// Opens a store that has to be there, for a command that only reads: it need not be allowed to write.
pub fn floor_to_read(url: &str, env: Env, asker: Asker) -> Result<Floor, Error> {
    let path = there(url)?;
    Ok(floor(SqliteStore::open_to_read(&path, options())?, env, asker))
}

/// Opens a store for a command that only looks; where there is none, everything is as in an empty one, and none is made.
pub fn floor_to_look(url: &str, env: Env, asker: Asker) -> Result<Floor, Error> {
    if !is_missing(&store_path(url)?) {
        return floor_to_read(url, env, asker);
    }
    let (store, wiring) = (Arc::new(MemoryStore::new()), Arc::new(Handlers::new()));
    Ok(Floor { store: store.clone(), index: store, env, asker, wiring })
}

fn floor(store: SqliteStore, env: Env, asker: Asker) -> Floor {
    let (store, wiring) = (Arc::new(store), Arc::new(Handlers::new()));
    Floor { store: store.clone(), index: store, env, asker, wiring }
}

fn there(url: &str) -> Result<PathBuf, Error> {
    let path = store_path(url)?;
    if is_missing(&path) {
        return Err(Error::wrong(format!("there is no store at {}", path.display()))
            .code(Code::StoreNotFound)
            .hint("`redrive run PIPELINE.toml` and `redrive submit PIPELINE.toml` make one, and so do `redrive index DIR` and `redrive mail ARCHIVE`; or name another with --store sqlite:PATH"));
    }
    Ok(path)
}

/// Whether nothing of that name is there.
pub fn is_missing(path: &Path) -> bool {
    std::fs::symlink_metadata(path)
        .is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
}

/// Whether a file is a store, as far as its first bytes tell.
pub fn is_store(path: &Path) -> bool {
    redrive_sqlite::is_store(path)
}

/// The file a store's URL names.
pub fn store_path(url: &str) -> Result<PathBuf, Error> {
    match url.split_once(':') {
        Some(("sqlite", ":memory:")) => {
            Err(Error::wrong("a store in memory would end with the command").hint("use --store sqlite:PATH"))
        }
        Some(("sqlite", path)) if !path.is_empty() => Ok(PathBuf::from(path.trim_start_matches("//"))),
        Some(("postgres" | "postgresql", _)) => {
            Err(Error::wrong("this version keeps its state in SQLite only").hint("use --store sqlite:PATH"))
        }
        _ => Err(Error::wrong(format!("'{url}' is not a store")).hint("use --store sqlite:PATH")),
    }
}

/// The version of the library that keeps the state.
pub fn store_library() -> String {
    format!("SQLite {}", redrive_sqlite::library_version())
}

/// How large the log beside a store's file is, in bytes.
pub fn log_bytes(path: &Path) -> u64 {
    redrive_sqlite::log_bytes(path)
}

/// A content with a value put at a JSON pointer; the rest stays as it is written.
pub fn put(content: &RawValue, pointer: &str, value: &RawValue) -> Result<Box<RawValue>, String> {
    let placed = redrive_stages::protocol::place_output(content.get().as_bytes(), Some(pointer), value)?;
    let text = String::from_utf8(placed.to_vec()).map_err(|error| error.to_string())?;
    RawValue::from_string(text).map_err(|error| error.to_string())
}
