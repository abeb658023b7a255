//! Runs the real engine on the real store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_core::reading::Reading;
use redrive_engine::admit::{Admission, Batch, KnownKeys, Pace, submit};
use redrive_engine::env::Env;
use redrive_engine::handler::Handler;
use redrive_engine::recipe::Recipe;
use redrive_engine::source::Source;
use redrive_engine::worker::{Ending, Session, Settings, Stop};
use redrive_sqlite::{Options, SqliteStore};
use redrive_store::{Cursor, RunRow, Store};
use tokio::sync::{Notify, watch};

use crate::clock::{Watch, Writes, hook, reset_writes, writes};
use crate::material::{Generated, Shape, new_run, recipe};
use crate::{Failure, process};

/// One measured stretch of work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stretch {
    /// Wall time.
    pub seconds: f64,
    /// CPU time of the whole process.
    pub cpu: f64,
    /// What the writing thread did; zero where there is none.
    pub writes: Writes,
    /// Bytes written to disk.
    pub bytes: f64,
}

/// A store with a run in it, ready to be worked on.
pub struct Bench {
    /// The store.
    pub store: Arc<SqliteStore>,
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// The run.
    pub run: RunRow,
    /// Clock and dice.
    pub env: Env,
    /// Says that items came in.
    pub wake: Arc<Notify>,
    /// Whether items are still to come.
    pub admitting: Arc<AtomicBool>,
    /// Says when to stop.
    pub teller: watch::Sender<Stop>,
    shape: Shape,
}

/// The runtime that the command line uses as well.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Opens a store the way every command here does: fully durable.
pub fn open(path: &Path) -> Result<SqliteStore, Failure> {
    Ok(SqliteStore::open(path, Options { crash_hook: hook, ..Options::default() })?)
}

/// Measures what `work` takes.
pub async fn measured<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<(T, Stretch), Failure> {
    reset_writes();
    let (cpu, bytes, watch) = (process::cpu_seconds(), process::bytes_written(), Watch::start());
    let made = work.await?;
    let stretch = Stretch {
        seconds: watch.seconds(),
        cpu: process::cpu_seconds() - cpu,
        writes: writes(),
        bytes: process::bytes_written() - bytes,
    };
    Ok((made, stretch))
}

impl Bench {
    /// Makes a store with a run at `path`.
    pub async fn create(path: &Path, shape: Shape, handler: Arc<dyn Handler>) -> Result<Self, Failure> {
        let (store, env) = (Arc::new(open(path)?), Env::system());
        let run = store.create_run(new_run(), env.clock.now()).await?;
        Self::with(store, run, shape, &handler)
    }

    /// Goes on with the one run of a store that is there.
    pub async fn reopen(path: &Path, shape: Shape, handler: Arc<dyn Handler>) -> Result<Self, Failure> {
        let store = Arc::new(open(path)?);
        let run = store.runs(Default::default(), None, 1).await?.pop().ok_or("no run in the store")?;
        Self::with(store, run, shape, &handler)
    }

    fn with(
        store: Arc<SqliteStore>,
        run: RunRow,
        shape: Shape,
        handler: &Arc<dyn Handler>,
    ) -> Result<Self, Failure> {
        let recipe = Arc::new(recipe(shape, handler)?);
        let (wake, (teller, _)) = (Arc::new(Notify::new()), watch::channel(Stop::No));
        let admitting = Arc::new(AtomicBool::new(false));
        Ok(Self { store, recipe, run, env: Env::system(), wake, admitting, teller, shape })
    }

    /// Submits all items before anything is worked on, in pieces like those of a source.
    pub async fn submit_all(&self) -> Result<(), Failure> {
        let mut source = Generated::new(self.shape);
        loop {
            let piece = source.next_piece()?;
            let done = piece.done;
            let cursor = Cursor { position: piece.position, done, duplicates: 0 };
            let batch = Batch {
                run: self.run.id,
                reading: Reading::FIRST,
                items: piece.items,
                cursor,
                known_keys: KnownKeys::Replaced,
            };
            submit(&*self.store, &self.recipe, &self.env, batch).await?;
            if done {
                return Ok(());
            }
        }
    }

    /// Works until nothing is left.
    pub async fn drain(&self) -> Result<(), Failure> {
        match self.session().work(self.run.clone()).await? {
            Ending::Finished => Ok(()),
            other => Err(format!("the session ended with {other:?}").into()),
        }
    }

    /// Submits and works at the same time, as `redrive run` does.
    pub async fn stream(&self) -> Result<(), Failure> {
        self.admitting.store(true, Ordering::SeqCst);
        let admission = Admission {
            store: self.store.clone(),
            recipe: self.recipe.clone(),
            env: self.env.clone(),
            run: self.run.id,
            last: self.run.reading,
            wake: self.wake.clone(),
            admitting: self.admitting.clone(),
            stop: self.teller.subscribe(),
            pace: Pace::Working,
            part: None,
        };
        let admitted = tokio::spawn(admission.admit(Box::new(Generated::new(self.shape))));
        self.drain().await?;
        self.teller.send_replace(Stop::Now);
        Ok(admitted.await?.outcome?)
    }

    /// A worker's session.
    pub fn session(&self) -> Session {
        Session {
            store: self.store.clone(),
            recipe: self.recipe.clone(),
            env: self.env.clone(),
            settings: Settings::default(),
            wake: self.wake.clone(),
            admitting: self.admitting.clone(),
            stop: self.teller.subscribe(),
            among: None,
        }
    }
}
