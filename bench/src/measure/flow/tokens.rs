//! Few calls and few tokens a minute: 47 texts of 400 tokens at 3 calls and 10,000 tokens.

use std::time::Duration;

use tokio::task::JoinSet;

use super::provider::Provider;
use super::redrive::Redrive;
use super::{Scale, joined};
use crate::Failure;
use crate::measure::verdict::{Found, Goal};

const TEXTS: usize = 47;
const TOKENS: f64 = 400.0;
const PER_MINUTE: f64 = 10_000.0;
const CALLS: f64 = 3.0;

/// The bucket of tokens is full at first, so what it does not hold has to come in: two calls suffice, and three are free.
fn possible(speed: f64) -> f64 {
    (TEXTS as f64 * TOKENS - PER_MINUTE) / (PER_MINUTE * speed / 60.0)
}

/// With the limits found out, read from headers, and written into the pipeline, all at once. A quick one is ten times faster.
pub async fn run(redrive: &Redrive, scale: Scale) -> Result<Found, Failure> {
    let speed = if scale.quick { 10.0 } else { 1.0 };
    let (calls, tokens) = (CALLS * speed, PER_MINUTE * speed);
    let known = format!("[gate.model]\nrequests_per_minute = {calls}\ntokens_per_minute = {tokens}\n");
    let mut runs = JoinSet::new();
    let ways = [
        ("limits not known", false, String::new()),
        ("headers", true, String::new()),
        ("limits in the file", false, known),
    ];
    for (at, (way, headers, gate)) in ways.into_iter().enumerate() {
        let redrive = redrive.clone();
        let plan = format!(
            "tokens_per_text = {TOKENS}\n[limit]\nrequests_per_minute = {calls}\nburst = {CALLS}\ntokens_per_minute = {tokens}\n\
             token_burst = {PER_MINUTE}\nhint = \"both\"\nheaders = {headers}\n[latency]\nbase = \"200ms\"\njitter = 0.2\n"
        );
        runs.spawn(async move {
            let provider = Provider::start(&plan).await?;
            let stage = format!(
                "[[stage]]\nname = \"embed\"\nkind = \"embed\"\nbase_url = \"{}/v1\"\nmodel = \"rehearsal\"\n\
                 gate = \"model\"\nbatch = 64\nbatch_tokens = {PER_MINUTE}\n{gate}",
                provider.url()
            );
            let run =
                redrive.run(&format!("tokens-{at}"), &stage, TEXTS, 1_600, Duration::from_secs(200)).await?;
            Ok((at, (way, provider.seen(), run)))
        });
    }
    let mut found = Found::default();
    for (way, seen, run) in joined(runs).await? {
        let who = format!("Redrive, {way}");
        let took = run.ran.finished.then(|| seen.until_last());
        found.add(&who, "time / possible", took.map(|took| took / possible(speed)), Goal::AtMost(1.2));
        found.add(&who, "seconds", took, Goal::None);
        found.add(&who, "calls", seen.report.calls as f64, Goal::None);
        found.add(&who, "rejected calls", seen.report.rejected as f64, Goal::None);
        found.add(&who, "dead items", run.dead().map(|dead| dead as f64), Goal::AtMost(0.0));
        let mut raw = seen.json(seen.until_last());
        raw["run"] = run.json();
        raw["possible_seconds"] = possible(speed).into();
        found.raw.insert(who, raw);
    }
    Ok(found)
}
