//! What becomes of one file.

use std::borrow::Cow;

use redrive_core::failure::Class;

use super::{CHANGED, MAX_CHUNKS, NOT_A_TEXT, THERE_AGAIN, VANISHED, WorkerOptions};
use crate::chunk::{Chunk, chunk};
use crate::kind::{Guess, Kind};
use crate::parse::{Limits, ParseError, parse};
use crate::payload::FilePayload;
use crate::read::{self, read};
use crate::walk::{Presence, is_listed, presence};

/// How a file ends.
#[derive(Debug)]
pub(super) enum End {
    /// It is gone for certain, as its payload says.
    Unchanged,
    /// It is left out.
    Filtered(Cow<'static, str>),
    /// It was cut.
    Chunks(Vec<Chunk>),
    /// It failed.
    Failed(Class, String),
}

/// Reads, parses and cuts a file, or looks whether it is gone.
pub(super) fn end(file: &FilePayload, options: &WorkerOptions, count: &dyn Fn(&str) -> usize) -> End {
    if file.gone && file.left_out && !is_listed(&options.root, &file.path, &options.walk) {
        return End::Unchanged;
    }
    if file.gone {
        return match presence(&options.root, &file.path) {
            Presence::Absent => End::Unchanged,
            Presence::Present => End::Filtered(THERE_AGAIN.into()),
            Presence::Unknown => {
                End::Failed(Class::Retryable, format!("nobody can tell whether it is gone: {}", file.path))
            }
        };
    }
    let guess = match Kind::guess(file.path.as_path()) {
        Guess::Is(kind) => Some(kind),
        Guess::Unknown => None,
        Guess::Binary => return End::Filtered(format!("{NOT_A_TEXT}: by its name").into()),
    };
    let limit = options.walk.limit(guess);
    let content = match read(&options.root, &file.path, limit, options.walk.follow_symlinks) {
        Ok(content) => content,
        Err(error) => return unread(&error, file),
    };
    if content.hash != file.hash {
        return End::Filtered(CHANGED.into());
    }
    let kind = guess.unwrap_or_else(|| Kind::sniff(&content.bytes));
    let limits = Limits { max_bytes: limit, ..options.parse };
    let document = match parse(&content.bytes, kind, &limits) {
        Ok(document) => document,
        Err(ParseError::NotText { reason }) => {
            return End::Filtered(format!("{NOT_A_TEXT}: {reason}").into());
        }
        Err(error) => return End::Failed(Class::Final, error.to_string()),
    };
    drop(content);
    let chunks = chunk(&document, &options.chunk, count);
    if chunks.len() > MAX_CHUNKS {
        let message = format!(
            "{} chunks are more than the {MAX_CHUNKS} that a file may have: split the file, leave it out, or make \
             chunks larger",
            chunks.len()
        );
        return End::Failed(Class::Final, message);
    }
    End::Chunks(chunks)
}

fn unread(error: &read::Error, file: &FilePayload) -> End {
    match error {
        read::Error::Vanished => End::Filtered(VANISHED.into()),
        read::Error::Changed | read::Error::Io(_) => End::Failed(Class::Retryable, error.to_string()),
        read::Error::Denied => End::Failed(Class::Final, format!("permission denied: {}", file.path)),
        read::Error::TooLarge { .. } | read::Error::NotRegular => {
            End::Failed(Class::Final, error.to_string())
        }
    }
}
