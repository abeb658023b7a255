//! Which labels there are: no more of them than people look at, whatever pipelines are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_core::id::StageNo;
use redrive_core::plan::Plan;
use redrive_pipeline::Definition;
use redrive_store::{PrunedCounters, RunRow};

use crate::pipelines::Pipeline;

/// Pipelines that are told apart, and gates.
pub(super) const MOST: usize = 100;
/// Stages of a pipeline that are told apart.
const MOST_STAGES: usize = 50;
/// What all others are told as.
pub(super) const OTHER: &str = "_other";

/// What a text of a pipeline says, where this version can read it.
pub(super) struct Known {
    pub(super) definition: Definition,
    pub(super) plan: Plan,
}

/// The names that are told.
pub(super) struct Names {
    pipelines: BTreeSet<String>,
    stages: BTreeMap<String, BTreeSet<String>>,
    /// By text.
    known: BTreeMap<String, Option<Known>>,
    /// The text of each pipeline's newest run.
    newest: BTreeMap<String, String>,
}

impl Names {
    /// Those pipelines are told apart that were there first, so that a new one moves no other; then those of the folder that have not
    /// run yet, so that what their first run counts has grown from 0.
    pub(super) fn of(rows: &[RunRow], pruned: &[PrunedCounters], folder: &[Arc<Pipeline>]) -> Self {
        let mut names = Self {
            pipelines: BTreeSet::new(),
            stages: BTreeMap::new(),
            known: BTreeMap::new(),
            newest: BTreeMap::new(),
        };
        let pruned = pruned.iter().map(|one| &one.pipeline);
        let ran = pruned.chain(rows.iter().map(|row| &row.spec.pipeline));
        for pipeline in ran.chain(folder.iter().map(|one| &one.definition.name)) {
            if names.pipelines.len() < MOST {
                names.pipelines.insert(pipeline.clone());
            }
        }
        for row in rows {
            let (pipeline, text) = (&row.spec.pipeline, &row.spec.definition);
            names.known.entry(text.clone()).or_insert_with(|| {
                let definition = redrive_pipeline::parse(text, pipeline).ok()?;
                let plan = definition.plan();
                Some(Known { definition, plan })
            });
            names.newest.insert(pipeline.clone(), text.clone());
            names.add_stages(pipeline, text);
        }
        for Pipeline { text, definition, .. } in folder.iter().map(|one| &**one) {
            let pipeline = &definition.name;
            if names.pipelines.contains(pipeline) {
                let known = || Some(Known { definition: definition.clone(), plan: definition.plan() });
                names.known.entry(text.clone()).or_insert_with(known);
                names.newest.entry(pipeline.clone()).or_insert_with(|| text.clone());
                names.add_stages(pipeline, text);
            }
        }
        if names.pipelines.len() == MOST {
            names.stages.entry(OTHER.to_owned()).or_default().insert(OTHER.to_owned());
        }
        names
    }

    /// Has the stages of a text told apart, as far as there is room.
    fn add_stages(&mut self, pipeline: &str, text: &str) {
        let label = if self.pipelines.contains(pipeline) { pipeline } else { OTHER };
        let stages = self.stages.entry(label.to_owned()).or_default();
        let known = self.known.get(text).and_then(Option::as_ref);
        for (_, stage) in known.iter().flat_map(|known| known.plan.stages()) {
            if stages.len() < MOST_STAGES && label != OTHER {
                stages.insert(stage.name.clone());
            }
        }
    }

    /// What a run's pipeline says.
    pub(super) fn known(&self, row: &RunRow) -> Option<&Known> {
        self.known.get(&row.spec.definition)?.as_ref()
    }

    /// What the newest run of a pipeline says.
    pub(super) fn newest(&self, pipeline: &str) -> Option<&Known> {
        self.known.get(self.newest.get(pipeline)?)?.as_ref()
    }

    /// The label of a pipeline.
    pub(super) fn pipeline<'a>(&self, pipeline: &'a str) -> &'a str {
        if self.pipelines.contains(pipeline) { pipeline } else { OTHER }
    }

    /// The label of a stage; one that nobody can name any more is among the others.
    pub(super) fn stage<'a>(&'a self, pipeline: &str, plan: Option<&'a Plan>, no: StageNo) -> &'a str {
        let name = plan.and_then(|plan| plan.stage(no)).map(|stage| stage.name.as_str());
        let told = self.stages.get(self.pipeline(pipeline));
        name.filter(|name| told.is_some_and(|told| told.contains(*name))).unwrap_or(OTHER)
    }

    /// What the seed's retry job calls a collection: the items of a pipeline, or what a stage of it makes of them.
    pub(super) fn collection(&self, pipeline: &str, plan: Option<&Plan>, no: StageNo) -> String {
        let label = self.pipeline(pipeline);
        let owner = plan.and_then(|plan| plan.stage(no)).and_then(|stage| stage.owner);
        match owner {
            Some(owner) if label != OTHER => format!("{label}/{}", self.stage(pipeline, plan, owner)),
            _ => label.to_owned(),
        }
    }

    /// What can be told as a collection, as the pipelines are now.
    pub(super) fn collections(&self) -> BTreeSet<String> {
        let mut all: BTreeSet<String> = self.stages.keys().cloned().collect();
        for pipeline in self.newest.keys() {
            let plan = self.newest(pipeline).map(|known| &known.plan);
            let stages = plan.into_iter().flat_map(Plan::stages);
            all.extend(stages.map(|(no, _)| self.collection(pipeline, plan, no)));
        }
        all
    }

    /// The same by the names of the pipeline and of the stage that makes its items.
    pub(super) fn told(&self, pipeline: &str, made_by: Option<&str>) -> String {
        let label = self.pipeline(pipeline);
        let known = |stage: &&str| self.stages.get(label).is_some_and(|told| told.contains(*stage));
        match made_by {
            Some(stage) if label != OTHER => {
                format!("{label}/{}", Some(stage).filter(known).unwrap_or(OTHER))
            }
            _ => label.to_owned(),
        }
    }

    /// Every pipeline and stage that is told apart.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.stages.iter().flat_map(|(pipeline, stages)| {
            stages.iter().map(move |stage| (pipeline.as_str(), stage.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use redrive_store::{MemoryStore, NewRun, Store};

    use super::*;

    fn run(pipeline: &str, stages: usize) -> NewRun {
        let stage = |n: usize| format!("[[stage]]\nname = \"s{n:03}\"\nkind = \"pass\"\n");
        let stages: String = (0..stages).map(stage).collect();
        NewRun {
            pipeline: pipeline.to_owned(),
            source: "inbox".to_owned(),
            category: None,
            priority: 0,
            definition: format!("name = \"{pipeline}\"\n[source]\nkind = \"inbox\"\n{stages}"),
            folder: "/".to_owned(),
        }
    }

    async fn rows(store: &MemoryStore, new: impl Iterator<Item = NewRun>) -> Vec<RunRow> {
        let mut rows = Vec::new();
        for new in new {
            rows.push(store.create_run(new, redrive_core::time::Timestamp(1)).await.unwrap());
        }
        rows
    }

    #[tokio::test]
    async fn pipelines_beyond_the_first_hundred_are_others_and_a_new_one_moves_none() {
        let store = MemoryStore::new();
        let mut all = rows(&store, (0..MOST + 20).map(|n| run(&format!("p{:03}", 999 - n), 1))).await;
        let told = |rows: &[RunRow]| {
            let names = Names::of(rows, &[], &[]);
            let own = rows.iter().filter(|row| names.pipeline(&row.spec.pipeline) != OTHER);
            own.map(|row| row.spec.pipeline.clone()).collect::<Vec<_>>()
        };
        let before = told(&all);
        assert_eq!(before.len(), MOST);
        all.extend(rows(&store, [run("a-new-one", 1)].into_iter()).await);
        assert_eq!(told(&all), before);
    }

    #[tokio::test]
    async fn stages_beyond_the_most_and_those_that_nobody_can_name_are_others() {
        let store = MemoryStore::new();
        let rows = rows(&store, [run("p", MOST_STAGES + 5)].into_iter()).await;
        let names = Names::of(&rows, &[], &[]);
        let plan = names.known(&rows[0]).map(|known| &known.plan);
        assert_eq!(names.stage("p", plan, StageNo(3)), "s003");
        assert_eq!(names.stage("p", plan, StageNo(u16::try_from(MOST_STAGES).unwrap())), OTHER);
        assert_eq!(names.stage("p", None, StageNo(3)), OTHER);
        assert_eq!(names.all().count(), MOST_STAGES);
        assert_eq!(names.told("p", Some("s001")), "p/s001");
        assert_eq!(names.told("p", Some("gone")), "p/_other");
        assert_eq!(names.told("unknown", Some("s001")), OTHER);
    }

    #[tokio::test]
    async fn a_pipeline_of_the_folder_is_told_before_its_first_run_and_takes_no_place_from_one_that_ran() {
        let store = MemoryStore::new();
        let of_folder = |pipeline: &str| {
            let text = run(pipeline, 2).definition;
            let definition = redrive_pipeline::parse(&text, "p.toml").unwrap();
            Arc::new(Pipeline { text, definition, folder: "/".into(), file: "p.toml".to_owned() })
        };
        let folder: Vec<_> = (0..MOST + 5).map(|n| of_folder(&format!("a{n:03}"))).collect();
        let names = Names::of(&[], &[], &folder[..1]);
        assert_eq!(names.all().collect::<Vec<_>>(), [("a000", "s000"), ("a000", "s001")]);
        assert_eq!(names.collections(), ["a000".to_owned()].into());
        let rows = rows(&store, [run("z", 1)].into_iter()).await;
        let names = Names::of(&rows, &[], &folder);
        assert_eq!(
            (names.pipeline("z"), names.pipeline("a098"), names.pipeline("a099")),
            ("z", "a098", OTHER)
        );
        assert_eq!(names.all().count(), 1 + 2 * (MOST - 1) + 1, "and the others, as one");
    }

    #[tokio::test]
    async fn what_a_stage_makes_is_a_collection_from_the_start() {
        let mut new = run("p", 1);
        new.definition.push_str("[[stage.children]]\nname = \"part\"\nkind = \"pass\"\n");
        let store = MemoryStore::new();
        let names = Names::of(&rows(&store, [new].into_iter()).await, &[], &[]);
        assert_eq!(names.collections(), ["p".to_owned(), "p/s000".to_owned()].into());
    }
}
