//! The one thread that writes, and its group commit.
//!
//! Commands queue up while a transaction is on its way to the disk; the next transaction takes all that are queued,
//! so that they share one wait for the disk, and all are answered after it. A command that fails takes the group's
//! transaction back, and the group's commands are then run one by one: a bad command fails alone.
//!
//! A commit that fails is never repeated here: after a failed flush the operating system may have dropped what was to
//! be written, and only the caller can look whether it happened.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use redrive_store::Error;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Fault, Result};
use crate::options::{AFTER_COMMIT, BEFORE_BEGIN, BEFORE_COMMIT, CrashHook};

/// Most commands in one transaction.
const MAX_COMMANDS: usize = 512;
/// A transaction takes no further command once it has this many rows, so that no caller waits behind it for long.
const MAX_ROWS: usize = 20_000;
/// Callers wait in line behind this many commands.
const QUEUE: usize = 1_024;

/// Something to be written. It can be run again after its transaction was taken back.
pub(crate) trait Command: Send {
    /// Writes, and keeps the answer.
    fn run(&mut self, tx: &Connection) -> Result<()>;
    /// Answers the caller.
    fn answer(self: Box<Self>, outcome: std::result::Result<(), Error>);
    /// About how many rows it writes.
    fn rows(&self) -> usize;
    /// How it wants to be run.
    fn manner(&self) -> Manner;
}

/// How a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// In a transaction, with others.
    Grouped,
    /// Likewise; when it fails it is run once more, and only what is bad of it then fails.
    InParts,
    /// Outside any transaction, by itself.
    Alone,
}

struct Job<T, F> {
    work: F,
    rows: usize,
    manner: Manner,
    made: Option<T>,
    reply: oneshot::Sender<std::result::Result<T, Error>>,
}

impl<T: Send, F: Fn(&Connection) -> Result<T> + Send> Command for Job<T, F> {
    fn run(&mut self, tx: &Connection) -> Result<()> {
        self.made = Some((self.work)(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: std::result::Result<(), Error>) {
        let missing = || Error::Internal("a command was answered before it ran".to_owned());
        let Self { made, reply, .. } = *self;
        // A caller that went away does not want to know.
        let _ = reply.send(outcome.and_then(|()| made.ok_or_else(missing)));
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn manner(&self) -> Manner {
        self.manner
    }
}

/// The writing side of a store.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Option<mpsc::Sender<Box<dyn Command>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Hands the connection to a thread of its own.
    pub(crate) fn start(
        conn: Connection,
        path: PathBuf,
        crash: CrashHook,
    ) -> std::result::Result<Self, Error> {
        let (queue, commands) = mpsc::channel(QUEUE);
        let desk = Desk { conn, path, crash };
        let thread = thread::Builder::new()
            .name("redrive-sqlite-writer".to_owned())
            .spawn(move || desk.serve(commands))
            .map_err(|error| Error::Open(format!("a thread for writing: {error}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a command and waits until it is durable, or refused.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        rows: usize,
        work: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Error> {
        self.send(rows, Manner::Grouped, work).await
    }

    /// Likewise, for a command that goes otherwise when it is run a second time.
    pub(crate) async fn write_in_parts<T: Send + 'static>(
        &self,
        rows: usize,
        work: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Error> {
        self.send(rows, Manner::InParts, work).await
    }

    /// Queues something that no transaction can hold.
    pub(crate) async fn alone<T: Send + 'static>(
        &self,
        work: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Error> {
        self.send(0, Manner::Alone, work).await
    }

    async fn send<T: Send + 'static>(
        &self,
        rows: usize,
        manner: Manner,
        work: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Error> {
        let stopped = || Error::Unavailable("the writing thread has stopped".to_owned());
        let (reply, answer) = oneshot::channel();
        let job = Job { work, rows, manner, made: None, reply };
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(Box::new(job)).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

impl Drop for Writer {
    /// Writes what is queued, then closes the file; SQLite moves the log into it as the last connection goes.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Desk {
    conn: Connection,
    path: PathBuf,
    crash: CrashHook,
}

impl Desk {
    fn serve(self, mut commands: mpsc::Receiver<Box<dyn Command>>) {
        let mut held: Option<Box<dyn Command>> = None;
        while let Some(first) = held.take().or_else(|| commands.blocking_recv()) {
            if first.manner() == Manner::Alone {
                self.run_alone(first);
                continue;
            }
            let mut rows = first.rows();
            let mut group = vec![first];
            while group.len() < MAX_COMMANDS && rows < MAX_ROWS {
                let Ok(next) = commands.try_recv() else { break };
                if next.manner() == Manner::Alone {
                    held = Some(next);
                    break;
                }
                rows += next.rows();
                group.push(next);
            }
            self.write(group);
        }
    }

    fn run_alone(&self, mut command: Box<dyn Command>) {
        let ran = command.run(&self.conn).map_err(|fault| fault.at(&self.path));
        command.answer(ran);
    }

    fn write(&self, mut group: Vec<Box<dyn Command>>) {
        let together =
            transact(&self.conn, self.crash, |tx| group.iter_mut().try_for_each(|command| command.run(tx)));
        match together {
            Ok(()) => group.into_iter().for_each(|command| command.answer(Ok(()))),
            Err(Refused::Work(_))
                if group.len() > 1 || group.iter().any(|one| one.manner() == Manner::InParts) =>
            {
                self.write_singly(group)
            }
            Err(Refused::Work(fault) | Refused::Transaction(fault)) => self.refuse(group, fault),
        }
    }

    fn write_singly(&self, group: Vec<Box<dyn Command>>) {
        let mut rest = group.into_iter();
        while let Some(mut command) = rest.next() {
            match self.write_one(&mut *command) {
                Ok(()) => command.answer(Ok(())),
                Err(Refused::Work(fault)) => command.answer(Err(fault.at(&self.path))),
                // The file is away, not the command bad: the others would each wait for it in vain.
                Err(Refused::Transaction(fault)) => {
                    return self.refuse(std::iter::once(command).chain(rest).collect(), fault);
                }
            }
        }
    }

    /// Writes one command by itself. One in parts may not have been run before, because another of its group failed first.
    fn write_one(&self, command: &mut dyn Command) -> std::result::Result<(), Refused> {
        match transact(&self.conn, self.crash, |tx| command.run(tx)) {
            Err(Refused::Work(_)) if command.manner() == Manner::InParts => {
                transact(&self.conn, self.crash, |tx| command.run(tx))
            }
            written => written,
        }
    }

    fn refuse(&self, group: Vec<Box<dyn Command>>, fault: Fault) {
        let error = fault.at(&self.path);
        group.into_iter().for_each(|command| command.answer(Err(error.clone())));
    }
}

/// Why a transaction did not happen.
pub(crate) enum Refused {
    /// Its work failed.
    Work(Fault),
    /// It could not begin, or not be committed.
    Transaction(Fault),
}

impl Refused {
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::Work(fault) | Self::Transaction(fault) => fault,
        }
    }
}

/// Runs `work` in one transaction that holds the writer's lock from the start.
pub(crate) fn transact<T>(
    conn: &Connection,
    crash: CrashHook,
    work: impl FnOnce(&Connection) -> Result<T>,
) -> std::result::Result<T, Refused> {
    crash(BEFORE_BEGIN);
    let begun = conn.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
    begun.map_err(|error| Refused::Transaction(error.into()))?;
    let made = match work(conn) {
        Ok(made) => made,
        Err(fault) => {
            take_back(conn);
            return Err(Refused::Work(fault));
        }
    };
    crash(BEFORE_COMMIT);
    let committed = conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
    if let Err(error) = committed {
        take_back(conn);
        return Err(Refused::Transaction(error.into()));
    }
    crash(AFTER_COMMIT);
    Ok(made)
}

/// Ends a transaction that failed; some errors have ended it already.
fn take_back(conn: &Connection) {
    if !conn.is_autocommit() {
        let _ = conn.execute_batch("ROLLBACK");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static COMMITS: AtomicUsize = AtomicUsize::new(0);

    fn count(point: &'static str) {
        COMMITS.fetch_add(usize::from(point == AFTER_COMMIT), Ordering::SeqCst);
    }

    type Answer = oneshot::Receiver<std::result::Result<usize, Error>>;

    fn insert(n: i64) -> (Box<dyn Command>, Answer) {
        let (reply, answer) = oneshot::channel();
        let work = move |tx: &Connection| Ok(tx.execute("INSERT INTO t VALUES (?1)", [n])?);
        (Box::new(Job { work, rows: 1, manner: Manner::Grouped, made: None, reply }), answer)
    }

    #[test]
    fn a_group_is_one_commit_and_a_bad_command_in_it_fails_alone() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY CHECK (n < 100))").unwrap();
        let desk = Desk { conn, path: PathBuf::from("x.db"), crash: count };
        let (good, answers): (Vec<_>, Vec<_>) = [1, 2, 3].map(insert).into_iter().unzip();
        desk.write(good);
        assert!(answers.into_iter().all(|mut answer| answer.try_recv() == Ok(Ok(1))));
        assert_eq!(COMMITS.swap(0, Ordering::SeqCst), 1);
        let (mixed, mut answers): (Vec<_>, Vec<_>) = [4, 999, 5].map(insert).into_iter().unzip();
        desk.write(mixed);
        let answers: Vec<_> = answers.iter_mut().map(|answer| answer.try_recv().unwrap()).collect();
        assert!(matches!(&answers[..], [Ok(1), Err(Error::Internal(text)), Ok(1)] if text.contains("x.db")));
        assert_eq!(COMMITS.load(Ordering::SeqCst), 2);
        let kept: i64 = desk.conn.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 5);
    }

    #[test]
    fn a_command_in_parts_is_run_once_more_whoever_failed_before_it() {
        for rival in [None, Some(999)] {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY CHECK (n < 100))").unwrap();
            let desk = Desk { conn, path: PathBuf::from("x.db"), crash: |_| {} };
            let (reply, mut answer) = oneshot::channel();
            let careful = AtomicUsize::new(0);
            let work = move |tx: &Connection| {
                tx.execute("INSERT INTO t VALUES (1)", [])?;
                let bad = careful.fetch_add(1, Ordering::SeqCst) == 0;
                Ok(if bad { tx.execute("INSERT INTO t VALUES (999)", [])? } else { 7 })
            };
            let parts = Job { work, rows: 1, manner: Manner::InParts, made: None, reply };
            let (mut group, mut others): (Vec<_>, Vec<_>) = rival.into_iter().map(insert).unzip();
            group.push(Box::new(parts));
            desk.write(group);
            assert_eq!(answer.try_recv(), Ok(Ok(7)), "{rival:?}");
            assert!(others.iter_mut().all(|other| matches!(other.try_recv(), Ok(Err(Error::Internal(_))))));
            let kept: i64 = desk.conn.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(kept, 1);
        }
    }
}
