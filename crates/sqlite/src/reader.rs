//! A few threads that only read, each with its own connection, so that a long page never waits for a commit and no
//! read ever blocks the async runtime.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use redrive_store::Error;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Fault, Result};
use crate::open;
use crate::options::Options;
use crate::way::Way;

const THREADS: usize = 2;
/// Callers wait in line behind this many reads.
const QUEUE: usize = 256;

type Read = Box<dyn FnOnce(&Connection, &Path, Way) + Send>;
type Queue = Arc<Mutex<mpsc::Receiver<Read>>>;

/// The reading side of a store.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: Option<mpsc::Sender<Read>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Opens the connections and starts their threads.
    pub(crate) fn start(path: &Path, options: &Options, way: Way) -> std::result::Result<Self, Error> {
        let connections = (0..THREADS).map(|_| open::reader(path, options, way));
        Self::over(path, way, connections.collect::<std::result::Result<_, _>>()?)
    }

    /// Opens one connection that sees the store as it is now for as long as it lives.
    pub(crate) fn frozen(path: &Path, options: &Options, way: Way) -> std::result::Result<Self, Error> {
        let conn = open::reader(path, options, way)?;
        // A transaction has its snapshot from its first look on.
        conn.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")
            .map_err(|error| Fault::from(error).at(path))?;
        Self::over(path, way, vec![conn])
    }

    fn over(path: &Path, way: Way, connections: Vec<Connection>) -> std::result::Result<Self, Error> {
        let (queue, reads) = mpsc::channel(QUEUE);
        let reads: Queue = Arc::new(Mutex::new(reads));
        let mut readers = Self { queue: Some(queue), threads: Vec::new() };
        for (number, conn) in connections.into_iter().enumerate() {
            let (reads, path) = (Arc::clone(&reads), path.to_path_buf());
            let thread = thread::Builder::new()
                .name(format!("redrive-sqlite-reader-{}", number + 1))
                .spawn(move || serve(&conn, &path, way, &reads))
                .map_err(|error| Error::Open(format!("a thread for reading: {error}")))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Runs `work` on one snapshot of the store.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Error> {
        let stopped = || Error::Unavailable("the reading threads have stopped".to_owned());
        let (reply, answer) = oneshot::channel();
        let read: Read = Box::new(move |conn, path, way| {
            let read = snapshot(conn, work).map_err(|fault| fault.at(path));
            // Whatever was read from a file that was written meanwhile is worth nothing, errors included.
            let _ = reply.send(way.still_holds(path).and(read));
        });
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(read).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.queue.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(conn: &Connection, path: &Path, way: Way, reads: &Queue) {
    loop {
        // Held while waiting: the other threads wait for the lock instead of for the queue.
        let next = reads.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(read) = next else { return };
        read(conn, path, way);
    }
}

/// Runs `work` in a read transaction, so that all of its queries see one state: in its own, or in the one that is open.
pub(crate) fn snapshot<T>(conn: &Connection, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    if !conn.is_autocommit() {
        return work(conn);
    }
    let tx = conn.unchecked_transaction()?;
    let read = work(&tx)?;
    tx.finish()?;
    Ok(read)
}
