//! What the daemon costs beside its work: followers of events, and doing nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::daemon::{Daemon, post, until};
use crate::Failure;
use crate::clock::{Watch, pause};
use crate::report::{Spread, round, say};

/// Clients that follow.
const FOLLOWERS: usize = 20;
/// Items of the run that is worked on.
const ITEMS: usize = 100_000;
/// How long an idle daemon is looked at.
const IDLE: Duration = Duration::from_secs(20);
/// How long it is left alone before that.
const SETTLE: Duration = Duration::from_secs(3);

/// The rate of a run without and with followers, taking turns.
pub async fn followers(binary: &Path, folder: &Path, repeat: usize) -> Result<Value, Failure> {
    let input = folder.join("lines.jsonl");
    let lines: String =
        (0..ITEMS).map(|n| format!("{{\"id\":{n},\"text\":\"some words of no meaning\"}}\n")).collect();
    std::fs::write(&input, lines)?;
    let (mut without, mut with, mut ratios, mut heard) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..repeat.max(3) {
        let alone = rate(binary, folder, &input, 0, &mut heard).await?;
        let followed = rate(binary, folder, &input, FOLLOWERS, &mut heard).await?;
        without.push(alone);
        with.push(followed);
        ratios.push(followed / alone);
    }
    let [without, with, ratio] = [without, with, ratios].map(Spread::of);
    say(&format!(
        "{ITEMS} items, items/s: {} without followers, {} with {FOLLOWERS} ({heard} events heard); ratio {}",
        without.text(0),
        with.text(0),
        ratio.text(3)
    ));
    Ok(json!({ "without": without.json(), "with": with.json(), "ratio": ratio.json(), "events": heard }))
}

async fn rate(
    binary: &Path,
    folder: &Path,
    input: &Path,
    followers: usize,
    heard: &mut usize,
) -> Result<f64, Failure> {
    let store = folder.join("followed.db");
    for ending in ["", "-wal", "-shm"] {
        let old = folder.join(format!("followed.db{ending}"));
        if old.exists() {
            std::fs::remove_file(old)?;
        }
    }
    let daemon = Daemon::start(binary, &store, &[])?;
    let (mut following, events) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..followers {
        let (mut client, events) = (daemon.client(), events.clone());
        following.spawn(async move {
            let counted = |piece: &[u8]| {
                events.fetch_add(piece.windows(6).filter(|six| six == b"event:").count(), Relaxed);
                false
            };
            client.begin("/v1/events", counted).await
        });
    }
    let pipeline = "name = \"followed\"\n[source]\nkind = \"jsonl\"\nkey = \"/id\"\n[[stage]]\nname = \"through\"\nkind = \"pass\"\n";
    let mut client = daemon.client();
    let watch = Watch::start();
    let asked = json!({ "pipeline": pipeline, "input": input.display().to_string() });
    post(&mut client, "/v1/runs", &asked).await?;
    // Whoever waits for the end costs the same in both rounds.
    until(&mut client, "/v1/runs/r1", |report| report["counts"]["succeeded"] == ITEMS).await?;
    let rate = ITEMS as f64 / watch.seconds();
    following.abort_all();
    *heard += events.load(Relaxed);
    daemon.stop().await?;
    Ok(rate)
}

/// CPU and memory of a daemon that has nothing to do.
pub async fn idle(binary: &Path, store: &Path) -> Result<Value, Failure> {
    let daemon = Daemon::start(binary, store, &[])?;
    pause(SETTLE).await;
    let (before, watch) = (daemon.cpu_seconds(), Watch::start());
    pause(IDLE).await;
    let (share, rss) = ((daemon.cpu_seconds() - before) / watch.seconds(), daemon.rss_mb());
    say(&format!("idle: {:.2} % of a core, {rss:.1} MB resident", share * 100.0));
    daemon.stop().await?;
    Ok(json!({ "core_share": round(share), "rss_mb": round(rss) }))
}
