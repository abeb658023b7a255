//! A provider that is away for ten seconds in the middle of a run.

use std::time::Duration;

use tokio::task::JoinSet;

use super::picture::{possible, smooth};
use super::provider::Provider;
use super::redrive::{Redrive, http};
use super::{Scale, joined};
use crate::Failure;
use crate::measure::verdict::{Found, Goal, Picture};

const FROM: u32 = 20;
const UNTIL: u32 = 30;
const ITEMS: usize = 2_600;
/// A gate tries a provider out every ten seconds by default, so ten seconds suit it well: another time is looked at too.
const WAYS: [(&str, &str, u32); 4] = [
    ("503", "status", UNTIL),
    ("cut", "cut", UNTIL),
    ("nobody listens", "refuse", UNTIL),
    ("503 for 14 s", "status", UNTIL + 4),
];

/// With a status, with connections that are cut, and with nobody there, and longer, all at once.
pub async fn run(redrive: &Redrive, _: Scale) -> Result<Found, Failure> {
    let mut runs = JoinSet::new();
    for (at, (way, how, until)) in WAYS.into_iter().enumerate() {
        let redrive = redrive.clone();
        let plan = format!(
            "[limit]\nrequests_per_second = 50\nburst = 50\nhint = \"ms\"\n[latency]\nbase = \"200ms\"\njitter = 0.2\n\
             [[fault]]\nkind = \"outage\"\nhow = \"{how}\"\nfrom = \"{FROM}s\"\nuntil = \"{until}s\"\n"
        );
        runs.spawn(async move {
            let provider = Provider::start(&plan).await?;
            let stage = http("call", &provider.url(), 64);
            let run =
                redrive.run(&format!("outage-{at}"), &stage, ITEMS, 200, Duration::from_secs(150)).await?;
            Ok((at, (way, until, provider.seen(), run)))
        });
    }
    let from = f64::from(FROM);
    let mut found = Found::default();
    let (mut lines, mut end) = (Vec::new(), 0.0_f64);
    for (way, second, seen, run) in joined(runs).await? {
        let until = f64::from(second);
        let who = format!("Redrive, {way}");
        let before = seen.rate(from - 10.0, from);
        found.add(&who, "good answers per second before", before, Goal::None);
        // Those that nobody heard are known to Redrive alone.
        found.add(&who, "attempts that failed", run.failures().map(|failures| failures as f64), Goal::None);
        found.add(
            &who,
            "calls seen in the outage",
            seen.refused_within(FROM.into(), second.into()) as f64,
            Goal::None,
        );
        let back = seen.reaches(0.9 * before, until, 5.0).map(|at| at - until);
        found.add(&who, "seconds until 90 % again", back, Goal::None);
        let later = seen.rate(until + 12.0, until + 17.0) / before;
        found.add(&who, "rate 12 to 17 s afterwards / before", later, Goal::None);
        found.add(&who, "dead items", run.dead().map(|dead| dead as f64), Goal::AtMost(0.0));
        let mut raw = seen.json(seen.until_last());
        raw["run"] = run.json();
        found.raw.insert(who, raw);
        if second != UNTIL {
            continue;
        }
        end = end.max(seen.until_last());
        let colour = ["#1f7fe0", "#d4740c", "#2c9f6b"][lines.len() % 3];
        lines.push(smooth(way, colour, &seen));
    }
    let until = f64::from(UNTIL);
    lines.push(possible(&[(0.0, 50.0), (from, 50.0), (from, 0.0), (until, 0.0), (until, 50.0), (end, 50.0)]));
    found.pictures.push(Picture { name: "outage", title: "Nothing for ten seconds".to_owned(), lines });
    Ok(found)
}
