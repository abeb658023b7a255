//! `redrive doctor`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use redrive_engine::env::Env;
use redrive_operate::{Error, pipelines};
use redrive_pipeline::{Definition, StageKind};
use redrive_store::RunFilter;
use serde::Serialize;

use super::{Answer, Context};
use crate::exit;
use crate::output::text::{safe, span};
use crate::output::{json, lines};
use crate::wiring;

/// Damages that are listed.
const SHOWN: usize = 20;
/// A log above this is told.
const LARGE_LOG: u64 = 256 << 20;

#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    ok: bool,
    detail: String,
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    findings: Vec<Finding>,
}

/// Looks whether everything is in order here. Exit code 1 when something is not.
pub async fn doctor(context: &Context, pipeline: Option<PathBuf>) -> Answer {
    let mut findings = vec![Finding {
        what: "version".to_owned(),
        ok: true,
        detail: format!("redrive {}, {}", env!("CARGO_PKG_VERSION"), wiring::store_library()),
    }];
    findings.extend(look_at_store(context).await);
    if let Some(file) = pipeline {
        findings.extend(look_at_pipeline(&file));
    }
    let ok = findings.iter().all(|finding| finding.ok);
    if context.global.json {
        json(&Report { ok, findings })?;
    } else {
        let line = |finding: &Finding| {
            let mark = if finding.ok { "ok  " } else { "BAD " };
            format!("{mark} {:<18} {}", finding.what, safe(&finding.detail))
        };
        lines(&findings.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(if ok { ExitCode::SUCCESS } else { exit::broken() })
}

fn bad(what: &str, detail: impl Into<String>) -> Finding {
    Finding { what: what.to_owned(), ok: false, detail: detail.into() }
}

fn good(what: &str, detail: impl Into<String>) -> Finding {
    Finding { what: what.to_owned(), ok: true, detail: detail.into() }
}

async fn look_at_store(context: &Context) -> Vec<Finding> {
    let path = match wiring::store_path(&context.global.store) {
        Ok(path) => path,
        Err(failure) => return vec![bad("store", &failure.message)],
    };
    if matches!(path.try_exists(), Ok(false)) && path.symlink_metadata().is_err() {
        return vec![good("store", format!("{}: not there yet, the first run makes it", path.display()))];
    }
    match look_into(context, &path).await {
        Ok(findings) => findings,
        Err(failure) => vec![bad("store file", &failure.message)],
    }
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
        (Some(item), Some(key)) => bad("item", format!("{item} ({key}): {}", damage.what)),
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

fn look_at_pipeline(file: &Path) -> Vec<Finding> {
    let name = file.display().to_string();
    let text = match pipelines::read_text(file) {
        Ok(text) => text,
        Err(failure) => return vec![bad("pipeline", &failure.message)],
    };
    let definition = match redrive_pipeline::parse(&text, &name) {
        Ok(definition) => definition,
        Err(problems) => {
            return problems.iter().map(|problem| bad("pipeline", problem.to_string())).collect();
        }
    };
    let mut findings = vec![good("pipeline", format!("{name}: {} stages", definition.all_stages().count()))];
    findings.extend(definition.warnings.iter().map(|warning| good("warning", warning.to_string())));
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    findings.extend(look_at_stages(&definition, folder));
    findings
}

fn look_at_stages(definition: &Definition, folder: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for stage in definition.all_stages() {
        let what = format!("stage {}", stage.name);
        match &stage.kind {
            StageKind::Http { url, header_env, .. } => {
                findings.push(reach(&what, url));
                findings.extend(unset(&what, header_env.values()));
            }
            StageKind::Embed { model, .. } | StageKind::Chat { model, .. } => {
                findings.push(reach(&what, &model.base_url));
                findings.extend(unset(&what, model.header_env.values().chain(&model.api_key_env)));
            }
            StageKind::Command { command, .. } => {
                let program = command.first().map(String::as_str).unwrap_or_default();
                let there = Command::new("sh")
                    .args(["-c", "p=$(command -v -- \"$1\") && case $p in */*) test -f \"$p\" && test -x \"$p\";; esac", "sh", program])
                    .current_dir(folder)
                    .status()
                    .is_ok_and(|status| status.success());
                findings.push(if there {
                    good(&what, program)
                } else {
                    bad(&what, format!("there is no program {program} that may be run"))
                });
            }
            StageKind::Filter { keep } => findings.push(match wiring::check_filter(keep) {
                Ok(()) => good(&what, keep.as_str()),
                Err(problem) => bad(&what, problem),
            }),
            StageKind::EmbedBuiltin { .. }
            | StageKind::Parse { .. }
            | StageKind::Upsert
            | StageKind::Publish
            | StageKind::Pass => {}
        }
    }
    findings
}

/// The environment variables among these that are not set.
fn unset<'a>(what: &str, variables: impl Iterator<Item = &'a String>) -> Vec<Finding> {
    let missing = variables.filter(|variable| std::env::var_os(variable).is_none());
    missing.map(|variable| bad(what, format!("the environment variable {variable} is not set"))).collect()
}

/// Whether somebody listens at the address.
fn reach(what: &str, url: &str) -> Finding {
    use std::net::{TcpStream, ToSocketAddrs};
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let usual = if url.starts_with("https") { 443 } else { 80 };
    let address = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:{usual}")
    };
    let found = address
        .to_socket_addrs()
        .map_err(|error| error.to_string())
        .and_then(|mut all| all.next().ok_or_else(|| "no address".to_owned()));
    let reached = found.and_then(|to| {
        TcpStream::connect_timeout(&to, std::time::Duration::from_secs(3)).map_err(|error| error.to_string())
    });
    match reached {
        Ok(_) => good(what, format!("{address} answers")),
        Err(error) => bad(what, format!("{address}: {error}")),
    }
}
