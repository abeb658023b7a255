//! The model alone: the same texts, in this process, with nothing around it.

use std::hint::black_box;
use std::thread;

use redrive_embed::{Embedder, builtin};

use crate::clock::Watch;
use crate::{Failure, process};

/// Texts in a call; as many as the engine hands over at once.
const BATCH: usize = 128;

/// How it went.
#[derive(Debug, Clone, Copy)]
pub struct Bare {
    /// Seconds.
    pub seconds: f64,
    /// CPU seconds.
    pub cpu: f64,
}

/// Embeds all texts, split over so many threads.
pub fn embed(texts: &[String], threads: usize) -> Result<Bare, Failure> {
    // It is prepared at the first call.
    let _ = builtin();
    let (watch, cpu) = (Watch::start(), process::cpu_seconds());
    let parts = texts.len().div_ceil(threads.max(1)).max(1);
    thread::scope(|scope| {
        let running: Vec<_> = texts.chunks(parts).map(|part| scope.spawn(move || embed_part(part))).collect();
        running.into_iter().try_for_each(|one| one.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(Bare { seconds: watch.seconds(), cpu: process::cpu_seconds() - cpu })
}

fn embed_part(texts: &[String]) -> Result<(), Failure> {
    for batch in texts.chunks(BATCH) {
        let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
        black_box(builtin().embed(&batch)?);
    }
    Ok(())
}
