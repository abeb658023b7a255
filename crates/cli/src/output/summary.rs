//! A run report for people.

use redrive_core::status::RunStatus;
use redrive_engine::report::RunReport;

use super::table::{Side, table};
use super::text::{count, span};

/// Puts a run report into words and a table.
pub fn run(report: &RunReport) -> String {
    let counts = &report.counts;
    let mut text =
        format!("run {} of {} over {}: {}\n", report.run, report.pipeline, report.source, report.status);
    if let Some(reason) = &report.reason {
        text.push_str(&format!("  because {reason}\n"));
    }
    let named = [
        ("admitted", counts.admitted),
        ("succeeded", counts.succeeded),
        ("filtered", counts.filtered),
        ("dead", counts.dead),
        ("waiting", counts.waiting),
        ("running", counts.running),
        ("joining", counts.joining),
        ("superseded", counts.superseded),
        ("cancelled", counts.cancelled),
    ];
    let always = ["admitted", "succeeded", "dead"];
    let shown = named.iter().filter(|(name, n)| *n > 0 || always.contains(name));
    let words: Vec<String> = shown.map(|(name, n)| format!("{} {name}", count(*n))).collect();
    text.push_str(&format!("  {}\n", words.join(", ")));
    let attempts = &report.attempts;
    text.push_str(&format!(
        "  {} attempts: {} failed, {} throttled, {} crashed; {}\n",
        count(attempts.total),
        count(attempts.failures),
        count(attempts.throttles),
        count(attempts.crashes),
        span(report.elapsed_ms)
    ));
    if report.duplicates > 0 {
        text.push_str(&format!(
            "  {} source lines repeated an earlier one and were admitted once\n",
            count(report.duplicates)
        ));
    }
    if let Some(due) = &report.next_due {
        text.push_str(&format!("  next retry due {due}\n"));
    }
    if report.stages.len() > 1 || attempts.failures + attempts.crashes + attempts.throttles > 0 {
        text.push('\n');
        text.push_str(&stages(report));
    }
    text.trim_end().to_owned()
}

fn stages(report: &RunReport) -> String {
    let right = |name| (name, Side::Right);
    let headings = [
        ("stage", Side::Left),
        right("attempts"),
        right("failed"),
        right("throttled"),
        right("crashed"),
        right("here"),
        right("dead"),
        right("filtered"),
    ];
    table(
        headings,
        report.stages.iter().map(|stage| {
            let indent = if stage.below.is_some() { "  " } else { "" };
            [
                format!("{indent}{}", stage.name),
                count(stage.attempts.total),
                count(stage.attempts.failures),
                count(stage.attempts.throttles),
                count(stage.attempts.crashes),
                count(stage.counts.live()),
                count(stage.counts.dead),
                count(stage.counts.filtered),
            ]
        }),
    )
}

/// What can be done next, if anything.
pub fn hint(report: &RunReport) -> Option<String> {
    let run = report.run;
    match report.status {
        RunStatus::PausedBudget | RunStatus::PausedQuota | RunStatus::PausedOutage | RunStatus::Paused => {
            Some(format!(
                "`redrive dead groups --run {run}` shows what went wrong; `redrive resume {run}` goes on"
            ))
        }
        RunStatus::Interrupted | RunStatus::Running => {
            Some(format!("`redrive resume {run}` goes on where it stopped"))
        }
        RunStatus::PartiallyCompleted => Some(format!(
            "retries are due later; `redrive resume {run}` waits for them, `redrive failures {run}` lists them"
        )),
        RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed if report.counts.dead > 0 => {
            Some(format!(
                "`redrive dead list --run {run}` shows the dead items; `redrive dead redrive --run {run} --all --work` sends them back"
            ))
        }
        RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed | RunStatus::Cancelled => None,
    }
}
