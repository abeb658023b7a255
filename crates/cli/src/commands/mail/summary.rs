//! What came of taking mail in, for people and for machines.

use redrive_core::id::RunId;
use redrive_core::status::RunStatus;
use redrive_operate::Error;
use redrive_operate::mail::{MailPass, MailReport, Mailer, ThreadRun};

use crate::commands::Context;
use crate::output::screen::Screen;
use crate::output::text::{count, safe, short, span, things};
use crate::output::{advice, json};

/// Tells what came of a pass.
pub(super) async fn tell(context: &Context, mailer: &Mailer<'_>, pass: &MailPass) -> Result<(), Error> {
    let report = mailer.report(pass).await?;
    if context.global.json {
        json(&report)?;
    } else {
        context.tell(&words(&report, pass.took_ms, &context.screen()))?;
    }
    if let Some(hint) = hint(&report) {
        context.hint(&hint);
    }
    Ok(())
}

fn words(report: &MailReport, took_ms: i64, screen: &Screen) -> String {
    let MailReport { run, mail } = report;
    let (found, listed) = (&mail.found, &mail.listed);
    let mut text = format!(
        "mail: {}, {}\n",
        things(mail.threads.messages, "message"),
        things(mail.threads.threads, "thread")
    );
    let mut archives = vec![
        format!("{} new or changed", count(found.changed)),
        format!("{} unchanged", count(found.unchanged)),
    ];
    let waiting = run.counts.waiting + run.counts.joining;
    for (n, what) in [
        (mail.complete_with_failures.len() as u64, "complete with failures"),
        (run.counts.dead, "failed"),
        (waiting, "waiting for a retry"),
    ] {
        if n > 0 {
            archives.push(format!("{} {what}", count(n)));
        }
    }
    text.push_str(&format!("  archives: {}\n", archives.join(", ")));
    for (path, why) in &found.unreadable {
        text.push_str(&format!("    {}: {}\n", safe(path), short(why, 100)));
    }
    let mut messages = vec![format!("{} taken in", count(mail.taken_in))];
    for (n, what) in [
        (listed.known, "known before"),
        (listed.copies, "copies"),
        (mail.failed_messages, "failed"),
        (listed.refused_before, "failed before and have not changed"),
    ] {
        if n > 0 {
            messages.push(format!("{} {what}", count(n)));
        }
    }
    text.push_str(&format!("  messages: {}\n", messages.join(", ")));
    for (key, why) in &mail.failed {
        text.push_str(&format!("    {}: {}\n", safe(key), short(why, 100)));
    }
    if let Some(summaries) = &mail.summaries {
        text.push_str(&threads(summaries, mail.threads.unchanged));
    }
    text.push_str(&format!("  run {}: {} in {}", run.run, screen.state(run.status.name()), span(took_ms)));
    if let Some(reason) = &run.reason {
        text.push_str(&format!("\n  because {}", short(reason, 300)));
    }
    if let Some(due) = &run.next_retry {
        text.push_str(&format!("\n  next retry due {}", screen.when(due)));
    }
    if let Some(summaries) = mail.summaries.as_ref().filter(|one| one.status != RunStatus::Completed) {
        text.push_str(&not_done(summaries, screen));
    }
    text
}

/// What became of threads.
fn threads(summaries: &ThreadRun, unchanged: u64) -> String {
    let mut words = vec![format!("{} summarised", count(summaries.counts.succeeded))];
    for (n, what) in [(summaries.counts.dead, "failed"), (summaries.counts.live(), "waiting")] {
        if n > 0 {
            words.push(format!("{} {what}", count(n)));
        }
    }
    format!("  threads: {}, {} unchanged\n", words.join(", "), count(unchanged))
}

/// How the run of the threads stands, which is another one than that of the archives.
fn not_done(summaries: &ThreadRun, screen: &Screen) -> String {
    let mut text =
        format!("\n  run {} of the threads: {}", summaries.run, screen.state(summaries.status.name()));
    if let Some(reason) = &summaries.reason {
        text.push_str(&format!("\n  because {}", short(reason, 300)));
    }
    if let Some(due) = summaries.next_due.as_ref().filter(|_| summaries.counts.live() > 0) {
        text.push_str(&format!("\n  next thread due {}", screen.when(due)));
    }
    text
}

fn hint(report: &MailReport) -> Option<String> {
    let left = report.mail.summaries.as_ref().filter(|one| one.status != RunStatus::Completed);
    match (report.run.status, left) {
        (RunStatus::Completed, Some(threads)) => hint_of_threads(threads),
        _ => hint_of_archives(report, report.run.run),
    }
}

/// What can be done about threads that are not summarised.
fn hint_of_threads(threads: &ThreadRun) -> Option<String> {
    let ThreadRun { run, status, .. } = threads;
    match status {
        RunStatus::PartiallyCompleted | RunStatus::Interrupted => Some(waits(*run)),
        RunStatus::Paused | RunStatus::PausedBudget | RunStatus::PausedQuota | RunStatus::PausedOutage => {
            Some(format!("`redrive show {run}` says more; `redrive resume {run}` goes on"))
        }
        _ if threads.counts.dead > 0 => {
            Some(format!("`redrive dead list --run {run}` shows what failed and why"))
        }
        _ => None,
    }
}

fn waits(run: RunId) -> String {
    format!("`redrive failures {run}` shows what waits; the same command, or --watch, does it when it is due")
}

fn hint_of_archives(MailReport { run, mail }: &MailReport, id: RunId) -> Option<String> {
    match run.status {
        RunStatus::PartiallyCompleted if run.awaited > 0 => Some(format!(
            "{} for answers of services (`redrive work --event NAME` is one, docs/mail.md names them); the same command goes on with them",
            match run.awaited {
                1 => "1 item waits".to_owned(),
                n => format!("{} items wait", count(n)),
            }
        )),
        RunStatus::PartiallyCompleted => Some(waits(id)),
        _ if mail.failed_messages > 0 => {
            Some(format!("`redrive dead list --run {id}` shows what failed and why"))
        }
        RunStatus::Completed => {
            (mail.taken_in > 0).then(|| "`redrive threads` lists what was taken in".to_owned())
        }
        _ => advice::next(run, &[]),
    }
}
