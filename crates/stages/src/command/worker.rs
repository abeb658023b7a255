//! One child, asked line by line.

use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::process::ExitStatus;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};

use super::process::{Launch, Process};
use super::script::Version;
use super::stderr::Stderr;
use super::sys;

/// How much room a read is given.
const CHUNK: usize = 16 * 1024;

/// Why there is no answer. The child must not be asked again.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It ended.
    Ended(io::Result<ExitStatus>),
    /// It lives, but closed this.
    Closed(&'static str),
    /// It answered before it had read the request.
    TooEarly(Vec<u8>),
    /// Its answer is longer than it may be.
    TooLong,
}

/// A child. Dropping it kills it, with everything it started.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) process: Process,
    /// How many items it has answered.
    pub(super) answered: u64,
    /// The version of the script that it was started with.
    pub(super) version: Option<Version>,
    stdin: ChildStdin,
    answers: Answers,
    stderr: Stderr,
}

/// A child's standard output.
#[derive(Debug)]
struct Answers {
    stdout: ChildStdout,
    unread: Vec<u8>,
    /// How much of `unread` is known to hold no line feed.
    searched: usize,
}

/// What ended an exchange before a line was complete.
enum Cut {
    Stdin,
    Stdout,
    Exit(io::Result<ExitStatus>),
}

impl Worker {
    /// Starts a child.
    pub(super) async fn start(launch: &Launch) -> io::Result<Self> {
        let mut process = Process::start(launch).await?;
        let child = &mut process.child;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the child has no pipes"));
        };
        let answers = Answers { stdout, unread: Vec::new(), searched: 0 };
        Ok(Self { process, answered: 0, version: None, stdin, answers, stderr: Stderr::follow(stderr) })
    }

    /// Whether it lives and has said nothing that it was not asked for.
    pub(super) fn is_ready(&mut self) -> bool {
        self.answers.unread.is_empty()
            && !sys::has_input(self.answers.stdout.as_fd())
            && matches!(self.process.child.try_wait(), Ok(None))
    }

    /// Sends a line, and returns the line that comes back.
    pub(super) async fn ask(&mut self, request: &[u8], max: usize) -> Result<Vec<u8>, Trouble> {
        let cut = {
            let Self { process, stdin, answers, .. } = self;
            let mut send = pin!(async {
                stdin.write_all(request).await?;
                stdin.flush().await
            });
            let mut sent = false;
            loop {
                tokio::select! {
                    // In this order, a child that answers has been seen to have its request, and one that ends after
                    // its answer has been heard.
                    biased;
                    result = &mut send, if !sent => match result {
                        Ok(()) => sent = true,
                        Err(_) => break Cut::Stdin,
                    },
                    read = answers.read() => match (read, answers.line()) {
                        (Ok(1..), None) if answers.unread.len() > max => return Err(Trouble::TooLong),
                        (Ok(1..), None) => {}
                        (Ok(1..), Some(line)) if line.len() > max => return Err(Trouble::TooLong),
                        (Ok(1..), Some(line)) if !sent => return Err(Trouble::TooEarly(line)),
                        (Ok(1..), Some(line)) => return Ok(line),
                        (Ok(0) | Err(_), _) => break Cut::Stdout,
                    },
                    status = process.wait() => break Cut::Exit(status),
                }
            }
        };
        self.cut_off(cut, max).await
    }

    /// Finds out what happened, and whether there is an answer all the same.
    async fn cut_off(&mut self, cut: Cut, max: usize) -> Result<Vec<u8>, Trouble> {
        let status = match cut {
            Cut::Exit(status) => status,
            Cut::Stdin | Cut::Stdout if self.process.is_ending() => self.process.wait().await,
            Cut::Stdin => return Err(Trouble::Closed("standard input")),
            Cut::Stdout => return Err(Trouble::Closed("standard output")),
        };
        self.answers.drain(max).await;
        let clean_end = status.as_ref().is_ok_and(ExitStatus::success);
        let line = self.answers.line().or_else(|| {
            // A last line without its line feed is a line.
            let rest = std::mem::take(&mut self.answers.unread);
            (clean_end && !rest.is_empty()).then_some(rest)
        });
        match line {
            Some(line) if line.len() > max => Err(Trouble::TooLong),
            Some(line) => Ok(line),
            None => Err(Trouble::Ended(status)),
        }
    }

    /// Ends it, and returns what it wrote last to its standard error.
    pub(super) async fn last_words(mut self) -> Vec<u8> {
        self.process.group.kill();
        self.stderr.last_words().await
    }
}

impl Answers {
    async fn read(&mut self) -> io::Result<usize> {
        self.unread.reserve(CHUNK);
        self.stdout.read_buf(&mut self.unread).await
    }

    /// Reads what is there already, without waiting for more.
    async fn drain(&mut self, max: usize) {
        while self.unread.len() <= max && sys::has_input(self.stdout.as_fd()) {
            let Ok(1..) = self.read().await else { return };
        }
    }

    /// Takes a line that is complete.
    fn line(&mut self) -> Option<Vec<u8>> {
        let found = self.unread[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| self.searched + at) else {
            self.searched = self.unread.len();
            return None;
        };
        let rest = self.unread.split_off(end + 1);
        let line = std::mem::replace(&mut self.unread, rest);
        self.searched = 0;
        Some(line)
    }
}
