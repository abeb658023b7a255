//! One request and its answer.

use std::borrow::Cow;
use std::io;

use redrive_core::failure::Class;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::WorkerOptions;
use super::file::{self, End};
use crate::chunk::Chunk;
use crate::payload::{ChunkPayload, FilePayload};

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    items: Vec<Item<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// An answer without results, which fails the call as a whole.
#[derive(Serialize)]
struct Refusal<'a> {
    error: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    #[serde(flatten)]
    said: Said<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Said<'a> {
    Output(&'a RawValue),
    Filtered(&'a str),
    Children(Vec<Child<'a>>),
    Error { class: &'static str, message: &'a str },
}

#[derive(Serialize)]
struct Child<'a> {
    key: String,
    payload: ChunkPayload<'a>,
}

/// Writes a line that fails the call as a whole.
pub(super) fn refuse(line: &mut Vec<u8>, why: &str) {
    push(line, &Refusal { error: why });
    line.push(b'\n');
}

/// Writes the answer to a request.
pub(super) fn answer(
    request: &[u8],
    line: &mut Vec<u8>,
    options: &WorkerOptions,
    count: &dyn Fn(&str) -> usize,
    each: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let request: Request<'_> = match serde_json::from_slice(request) {
        Ok(request) => request,
        Err(error) => {
            refuse(line, &format!("the request cannot be read: {error}"));
            return Ok(());
        }
    };
    line.extend_from_slice(b"{\"results\":[");
    for (at, item) in request.items.iter().enumerate() {
        if at > 0 {
            line.push(b',');
        }
        each()?;
        let start = line.len();
        push_result(line, item, options, count);
        if line.len() > options.max_answer {
            line.truncate(start);
            let (class, message) = too_long(options, request.items.len());
            push(line, &Line { id: &item.id, said: Said::Error { class: class.name(), message: &message } });
        }
    }
    line.extend_from_slice(b"]}\n");
    Ok(())
}

/// What becomes of a file whose chunks do not fit. One that is not alone may fit by itself.
fn too_long(options: &WorkerOptions, items: usize) -> (Class, String) {
    let most = options.max_answer;
    if items > 1 {
        return (Class::Retryable, format!("with its batch it has more than the {most} bytes of an answer"));
    }
    (
        Class::Final,
        format!("its chunks have more than the {most} bytes of an answer: split the file or leave it out"),
    )
}

fn push_result(line: &mut Vec<u8>, item: &Item<'_>, options: &WorkerOptions, count: &dyn Fn(&str) -> usize) {
    let file: FilePayload = match serde_json::from_str(item.payload.get()) {
        Ok(file) => file,
        Err(error) => {
            let message = format!("the payload cannot be read: {error}");
            let said = Said::Error { class: Class::Final.name(), message: &message };
            return push(line, &Line { id: &item.id, said });
        }
    };
    let path = file.path.to_string();
    let end = file::end(&file, options, count);
    let said = match &end {
        End::Unchanged => Said::Output(item.payload),
        End::Filtered(reason) => Said::Filtered(reason),
        End::Chunks(chunks) => {
            Said::Children(chunks.iter().map(|chunk| child(&path, &file, chunk)).collect())
        }
        End::Failed(class, message) => Said::Error { class: class.name(), message },
    };
    push(line, &Line { id: &item.id, said });
}

fn child<'a>(path: &'a str, file: &FilePayload, chunk: &'a Chunk) -> Child<'a> {
    Child { key: chunk.key.to_string(), payload: ChunkPayload::new(path, file.hash, chunk) }
}

fn push(line: &mut Vec<u8>, value: &impl Serialize) {
    // Strings and whole numbers only, written to memory: nothing here can fail.
    let _ = serde_json::to_writer(line, value);
}
