//! What came of a pass over mail.

use std::collections::BTreeSet;

use redrive_core::id::RunId;
use redrive_core::item::{Item, State, StateKind};
use redrive_core::status::{Counts, RunStatus};
use redrive_engine::report::RunReport;
use redrive_index::mail::{ArchivesTally, ListTally, ThreadsTally};
use redrive_store::{ItemFilter, ItemQuery};
use serde::Serialize;

use super::{MailPass, Mailer};
use crate::error::Result;

/// Most messages that are named.
const NAMED: usize = 5;
/// Most dead items that are looked at for the archives that they are of.
const LOOKED_AT: usize = 10_000;

/// What failed for good.
#[derive(Default)]
struct Failed {
    named: Vec<(String, String)>,
    count: u64,
    archives: Vec<String>,
}

/// The run report of a pass over archives, and what it means for the mail.
#[derive(Debug, Serialize)]
pub struct MailReport {
    /// The run report.
    #[serde(flatten)]
    pub run: RunReport,
    /// What it means for the mail.
    pub mail: MailFigures,
}

/// What a pass means for the mail.
#[derive(Debug, Serialize)]
pub struct MailFigures {
    /// The archives' paths.
    pub archives: Vec<String>,
    /// What was found of them.
    pub found: ArchivesTally,
    /// What was found in them, in this pass.
    pub listed: ListTally,
    /// Messages that were taken in by this run.
    pub taken_in: u64,
    /// Messages that failed for good in this run.
    pub failed_messages: u64,
    /// Some of those, and why.
    pub failed: Vec<(String, String)>,
    /// Archives that are read but for messages that failed for good: `complete_with_failures`.
    pub complete_with_failures: Vec<String>,
    /// The model of the vectors.
    pub model: String,
    /// What is there now.
    pub threads: ThreadsTally,
    /// The run that summarised threads; `null` when there was nothing to do.
    pub summaries: Option<ThreadRun>,
    /// Child processes that died with work in hand.
    pub children_died: u64,
}

/// The run that summarised threads.
#[derive(Debug, Serialize)]
pub struct ThreadRun {
    /// The run.
    pub run: RunId,
    /// How it stands.
    pub status: RunStatus,
    /// Its threads by state.
    pub counts: Counts,
    /// Why it is paused, or does not go on.
    pub reason: Option<String>,
    /// When the next of its threads is due.
    pub next_due: Option<String>,
}

impl Mailer<'_> {
    /// Says what came of a pass.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn report(&self, pass: &MailPass) -> Result<MailReport> {
        let run = pass.archives.report.clone();
        let messages = run.stages.iter().find(|stage| stage.name == "keep");
        let taken_in = messages.map_or(0, |stage| stage.counts.succeeded);
        let Failed { named, count, archives } = self.failed(&run).await?;
        let summaries = pass.threads.as_ref().map(|worked| ThreadRun {
            run: worked.report.run,
            status: worked.report.status,
            counts: worked.report.counts,
            reason: worked.report.reason.clone(),
            next_due: worked.report.next_due.clone(),
        });
        let mail = MailFigures {
            archives: self.paths().to_vec(),
            found: pass.found.clone(),
            listed: pass.listed,
            taken_in,
            failed_messages: count,
            failed: named,
            complete_with_failures: archives,
            model: self.target.collection.spec.model.clone(),
            threads: pass.made,
            summaries,
            children_died: pass.children_died,
        };
        Ok(MailReport { run, mail })
    }

    /// The messages that failed for good: the first ones, how many, and whose.
    async fn failed(&self, run: &RunReport) -> Result<Failed> {
        let of_messages = |name: &str| matches!(name, "message" | "chunks" | "keep");
        let stages = run.stages.iter().filter(|stage| of_messages(&stage.name));
        let count: u64 = stages.map(|stage| stage.counts.dead).sum();
        if count == 0 {
            return Ok(Failed::default());
        }
        let store = &self.floor.store;
        let filter = ItemFilter { run: Some(run.run), state: Some(StateKind::Dead), ..ItemFilter::default() };
        let items = store.items(ItemQuery { filter, after: None, limit: LOOKED_AT }).await?;
        let parents: BTreeSet<_> = items.iter().filter_map(|item| item.parent).collect();
        let mut archives = Vec::new();
        for parent in parents {
            if let Some(archive) = store.item(parent).await?
                && archive.parent.is_none()
                && matches!(archive.state, State::Succeeded)
            {
                archives.push(archive.key.to_string());
            }
        }
        archives.sort();
        let why = |item: &Item| item.last.as_ref().map(|last| last.message.to_string()).unwrap_or_default();
        let named = items.iter().take(NAMED).map(|item| (item.key.to_string(), why(item)));
        Ok(Failed { named: named.collect(), count, archives })
    }
}
