//! Many seeds, one after the other.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use redrive_sqlite::SqliteStore;
use redrive_store::{MemoryStore, Store};

use crate::hub::Broken;
use crate::met::Score;
use crate::world::{Outcome, play};

/// Which store a run is played over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// [`MemoryStore`].
    Memory,
    /// [`SqliteStore`], in memory.
    Sqlite,
}

impl StoreKind {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
        }
    }

    /// An empty store.
    ///
    /// # Panics
    /// When SQLite cannot make one.
    #[must_use]
    pub fn make(self) -> Arc<dyn Store> {
        match self {
            Self::Memory => Arc::new(MemoryStore::new()),
            Self::Sqlite => Arc::new(SqliteStore::in_memory().expect("SQLite makes a store in memory")),
        }
    }

    /// Plays a seed over an empty store.
    #[must_use]
    pub fn play(self, seed: u64, verbose: bool) -> Outcome {
        play(seed, self.make(), verbose)
    }
}

/// A seed that broke a law.
#[derive(Debug, Clone)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// Over which store.
    pub store: StoreKind,
    /// What was broken.
    pub broken: Broken,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, store, broken } = self;
        writeln!(f, "seed {seed} over {}: {}: {}", store.name(), broken.law, broken.what)?;
        write!(f, "  replay: cargo run -p redrive-sim -- --store {} --replay {seed} --verbose", store.name())
    }
}

/// A range of seeds over one store.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// The store.
    pub store: StoreKind,
    /// The first seed.
    pub seed: u64,
    /// How many.
    pub runs: u64,
    /// Stop after so many failing seeds.
    pub failures: usize,
}

impl Campaign {
    /// Plays the seeds; gives what was met and the seeds that failed.
    #[must_use]
    pub fn play(&self) -> (Score, Vec<Failed>) {
        let mut score = Score::default();
        let mut failed = Vec::new();
        for seed in self.seed..self.seed.saturating_add(self.runs) {
            let outcome = self.store.play(seed, false);
            score.add(&outcome.score);
            if let Some(broken) = outcome.broken {
                failed.push(Failed { seed, store: self.store, broken });
                if failed.len() >= self.failures {
                    break;
                }
            }
        }
        (score, failed)
    }
}

/// Whether a seed stands in the list from before there were gates: it is played without them.
#[must_use]
pub fn is_plain(seed: u64) -> bool {
    static PLAIN: LazyLock<BTreeSet<u64>> = LazyLock::new(|| {
        let list = include_str!("../seeds/regressions.txt");
        let old = list.split_once("# gates").map_or(list, |(old, _)| old).lines();
        old.filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect()
    });
    PLAIN.contains(&seed)
}

/// Whether a seed stands in the list of those that once failed.
#[must_use]
pub fn is_listed(seed: u64) -> bool {
    static LISTED: LazyLock<BTreeSet<u64>> =
        LazyLock::new(|| regressions().into_iter().map(|(_, seed)| seed).collect());
    LISTED.contains(&seed)
}

/// The seeds that once failed: `store seed why`, a line each.
///
/// # Panics
/// When a line of the list cannot be read.
#[must_use]
pub fn regressions() -> Vec<(StoreKind, u64)> {
    let lines = include_str!("../seeds/regressions.txt").lines();
    let told = lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = |line: &str| {
        let mut words = line.split_whitespace();
        let store = match words.next() {
            Some("memory") => StoreKind::Memory,
            Some("sqlite") => StoreKind::Sqlite,
            other => panic!("{other:?} is no store"),
        };
        let seed = words.next().and_then(|seed| seed.parse().ok()).expect("a seed after the store");
        (store, seed)
    };
    told.map(read).collect()
}
