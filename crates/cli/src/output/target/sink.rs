//! What is written to, until it is finished.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use redrive_core::id::ContentHash;
use redrive_engine::crash;
use redrive_operate::{Code, Error};
use rustix::fs::OFlags;
use tokio::task::JoinHandle;

use super::spot::{Spot, Standard, folder};
use crate::exit;
use crate::output::note;
use crate::output::text::safe_json;

/// A file of less than this says little about whether there is room.
const TRIED: [u8; 4096] = [0; 4096];

/// Something that is written to. Dropped before it is finished, a file that was to be replaced is as it was.
pub struct Sink {
    out: BufWriter<File>,
    is_terminal: bool,
    shown: String,
    beside: Option<Beside>,
    /// Whoever read it has gone away: what more is written goes nowhere, and that is nobody's fault.
    left: bool,
    impatience: Option<JoinHandle<()>>,
}

/// A file beside the one that it takes the place of.
struct Beside {
    unfinished: PathBuf,
    path: PathBuf,
    before: Option<Metadata>,
    /// Whether nobody else may read it, whoever may read what it takes the place of.
    private: bool,
}

impl Sink {
    /// Standard output.
    ///
    /// # Errors
    /// When there is none.
    pub fn standard_output() -> Result<Self, Error> {
        let shown = "standard output".to_owned();
        let file = standard(Standard::Output).map_err(|error| broken(&shown, &error))?;
        Ok(Self::on(file, shown))
    }

    pub(super) async fn open(spot: Spot, shown: String, private: bool) -> Result<Self, Error> {
        match spot {
            Spot::Standard(stream) => {
                let file = standard(stream).map_err(|error| broken(&shown, &error))?;
                Ok(Self::on(file, shown))
            }
            Spot::Through { path, there } => {
                let impatience = leave_when_asked();
                let opened = open_through(path, &there, &shown).await;
                let mut sink = Self::on(opened.map_err(|error| broken(&shown, &error))?, shown);
                sink.impatience = Some(impatience);
                Ok(sink)
            }
            Spot::File { path, there } => {
                let mode = if private || there.is_some() { 0o600 } else { 0o666 };
                let (file, unfinished) =
                    create_beside(&path, "part", mode).map_err(|error| broken(&shown, &error))?;
                let mut sink = Self::on(file, shown);
                sink.beside = Some(Beside { unfinished, path, before: there, private });
                Ok(sink)
            }
        }
    }

    fn on(file: File, shown: String) -> Self {
        let is_terminal = file.is_terminal();
        Self { out: BufWriter::new(file), is_terminal, shown, beside: None, left: false, impatience: None }
    }

    /// Writes JSON. After [`Sink::reader_left`] it does nothing.
    ///
    /// # Errors
    /// When it cannot be written; a reader that went away is no error.
    pub fn put(&mut self, json: &[u8]) -> Result<(), Error> {
        if self.left {
            return Ok(());
        }
        // Programs are given what is kept, byte by byte: what is exported and comes back is the same then.
        let written = match self.is_terminal {
            true => self.out.write_all(safe_json(String::from_utf8_lossy(json).into_owned()).as_bytes()),
            false => self.out.write_all(json),
        };
        self.settle(written)
    }

    /// Hands on what was put so far.
    ///
    /// # Errors
    /// As for [`Sink::put`].
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.left {
            return Ok(());
        }
        let flushed = self.out.flush();
        self.settle(flushed)
    }

    /// The file beside the one that it takes the place of, where there is one.
    pub fn unfinished(&self) -> Option<&Path> {
        self.beside.as_ref().map(|beside| beside.unfinished.as_path())
    }

    /// Whether nobody reads it any more.
    pub fn reader_left(&self) -> bool {
        self.left
    }

    /// Finishes it: all is written, and a regular file is in its place.
    ///
    /// # Errors
    /// When it cannot be written; a file that was to be replaced is then as it was.
    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        let Some(beside) = &self.beside else { return Ok(()) };
        let placed = beside.place(self.out.get_ref());
        placed.map_err(|error| broken(&self.shown, &error))?;
        self.beside = None;
        Ok(())
    }

    fn settle(&mut self, done: std::io::Result<()>) -> Result<(), Error> {
        match done {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.left = true;
                Ok(())
            }
            Err(error) => Err(broken(&self.shown, &error)),
            Ok(()) => Ok(()),
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(task) = &self.impatience {
            task.abort();
        }
        if let Some(beside) = &self.beside {
            // What is left of it is of no use; the error that is reported is the first one.
            let _ = std::fs::remove_file(&beside.unfinished);
        }
    }
}

impl Beside {
    fn place(&self, file: &File) -> std::io::Result<()> {
        if let Some(before) = &self.before {
            // Only root may give a file away; to one's own groups everybody may.
            if fchown(file, Some(before.uid()), Some(before.gid())).is_err() {
                let _ = fchown(file, None, Some(before.gid()));
            }
            let mode = if self.private { 0o600 } else { before.mode() & 0o7777 };
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        }
        file.sync_all()?;
        crash::point("results.before_rename");
        match std::fs::rename(&self.unfinished, &self.path) {
            // A file that is mounted by itself, as containers do, can only be written where it is.
            Err(error) if error.kind() == ErrorKind::ResourceBusy => self.copy()?,
            done => done?,
        }
        // The name is as durable as the content, where the folder can be asked for that.
        let _ = File::open(folder(&self.path)).and_then(|folder| folder.sync_all());
        Ok(())
    }

    fn copy(&self) -> std::io::Result<()> {
        let mut from = File::open(&self.unfinished)?;
        let mut to = OpenOptions::new().write(true).truncate(true).open(&self.path)?;
        std::io::copy(&mut from, &mut to)?;
        to.sync_all()?;
        std::fs::remove_file(&self.unfinished)
    }
}

/// Finds out whether a file can be made and filled where `path` will be.
pub(super) fn try_beside(path: &Path) -> std::io::Result<()> {
    let (mut file, tried) = create_beside(path, "try", 0o600)?;
    let written = file.write_all(&TRIED).and_then(|()| file.sync_all());
    std::fs::remove_file(tried)?;
    written
}

/// Makes a file of a name that nobody has, in the folder of `path`: only within a folder is a file replaced at once.
fn create_beside(path: &Path, ending: &str, mode: u32) -> std::io::Result<(File, PathBuf)> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let mark = mark_of(path);
    remove_left(folder(path), &mark);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(mode);
    loop {
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let unfinished = folder(path).join(format!(".redrive.{}.{n}.{mark}.{ending}", std::process::id()));
        match options.open(&unfinished) {
            // Left by a process that was killed and had our number.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (file, unfinished)),
        }
    }
}

/// A mark of the file that another one is made for, to tell it from what is made for others in the same folder.
fn mark_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().as_bytes();
    ContentHash::of(&[name]).to_string().chars().take(8).collect()
}

/// Removes what processes that were killed left of this very file. One that cannot be removed is in nobody's way.
fn remove_left(folder: &Path, mark: &str) {
    // Whether a process is gone can only be told where all of them can be seen.
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let parts: Vec<&str> = name.to_str().unwrap_or_default().split('.').collect();
        let ["", "redrive", process, _, of, "part" | "try"] = parts[..] else { continue };
        let gone = process.parse::<u32>().is_ok_and(|id| !Path::new(&format!("/proc/{id}")).exists());
        if gone && of == mark {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A second handle on a stream of our own: what is written goes where the stream is.
pub(super) fn standard(stream: Standard) -> std::io::Result<File> {
    let fd = match stream {
        Standard::Output => std::io::stdout().as_fd().try_clone_to_owned(),
        Standard::Error => std::io::stderr().as_fd().try_clone_to_owned(),
    };
    fd.map(File::from)
}

async fn open_through(path: PathBuf, there: &Metadata, shown: &str) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    if there.is_file() {
        // A descriptor of ours on a file: what was written through it before stays.
        return options.append(true).open(path);
    }
    options.write(true);
    if there.file_type().is_fifo() {
        let nobody = options.clone().custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path);
        let alone = nobody
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()));
        if alone {
            note(&format!("waiting until somebody reads {shown}"));
        }
        // While `nobody` is held, a reader that is there does not see an end between the two openings.
        let opened = tokio::task::spawn_blocking(move || options.open(path)).await;
        drop(nobody);
        return opened.map_err(std::io::Error::other)?;
    }
    options.open(path)
}

/// Ends the process when somebody asks for it while a pipe keeps it waiting. All that matters is in the store.
fn leave_when_asked() -> JoinHandle<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    tokio::spawn(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(exit::INTERRUPTED.into());
    })
}

fn broken(shown: &str, error: &std::io::Error) -> Error {
    Error::internal(format!("cannot write {shown}: {error}")).code(Code::OutputFailed)
}
