//! How long pages, groups and counts take with very many dead items, for one client and for several at once.

use std::path::Path;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::daemon::{Daemon, fetch, get};
use crate::Failure;
use crate::clock::Watch;
use crate::report::{percentile, round, say, table};

/// How often each question is asked by each client.
const TIMES: usize = 200;
/// A question that takes long is asked less often.
const PATIENCE_S: f64 = 10.0;
/// Clients at once, in the second round.
const CLIENTS: usize = 8;
/// The longest that 99 of 100 answers may take, in milliseconds.
pub const WANTED_MS: f64 = 50.0;

/// Measures each question.
pub async fn measure(binary: &Path, store: &Path, items: usize) -> Result<Value, Failure> {
    let daemon = Daemon::start(binary, store, &["--no-work"])?;
    let mut client = daemon.client();
    let (middle, walked) = walk(&mut client, items / 2).await?;
    let groups = get(&mut client, "/v1/dead/groups").await?;
    let group = groups["groups"][0]["group"].as_str().ok_or("no group")?.to_owned();
    let questions = [
        ("first page", "/v1/dead?limit=100".to_owned()),
        ("deep page", format!("/v1/dead?limit=100&after={middle}")),
        ("page of a run, stage and class", "/v1/dead?limit=100&run=r1&stage=stage-0&class=final".to_owned()),
        ("page of a group", format!("/v1/dead?limit=100&group={group}")),
        ("page by a text that many have", "/v1/dead?limit=100&text=column%20c".to_owned()),
        ("page by a text that one has", format!("/v1/dead?limit=100&text=item-{}", items / 2)),
        ("groups", "/v1/dead/groups".to_owned()),
        ("counts of the run", "/v1/runs/r1".to_owned()),
        ("everything at one look", "/v1/overview".to_owned()),
        ("metrics", "/metrics".to_owned()),
    ];
    let (mut rows, mut figures) = (Vec::new(), json!({ "walk_items_per_s": round(walked) }));
    for (name, path) in &questions {
        let mut row = vec![(*name).to_owned()];
        for clients in [1, CLIENTS] {
            let took = ask(&daemon, path, clients).await?;
            let (p50, p99) = (percentile(&took, 0.5), percentile(&took, 0.99));
            row.push(format!("{p50:.1}"));
            row.push(format!("{p99:.1}"));
            figures[*name][format!("{clients} clients")] =
                json!({ "p50_ms": round(p50), "p99_ms": round(p99) });
        }
        rows.push(row);
    }
    say(&format!(
        "\npages of 100 of {items} dead items, ms; up to {TIMES} times by each client; wanted: p99 {WANTED_MS} with one client"
    ));
    let many = [format!("{CLIENTS} clients, p50"), "p99".to_owned()];
    table(&["", "1 client, p50", "p99", &many[0], &many[1]], &rows);
    say(&format!("walking through half of them, pages of 500: {walked:.0} items/s"));
    daemon.stop().await?;
    Ok(figures)
}

/// Walks page by page until so many have been seen; where the next page begins, and how many a second were read.
async fn walk(client: &mut crate::client::Client, items: usize) -> Result<(String, f64), Failure> {
    let (watch, mut seen, mut after) = (Watch::start(), 0, String::new());
    while seen < items {
        let page = get(client, &format!("/v1/dead?limit=500{after}")).await?;
        seen += page["items"].as_array().map_or(0, Vec::len);
        let next = page["next"].as_str().ok_or("the pages end too soon")?;
        after = format!("&after={next}");
    }
    Ok((after.trim_start_matches("&after=").to_owned(), seen as f64 / watch.seconds()))
}

/// How long each answer took, in milliseconds, sorted.
async fn ask(daemon: &Daemon, path: &str, clients: usize) -> Result<Vec<f64>, Failure> {
    let mut asking = JoinSet::new();
    for _ in 0..clients {
        let (mut client, path) = (daemon.client(), path.to_owned());
        asking.spawn(async move {
            let mut took = Vec::with_capacity(TIMES);
            fetch(&mut client, &path).await?;
            let begun = Watch::start();
            while took.len() < TIMES && begun.seconds() < PATIENCE_S {
                let watch = Watch::start();
                fetch(&mut client, &path).await?;
                took.push(watch.seconds() * 1e3);
            }
            Ok::<_, Failure>(took)
        });
    }
    let mut all = Vec::new();
    while let Some(took) = asking.join_next().await {
        all.extend(took??);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}
