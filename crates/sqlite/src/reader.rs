//! A few threads that only read, each with its own connection, so that a long page never waits for a commit and no
//! read ever blocks the async runtime.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use redrive_store::Error;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::Result;
use crate::open;
use crate::options::Options;

const THREADS: usize = 2;
/// Callers wait in line behind this many reads.
const QUEUE: usize = 256;

type Read = Box<dyn FnOnce(&Connection, &Path) + Send>;
type Queue = Arc<Mutex<mpsc::Receiver<Read>>>;

/// The reading side of a store.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: Option<mpsc::Sender<Read>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Opens the connections and starts their threads.
    pub(crate) fn start(path: &Path, options: &Options) -> std::result::Result<Self, Error> {
        let (queue, reads) = mpsc::channel(QUEUE);
        let reads: Queue = Arc::new(Mutex::new(reads));
        let mut readers = Self { queue: Some(queue), threads: Vec::new() };
        for number in 1..=THREADS {
            let conn = open::reader(path, options)?;
            let (reads, path) = (Arc::clone(&reads), path.to_path_buf());
            let thread = thread::Builder::new()
                .name(format!("redrive-sqlite-reader-{number}"))
                .spawn(move || serve(&conn, &path, &reads))
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
        let read: Read = Box::new(move |conn, path| {
            let _ = reply.send(snapshot(conn, work).map_err(|fault| fault.at(path)));
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

fn serve(conn: &Connection, path: &Path, reads: &Queue) {
    loop {
        // Held while waiting: the other threads wait for the lock instead of for the queue.
        let next = reads.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(read) = next else { return };
        read(conn, path);
    }
}

/// Runs `work` in a read transaction, so that all of its queries see one state.
pub(crate) fn snapshot<T>(conn: &Connection, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    let tx = conn.unchecked_transaction()?;
    let read = work(&tx)?;
    tx.finish()?;
    Ok(read)
}
