//! What can be done next: right for the state at hand.

use redrive_core::status::RunStatus;
use redrive_engine::report::{GateReport, RunReport};
use redrive_store::NewRun;

use super::text::things;

/// What can be done next about a run, if anything.
///
/// `shut` are the gates of its stages that are not open.
pub fn next(report: &RunReport, shut: &[GateReport]) -> Option<String> {
    let run = report.run;
    if let Some(told) = stopped_by_hand(report, shut).or_else(|| waits_to_be_asked_for(report)) {
        return Some(told);
    }
    match report.status {
        RunStatus::Open if NewRun::is_of_items(&report.source) => Some(format!(
            "the request that began it broke off: send it again, or `redrive close {run}` leaves it with what it has"
        )),
        RunStatus::Open => Some(match report.counts.live() {
            0 => format!(
                "it takes items by `redrive submit PIPELINE.toml --item JSON`; `redrive close {run}` ends it"
            ),
            _ => format!(
                "`redrive work` or `redrive resume {run}` works on what waits; it takes items meanwhile"
            ),
        }),
        RunStatus::PausedBudget if report.is_full() => Some(format!(
            "`redrive dead redrive --run {run} --all` sends them back, `redrive dead purge --run {run} --all` removes them; then `redrive resume {run}` goes on"
        )),
        RunStatus::PausedBudget => Some(format!(
            "`redrive dead groups --run {run}` shows what went wrong; `redrive resume {run}` goes on"
        )),
        RunStatus::Paused => Some(format!("`redrive resume {run}` goes on")),
        RunStatus::PausedQuota => {
            let more = if shut.is_empty() { "" } else { ", and so does `redrive gates`" };
            Some(format!(
                "the reason above says what it waits for (credit, a key, another setting){more}; once that is settled, `redrive resume {run}` goes on"
            ))
        }
        RunStatus::PausedOutage => Some(format!(
            "`redrive gates` shows who is away; once it is back, `redrive resume {run}` goes on"
        )),
        RunStatus::Queued => Some("`redrive work` works on it".to_owned()),
        RunStatus::Interrupted => Some(format!("`redrive resume {run}` goes on where it stopped")),
        RunStatus::Running => {
            let at_work = at_work(&report.workers);
            Some(format!("{at_work}; `redrive results {run} --follow` shows what comes of it"))
        }
        RunStatus::PartiallyCompleted if !shut.is_empty() => {
            let names: Vec<&str> = shut.iter().map(|gate| gate.name.as_str()).collect();
            Some(format!(
                "`redrive gates` shows what keeps {} shut; `redrive resume {run}` waits until that is over",
                names.join(", ")
            ))
        }
        RunStatus::PartiallyCompleted if awaits_only(report) => Some(format!(
            "`redrive stuck {run} --older-than 1s` lists what answers are awaited for; `redrive resume {run}` waits for them"
        )),
        RunStatus::PartiallyCompleted if report.next_retry.is_none() => {
            Some(format!("what waits is due: `redrive resume {run}` works on it"))
        }
        RunStatus::PartiallyCompleted => Some(format!(
            "retries are due later: `redrive failures {run}` lists them, `redrive resume {run}` waits for them"
        )),
        RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed if only_refused(report) => {
            Some(format!(
                "`redrive dead list --run {run}` shows what the source could not give; mend it there and run again"
            ))
        }
        RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed if report.counts.dead > 0 => {
            Some(format!(
                "`redrive dead list --run {run}` shows {}; `redrive dead redrive --run {run} --all --work` sends {} back",
                things(report.counts.dead, "dead item"),
                if report.counts.dead == 1 { "it" } else { "them" }
            ))
        }
        RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed | RunStatus::Cancelled => None,
    }
}

/// A gate that an operator paused keeps everything behind it waiting for as long as nobody lets it go on.
fn stopped_by_hand(report: &RunReport, shut: &[GateReport]) -> Option<String> {
    let waits = match report.status {
        RunStatus::PartiallyCompleted | RunStatus::Interrupted | RunStatus::Queued | RunStatus::Running => {
            true
        }
        RunStatus::Open => report.counts.live() > 0,
        _ => false,
    };
    let gate = shut.iter().find(|gate| gate.state == "paused").filter(|_| waits)?;
    let then = match report.status {
        RunStatus::Running => String::new(),
        _ => format!(", then `redrive resume {}` works on it", report.run),
    };
    Some(format!("gate {0} is paused: `redrive gates resume {0}` lets it go on{then}", gate.name))
}

/// Whoever works on such a run without being a daemon leaves it as it is.
fn waits_to_be_asked_for(report: &RunReport) -> Option<String> {
    let left = matches!(
        report.status,
        RunStatus::PartiallyCompleted | RunStatus::Interrupted | RunStatus::Queued | RunStatus::Open
    );
    report.unasked.as_deref().filter(|_| left).map(asked_for)
}

/// Who does a stage that external workers do.
pub fn asked_for(stage: &str) -> String {
    format!(
        "external workers do stage {stage}: they ask a `redrive serve` of this store for it, by `POST /v1/work/claim`"
    )
}

/// Whether nothing is left but answers that somebody else gives.
fn awaits_only(report: &RunReport) -> bool {
    report.awaited > 0 && report.next_retry.is_none() && report.counts.waiting <= report.awaited
}

fn at_work(workers: &[String]) -> String {
    format!("{} {} at work", workers.join(", "), if workers.len() > 1 { "are" } else { "is" })
}

/// Whether nothing is dead but lines that no stage has seen: they cannot be sent back, only mended in the source.
fn only_refused(report: &RunReport) -> bool {
    let tried = report.attempts.failures + report.attempts.throttles + report.attempts.crashes;
    let final_only = report.dead.by_reason.keys().all(|reason| *reason == "final");
    report.counts.dead > 0 && tried == 0 && final_only
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_at_work_and_several_are() {
        assert_eq!(at_work(&["pid 1".to_owned()]), "pid 1 is at work");
        assert_eq!(at_work(&["pid 1".to_owned(), "pid 2".to_owned()]), "pid 1, pid 2 are at work");
    }

    #[test]
    fn an_answer_that_is_awaited_is_called_no_retry() {
        let mut report = RunReport { status: RunStatus::PartiallyCompleted, ..crate::output::sample::run() };
        (report.counts.waiting, report.awaited) = (1, 1);
        let told = next(&report, &[]).expect("there is something to do");
        assert!(told.contains("answers") && told.contains("redrive stuck"), "{told}");
        assert!(!told.contains("retries") && !told.contains("due"), "{told}");
        report.next_retry = Some("2026-11-17T10:00:00.000Z".to_owned());
        assert!(next(&report, &[]).is_some_and(|told| told.contains("retries are due later")));
    }

    #[test]
    fn a_run_that_waits_for_external_workers_is_not_handed_in_a_circle() {
        let unasked = Some("mood".to_owned());
        for status in
            [RunStatus::PartiallyCompleted, RunStatus::Interrupted, RunStatus::Queued, RunStatus::Open]
        {
            let report = RunReport { status, unasked: unasked.clone(), ..crate::output::sample::run() };
            let told = next(&report, &[]).expect("there is something to do");
            assert!(told.contains("`redrive serve`") && told.contains("stage mood"), "{status}: {told}");
            assert!(!told.contains("resume"), "{status}: {told}");
        }
    }
}
