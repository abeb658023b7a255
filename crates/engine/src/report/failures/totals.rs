//! How much failed, in all and by project.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::id::{ItemSeq, RunId};
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_store::RunRow;
use serde::Serialize;

/// Items that failed, by how they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FailureTotals {
    /// All of them.
    pub failed: u64,
    /// Those that wait to be tried again.
    pub waiting: u64,
    /// Those that are tried again now.
    pub running: u64,
    /// Those that are dead.
    pub dead: u64,
    /// Those that failed so often that they look permanent, whatever their state.
    pub permanent: u64,
    /// How many of the runs' own items they are, or are parts of.
    pub own: u64,
}

/// What failed of one pipeline over one source, in all runs that were looked through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProjectFailures {
    /// The pipeline.
    pub pipeline: String,
    /// The source.
    pub source: String,
    /// How many of its runs have failures.
    pub runs: u64,
    /// How much.
    #[serde(flatten)]
    pub totals: FailureTotals,
    /// By stage.
    pub stages: Vec<StageFailures>,
}

/// What failed at one stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageFailures {
    /// Its name.
    pub stage: String,
    /// The stage whose children run through it: what kind of item they are. `null` for the runs' own items.
    pub below: Option<String>,
    /// How much.
    #[serde(flatten)]
    pub totals: FailureTotals,
}

/// What was counted so far.
#[derive(Default)]
pub(super) struct Tallied {
    pub(super) all: FailureTotals,
    own: BTreeSet<ItemSeq>,
    projects: BTreeMap<(String, String), Project>,
}

#[derive(Default)]
struct Project {
    runs: BTreeSet<RunId>,
    totals: FailureTotals,
    stages: BTreeMap<(String, Option<String>), (FailureTotals, BTreeSet<ItemSeq>)>,
}

impl FailureTotals {
    fn add(&mut self, kind: StateKind, permanent: bool, new_own: bool) {
        self.failed += 1;
        match kind {
            StateKind::Dead => self.dead += 1,
            StateKind::Running => self.running += 1,
            _ => self.waiting += 1,
        }
        self.permanent += u64::from(permanent);
        self.own += u64::from(new_own);
    }
}

impl Tallied {
    /// Counts an item that belongs to the run's own item `own`.
    pub(super) fn add(&mut self, row: &RunRow, plan: &Plan, item: &Item, own: ItemSeq, permanent: bool) {
        let (kind, new) = (item.state.kind(), self.own.insert(own));
        self.all.add(kind, permanent, new);
        let name = (row.spec.pipeline.clone(), row.spec.source.clone());
        let project = self.projects.entry(name).or_default();
        project.runs.insert(row.id);
        project.totals.add(kind, permanent, new);
        let at = plan.stage(item.stage);
        let name = at.map_or_else(|| format!("#{}", item.stage.0), |at| at.name.clone());
        let below = at.and_then(|at| plan.stage(at.owner?)).map(|owner| owner.name.clone());
        let (totals, seen) = project.stages.entry((name, below)).or_default();
        let new = seen.insert(own);
        totals.add(kind, permanent, new);
    }

    /// By pipeline and source, those with the most failures first.
    pub(super) fn projects(self) -> Vec<ProjectFailures> {
        let stage = |((stage, below), (totals, _))| StageFailures { stage, below, totals };
        let project = |((pipeline, source), project): ((String, String), Project)| ProjectFailures {
            pipeline,
            source,
            runs: project.runs.len() as u64,
            totals: project.totals,
            stages: project.stages.into_iter().map(stage).collect(),
        };
        let mut projects: Vec<ProjectFailures> = self.projects.into_iter().map(project).collect();
        projects.sort_by_key(|project| std::cmp::Reverse(project.totals.failed));
        projects
    }
}
