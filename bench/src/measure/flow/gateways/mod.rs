//! Gateways that nobody here wrote, in front of a provider without limits: the real `redrive run` beside the loop that people
//! write. What cannot be had is said, not left out in silence.

mod gateway;
mod list;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redrive_engine::env::Env;
use redrive_rehearse::{Plan, Rehearsal, Report, Running};
use serde_json::json;

use self::gateway::Gateway;
use self::list::{Case, Limit};
use super::Options;
use super::redrive::{Redrive, http};
use super::zoo::looped::{self, Asked};
use super::zoo::play::{Played, chat};
use super::zoo::table::{Row, show};
use crate::Failure;
use crate::clock::{now, pause};
use crate::measure::verdict::{Found, Goal};
use crate::report::say;

/// What is behind every gateway.
const UPSTREAM: &str = "[latency]\nbase = \"50ms\"\njitter = 0.1\n";
/// Calls at once.
const AT_ONCE: usize = 64;
/// How long a contestant has at most.
const MOST: Duration = Duration::from_secs(240);

/// All that can be had, one after the other: each has the machine for itself.
pub async fn run(redrive: &Redrive, options: &Options, folder: &Path) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut rows = Vec::new();
    for (number, case) in list::all().into_iter().enumerate() {
        if !options.picks(case.name) || (options.quick && number % 2 == 1) {
            continue;
        }
        if let Err(error) = Gateway::is_here(case.program).await {
            say(&format!("NOT MEASURED, since it cannot be had: {} ({error})", case.name));
            continue;
        }
        let place = folder.join(format!("gateway-{number}"));
        match both(redrive, &case, number, &place).await {
            Ok(row) => {
                found.raw.insert(case.name.to_owned(), row.json());
                rows.push(row);
            }
            // What the others showed is not lost.
            Err(error) => say(&format!("NOT MEASURED: {}: {error}", case.name)),
        }
    }
    show(&rows);
    for row in &rows {
        found.add(&row.name, "dead items", row.dead() as f64, Goal::AtMost(0.0));
        found.add(&row.name, "took / the loop's", row.beside_loop(), Goal::AtMost(1.3));
    }
    found.show();
    Ok(found)
}

/// Redrive, then the loop.
async fn both(redrive: &Redrive, case: &Case, number: usize, place: &Path) -> Result<Row, Failure> {
    let ours = Round { case, place: place.join("redrive") }.redrive(redrive, number).await?;
    let theirs = Round { case, place: place.join("loop") }.looped().await?;
    Ok(Row::plain(case.name, vec![ours], vec![theirs]))
}

/// One contestant at one gateway.
struct Round<'a> {
    case: &'a Case,
    place: std::path::PathBuf,
}

impl Round<'_> {
    /// The provider, and the gateway in front of it.
    async fn start(&self) -> Result<(Running, Gateway), Failure> {
        let plan = Plan::parse(UPSTREAM, "upstream")?;
        let running = Rehearsal::start(plan, Env::system(), ([127, 0, 0, 1], 0).into()).await?;
        let gateway = Gateway::start(self.case, &running.addr().to_string(), &self.place).await?;
        if self.case.limit == Limit::Minute {
            // Its minutes are those of the clock, so both contestants begin with one.
            let into = now().duration_since(std::time::UNIX_EPOCH)?.as_millis() % 60_000;
            pause(Duration::from_millis(u64::try_from(60_200 - into)?)).await;
        }
        Ok((running, gateway))
    }

    async fn redrive(&self, redrive: &Redrive, number: usize) -> Result<Played, Failure> {
        let (running, gateway) = self.start().await?;
        let url = format!("http://{}", gateway.address());
        let stages = if self.case.chat { chat(&url, AT_ONCE) } else { http("call", &url, AT_ONCE) };
        let name = format!("gateway-run-{number}");
        let run = redrive.run(&name, &stages, self.case.items, 200, MOST).await?;
        gateway.end().await?;
        let total = run.report["attempts"]["total"].as_u64().unwrap_or(0);
        let report = running.stop().await;
        let turned_away = total.saturating_sub(report.ok);
        Ok(self.played(&report, turned_away, run.dead(), run.ran.seconds))
    }

    async fn looped(&self) -> Result<Played, Failure> {
        let (running, gateway) = self.start().await?;
        let body = |n: usize| {
            let text = format!("{n:06}{}", "x".repeat(194));
            if self.case.chat {
                json!({ "model": "m", "messages": [{ "role": "user", "content": text }] }).to_string()
            } else {
                json!({ "n": n, "text": text }).to_string()
            }
        };
        let asked = Asked {
            address: gateway.address(),
            path: if self.case.chat { "/v1/chat/completions" } else { "/work" },
            bodies: Arc::new((0..self.case.items).map(body).collect()),
            workers: AT_ONCE,
            most: MOST,
        };
        let counts = looped::run(&asked, 1).await?;
        gateway.end().await?;
        let dead = counts.dead.load(Relaxed);
        let turned_away = counts.turned_away.load(Relaxed);
        Ok(self.played(&running.stop().await, turned_away, Some(dead), MOST.as_secs_f64()))
    }

    fn played(&self, report: &Report, turned_away: u64, dead: Option<u64>, had: f64) -> Played {
        let whole = report.distinct_served == self.case.items as u64;
        let took = report.last_ok_ms as f64 / 1e3;
        Played {
            ideal: self.case.ideal(),
            took: if whole { took } else { had.max(took) },
            whole,
            rejected: turned_away as f64 / report.ok.max(1) as f64,
            dead,
            // A gateway's answers do not come by the provider.
            early: 0,
            cpu: 0.0,
        }
    }
}
