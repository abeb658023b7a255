//! The store under test against the one in memory: the same random commands must give the same answers and leave the
//! same state behind.

pub(crate) mod dice;
mod lives;
mod met;
mod snapshot;

use std::sync::Arc;

use redrive_store::{MemoryStore, Store};

use dice::Dice;
use lives::Lives;
use met::Met;

/// Sequences of one case; the six cases together play 300.
const SEQUENCES: u64 = 50;
const COMMANDS: usize = 60;

pub(crate) async fn random_lives_0(store: Arc<dyn Store>) {
    play(store, 0).await;
}

pub(crate) async fn random_lives_1(store: Arc<dyn Store>) {
    play(store, 1).await;
}

pub(crate) async fn random_lives_2(store: Arc<dyn Store>) {
    play(store, 2).await;
}

pub(crate) async fn random_lives_3(store: Arc<dyn Store>) {
    play(store, 3).await;
}

pub(crate) async fn random_lives_4(store: Arc<dyn Store>) {
    play(store, 4).await;
}

pub(crate) async fn random_lives_5(store: Arc<dyn Store>) {
    play(store, 5).await;
}

async fn play(store: Arc<dyn Store>, part: u64) {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut met = Met::default();
    for sequence in 0..SEQUENCES {
        let seed = part * SEQUENCES + sequence;
        let mut lives = Lives::begin([memory.clone(), store.clone()], Dice::new(seed), seed).await;
        for _ in 0..COMMANDS {
            lives.step().await;
        }
        met.add(&lives.end().await);
    }
    // A game in which nothing is refused, shared or sent back proves nothing about those.
    assert!(met.all(), "every kind of answer has to be met: {met:?}");
}
