//! Plays a case with Redrive, and with the loop.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redrive_engine::env::Env;
use redrive_rehearse::{Rehearsal, Report, Running};
use serde_json::json;

use super::super::redrive::{Redrive, Run, http};
use super::case::{BAD, Case};
use super::ideal::ideal;
use super::looped::{self, Asked};
use crate::Failure;

/// Letters of an item's text.
const TEXT: usize = 200;

/// How it went.
#[derive(Debug, Clone, Copy)]
pub struct Played {
    /// Seconds that were possible.
    pub ideal: f64,
    /// Seconds from the first call to the last good answer; the time it had, where that was over first.
    pub took: f64,
    /// Whether every item got its good answer.
    pub whole: bool,
    /// Calls turned away for each good answer.
    pub rejected: f64,
    /// Items given up; `None` when nobody said.
    pub dead: Option<u64>,
    /// Calls by an item before the end of the wait that it was told itself.
    pub early: u64,
    /// Seconds of CPU.
    pub cpu: f64,
}

/// A case with its dice and its network.
#[derive(Debug, Clone)]
pub struct Round {
    /// The case.
    pub case: Case,
    /// Its number among all rounds.
    pub number: usize,
    /// What the dice are made of.
    pub seed: u64,
    /// How late calls arrive at most.
    pub jitter: Duration,
}

impl Round {
    async fn provider(&self) -> Result<(Running, f64), Failure> {
        let plan = self.case.plan(self.seed, self.jitter)?;
        let ideal = ideal(&self.case, &plan, self.jitter);
        Ok((Rehearsal::start(plan, Env::system(), ([127, 0, 0, 1], 0).into()).await?, ideal))
    }

    /// How long it may take. What always fails is tried as often as the policy says.
    fn most(&self, ideal: f64) -> Duration {
        let least = if self.case.bad > 0 { 120.0 } else { 60.0 };
        Duration::from_secs_f64((ideal * 6.0).clamp(least, 180.0))
    }

    fn text(&self, n: usize) -> String {
        let head = if n < self.case.good() { format!("{n:06}") } else { format!("{n:06}{BAD}") };
        let rest = "x".repeat(TEXT - head.len());
        head + &rest
    }

    /// What came of it.
    fn played(&self, report: &Report, ideal: f64, ended: &Ended) -> Played {
        let whole = report.distinct_served == self.case.good() as u64;
        let took = report.last_ok_ms as f64 / 1e3;
        let status = |status: u16| report.statuses.get(&status).copied().unwrap_or(0);
        let rejected = status(429) + status(503) + status(529);
        Played {
            ideal,
            took: if whole { took } else { ended.seconds.max(took) },
            whole: whole && ended.finished,
            rejected: rejected as f64 / report.ok.max(1) as f64,
            dead: ended.dead,
            early: report.early_items,
            cpu: ended.cpu,
        }
    }

    /// By Redrive, in as many processes as the case says.
    pub async fn redrive(&self, redrive: &Redrive) -> Result<Played, Failure> {
        let (running, ideal) = self.provider().await?;
        let stages = stages(&self.case, &running.url());
        let name = |process: usize| format!("zoo-{}-{process}", self.number);
        let store = redrive.place(&name(0))?.join("state.db");
        let processes = self.case.processes;
        let mut contestants = Vec::new();
        for process in 0..processes {
            let mut lines = String::new();
            for n in (process..self.case.items).step_by(processes) {
                writeln!(lines, "{}", json!({ "n": n, "text": self.text(n) }))?;
            }
            contestants.push(redrive.start_with(&name(process), &stages, &lines, &store)?);
        }
        let mut ended = Ended { dead: Some(0), finished: true, ..Ended::default() };
        for (process, contestant) in contestants.into_iter().enumerate() {
            ended.add(&redrive.end(&name(process), contestant, self.most(ideal)).await?);
        }
        std::fs::remove_file(&store)?;
        Ok(self.played(&running.stop().await, ideal, &ended))
    }

    /// By the loop, with as many workers as all processes of the case.
    pub async fn looped(&self) -> Result<Played, Failure> {
        let (running, ideal) = self.provider().await?;
        let body = |n: usize| {
            let text = self.text(n);
            if self.case.chat {
                json!({ "model": "m", "messages": [{ "role": "user", "content": text }] }).to_string()
            } else {
                json!({ "n": n, "text": text }).to_string()
            }
        };
        let asked = Asked {
            address: running.addr().to_string(),
            path: if self.case.chat { "/v1/chat/completions" } else { "/work" },
            bodies: Arc::new((0..self.case.items).map(body).collect()),
            workers: self.case.at_once * self.case.processes,
            most: self.most(ideal),
        };
        let counts = looped::run(&asked, self.seed).await?;
        let ended = Ended {
            finished: true,
            seconds: asked.most.as_secs_f64(),
            dead: Some(counts.dead.load(Relaxed)),
            cpu: 0.0,
        };
        Ok(self.played(&running.stop().await, ideal, &ended))
    }
}

/// How all processes of a case ended.
#[derive(Debug, Default)]
struct Ended {
    finished: bool,
    seconds: f64,
    dead: Option<u64>,
    cpu: f64,
}

impl Ended {
    fn add(&mut self, run: &Run) {
        self.finished &= run.ran.finished;
        self.seconds = self.seconds.max(run.ran.seconds);
        self.dead = self.dead.zip(run.dead()).map(|(all, dead)| all + dead);
        self.cpu += run.ran.cpu;
    }
}

fn stages(case: &Case, url: &str) -> String {
    if case.bad > 0 {
        // What is measured is whether the run ends, not when somebody is asked.
        return format!("[run]\nfailure_budget = false\n{}", http("call", url, case.at_once));
    }
    if !case.chat {
        return http("call", url, case.at_once);
    }
    chat(url, case.at_once)
}

/// A stage that chats.
pub fn chat(url: &str, concurrency: usize) -> String {
    format!(
        "[[stage]]\nname = \"call\"\nkind = \"chat\"\nbase_url = \"{url}/v1\"\nmodel = \"m\"\nprompt = \"{{/text}}\"\nmax_tokens = 200\nconcurrency = {concurrency}\n"
    )
}
