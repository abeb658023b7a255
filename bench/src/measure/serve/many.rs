//! What is done to many dead items: sent back while work goes on, and written out.

use std::path::Path;

use serde_json::{Value, json};

use super::daemon::{Daemon, get, post, until};
use crate::Failure;
use crate::clock::Watch;
use crate::report::{round, say};

/// Items that are sent back.
const SENT: u64 = 100_000;
/// Items that are written out.
const WRITTEN: usize = 200_000;

/// Sends items back, with nobody to work on them and with the daemon's own workers at it.
pub async fn redrive(binary: &Path, store: &Path, works: bool) -> Result<Value, Failure> {
    let daemon = Daemon::start(binary, store, if works { &[] } else { &["--no-work"] })?;
    let mut client = daemon.client();
    let asked = json!({"kind": "redrive", "filter": {"run": "r1"}, "all": true, "limit": SENT});
    let watch = Watch::start();
    let started = post(&mut client, "/v1/operations", &asked).await?;
    let id = started["operations"][0]["id"].as_str().ok_or("no operation")?.to_owned();
    let ended =
        until(&mut client, &format!("/v1/operations/{id}"), |operation| operation["state"] != "open").await?;
    let took = watch.seconds();
    if ended["changed"] != SENT {
        return Err(format!("of {SENT} items {} were sent back", ended["changed"]).into());
    }
    let report = get(&mut client, "/v1/runs/r1").await?;
    let worked_on = report["counts"]["succeeded"].as_u64().unwrap_or(0);
    if works {
        until(&mut client, "/v1/runs/r1", |report| report["counts"]["succeeded"] == SENT).await?;
    }
    let all = watch.seconds();
    let rate = SENT as f64 / took;
    say(&match works {
        true => format!(
            "redrive of {SENT} while they are worked on: {rate:.0}/s ({worked_on} were through by then; all after {all:.1} s)"
        ),
        false => format!("redrive of {SENT}, nobody at work: {rate:.0}/s"),
    });
    daemon.stop().await?;
    Ok(json!({ "items_per_s": round(rate), "through_by_then": worked_on, "all_through_s": round(all) }))
}

/// Reads an export as it comes.
pub async fn export(binary: &Path, store: &Path) -> Result<Value, Failure> {
    let daemon = Daemon::start(binary, store, &["--no-work"])?;
    let (mut lines, mut bytes) = (0, 0);
    let watch = Watch::start();
    daemon
        .client()
        .begin("/v1/dead/export", |piece| {
            lines += piece.iter().filter(|byte| **byte == b'\n').count();
            bytes += piece.len();
            lines >= WRITTEN
        })
        .await?;
    let (rate, speed) = (lines as f64 / watch.seconds(), bytes as f64 / watch.seconds() / 1e6);
    say(&format!("export: {rate:.0} items/s, {speed:.0} MB/s"));
    daemon.stop().await?;
    Ok(json!({ "items_per_s": round(rate), "mb_per_s": round(speed) }))
}
