//! From what was asked to what a store is asked.

use redrive_core::failure::Class;
use redrive_core::id::RunId;
use redrive_core::item::{DeadReason, StateKind};
use redrive_core::time::Timestamp;
use redrive_store::{ItemFilter, ItemQuery, RunFilter};
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};
use crate::items::{self, ItemName};
use crate::pipelines;
use crate::runs::Runs;
use crate::{Floor, whole};

/// Most characters of a word that says which: it is kept with the operation, and looked for in every item.
const WORD: usize = 2_000;

/// Which dead items; everything that is given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Which {
    /// In this run.
    pub run: Option<RunId>,
    /// Of this pipeline.
    pub pipeline: Option<String>,
    /// At this stage.
    pub stage: Option<String>,
    /// Whose last failure has this class.
    pub class: Option<Class>,
    /// Dead for this reason.
    pub reason: Option<DeadReason>,
    /// In this group of alike errors.
    pub group: Option<String>,
    /// Whose key or last failure contains this text.
    pub text: Option<String>,
    /// That died within so many milliseconds.
    #[serde(deserialize_with = "whole::optional")]
    pub within_ms: Option<i64>,
    /// This one: its id, the beginning of its id, or its key.
    pub item: Option<String>,
}

impl Which {
    /// Whether anything narrows it down. A run or a pipeline alone is a place, not a choice.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        let Self { run: _, pipeline: _, stage, class, reason, group, text, within_ms, item } = self;
        stage.is_some()
            || class.is_some()
            || reason.is_some()
            || group.is_some()
            || text.is_some()
            || within_ms.is_some()
            || item.is_some()
    }
}

impl Which {
    /// Refuses words that say nothing: every text contains an empty one.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { pipeline, stage, group, text, item, within_ms, .. } = self;
        let words =
            [("pipeline", pipeline), ("stage", stage), ("group", group), ("text", text), ("item", item)];
        if let Some((name, _)) = words.iter().find(|(_, word)| word.as_ref().is_some_and(String::is_empty)) {
            return Err(Error::wrong(format!("the {name} that is named is empty")));
        }
        let long = |word: &Option<String>| word.as_ref().is_some_and(|word| word.chars().nth(WORD).is_some());
        if let Some((name, _)) = words.iter().find(|(_, word)| long(word)) {
            return Err(Error::wrong(format!("the {name} that is named has more than {WORD} characters")));
        }
        if within_ms.is_some_and(|span| span < 0) {
            return Err(Error::wrong("`within_ms` is a number from 0 on"));
        }
        Ok(())
    }
}

/// Whether anything is as a filter says. While operations are under way it may be one of them that is meant, which was broken off
/// behind its last item, and is gone on with.
pub(crate) async fn finds_any(floor: &Floor, filter: &ItemFilter) -> Result<bool> {
    let query = ItemQuery { filter: filter.clone(), after: None, limit: 1 };
    let found = !floor.store.items(query).await?.is_empty();
    Ok(found || !floor.store.open_operations(None, 1).await?.is_empty())
}

/// Refuses a group that nothing dead is in.
pub(super) async fn refuse_no_such_group(floor: &Floor, group: &str) -> Result<()> {
    let filter = ItemFilter { group: Some(group.to_owned()), ..dead() };
    match floor.store.groups(filter, 1).await?.is_empty() {
        true => Err(Error::not_found(format!("no dead item is in a group {group:?}"))
            .hint("`redrive dead groups` lists the groups")),
        false => Ok(()),
    }
}

/// Every dead item.
pub(super) fn dead() -> ItemFilter {
    ItemFilter { state: Some(StateKind::Dead), ..ItemFilter::default() }
}

/// The dead items that are meant, as a store is asked for them. Made once, so that what is shown first and what is done
/// then go by the same moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// A stage or a pipeline means something else in every run, so there may be several.
    pub(crate) filters: Vec<ItemFilter>,
}

impl Selection {
    /// The dead items that are meant.
    ///
    /// # Errors
    /// When a run, pipeline, stage or item does not exist, or the store fails.
    pub async fn of(floor: &Floor, which: &Which) -> Result<Self> {
        Self::in_state(floor, which, StateKind::Dead).await
    }

    /// The items that are meant and in this state; `None`: in any.
    pub(crate) async fn in_state(
        floor: &Floor,
        which: &Which,
        state: impl Into<Option<StateKind>>,
    ) -> Result<Self> {
        which.check()?;
        if let Some(run) = which.run
            && floor.store.run(run).await?.is_none()
        {
            return Err(Error::not_found(format!("run {run} does not exist"))
                .code(Code::RunNotFound)
                .hint("`redrive runs` lists the runs of this store"));
        }
        let mut base = ItemFilter {
            run: which.run,
            state: state.into(),
            class: which.class,
            reason: which.reason,
            group: which.group.clone(),
            text: which.text.clone(),
            since: which.within_ms.map(|span| Timestamp(floor.now().0.saturating_sub(span))),
            ..ItemFilter::default()
        };
        if let Some(item) = &which.item {
            let name = ItemName { item: item.clone(), run: which.run };
            let id = items::find(&*floor.store, &name).await?.id;
            base.ids = Some((id, id));
        }
        if which.stage.is_none() && which.pipeline.is_none() {
            return Ok(Self { filters: vec![base] });
        }
        Self::of_runs(floor, which, &base).await
    }

    /// Refuses a group that nothing dead is in: its name is mistyped, or all of it was seen to.
    pub(crate) async fn refuse_no_such_group(&self, floor: &Floor) -> Result<()> {
        match self.filters.iter().find_map(|filter| filter.group.as_deref()) {
            Some(group) => refuse_no_such_group(floor, group).await,
            None => Ok(()),
        }
    }

    /// What a store is asked for.
    pub(crate) fn into_filters(self) -> Vec<ItemFilter> {
        self.filters
    }

    /// Refuses to take "no filter" for "everything" unless `all` says so; asked before anything is changed.
    ///
    /// # Errors
    /// When nothing says which; `verb` is what is to be done to them.
    pub fn said_which(which: &Which, all: bool, verb: &str) -> Result<()> {
        if all || which.is_narrow() {
            return Ok(());
        }
        Err(Error::wrong(format!("which dead items are to be {verb}?"))
            .hint("name them by an item, a group, a stage, a class …, or say that all are meant (--all)"))
    }

    async fn of_runs(floor: &Floor, which: &Which, base: &ItemFilter) -> Result<Self> {
        let runs = match which.run {
            Some(run) => floor.store.run(run).await?.into_iter().collect(),
            None => {
                let filter = RunFilter { pipeline: which.pipeline.clone(), ..RunFilter::default() };
                Runs::of(&*floor.store).all(filter).await?
            }
        };
        let mut filters = Vec::new();
        for row in runs {
            let stages = match &which.stage {
                None => Vec::new(),
                Some(name) => {
                    let plan = pipelines::definition_of(&row).map(|definition| definition.plan());
                    let Some(stage) = plan.and_then(|plan| plan.find(name)) else { continue };
                    vec![stage]
                }
            };
            filters.push(ItemFilter { run: Some(row.id), stages, ..base.clone() });
        }
        if filters.is_empty() {
            let stage =
                which.stage.as_ref().map(|name| format!(" with a stage {name:?}")).unwrap_or_default();
            let pipeline = which.pipeline.as_ref().map(|name| format!(" of {name:?}")).unwrap_or_default();
            return Err(Error::not_found(format!("there is no run{pipeline}{stage}"))
                .code(Code::RunNotFound)
                .hint("`redrive runs` lists the runs"));
        }
        Ok(Self { filters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_says_which_is_neither_empty_nor_endless() {
        let text = |text: String| Which { text: Some(text), ..Which::default() }.check();
        assert!(text("é".repeat(WORD)).is_ok());
        for wrong in [String::new(), "é".repeat(WORD + 1), "x".repeat(1 << 20)] {
            let told = text(wrong).expect_err("refused").message;
            assert!(told.starts_with("the text that is named") && told.len() < 100, "{told}");
        }
    }
}
