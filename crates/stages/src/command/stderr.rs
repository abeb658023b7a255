//! The last words of a child.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::sys;

/// How many bytes are kept.
const KEPT: usize = 4 * 1024;
/// Most bytes that are read after the end; something that left the group could go on writing for ever.
const AFTERWARDS: usize = 1 << 20;

/// The end of what was written.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    fn push(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
        if self.bytes.len() > KEPT {
            self.cut = true;
            self.bytes.drain(..self.bytes.len() - KEPT);
        }
    }

    /// What is kept, without a beginning that was cut: half a secret could not be recognised.
    fn whole(&self) -> &[u8] {
        if !self.cut {
            return &self.bytes;
        }
        let line = self.bytes.iter().position(|byte| *byte == b'\n');
        let start = line.or_else(|| self.bytes.iter().position(u8::is_ascii_whitespace));
        start.map_or(&[], |start| &self.bytes[start..])
    }
}

/// Reads a child's standard error all the time, so that the child never waits for it, and keeps the end.
#[derive(Debug)]
pub(super) struct Stderr {
    tail: Arc<Mutex<Tail>>,
    ended: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Stderr {
    /// Begins to read.
    pub(super) fn follow(from: ChildStderr) -> Self {
        let (tail, ended) = (Arc::new(Mutex::new(Tail::default())), Arc::new(Notify::new()));
        let task = tokio::spawn(follow(from, Arc::clone(&tail), Arc::clone(&ended)));
        Self { tail, ended, task }
    }

    /// Ends the reading; to be called when the child has ended. Returns what it wrote last.
    pub(super) async fn last_words(&mut self) -> Vec<u8> {
        self.ended.notify_one();
        // An error says that the runtime is going down: what has been read is still there.
        let _ = (&mut self.task).await;
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).whole().to_vec()
    }
}

impl Drop for Stderr {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(mut from: ChildStderr, tail: Arc<Mutex<Tail>>, ended: Arc<Notify>) {
    let mut chunk = vec![0; 8 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut chunk) => read,
            () = ended.notified() => break,
        };
        let Ok(read @ 1..) = read else { return };
        tail.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk[..read]);
    }
    let mut left = AFTERWARDS;
    while left > 0 && sys::has_input(from.as_fd()) {
        let Ok(read @ 1..) = from.read(&mut chunk).await else { return };
        tail.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk[..read]);
        left = left.saturating_sub(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_from_a_whole_line_on() {
        let mut tail = Tail::default();
        tail.push(b"short");
        assert_eq!(tail.whole(), b"short");
        for number in 0..10_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let text = String::from_utf8_lossy(tail.whole()).into_owned();
        assert!(
            text.len() <= KEPT && text.starts_with("\nline 9") && text.ends_with("line 9999\n"),
            "{text}"
        );
    }

    #[test]
    fn a_single_endless_word_is_not_kept_in_half() {
        let mut tail = Tail::default();
        tail.push(&[b'x'; 10_000]);
        assert_eq!(tail.whole(), b"");
    }
}
