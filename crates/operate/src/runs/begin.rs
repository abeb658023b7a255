//! A run begins, or goes on.

use std::path::PathBuf;
use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_engine::admin::Act;
use redrive_engine::admit::Part;
use redrive_engine::recipe::Recipe;
use redrive_engine::report::RunReport;
use redrive_engine::source::Source;
use redrive_engine::{admin, crash};
use redrive_pipeline::{Definition, SourceKind, title};
use redrive_store::{BegunRun, NewRun, RunChange, RunRow};
use serde::{Deserialize, Serialize};

use super::edit::{Changed, Edit, compare, foresee, refuse_other_stages, take_over};
use super::{KnownRun, Runs, refuse_full, report};
use crate::error::{Code, Error, Result};
use crate::index::{IndexTarget, makes_index};
use crate::pipelines::{Pipeline, recipe, refuse_wrong_expressions};
use crate::sources::{Reopened, SourceName, reopen};
use crate::wiring::Wiring;
use crate::work::Work;
use crate::{Floor, Role};

/// A pipeline and a source that a run can be begun with. What is wrong with either is known.
pub struct Prepared {
    pub(super) pipeline: Pipeline,
    pub(super) source: SourceName,
    ready: Option<Ready>,
    pub(super) part: Option<Arc<Part>>,
}

impl Prepared {
    /// The source, where it was opened and not read yet.
    pub(super) fn unread(self) -> Option<Box<dyn Source>> {
        self.ready.and_then(|ready| ready.unread)
    }

    /// Admits no more than a part of the source.
    ///
    /// # Errors
    /// When the source is not one of which a part can be admitted.
    pub fn of_part(self, part: Part) -> Result<Self> {
        refuse_part(&self.pipeline.definition, "a part of it cannot be run")?;
        Ok(Self { part: Some(Arc::new(part)), ..self })
    }
}

/// Refuses a source that is not read line by line.
pub(super) fn refuse_part(definition: &Definition, so: &str) -> Result<()> {
    if definition.source.kind == SourceKind::Inbox {
        return Err(Error::wrong(format!("the pipeline has an inbox, which is not read; {so}"))
            .hint("`redrive submit PIPELINE.toml --items FILE` hands in as much as is wanted"));
    }
    if makes_index(definition) {
        return Err(Error::wrong(format!("the pipeline makes an index; {so}"))
            .hint("`redrive index DIR` of a smaller directory is a way to try it"));
    }
    Ok(())
}

struct Ready {
    recipe: Recipe,
    /// The source; `None` where there is none to read.
    unread: Option<Box<dyn Source>>,
}

/// How a run begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Begin {
    /// Starts a new run that does everything, whatever was done before.
    pub new: bool,
    /// Leaves items alone that have passed a stage which is configured otherwise now.
    pub keep_passed: bool,
    /// The category of a new run; `None`: the one that its pipeline names.
    pub category: Option<String>,
    /// The priority of a new run; `None`: the one that its pipeline names.
    pub priority: Option<i32>,
}

/// A run that was begun, or is gone on with.
#[derive(Serialize)]
pub struct Begun {
    /// The run.
    pub run: RunId,
    /// Whether it is new.
    pub created: bool,
    /// A finished run of the same pipeline and source that could not be gone on with.
    pub other: Option<Other>,
    /// What the edited pipeline brings about.
    pub edit: Option<Edit>,
    /// Whether the pipeline is another than that of the run, which is paused and goes on with its own.
    pub edited_while_paused: bool,
    /// What there is to do.
    #[serde(skip)]
    pub next: Next,
}

/// What there is to do about a run that was begun.
pub enum Next {
    /// It can be worked on.
    Work(Box<Work>),
    /// It is paused, and stands like this; only [`resume`] lets it go on.
    Paused(Box<RunReport>),
}

/// A finished run that an edited pipeline cannot go on with, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Other {
    /// The run.
    pub run: RunId,
    /// The stage that children run through and that was configured otherwise; `None`: it had other stages.
    pub nested: Option<String>,
}

/// Makes a pipeline and its source ready before a store is opened, or made: what is wrong is told before that. Only an
/// index has to wait for its store.
///
/// # Errors
/// When a stage cannot be built or the source cannot be read.
pub fn prepare(wiring: &dyn Wiring, pipeline: Pipeline, source: SourceName) -> Result<Prepared> {
    refuse_wrong_expressions(wiring, &pipeline)?;
    let ready = match pipeline.definition.source.kind {
        SourceKind::Lines(_) | SourceKind::Inbox => Some(ready(wiring, &pipeline, &source, None)?),
        SourceKind::Files(_) | SourceKind::Mbox | SourceKind::Threads => None,
    };
    Ok(Prepared { pipeline, source, ready, part: None })
}

fn ready(
    wiring: &dyn Wiring,
    pipeline: &Pipeline,
    source: &SourceName,
    index: Option<&IndexTarget>,
) -> Result<Ready> {
    let Pipeline { definition, folder, .. } = pipeline;
    let recipe = recipe(wiring, definition, folder, index)?;
    let unread = match source.is_inbox() {
        true => None,
        false => Some(source.open(wiring, definition, None, index)?),
    };
    Ok(Ready { recipe, unread })
}

/// Begins a run, or goes on with the one of the same pipeline and source: with what is unfinished, and with what has
/// changed.
///
/// # Errors
/// When something cannot be built or read, or the store fails.
pub async fn begin(floor: &Floor, prepared: Prepared, request: Begin) -> Result<Begun> {
    floor.require(Role::Operator)?;
    let Prepared { pipeline, mut source, ready: prepared, part } = prepared;
    let wiring = &*floor.wiring;
    if let Some(category) = &request.category {
        title(category).map_err(Error::wrong)?;
    }
    if source.is_inbox() {
        refuse_second(&request)?;
        source = SourceName::inbox(request.category.as_deref().or(pipeline.definition.category.as_deref()));
    }
    let index = IndexTarget::open(floor, &pipeline.definition, source.name()).await?;
    let Ready { recipe, unread } = match prepared {
        Some(prepared) => prepared,
        None => ready(wiring, &pipeline, &source, index.as_ref())?,
    };
    let found = find_or_create(floor, &pipeline, &source, index.as_ref(), &request).await?;
    let Found { row, created, other } = found;
    let run = row.id;
    let edited_while_paused = row.control != Control::Go && row.spec.definition != pipeline.text;
    let answer = |edit, next| Begun { run, created, other, edit, edited_while_paused, next };
    if created {
        crash::point("run.created");
        return Ok(answer(None, Next::Work(Box::new(Work { row, recipe, source: unread, part }))));
    }
    let definition = &pipeline.definition;
    if row.control != Control::Go {
        let known = KnownRun { row, definition: definition.clone(), plan: definition.plan() };
        let report = report(floor, &known).await?;
        return Ok(answer(None, Next::Paused(Box::new(report))));
    }
    if part.is_some() && !request.keep_passed {
        refuse_reading_again(floor, &row, definition).await?;
    }
    let (mut row, edit) = take_over(floor, row, &pipeline, request.keep_passed).await?;
    if row.finished_at.is_some() {
        // It is in use: what was forgotten by its age would be done again.
        let opened = RunChange::goes_on();
        row = floor.store.change_run(run, opened).await?;
    }
    // What is given on standard input or by a pipe is always read; what is known of it is not admitted twice.
    let source = match source.can_be_read_again() {
        true => Some(source.open(wiring, definition, row.cursor.as_deref(), index.as_ref())?),
        false => unread,
    };
    Ok(answer(edit, Next::Work(Box::new(Work { row, recipe, source, part }))))
}

/// Items that an edited pipeline sends again from the beginning wait for the source to be read: by a part of it most of them
/// would be left waiting.
async fn refuse_reading_again(floor: &Floor, row: &RunRow, definition: &Definition) -> Result<()> {
    match foresee(floor, row, definition, false).await? {
        Some(Edit::Again { stage, from_start, .. }) if from_start > 0 => Err(Error::refused(format!(
            "stage {stage} is configured otherwise, and {from_start} items of run {} that passed it would have to be read again, not a part of them",
            row.id
        ))
        .hint("`redrive try FILE STAGE --item ITEM` tries the stage on one item; --keep-passed leaves what passed it alone; --new starts another run")),
        _ => Ok(()),
    }
}

/// A second open run of the same category would leave the first one behind, open for ever.
pub(crate) fn refuse_second(request: &Begin) -> Result<()> {
    match request.new {
        false => Ok(()),
        true => Err(Error::wrong("a pipeline with an inbox has one open run for each category")
            .hint("`redrive close RUN` closes it; what is handed in then goes to a new one")),
    }
}

/// The standing run of a category, which is begun when there is none.
pub(crate) struct Standing {
    /// The run.
    pub(crate) row: RunRow,
    /// Whether it is new.
    pub(crate) created: bool,
    /// What the edited pipeline brings about in it.
    pub(crate) edit: Option<Edit>,
}

/// Finds the standing run of a category, or begins it. One that is paused takes items, too; they wait.
pub(crate) async fn standing(floor: &Floor, pipeline: &Pipeline, request: &Begin) -> Result<Standing> {
    let category = request.category.as_deref().or(pipeline.definition.category.as_deref());
    let found = find_or_create(floor, pipeline, &SourceName::inbox(category), None, request).await?;
    let Found { row, created, .. } = found;
    if created {
        crash::point("inbox.begun");
    }
    if created {
        return Ok(Standing { row, created, edit: None });
    }
    if row.control != Control::Go {
        // It takes the edited pipeline over when it goes on, if it can.
        refuse_other_stages(&row, &pipeline.definition)?;
        return Ok(Standing { row, created, edit: None });
    }
    let (row, edit) = take_over(floor, row, pipeline, request.keep_passed).await?;
    Ok(Standing { row, created, edit })
}

/// The run that would be begun.
pub(super) fn new_run(pipeline: &Pipeline, source: &SourceName, request: &Begin) -> NewRun {
    let definition = &pipeline.definition;
    NewRun {
        pipeline: definition.name.clone(),
        source: source.name().to_owned(),
        category: request.category.clone().or_else(|| definition.category.clone()),
        priority: request.priority.unwrap_or(definition.priority),
        definition: pipeline.text.clone(),
        folder: pipeline.folder.display().to_string(),
    }
}

struct Found {
    row: RunRow,
    created: bool,
    other: Option<Other>,
}

async fn find_or_create(
    floor: &Floor,
    pipeline: &Pipeline,
    source: &SourceName,
    index: Option<&IndexTarget>,
    request: &Begin,
) -> Result<Found> {
    let (store, now, definition) = (&floor.store, floor.now(), &pipeline.definition);
    let new = new_run(pipeline, source, request);
    if request.new {
        let row = store.create_run(new, now).await?;
        return Ok(Found { row, created: true, other: None });
    }
    // An index knows itself what has changed since its last run.
    let BegunRun { row, created } = store.begin_run(new.clone(), index.is_none(), now).await?;
    let other = match created || row.finished_at.is_none() {
        true => None,
        false => cannot_go_on(&row, definition, request.keep_passed),
    };
    if other.is_none() {
        return Ok(Found { row, created, other });
    }
    let BegunRun { row, created } = store.begin_run(new, false, now).await?;
    Ok(Found { row, created, other })
}

/// Why a finished run cannot be gone on with by this pipeline; `None` when it can.
pub(super) fn cannot_go_on(row: &RunRow, definition: &Definition, keep_passed: bool) -> Option<Other> {
    let nested = match compare(row, definition) {
        Changed::Nothing | Changed::Stage { .. } => return None,
        Changed::Nested { .. } if keep_passed => return None,
        Changed::Stages => None,
        Changed::Nested { name } => Some(name),
    };
    Some(Other { run: row.id, nested })
}

/// Which run goes on, and how.
#[derive(Debug, Clone)]
pub struct Resume {
    /// The run.
    pub run: RunId,
    /// Its pipeline from now on; `None`: the one it has.
    pub pipeline: Option<Pipeline>,
    /// Leaves items alone that have passed a stage which is configured otherwise now.
    pub keep_passed: bool,
}

/// A run that may go on.
#[derive(Serialize)]
pub struct Resumed {
    /// The run.
    pub run: RunId,
    /// What the edited pipeline brings about.
    pub edit: Option<Edit>,
    /// What is valid in its pipeline and probably not meant.
    pub warnings: Vec<redrive_pipeline::Problem>,
    /// Gates that waited for somebody and go on.
    pub gates: Vec<String>,
    /// Why its source, which was read to its end before, cannot be looked at again.
    pub unreadable: Option<String>,
    /// What there is to do.
    #[serde(skip)]
    pub work: Box<Work>,
}

/// Lets a paused or interrupted run go on, and the gates it waits for.
///
/// # Errors
/// When there is no such run, it was cancelled, something cannot be built or read, or the store fails.
pub async fn resume(floor: &Floor, request: Resume) -> Result<Resumed> {
    floor.require(Role::Operator)?;
    let KnownRun { mut row, mut definition, .. } = Runs::of(&*floor.store).find(Some(request.run)).await?;
    if row.control == Control::Cancelled {
        return Err(Error::refused(format!("run {} was cancelled", row.id))
            .code(Code::RunCancelled)
            .hint("`redrive run PIPELINE.toml --new` starts anew"));
    }
    let (mut folder, mut edit) = (PathBuf::from(&row.spec.folder), None);
    if let Some(pipeline) = request.pipeline {
        refuse_wrong_expressions(&*floor.wiring, &pipeline)?;
        (row, edit) = take_over(floor, row, &pipeline, request.keep_passed).await?;
        (definition, folder) = (pipeline.definition, pipeline.folder);
    }
    refuse_full(floor, row.id, definition.max_dead).await?;
    let name = SourceName::of(&row);
    if name.is_read_once() && !row.admitted_all {
        return Err(Error::refused(format!(
            "run {} reads standard input or a pipe, which was not read to its end",
            row.id
        ))
        .hint("give the same input to the `redrive run FILE` that began it; what is known is not admitted twice"));
    }
    let wiring = &*floor.wiring;
    let index = IndexTarget::open(floor, &definition, name.name()).await?;
    let recipe = recipe(wiring, &definition, &folder, index.as_ref())?;
    let Reopened { source, unreadable } = reopen(wiring, &row, &definition, index.as_ref())?;
    let names: Vec<String> = definition.gate_names().into_iter().flatten().collect();
    // Most go on with a run that was broken off; only one that stood still is let go on by somebody.
    if row.control != Control::Go {
        floor.write_down(Act::ResumeRun { run: row.id }).await?;
    }
    let gates = admin::resume_gates(&*floor.store, &names, floor.now()).await?;
    let row = admin::resume(&*floor.store, row.id, floor.now()).await?;
    let work = Box::new(Work { row, recipe, source, part: None });
    Ok(Resumed { run: request.run, edit, warnings: definition.warnings, gates, unreadable, work })
}
