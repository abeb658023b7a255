//! `redrive rehearse`: a provider that misbehaves on purpose.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use redrive_core::time::Timestamp;
use redrive_operate::Error;
use redrive_rehearse::{Builtin, Plan, Rehearsal, Report, Running};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Answer, Context};
use crate::args::RehearseArgs;
use crate::output::screen::Screen;
use crate::output::text::{count, safe, short, things};
use crate::output::{aside, compact, lines, note};

/// Where the summary of a plan begins in a list of them.
const PLAN: usize = 15;
/// Where the words of a report begin.
const REPORT: usize = 13;

/// Plays a plan until told to stop, and tells what happened.
pub async fn rehearse(context: &Context, args: RehearseArgs) -> Answer {
    if args.list || args.plan == "list" {
        return list(context);
    }
    if !args.listen.ip().is_loopback() && !args.allow_remote {
        return Err(Error::wrong(format!("{} can be reached from other machines", args.listen))
            .hint("listen at 127.0.0.1:PORT, or say --allow-remote"));
    }
    let mut plan = Plan::load(&args.plan).map_err(|error| {
        Error::wrong(error.to_string()).hint("`redrive rehearse --list` lists the built-in plans")
    })?;
    if let Some(seed) = args.seed {
        plan = plan.with_seed(seed);
    }
    let running =
        Rehearsal::start(plan.clone(), context.env.clone(), args.listen).await.map_err(|error| {
            Error::wrong(format!("cannot listen at {}: {error}", args.listen))
                .hint("--listen 127.0.0.1:0 takes any port that is free")
        })?;
    // Whoever waits for the first line may say to stop right after it.
    let stop = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    announce(context, &plan, &running)?;
    follow(context, &running, stop).await?;
    let report = running.stop().await;
    if context.global.json {
        lines(&compact(&report)?)?;
    } else {
        let screen = context.screen();
        let words: Vec<String> =
            safe(&report.to_string()).lines().map(|line| screen.hung(line, REPORT)).collect();
        lines(&words.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(context: &Context) -> Answer {
    if context.global.json {
        let plan =
            |builtin: &Builtin| serde_json::json!({"plan": builtin.name, "summary": builtin.summary()});
        crate::output::json(&Builtin::ALL.iter().map(plan).collect::<Vec<_>>())?;
    } else {
        lines(&plans(&context.screen()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plans(screen: &Screen) -> String {
    let line = |builtin: &Builtin| screen.hung(&format!("{:<14} {}", builtin.name, builtin.summary()), PLAN);
    Builtin::ALL.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The first line says where it listens, so that a script can wait for it.
fn announce(context: &Context, plan: &Plan, running: &Running) -> Result<(), Error> {
    let url = running.url();
    if context.global.json {
        let first = serde_json::json!({"listening": url, "plan": plan.name(), "seed": plan.seed()});
        lines(&compact(&first)?)?;
    } else {
        lines(&format!("listening at {url}, plan {}, seed {}", safe(plan.name()), plan.seed()))?;
    }
    if !context.global.quiet {
        if !plan.summary().is_empty() {
            note(&safe(plan.summary()));
        }
        plan.describe().iter().for_each(|line| note(&format!("  - {}", safe(line))));
        note(&format!("handlers {url}/work, models {url}/v1, report {url}/rehearse/report; Ctrl-C ends it"));
    }
    Ok(())
}

/// Waits for the end; on a terminal with a line of how it stands.
async fn follow(
    context: &Context,
    running: &Running,
    [interrupt, terminate]: [std::io::Result<Signal>; 2],
) -> Result<(), Error> {
    let (mut interrupt, mut terminate) = (interrupt?, terminate?);
    let shows = !context.global.quiet && std::io::stderr().is_terminal() && !aside::for_machines();
    let mut before = 0;
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            () = context.env.clock.sleep(Duration::from_secs(1)), if shows => {
                let report = running.report();
                show(&report, report.calls - before.min(report.calls));
                before = report.calls;
            }
        }
    }
    if shows {
        let _ = writeln!(std::io::stderr().lock());
    }
    Ok(())
}

/// Writes over the line before. Nothing can be done about a closed standard error.
fn show(report: &Report, fresh: u64) {
    let line = format!(
        "{} ({}/s), {} ok, {} rejected, {} failed, {} cut or spoilt, {} open",
        things(report.calls, "call"),
        count(fresh),
        count(report.ok),
        count(report.rejected),
        count(report.failed),
        count(report.cut + report.spoilt),
        count(report.open)
    );
    // A line that is wrapped could not be written over.
    let room = Screen::err(Timestamp(0)).width.map_or(usize::MAX, |width| width - 1);
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "\r\x1b[2K{}", short(&line, room));
    let _ = err.flush();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sample::at_widths;

    #[test]
    fn plans_fit_their_screen() {
        at_widths("rehearse-list", plans);
    }
}
