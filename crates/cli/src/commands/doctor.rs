//! `redrive doctor`.

mod pipeline;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use redrive_engine::env::Env;
use redrive_operate::{Error, bus};
use redrive_rabbitmq::names;
use redrive_store::{OutboxView, RunFilter};
use rustix::fs::{Access, access};
use serde::Serialize;

use super::{Answer, Context};
use crate::args::BusCaArgs;
use crate::exit;
use crate::output::screen::Screen;
use crate::output::text::{KEY, safe, short, span};
use crate::output::{json, lines};
use crate::wiring;

/// Damages that are listed.
const SHOWN: usize = 20;
/// Where the words of a finding begin.
const INDENT: usize = 24;
/// A log above this is told.
const LARGE_LOG: u64 = 256 << 20;

#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    ok: bool,
    detail: String,
    /// What somebody may want to type.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    findings: Vec<Finding>,
}

/// Looks whether everything is in order here. Exit code 1 when something is not.
pub async fn doctor(context: &Context, pipeline: Option<PathBuf>, ca: &BusCaArgs) -> Answer {
    let version = format!("redrive {}, {}", env!("CARGO_PKG_VERSION"), wiring::store_library());
    let mut findings = vec![good("version", version)];
    findings.extend(look_at_store(context).await);
    if let Some(file) = pipeline {
        match broker(&file) {
            None => findings.extend(pipeline::look_at(&file)),
            Some(address) => findings.extend(look_at_bus(context, address, ca).await),
        }
    }
    let ok = findings.iter().all(|finding| finding.ok);
    if context.global.json {
        json(&Report { ok, findings })?;
    } else {
        lines(&words(&findings, &context.screen()))?;
    }
    Ok(if ok { ExitCode::SUCCESS } else { exit::broken() })
}

/// The address of a broker, where it is meant to be one and is no file. It holds a password, and is not repeated.
fn broker(said: &Path) -> Option<&str> {
    let text = said.to_str().filter(|_| !said.exists())?;
    let small = text.to_ascii_lowercase();
    let has_user = text.split_once('@').is_some_and(|(user, _)| user.contains(':'));
    (text.contains("://") || small.starts_with("amqp:") || small.starts_with("amqps:") || has_user)
        .then_some(text)
}

async fn look_at_bus(context: &Context, address: &str, ca: &BusCaArgs) -> Vec<Finding> {
    let address = match ca.address(address) {
        Ok(address) => address,
        Err(why) => return vec![bad("bus", why)],
    };
    // A store that cannot be read is told already.
    let queues = match context.floor_to_look() {
        Ok(floor) => bus::queues_of_runs(&floor).await.unwrap_or_default(),
        Err(_) => BTreeSet::new(),
    };
    let queues: Vec<String> =
        queues.iter().flat_map(|queue| [queue.clone(), names::failed_of(queue)]).collect();
    let found = redrive_rabbitmq::look(&address, &context.env, &queues).await;
    let finding = |redrive_rabbitmq::Finding { what, ok, detail, command }| Finding {
        what: what.to_owned(),
        ok,
        detail,
        command,
    };
    found.into_iter().map(finding).collect()
}

fn words(findings: &[Finding], screen: &Screen) -> String {
    let line = |finding: &Finding| {
        let mark = if finding.ok { screen.state("ok") + "  " } else { screen.state("BAD") + " " };
        let told = screen.hung(&format!("{mark} {:<18} {}", finding.what, safe(&finding.detail)), INDENT);
        // What is to be pasted is one line, however narrow the screen is.
        match &finding.command {
            Some(command) => format!("{told}\n{}", safe(command)),
            None => told,
        }
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn bad(what: &str, detail: impl Into<String>) -> Finding {
    Finding { ok: false, ..good(what, detail) }
}

fn good(what: &str, detail: impl Into<String>) -> Finding {
    Finding { what: what.to_owned(), ok: true, detail: detail.into(), command: None }
}

async fn look_at_store(context: &Context) -> Vec<Finding> {
    let path = match wiring::store_path(&context.global.store) {
        Ok(path) => path,
        Err(failure) => return vec![bad("store", &failure.message)],
    };
    if wiring::is_missing(&path) {
        return vec![match can_be_made(&path) {
            Ok(()) => good("store", format!("{}: not there yet, the first run makes it", path.display())),
            Err(why) => bad("store", format!("{}: cannot be made: {why}", path.display())),
        }];
    }
    match look_into(context, &path).await {
        Ok(findings) => findings,
        Err(failure) => vec![bad("store file", &failure.message)],
    }
}

/// Whether a store that is not there can be made: the nearest folder that is there may be written.
fn can_be_made(path: &Path) -> Result<(), String> {
    let whole = std::path::absolute(path).map_err(|error| error.to_string())?;
    let there = whole.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok());
    let there = there.unwrap_or(Path::new("/"));
    if !there.is_dir() {
        return Err(format!("{} is no folder", there.display()));
    }
    access(there, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| format!("{}: {}", there.display(), std::io::Error::from(error)))
}

/// Reads the whole store through, and what it says of runs and workers.
async fn look_into(context: &Context, path: &Path) -> Result<Vec<Finding>, Error> {
    let store = context.floor_to_read()?.store.snapshot().await?.store;
    let damage = store.damage(SHOWN).await?;
    let mut findings = Vec::new();
    if damage.is_empty() {
        findings.push(good("store file", format!("{}: sound", path.display())));
    }
    findings.extend(damage.iter().map(|damage| match (damage.item, &damage.key) {
        (Some(item), Some(key)) => bad("item", format!("{item} ({}): {}", short(key, KEY), damage.what)),
        _ => bad("store file", format!("{}: {}", path.display(), damage.what)),
    }));
    let log = wiring::log_bytes(path);
    if log > LARGE_LOG {
        let told = format!(
            "{}-wal has {} MB: somebody has been reading for long, or a process was stopped; it begins anew when nobody reads what is in it",
            path.display(),
            log >> 20
        );
        findings.push(good("log", told));
    }
    findings.extend(runs_and_workers(&*store, &context.env).await?);
    findings.extend(facts(&bus::waiting(&*store).await?, context.env.clock.now()));
    Ok(findings)
}

async fn runs_and_workers(store: &dyn redrive_store::Store, env: &Env) -> Result<Vec<Finding>, Error> {
    let now = env.clock.now();
    let unfinished = store.runs(RunFilter { unfinished: true, ..RunFilter::default() }, None, 100).await?;
    let names: Vec<String> = unfinished.iter().map(|row| row.id.to_string()).collect();
    let runs = if names.is_empty() {
        "none unfinished".to_owned()
    } else {
        format!("unfinished: {}", names.join(", "))
    };
    let mut findings = vec![good("runs", runs)];
    for worker in store.workers().await? {
        findings.push(if env.processes.is_gone(&worker.spec.identity) {
            let told = "is gone, though its lease is not over; the next run takes over";
            good("worker", format!("{} ({}) {told}", worker.id, worker.spec.name))
        } else if worker.lease_until >= now {
            good("worker", format!("{} ({}) alive", worker.id, worker.spec.name))
        } else {
            let ago = span(now.0 - worker.lease_until.0);
            good(
                "worker",
                format!(
                    "{} ({}) vanished; its lease ended {ago} ago; the next run takes over",
                    worker.id, worker.spec.name
                ),
            )
        });
    }
    for row in &unfinished {
        findings.extend(starved(store, row.id, now).await?);
    }
    Ok(findings)
}

/// What waits to be told to a bus, where anything is kept for one.
fn facts(outbox: &OutboxView, now: Timestamp) -> Option<Finding> {
    let Some(oldest) = outbox.oldest else {
        return outbox.kept.then(|| good("bus facts", "kept; none waits"));
    };
    let kept = if outbox.kept { "kept" } else { "no more are kept" };
    let told = format!("{kept}; {} wait, the oldest for {}", outbox.waiting, span(now.0 - oldest.0));
    Some(match bus::are_late(outbox, now) {
        false => good("bus facts", told),
        true => bad(
            "bus facts",
            format!(
                "{told}: nobody passes them on, or the broker takes them not; `redrive doctor amqp://…` looks at it, `redrive relay --once` says what comes back"
            ),
        ),
    })
}

/// An item that waits long past its due time is starved, which is not a failure but worth knowing.
async fn starved(
    store: &dyn redrive_store::Store,
    run: RunId,
    now: Timestamp,
) -> Result<Option<Finding>, Error> {
    let next = store.next_due(run).await?.at;
    Ok(next.filter(|due| now.0 - due.0 > 60_000).map(|due| {
        good(
            "waiting",
            format!("{run} has work due for {}; `redrive resume {run}` works on it", span(now.0 - due.0)),
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sample::at_widths;

    #[test]
    fn findings_fit_their_screen() {
        let findings = [
            good("version", "redrive 0.1.0, SQLite 3.53.0"),
            good("store file", ".redrive/state.db: sound"),
            good(
                "worker",
                "w12 (pid 4711 on host) vanished; its lease ended 2m 05s ago; the next run takes over the items that it held",
            ),
            bad("stage summarise", "the environment variable OPENAI_API_KEY is not set"),
        ];
        at_widths("doctor", |screen| words(&findings, screen));
    }
}
