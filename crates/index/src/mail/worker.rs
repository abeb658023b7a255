//! The loop of a child process that reads messages and cuts them.
//!
//! It speaks the protocol of handlers, as the child that parses files does. A message's result is its payload with what is attached and its chunks, a reason to
//! leave it out, or an error that is its own.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use redrive_core::failure::Class;
use redrive_ingest::chunk::{Chunk, ChunkOptions, chunk};
use redrive_ingest::document::Document;
use redrive_ingest::parse::Limits;
use redrive_ingest::payload::ChunkPayload;
use redrive_ingest::worker::{CHANGED, MAX_CHUNKS};
use redrive_mail::body::{Opened, open};
use redrive_mail::mbox::{unquoted, version_of};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::open::{archive_path, maildir_files, unique, unpacked};
use super::payload::ReadChunk;
use super::{MESSAGE, MailPayload, MessagePayload};

/// Most bytes of a message.
pub const LARGEST: u64 = 64 << 20;
/// Longest request, in bytes.
const MAX_REQUEST: u64 = 64 << 20;

/// What a worker is told at its start.
#[derive(Debug, Clone, Default)]
pub struct WorkerOptions {
    /// How much may come out of a message.
    pub parse: Limits,
    /// How large chunks are.
    pub chunk: ChunkOptions,
}

#[derive(Deserialize)]
struct Request {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    id: String,
    payload: Box<RawValue>,
}

#[derive(Serialize)]
struct Results<'a> {
    results: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    #[serde(flatten)]
    said: Said,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    Output(MailPayload),
    Filtered(&'static str),
    Error { class: &'static str, message: String },
}

/// Answers requests until the input ends, or nobody reads the answers. `count` says how many tokens a text has; `each` runs before each message.
///
/// # Errors
/// When `each` fails, or reading or writing fails in another way than by a closed pipe.
pub fn serve(
    mut input: impl BufRead,
    mut output: impl Write,
    options: &WorkerOptions,
    count: &dyn Fn(&str) -> usize,
    each: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let mut request = Vec::new();
    let mut unpacking = None;
    loop {
        request.clear();
        input.by_ref().take(MAX_REQUEST).read_until(b'\n', &mut request)?;
        if request.last() != Some(&b'\n') {
            return Ok(());
        }
        let mut line = match serde_json::from_slice::<Request>(&request) {
            Ok(request) => {
                let mut results = Vec::with_capacity(request.items.len());
                for item in &request.items {
                    each()?;
                    results.push(Line { id: &item.id, said: said(item, options, count, &mut unpacking) });
                }
                serde_json::to_vec(&Results { results })?
            }
            Err(error) => serde_json::to_vec(
                &serde_json::json!({ "error": format!("the request cannot be read: {error}") }),
            )?,
        };
        line.push(b'\n');
        match output.write_all(&line).and_then(|()| output.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
}

fn said(
    item: &Item,
    options: &WorkerOptions,
    count: &dyn Fn(&str) -> usize,
    unpacking: &mut Option<Unpacking>,
) -> Said {
    let error = |class: Class, message: String| Said::Error { class: class.name(), message };
    let message = match MailPayload::read(item.payload.get().as_bytes()) {
        Ok(MailPayload::Message(message)) => *message,
        _ => return error(Class::Final, "the payload is no message".to_owned()),
    };
    if let Some(broken) = &message.broken {
        return error(Class::Final, broken.clone());
    }
    let raw = match raw(&message, unpacking) {
        Ok(raw) => raw,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Said::Filtered(CHANGED),
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Said::Filtered(CHANGED),
        Err(cause) => return error(Class::Retryable, format!("the archive cannot be read: {cause}")),
    };
    if version_of(&raw) != message.version {
        return Said::Filtered(CHANGED);
    }
    let text = if message.file.is_some() { raw } else { unquoted(&raw) };
    match open(&text, &options.parse) {
        Ok(opened) => cut(message, opened, options, count).unwrap_or_else(|why| error(Class::Final, why)),
        Err(cause) => error(Class::Final, cause.to_string()),
    }
}

/// The message with its chunks.
fn cut(
    mut message: MessagePayload,
    opened: Opened,
    options: &WorkerOptions,
    count: &dyn Fn(&str) -> usize,
) -> Result<Said, String> {
    let path = format!("{MESSAGE}{}", message.key);
    let mut chunks: Vec<ReadChunk> = Vec::new();
    let mut add = |document: &Document, prefix: &str, name: &str| {
        let made = chunk(document, &options.chunk, count);
        for one in made {
            let ordinal = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
            let context = if name.is_empty() {
                one.context.clone()
            } else {
                format!("{} › {name}", message.head.subject)
            };
            let one = Chunk { ordinal, context, ..one };
            let payload = ChunkPayload::new(&path, message.version, &one);
            if let Ok(payload) = to_raw_value(&payload) {
                chunks.push(ReadChunk { key: format!("{prefix}{}", one.key), payload });
            }
        }
    };
    add(&opened.document, "", "");
    for (n, (attachment, document)) in opened.attached.iter().enumerate() {
        if let Some(document) = document {
            let name = if attachment.name.is_empty() { "attached" } else { &attachment.name };
            add(document, &format!("attached{}-", n + 1), name);
        }
    }
    if chunks.len() > MAX_CHUNKS {
        return Err(format!(
            "{} chunks are more than the {MAX_CHUNKS} that a message may have",
            chunks.len()
        ));
    }
    message.attachments = opened.attached.into_iter().map(|(attachment, _)| attachment).collect();
    message.chunks = chunks;
    Ok(Said::Output(MailPayload::Message(Box::new(message))))
}

/// The bytes of a message.
fn raw(message: &MessagePayload, unpacking: &mut Option<Unpacking>) -> io::Result<Vec<u8>> {
    let path = archive_path(&message.archive);
    let path = path.as_path();
    let mut raw = Vec::new();
    if let Some(file) = &message.file {
        maildir_file(path, file)?.take(LARGEST + 1).read_to_end(&mut raw)?;
        return Ok(raw);
    }
    let mut file = File::open(path)?;
    let mut start = [0; 2];
    let packed = file.read_exact(&mut start).is_ok() && start == [0x1f, 0x8b];
    if packed {
        return Unpacking::read(unpacking, path, message.offset, message.length);
    }
    file.seek(SeekFrom::Start(message.offset))?;
    file.take(message.length).read_to_end(&mut raw)?;
    Ok(raw)
}

/// A message's file, also when somebody has read the message meanwhile and it has another name.
fn maildir_file(dir: &Path, file: &str) -> io::Result<File> {
    match File::open(dir.join(archive_path(file))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let files = maildir_files(dir)?;
            let moved = files.iter().find(|other| unique(other) == unique(file));
            moved.map_or(Err(error), |moved| File::open(dir.join(archive_path(moved))))
        }
        opened => opened,
    }
}

/// A packed archive that is being read. Messages are mostly asked for in their order, so that unpacking goes on where it was.
struct Unpacking {
    path: PathBuf,
    at: u64,
    reader: Box<dyn BufRead + Send>,
}

impl Unpacking {
    fn read(kept: &mut Option<Self>, path: &Path, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let goes_on = kept.take().filter(|one| one.path == path && one.at <= offset);
        let mut one = match goes_on {
            Some(one) => one,
            None => Self { path: path.to_owned(), at: 0, reader: unpacked(File::open(path)?)? },
        };
        io::copy(&mut one.reader.by_ref().take(offset - one.at), &mut io::sink())?;
        let mut raw = Vec::new();
        let read = one.reader.by_ref().take(length).read_to_end(&mut raw);
        // What breaks off later does not matter for what was read.
        if raw.len() as u64 == length {
            one.at = offset + length;
            *kept = Some(one);
            return Ok(raw);
        }
        read?;
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
