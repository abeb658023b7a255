//! The standing runs of a pipeline take items.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::id::{ContentHash, RunId};
use redrive_core::item::NewItem;
use redrive_core::status::Control;
use redrive_engine::admit::{self, KnownKeys, Settled};
use redrive_engine::recipe::Recipe;
use redrive_pipeline::{SourceKind, title};
use redrive_store::{Error as StoreError, Submitted};
use serde::{Deserialize, Serialize};

use super::answer::{Fate, Handed, HandedIn, LISTED, StandingRun, Sum};
use super::given::{Given, Sighted};
use super::run::note;
use super::stream::Stream;
use crate::error::{Error, Result};
use crate::pipelines::{Pipeline, recipe, refuse_wrong_expressions};
use crate::runs::{Begin, Standing, refuse_full, standing};
use crate::wiring::Wiring;
use crate::{Floor, Role};

/// Most items of one transaction, where they do not come in pieces already.
const BATCH: usize = 1_000;
/// Most standing runs that are remembered at a time.
const TARGETS: usize = 1_000;
/// How often a run is looked for that is closed or cancelled just then.
const TRIES: u32 = 5;

/// How items are handed in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HandIn {
    /// The category of items that name none; `None`: the pipeline's.
    pub category: Option<String>,
    /// The priority of a run that is begun for them; `None`: the pipeline's.
    pub priority: Option<i32>,
    /// Leaves items alone that have passed a stage which is configured otherwise now.
    pub keep_passed: bool,
}

/// A pipeline that items can be handed to.
pub struct Ready {
    pipeline: Pipeline,
    recipe: Recipe,
    request: HandIn,
}

/// Makes a pipeline ready before a store is opened, or made: what is wrong is told before that.
///
/// # Errors
/// When it has no inbox, a stage cannot be built, or the category is no name.
pub fn prepare(wiring: &dyn Wiring, pipeline: Pipeline, request: HandIn) -> Result<Ready> {
    if pipeline.definition.source.kind != SourceKind::Inbox {
        return Err(Error::wrong(format!(
            "pipeline {} reads a source, and takes no items",
            pipeline.definition.name
        ))
        .hint("give it a [source] with kind = \"inbox\", or hand over its source with --input FILE"));
    }
    if let Some(category) = &request.category {
        title(category).map_err(Error::wrong)?;
    }
    ready(wiring, pipeline, request)
}

/// Makes a pipeline ready, whatever its source is.
pub(super) fn ready(wiring: &dyn Wiring, pipeline: Pipeline, request: HandIn) -> Result<Ready> {
    refuse_wrong_expressions(wiring, &pipeline)?;
    let recipe = recipe(wiring, &pipeline.definition, &pipeline.folder, None)?;
    Ok(Ready { pipeline, recipe, request })
}

/// The standing runs of a pipeline: an item goes to the one of its category, which is begun when there is none.
pub struct Inbox<'a> {
    floor: &'a Floor,
    ready: Ready,
    /// The run of each category that was met.
    targets: BTreeMap<Option<Arc<str>>, RunId>,
    /// What is told of them.
    runs: BTreeMap<RunId, StandingRun>,
    /// What becomes of keys that are there: whoever contents are kept from replaces none.
    known_keys: KnownKeys,
}

/// Why an item is refused whose key is there. Nothing in it depends on the content.
const KEY_IS_THERE: &str =
    "has a key that is there already; whoever contents are kept from hands in new keys only";

/// Items of one category, to be submitted together. No key is among them twice with different content: of two versions
/// the later one holds, so the earlier one has to be there before.
#[derive(Default)]
struct Group {
    places: Vec<usize>,
    items: Vec<NewItem>,
    versions: BTreeMap<Arc<str>, ContentHash>,
}

impl Group {
    fn has_other_version(&self, item: &NewItem) -> bool {
        self.versions.get(&item.key).is_some_and(|version| *version != item.version())
    }

    fn push(&mut self, place: usize, item: NewItem) {
        self.versions.insert(item.key.clone(), item.version());
        self.places.push(place);
        self.items.push(item);
    }
}

impl<'a> Inbox<'a> {
    /// The inbox of a pipeline. Nothing is written before an item comes.
    #[must_use]
    pub fn open(floor: &'a Floor, ready: Ready) -> Self {
        let known_keys = match floor.asker.payloads_hidden {
            true => KnownKeys::Kept,
            false => KnownKeys::Replaced,
        };
        Self { floor, ready, targets: BTreeMap::new(), runs: BTreeMap::new(), known_keys }
    }

    /// The same for one run that is there for these very items, whatever category they name.
    pub(super) fn of_run(floor: &'a Floor, ready: Ready, run: RunId) -> Self {
        let category = ready.request.category.as_deref().map(Arc::from);
        let targets = BTreeMap::from([(category, run)]);
        Self { floor, ready, targets, runs: BTreeMap::new(), known_keys: KnownKeys::Replaced }
    }

    /// Takes items, and says what became of each. Those that cannot be used are refused, the others are taken.
    ///
    /// # Errors
    /// When the store fails, or the pipeline cannot go on with a run that is there; handing in the same again admits
    /// nothing twice.
    pub async fn items(&mut self, items: Vec<Given>) -> Result<HandedIn> {
        self.floor.require(Role::Operator)?;
        let key = self.ready.pipeline.definition.source.key.clone();
        let mut sum = Sum::default();
        let mut line = 0;
        for some in items.chunks(BATCH) {
            let sighted = some.iter().map(|given| {
                line += 1;
                given.sighted(line, key.as_deref())
            });
            let sighted = sighted.collect();
            self.hand_in(sighted).await?.into_iter().for_each(|item| sum.list(item));
        }
        self.told(sum).await
    }

    /// Takes a stream of items, piece by piece; each is durable before the next is read. `refused` is told of those that
    /// cannot be used as they are met.
    ///
    /// # Errors
    /// When the stream cannot be read on, the store fails, or the pipeline cannot go on with a run that is there. What was
    /// handed in before stays so, and the same stream again admits nothing twice.
    pub async fn stream(
        &mut self,
        mut stream: Stream,
        refused: &mut (dyn FnMut(&Handed) + Send),
    ) -> Result<HandedIn> {
        self.floor.require(Role::Operator)?;
        let mut sum = Sum::default();
        while let Some(sighted) = stream.next().await? {
            for item in self.hand_in(sighted).await? {
                if item.outcome == Fate::Refused {
                    refused(&item);
                }
                sum.count(item);
            }
        }
        self.told(sum).await
    }

    async fn told(&mut self, sum: Sum) -> Result<HandedIn> {
        self.ready.recipe.close().await;
        Ok(sum.told(&self.ready.pipeline.definition.name, &self.runs))
    }

    /// Hands in some items, those of a category together, in order.
    async fn hand_in(&mut self, sighted: Vec<Sighted>) -> Result<Vec<Handed>> {
        let mut answers: Vec<Handed> = Vec::with_capacity(sighted.len());
        let mut groups: BTreeMap<Option<Arc<str>>, Group> = BTreeMap::new();
        for (place, Sighted { line, key, category, item }) in sighted.into_iter().enumerate() {
            let category = category.or_else(|| self.usual_category());
            let mut answer =
                Handed { line, key, id: None, run: None, category, outcome: Fate::Refused, reason: None };
            match item {
                Err(why) => {
                    answer.reason = Some(why);
                    answers.push(answer);
                }
                Ok(item) => {
                    answer.key = Some(item.key.to_string());
                    let category: Option<Arc<str>> = answer.category.as_deref().map(Arc::from);
                    answers.push(answer);
                    if groups.get(&category).is_some_and(|group| group.has_other_version(&item)) {
                        let before = groups.remove(&category).unwrap_or_default();
                        self.submit(&category, before, &mut answers).await?;
                    }
                    groups.entry(category).or_default().push(place, item);
                }
            }
        }
        for (category, group) in groups {
            self.submit(&category, group, &mut answers).await?;
        }
        Ok(answers)
    }

    fn usual_category(&self) -> Option<String> {
        let Ready { pipeline, request, .. } = &self.ready;
        request.category.clone().or_else(|| pipeline.definition.category.clone())
    }

    /// Submits items to the standing run of their category.
    async fn submit(
        &mut self,
        category: &Option<Arc<str>>,
        group: Group,
        answers: &mut [Handed],
    ) -> Result<()> {
        let (store, env) = (&self.floor.store, &self.floor.env);
        let mut tries = 0;
        let (run, settled) = loop {
            let run = self.target(category).await?;
            refuse_full(self.floor, run, self.ready.pipeline.definition.max_dead).await?;
            tries += 1;
            match admit::hand_in(&**store, &self.ready.recipe, env, run, &group.items, self.known_keys).await
            {
                Ok(settled) => break (run, settled),
                // Somebody took it out just now: what comes next goes to another one.
                Err(StoreError::RunCancelled { .. }) if tries < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        };
        let Settled { answers: submitted, anew, .. } = settled;
        for (at, (place, submitted)) in group.places.into_iter().zip(submitted).enumerate() {
            let Some(answer) = answers.get_mut(place) else { continue };
            answer.run = Some(run);
            (answer.id, answer.outcome) = match submitted {
                Submitted::Known(_) | Submitted::Duplicate(_) | Submitted::Changed(_)
                    if self.known_keys == KnownKeys::Kept =>
                {
                    answer.reason = Some(KEY_IS_THERE.to_owned());
                    (None, Fate::Refused)
                }
                Submitted::Admitted(id) | Submitted::Known(id) if anew.contains(&at) => {
                    (Some(id), Fate::Changed)
                }
                Submitted::Admitted(id) => (Some(id), Fate::Admitted),
                Submitted::Known(id) | Submitted::Duplicate(id) => (Some(id), Fate::Known),
                Submitted::Changed(item) => (Some(item.id), Fate::Known),
            };
        }
        Ok(())
    }

    /// The open run of a category. It may have been closed since the last items went to it.
    async fn target(&mut self, category: &Option<Arc<str>>) -> Result<RunId> {
        if let Some(run) = self.targets.get(category)
            && self.floor.store.run(*run).await?.is_some_and(|row| row.is_open())
        {
            return Ok(*run);
        }
        let request = Begin {
            new: false,
            keep_passed: self.ready.request.keep_passed,
            category: category.as_deref().map(ToOwned::to_owned),
            priority: self.ready.request.priority,
        };
        let Standing { row, created, edit } = standing(self.floor, &self.ready.pipeline, &request).await?;
        if created {
            note(self.floor, &row, true).await?;
        }
        if self.targets.len() >= TARGETS {
            self.targets.clear();
        }
        self.targets.insert(category.clone(), row.id);
        let told = StandingRun {
            run: row.id,
            category: row.spec.category,
            priority: row.spec.priority,
            created,
            paused: row.control != Control::Go,
            edit,
        };
        if self.runs.len() < LISTED {
            self.runs.entry(row.id).or_insert(told);
        }
        Ok(row.id)
    }
}
