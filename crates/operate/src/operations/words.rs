//! What an operation was asked to do, in words: only what narrows it down.

use std::time::Duration;

use redrive_core::item::StateKind;
use redrive_core::policy::OwnPolicy;
use redrive_engine::admin::{Act, Forget, Redrive, Request, Rerun, Retry};
use redrive_store::{ItemFilter, Operation};

use crate::error::Result;
use crate::runs::Runs;

/// What was asked. What a newer version wrote is told as it is.
pub(super) async fn of(runs: &Runs<'_>, operation: &Operation) -> Result<String> {
    let Ok(request) = Request::of(operation) else { return Ok(operation.request.clone()) };
    let parts = match &request {
        Request::Redrive(Redrive { filter, limit, rate, canary, goes_first, retry }) => {
            let mut parts = filtered(runs, filter, "every dead item").await?;
            parts.extend(limit.map(|limit| match goes_first {
                true => format!("a canary of {limit}"),
                false => format!("at most {limit}"),
            }));
            parts.extend(rate.map(|rate| format!("{rate} a second")));
            parts.extend((!canary.is_empty()).then(|| format!("once {} canaries have passed", canary.len())));
            parts.extend(retry.as_ref().map(under));
            parts
        }
        Request::RedriveSeen { items } => {
            vec![format!("{} item{} as seen before", items.len(), if items.len() == 1 { "" } else { "s" })]
        }
        Request::RedriveSet(set) => {
            let mut parts = vec!["the set as frozen".to_owned()];
            parts.extend(of_filters(runs, &set.filters).await?);
            parts.extend(set.limit.map(|limit| format!("at most {limit}")));
            parts.extend(set.rate.map(|rate| format!("{rate} a second")));
            parts.extend(set.canary.map(|first| format!("{first} first")));
            parts.extend(set.stop_at.map(|share| format!("stops at {} percent", share * 100.0)));
            parts.extend(set.retry.as_ref().map(under));
            parts.extend(set.stopped.as_ref().map(|why| format!("stopped: {why}")));
            parts
        }
        Request::RerunSet(set) => {
            let mut parts = vec!["the set as frozen".to_owned()];
            match (&*set.filters, set.reruns.first()) {
                ([], Some(each)) => parts.push(format!("run {}", each.run)),
                (filters, _) => parts.extend(of_filters(runs, filters).await?),
            }
            if let Some(Rerun { run, stage, .. }) = set.reruns.first() {
                parts.push(format!("from stage {}", runs.stage_name(*run, *stage).await?));
            }
            parts
        }
        Request::PurgeSet(set) => {
            let mut parts = vec!["the set as frozen".to_owned()];
            parts.extend(of_filters(runs, &set.filters).await?);
            parts.extend(set.at.filter(|_| set.undo_ms > 0).map(|at| format!("removed at {at}")));
            parts
        }
        Request::Purge { filter } => filtered(runs, filter, "every dead item").await?,
        Request::Cancel { run } => vec![format!("run {run}")],
        Request::Retry(Retry { filter, due }) => {
            let mut parts = filtered(runs, filter, "every waiting item").await?;
            parts.extend(due.map(|due| format!("due {due}")));
            parts
        }
        Request::Rerun(Rerun { run, key, stage, dead, .. }) => {
            let mut parts = match dead {
                Some(dead) => filtered(runs, dead, "every dead item").await?,
                None => vec![format!("run {run}")],
            };
            parts.extend(key.as_ref().map(|key| format!("key {key:?}")));
            parts.push(format!("from stage {}", runs.stage_name(*run, *stage).await?));
            parts
        }
        Request::Prune(forget) => forgotten("runs", forget),
        Request::PruneOf { pipeline, forget } => forgotten(&format!("runs of {pipeline}"), forget),
        Request::Import { from } => vec![format!("from {from}")],
        Request::Pause { pipeline, stage, why } => {
            let mut parts = paused(pipeline, stage.as_deref());
            parts.extend((!why.is_empty()).then(|| why.clone()));
            parts
        }
        Request::Resume { pipeline, stage } => paused(pipeline, stage.as_deref()),
        Request::Act(Act::PauseRun { run } | Act::ResumeRun { run } | Act::CloseRun { run }) => {
            vec![format!("run {run}")]
        }
        Request::Act(Act::PauseGate { gate, why }) => {
            let why = (!why.is_empty()).then(|| why.clone());
            std::iter::once(format!("gate {gate}")).chain(why).collect()
        }
        Request::Act(Act::ResumeGate { gate } | Act::ResetGate { gate }) => vec![format!("gate {gate}")],
        Request::Act(Act::StopOperation { operation }) => vec![format!("operation {operation}")],
        Request::Act(Act::UndoOperation { operation }) => {
            vec![format!("operation {operation}"), "before it did anything".to_owned()]
        }
        Request::Act(Act::KillItem { run, item, why }) => {
            let why = (!why.is_empty()).then(|| why.clone());
            [format!("item {item}"), format!("run {run}")].into_iter().chain(why).collect()
        }
        Request::Act(Act::NoteGroup { group, words, acknowledged }) => {
            let looked_after = acknowledged.map(|yes| if yes { "looked after" } else { "not looked after" });
            let mut parts = vec![format!("group {group}")];
            parts.extend(looked_after.map(ToOwned::to_owned));
            parts.extend(words.as_ref().map(|words| match words.is_empty() {
                true => "the words are taken back".to_owned(),
                false => words.clone(),
            }));
            parts
        }
    };
    Ok(parts.join(", "))
}

fn under(policy: &OwnPolicy) -> String {
    format!("under the policy {policy}")
}

fn forgotten(what: &str, forget: &Forget) -> Vec<String> {
    let span = Duration::from_millis(forget.older_than_ms);
    let mut parts = vec![format!("{what} that finished more than {} s before", span.as_secs())];
    parts.extend(forget.with_dead.then(|| "with dead items, too".to_owned()));
    parts
}

/// What the filters of a set say; of many, how many they are.
async fn of_filters(runs: &Runs<'_>, filters: &[ItemFilter]) -> Result<Vec<String>> {
    match filters {
        [one] => filtered(runs, one, "every dead item").await,
        many => Ok(vec![format!("{} runs", many.len())]),
    }
}

/// Which pipeline, or stage of it.
fn paused(pipeline: &str, stage: Option<&str>) -> Vec<String> {
    let stage = stage.map(|stage| format!("stage {stage}"));
    std::iter::once(format!("pipeline {pipeline}")).chain(stage).collect()
}

/// What a filter says; `all` where it says nothing.
async fn filtered(runs: &Runs<'_>, filter: &ItemFilter, all: &str) -> Result<Vec<String>> {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(filter.run.map(|run| format!("run {run}")));
    // A stage has a name in its run only.
    if let Some(run) = filter.run {
        for stage in filter.stages.clone() {
            parts.push(format!("stage {}", runs.stage_name(run, stage).await?));
        }
    }
    let state = filter.state.filter(|state| *state != StateKind::Dead);
    parts.extend(state.map(|state| state.name().to_owned()));
    parts.extend(filter.class.map(|class| format!("class {}", class.name())));
    parts.extend(filter.reason.map(|reason| format!("reason {}", reason.name())));
    parts.extend(filter.group.as_ref().map(|group| format!("group {group}")));
    parts.extend(filter.text.as_ref().map(|text| format!("text {text:?}")));
    parts.extend(filter.key.as_ref().map(|key| format!("key {key:?}")));
    parts.extend(filter.since.map(|since| format!("since {since}")));
    parts.extend(filter.until.map(|until| format!("before {until}")));
    parts.extend(filter.ids.map(|(first, last)| match first == last {
        true => format!("item {first}"),
        false => format!("items {first} to {last}"),
    }));
    if parts.is_empty() {
        parts.push(all.to_owned());
    }
    Ok(parts)
}
