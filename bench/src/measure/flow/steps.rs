//! A limit that changes while a run is under way.

use std::time::Duration;

use tokio::task::JoinSet;

use super::picture::{possible, smooth};
use super::provider::Provider;
use super::redrive::{Redrive, http};
use super::{Scale, joined};
use crate::Failure;
use crate::measure::verdict::{Found, Goal, Picture};

/// Calls per second from so many seconds on.
const STEPS: [(f64, f64); 3] = [(0.0, 50.0), (20.0, 25.0), (40.0, 100.0)];
const ITEMS: usize = 4_000;
/// How long after a step the rate is looked at, and for how long.
const SPAN: f64 = 10.0;

fn plan(hint: &str, headers: bool) -> String {
    format!(
        "[limit]\nrequests_per_second = 50\nburst = 50\nhint = \"{hint}\"\nheaders = {headers}\nsteps = [\n\
         {{ after = \"20s\", requests_per_second = 25 }},\n{{ after = \"40s\", requests_per_second = 100 }},\n]\n\
         [latency]\nbase = \"200ms\"\njitter = 0.2\n"
    )
}

/// With different ways of being told about the limit, all at once.
pub async fn run(redrive: &Redrive, _: Scale) -> Result<Found, Failure> {
    let mut runs = JoinSet::new();
    let ways = [("exact hint", "ms", false), ("no hint", "none", false), ("headers", "ms", true)];
    for (at, (way, hint, headers)) in ways.into_iter().enumerate() {
        let redrive = redrive.clone();
        runs.spawn(async move {
            let provider = Provider::start(&plan(hint, headers)).await?;
            let stage = http("call", &provider.url(), 64);
            let run =
                redrive.run(&format!("steps-{at}"), &stage, ITEMS, 200, Duration::from_secs(150)).await?;
            Ok((at, (way, provider.seen(), run)))
        });
    }
    let mut found = Found::default();
    let (mut lines, mut end) = (Vec::new(), 0.0_f64);
    for (way, seen, run) in joined(runs).await? {
        let who = format!("Redrive, {way}");
        for ((begin, limit), whats) in STEPS.into_iter().zip(WHATS) {
            let rate = seen.rate(begin + SPAN, begin + 2.0 * SPAN);
            found.add(&who, whats.0, rate / limit, Goal::AtLeast(0.9));
            let reached = seen.reaches(0.9 * limit, begin, 1.0).map(|at| at - begin);
            found.add(&who, whats.1, reached, Goal::None);
        }
        found.add(&who, "rejected per success", seen.rejected_per_ok(), Goal::None);
        found.add(&who, "dead items", run.dead().map(|dead| dead as f64), Goal::AtMost(0.0));
        let mut raw = seen.json(seen.until_last());
        raw["run"] = run.json();
        found.raw.insert(who, raw);
        end = end.max(seen.until_last());
        let colour = ["#1f7fe0", "#d4740c", "#2c9f6b"][lines.len() % 3];
        lines.push(smooth(way, colour, &seen));
    }
    lines.push(possible(&[
        (0.0, 50.0),
        (20.0, 50.0),
        (20.0, 25.0),
        (40.0, 25.0),
        (40.0, 100.0),
        (end, 100.0),
    ]));
    found.pictures.push(Picture {
        name: "steps",
        title: "A limit that goes from 50 to 25 to 100 a second".to_owned(),
        lines,
    });
    Ok(found)
}

const WHATS: [(&str, &str); 3] = [
    (
        "goodput / limit, 10 to 20 s after the start at 50/s",
        "seconds until the first second with 90 % of 50/s",
    ),
    (
        "goodput / limit, 10 to 20 s after the step to 25/s",
        "seconds until the first second with 90 % of 25/s",
    ),
    (
        "goodput / limit, 10 to 20 s after the step to 100/s",
        "seconds until the first second with 90 % of 100/s",
    ),
];
