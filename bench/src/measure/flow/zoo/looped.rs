//! The loop that people write: so many workers, each of which keeps an item until it is through.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use redrive_core::draw::Draw;
use redrive_engine::env::Seeded;
use tokio::task::JoinSet;

use crate::Failure;
use crate::client::{Answer, Client};
use crate::clock::{Watch, now, pause};

/// Attempts of an item that gets an error that is no throttle.
const ATTEMPTS: u32 = 6;
/// The longest backoff, in seconds.
const LONGEST: f64 = 30.0;

/// What the loop is told.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Where it calls, such as `127.0.0.1:9000`.
    pub address: String,
    /// The path.
    pub path: &'static str,
    /// The body of each call.
    pub bodies: Arc<Vec<String>>,
    /// Workers.
    pub workers: usize,
    /// How long it may take.
    pub most: Duration,
}

/// What it counted itself.
#[derive(Debug, Default)]
pub struct Counts {
    /// Items with a good answer.
    pub done: AtomicU64,
    /// Answers of 429, 503 and 529.
    pub turned_away: AtomicU64,
    /// Items given up.
    pub dead: AtomicU64,
    next: AtomicUsize,
}

/// Runs it until all items are through or its time is over.
pub async fn run(asked: &Asked, seed: u64) -> Result<Arc<Counts>, Failure> {
    let counts = Arc::new(Counts::default());
    let dice = Arc::new(Seeded::new(seed));
    let watch = Watch::start();
    let mut workers = JoinSet::new();
    for _ in 0..asked.workers {
        let (asked, counts, dice) = (asked.clone(), counts.clone(), dice.clone());
        workers.spawn(async move {
            let mut client = Client::new(&asked.address, "sk-rehearse");
            loop {
                let Some(body) = asked.bodies.get(counts.next.fetch_add(1, Relaxed)) else { return };
                work(&mut client, asked.path, body, &counts, &dice).await;
            }
        });
    }
    loop {
        tokio::select! {
            worked = workers.join_next() => match worked {
                Some(worked) => worked?,
                None => return Ok(counts),
            },
            () = pause(asked.most.saturating_sub(watch.elapsed())) => return Ok(counts),
        }
    }
}

/// Calls until there is a good answer.
async fn work(client: &mut Client, path: &str, body: &str, counts: &Counts, dice: &Seeded) {
    let mut errors = 0;
    for tries in 0_u32.. {
        let answer = client.post(path, body).await;
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        match status {
            200 => {
                counts.done.fetch_add(1, Relaxed);
                return;
            }
            429 | 503 | 529 => drop(counts.turned_away.fetch_add(1, Relaxed)),
            _ => errors += 1,
        }
        if errors >= ATTEMPTS {
            counts.dead.fetch_add(1, Relaxed);
            return;
        }
        let backoff = (0.5 * f64::from(1_u32 << tries.min(8))).min(LONGEST);
        let backoff = Duration::from_secs_f64(backoff * (0.5 + Draw::from_bits(dice.bits()).value()));
        pause(answer.ok().as_ref().and_then(hint).unwrap_or(backoff)).await;
    }
}

/// The wait that an answer names.
fn hint(answer: &Answer) -> Option<Duration> {
    if let Some(ms) = answer.header("retry-after-ms").and_then(|value| value.parse().ok()) {
        return Some(Duration::from_millis(ms));
    }
    let value = answer.header("retry-after")?;
    let seconds = value.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let date = || -> Option<SystemTime> { httpdate::parse_http_date(value).ok() };
    seconds.or_else(|| Some(date()?.duration_since(now()).unwrap_or_default()))
}
