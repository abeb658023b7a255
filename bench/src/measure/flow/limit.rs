//! A steady limit, and one whose rejected calls count too: Redrive, then what people use today.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::peers::Peers;
use super::picture::{possible, smooth};
use super::provider::{Provider, Seen};
use super::redrive::{Redrive, http};
use super::{Scale, joined};
use crate::Failure;
use crate::measure::verdict::{Found, Goal, Picture};
use crate::report::round;

const RATE: f64 = 50.0;
const BURST: f64 = 50.0;
/// Calls at once that every contestant may make.
const AT_ONCE: usize = 64;
/// How long a contestant has at most.
const MOST: Duration = Duration::from_secs(240);
/// Bytes of an item's text.
const TEXT: usize = 200;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Rejected calls cost nothing.
    Steady,
    /// A rejected call takes one as well.
    Debt,
}

impl Kind {
    fn plan(self, hint: &str, headers: bool) -> String {
        let consume = self == Self::Debt;
        format!(
            "[limit]\nrequests_per_second = {RATE}\nburst = {BURST}\nhint = \"{hint}\"\nheaders = {headers}\n\
             rejected_calls_consume = {consume}\n{}[latency]\nbase = \"200ms\"\njitter = 0.2\n",
            if consume { "debt = \"5s\"\n" } else { "" }
        )
    }

    fn name(self) -> &'static str {
        match self {
            Self::Steady => "limit",
            Self::Debt => "debt",
        }
    }

    fn least(self) -> f64 {
        match self {
            Self::Steady => 0.97,
            Self::Debt => 0.85,
        }
    }
}

/// The rate that was possible in the time it took, as a share: what was answered well, less the burst, at the limit's rate.
fn share(seen: &Seen, seconds: f64) -> f64 {
    ((seen.report.ok as f64 - BURST).max(0.0) / RATE) / seconds.max(0.001)
}

/// Redrive, with different ways of being told when to come back, all at once.
pub async fn redrive(kind: Kind, redrive: &Redrive, scale: Scale) -> Result<Found, Failure> {
    let items = scale.items(6_000);
    let mut runs = JoinSet::new();
    let ways = [
        ("exact hint", "ms", false),
        ("whole seconds", "seconds", false),
        ("no hint", "none", false),
        ("headers", "ms", true),
    ];
    for (at, (way, hint, headers)) in ways.into_iter().enumerate() {
        let (redrive, plan) = (redrive.clone(), kind.plan(hint, headers));
        runs.spawn(async move {
            let provider = Provider::start(&plan).await?;
            let name = format!("{}-{hint}-{headers}", kind.name());
            let run = redrive.run(&name, &http("call", &provider.url(), AT_ONCE), items, TEXT, MOST).await?;
            Ok((at, (way, provider.seen(), run)))
        });
    }
    let mut found = Found::default();
    for (way, seen, run) in joined(runs).await? {
        let who = format!("Redrive, {way}");
        let seconds = if run.ran.finished { seen.until_settled() } else { seen.watched() };
        let goodput = share(&seen, seconds);
        found.add(&who, "goodput / possible", goodput, Goal::AtLeast(kind.least()));
        let rejected = if kind == Kind::Steady { Goal::AtMost(0.06) } else { Goal::None };
        found.add(&who, "rejected per success", seen.rejected_per_ok(), rejected);
        found.add(&who, "dead items", run.dead().map(|dead| dead as f64), Goal::AtMost(0.0));
        let mut raw = seen.json(seconds);
        raw["run"] = run.json();
        found.raw.insert(who.clone(), raw);
        found.shares.push((who.clone(), goodput));
        if way == "exact hint" {
            found.pictures.push(Picture {
                name: kind.name(),
                title: title(kind, items),
                lines: vec![smooth("Redrive", "#1f7fe0", &seen)],
            });
        }
    }
    Ok(found)
}

/// Adds what people use today, all at once.
pub async fn peers(kind: Kind, peers: &Arc<Peers>, scale: Scale, found: &mut Found) -> Result<(), Failure> {
    let items = scale.items(6_000);
    let mut runs = JoinSet::new();
    for (at, peer) in peers.list().into_iter().enumerate() {
        let (peers, plan) = (peers.clone(), kind.plan("ms", false));
        runs.spawn(async move {
            let provider = Provider::start(&plan).await?;
            let ran = peers.run(&peer, kind.name(), &provider.url(), items, MOST).await?;
            Ok((at, (peer, provider.seen(), ran)))
        });
    }
    let ours = found.shares.first().map(|(_, share)| *share);
    let mut lines = Vec::new();
    for (peer, seen, ran) in joined(runs).await? {
        let who = peer.name.to_owned();
        let seconds = if ran.finished { seen.until_settled() } else { seen.watched() };
        let (goodput, tally) = (share(&seen, seconds), ran.last_document());
        let given_up = tally["given_up"].as_u64();
        found.add(&who, "goodput / possible", goodput, Goal::None);
        if let Some(ours) = ours {
            found.add(&who, "Redrive's goodput / this", ours / goodput, Goal::None);
        }
        found.add(&who, "rejected per success", seen.rejected_per_ok(), Goal::None);
        found.add(&who, "items given up", given_up.map(|n| n as f64), Goal::None);
        found.add(&who, "items done / all", seen.report.ok as f64 / items as f64, Goal::None);
        let mut raw = seen.json(seconds);
        raw["finished"] = json!(ran.finished);
        raw["given_up"] = json!(given_up);
        raw["process_seconds"] = json!(round(ran.seconds));
        raw["cpu_seconds"] = json!(round(ran.cpu));
        found.raw.insert(who, raw);
        lines.push(smooth(peer.short, peer.colour, &seen));
    }
    if found.pictures.is_empty() {
        found.pictures.push(Picture { name: kind.name(), title: title(kind, items), lines: Vec::new() });
    }
    if let Some(picture) = found.pictures.first_mut() {
        picture.lines.extend(lines);
    }
    Ok(())
}

/// Draws the line of what is possible as far as the others reach.
pub fn finish(found: &mut Found) {
    for picture in &mut found.pictures {
        let ends = picture.lines.iter().filter_map(|line| line.points.last()).map(|point| point.0);
        let end = ends.fold(0.0, f64::max);
        picture.lines.push(possible(&[(0.0, RATE), (end, RATE)]));
    }
}

fn title(kind: Kind, items: usize) -> String {
    match kind {
        Kind::Steady => format!("{},{:03} calls at a limit of 50 a second", items / 1_000, items % 1_000),
        Kind::Debt => "The same where rejected calls count too".to_owned(),
    }
}
