//! A dependency that is away must not slow one that is well.
//!
//! The healthy one has no limit and takes 100 ms, so that its rate hangs on nothing but how soon a free place is filled:
//! any time that a worker loses with the other one shows. Alone at first and at last, then beside a broken one:
//! as the next stage of the same pipeline (one process, one desk, one store), and as another pipeline in another process
//! on the same store.

use std::time::Duration;

use super::Scale;
use super::provider::{Provider, Seen};
use super::redrive::{Redrive, http};
use crate::Failure;
use crate::measure::verdict::{Found, Goal};

const WELL: &str = "[latency]\nbase = \"100ms\"\njitter = 0.2\n";
const AT_ONCE: usize = 16;
const MOST: Duration = Duration::from_secs(120);

/// Where the broken one is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    /// There is none.
    Nowhere,
    /// In the same process, as the next stage.
    Within,
    /// In another process.
    Apart,
}

/// All of them, one after the other.
pub async fn run(redrive: &Redrive, scale: Scale) -> Result<Found, Failure> {
    let items = scale.items(2_000);
    let mut found = Found::default();
    let away = |status: u16| {
        format!("[[fault]]\nkind = \"status\"\nstatus = {status}\n[latency]\nbase = \"20ms\"\n")
    };
    let mut alone = Vec::new();
    let mut beside = Vec::new();
    let rounds = [
        ("alone", Other::Nowhere, 0),
        ("429 for ever, same process", Other::Within, 429),
        ("503 for ever, same process", Other::Within, 503),
        ("429 for ever, other process", Other::Apart, 429),
        ("503 for ever, other process", Other::Apart, 503),
        ("alone again", Other::Nowhere, 0),
    ];
    for (at, (name, other, status)) in rounds.into_iter().enumerate() {
        let (well, broken) = round(redrive, at, items, other, &away(status.max(400))).await?;
        let rate = well.until(items as u64).map(|seconds| items as f64 / seconds);
        found.add(name, "good answers per second", rate, Goal::None);
        if other == Other::Nowhere {
            alone.push(rate.unwrap_or(0.0));
        } else {
            found.add(name, "calls to the broken one", broken.report.calls as f64, Goal::None);
            beside.push((name, rate));
        }
        let mut raw = well.json(well.until_last());
        raw["calls_to_the_broken_one"] = broken.report.calls.into();
        raw["broken_lasted_ms"] = broken.report.lasted_ms.into();
        found.raw.insert(name.to_owned(), raw);
    }
    let solo = alone.iter().sum::<f64>() / alone.len().max(1) as f64;
    for (name, rate) in beside {
        found.add(name, "rate / rate alone", rate.map(|rate| rate / solo), Goal::AtLeast(0.95));
    }
    Ok(found)
}

async fn round(
    redrive: &Redrive,
    at: usize,
    items: usize,
    other: Other,
    away: &str,
) -> Result<(Seen, Seen), Failure> {
    let (well, broken) = (Provider::start(WELL).await?, Provider::start(away).await?);
    let name = format!("beside-{at}");
    let store = redrive.place(&name)?.join("state.db");
    let sick = http("sick", &broken.url(), AT_ONCE);
    let mut stages = http("well", &well.url(), AT_ONCE);
    if other == Other::Within {
        stages += &sick;
    }
    let enough = || well.ok() >= items as u64;
    // The broken one first, so that it has its gate closed and opened some times.
    let sick = match other {
        Other::Apart => Some(redrive.start(&format!("{name}-sick"), &sick, items, 200, &store)?),
        _ => None,
    };
    let contestant = redrive.start(&name, &stages, items, 200, &store)?;
    contestant.end(MOST, enough).await?;
    if let Some(sick) = sick {
        sick.end(Duration::ZERO, || true).await?;
    }
    // One more look, so that the last answer is seen.
    crate::clock::pause(Duration::from_millis(100)).await;
    Ok((well.seen(), broken.seen()))
}
