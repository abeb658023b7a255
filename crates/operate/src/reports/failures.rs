//! What failed: in a run, in every run of a pipeline or a source, or in all of them.

use std::path::Path;

use redrive_core::id::RunId;
use redrive_engine::report::{
    self, FailedRun, FailureAfter, FailureOrder, FailurePlace, FailureQuery, FailureReport,
};
use redrive_store::RunFilter;
use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::error::{Error, Result};
use crate::items::{self, ItemName};
use crate::pipelines;
use crate::runs::{KnownRun, Runs};

/// Which failed items to tell. Without a run, a pipeline, a source or `all`, those of the newest run are meant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Failures {
    /// Of this run.
    pub run: Option<RunId>,
    /// Of every run of this pipeline.
    pub pipeline: Option<String>,
    /// Of every run over this source: a path, or the end of one.
    pub source: Option<String>,
    /// Of every run.
    pub all: bool,
    /// Only at the stage of this name.
    pub stage: Option<String>,
    /// Only those that look permanent.
    pub permanent: bool,
    /// In what order.
    pub order: FailureOrder,
    /// At most so many.
    pub limit: usize,
    /// Goes on after this, from `next` of the page before.
    pub after: Option<String>,
}

/// Says what failed: items sorted, error history, retries, next time; how much there is in all, and by project.
///
/// # Errors
/// When there is no such run, stage or item, the cursor is none of this order, or the store fails.
pub async fn failures(floor: &Floor, request: &Failures) -> Result<FailureReport> {
    let store = &*floor.store;
    let known = looked_through(floor, request).await?;
    let mut runs = Vec::new();
    for KnownRun { row, plan, .. } in &known {
        let stage = match &request.stage {
            None => None,
            Some(name) => match plan.find(name) {
                None => continue,
                found => found,
            },
        };
        runs.push(FailedRun { row, plan, stage });
    }
    if let (true, Some(stage)) = (runs.is_empty(), &request.stage) {
        let stages =
            known.first().map(|known| known.plan.stages().map(|(_, stage)| stage.name.clone()).collect());
        let stages: Vec<String> = stages.unwrap_or_default();
        return Err(Error::not_found(format!("there is no stage {stage:?} in what was looked through"))
            .hint(format!("its stages are {}", stages.join(", "))));
    }
    let item;
    let after = match (&request.after, request.order) {
        (None, _) => None,
        (Some(name), FailureOrder::Key) => {
            item = items::find(store, &ItemName { item: name.clone(), run: request.run }).await?;
            Some(FailureAfter::Item(&item))
        }
        (Some(cursor), _) => {
            let place = FailurePlace::read(cursor);
            let wrong = || Error::wrong(format!("'{cursor}' is not a cursor of this order"));
            Some(FailureAfter::Place(place.ok_or_else(wrong)?))
        }
    };
    let query =
        FailureQuery { order: request.order, permanent: request.permanent, limit: request.limit, after };
    Ok(report::failures(store, &runs, query).await?)
}

/// The runs that are meant, newest first. Of many, one whose pipeline this version cannot read is left out.
async fn looked_through(floor: &Floor, request: &Failures) -> Result<Vec<KnownRun>> {
    let runs = Runs::of(&*floor.store);
    let one =
        request.run.is_some() || (!request.all && request.pipeline.is_none() && request.source.is_none());
    if one {
        return Ok(vec![runs.find(request.run).await?]);
    }
    let filter = RunFilter { pipeline: request.pipeline.clone(), ..RunFilter::default() };
    let meant = |source: &str| request.source.as_ref().is_none_or(|wanted| is_over(source, wanted));
    let rows = runs.all(filter).await?.into_iter().filter(|row| meant(&row.spec.source));
    let known = rows.filter_map(|row| {
        let definition = pipelines::definition_of(&row)?;
        let plan = definition.plan();
        Some(KnownRun { row, definition, plan })
    });
    let known: Vec<KnownRun> = known.collect();
    if known.is_empty() {
        let of = request.pipeline.as_ref().map(|name| format!(" of {name:?}")).unwrap_or_default();
        let over = request.source.as_ref().map(|source| format!(" over {source:?}")).unwrap_or_default();
        return Err(
            Error::not_found(format!("there is no run{of}{over}")).hint("`redrive runs` lists the runs")
        );
    }
    Ok(known)
}

/// Whether a source, which may be several paths, is or has the one that is wanted: the whole path, the same from here, or the
/// end of it.
fn is_over(source: &str, wanted: &str) -> bool {
    let end = Path::new(wanted).strip_prefix(".").unwrap_or(Path::new(wanted));
    let whole = std::fs::canonicalize(wanted).ok();
    source.lines().any(|one| {
        let one_path = Path::new(one);
        one == wanted
            || whole.as_deref() == Some(one_path)
            || (end.has_root() && one_path == end)
            || (!end.has_root() && !end.as_os_str().is_empty() && one_path.ends_with(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_named_whole_or_by_its_end() {
        let source = "/data/library/mails.jsonl\n/data/more.jsonl";
        for wanted in ["/data/library/mails.jsonl", "mails.jsonl", "library/mails.jsonl", "./more.jsonl"] {
            assert!(is_over(source, wanted), "{wanted}");
        }
        for wanted in ["ails.jsonl", "library", "", "/mails.jsonl", "other/more.jsonl"] {
            assert!(!is_over(source, wanted), "{wanted}");
        }
        assert!(is_over("-", "-") && !is_over(source, "-"));
    }
}
