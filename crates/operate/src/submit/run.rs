//! A run is handed over.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_engine::admit::{Admission, Admitted, News, Pace, note_start, starts_over};
use redrive_engine::recipe::Recipe;
use redrive_engine::source::{Source, Standing, Start};
use redrive_engine::worker::Stop;
use redrive_store::{HANDED_OVER, NewRun, Pause, RunChange, RunRow};
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::Floor;
use crate::error::{Error, Result};
use crate::index::makes_index;
use crate::pipelines;
use crate::runs::{self, Begin, Edit, Next, Other, Prepared};
use crate::sources::SourceName;
use crate::work::{Work, refused};

/// A run that waits for somebody who works on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HandedOver {
    /// The run.
    pub run: RunId,
    /// Its pipeline.
    pub pipeline: String,
    /// Its source.
    pub source: String,
    /// Its category. One that was there keeps its own.
    pub category: Option<String>,
    /// Its priority. One that was there keeps its own.
    pub priority: i32,
    /// Whether it is new.
    pub created: bool,
    /// Items that were admitted now; absent where whoever works on it reads its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted: Option<u64>,
    /// What was found in a source that can be read once only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<News>,
    /// A finished run of the same pipeline and source that could not be gone on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Other>,
    /// What the edited pipeline brings about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<Edit>,
}

/// Begins a run, or goes on with the one of the same pipeline and source, and leaves the work to others. Standard input and
/// pipes, which nobody else can read, are read to their end and admitted first.
///
/// # Errors
/// When something cannot be built or read, the run is paused, or the store fails. What was admitted before stays so.
pub async fn run(floor: &Floor, prepared: Prepared, request: Begin) -> Result<HandedOver> {
    let begun = runs::begin(floor, prepared, request).await?;
    let work = match begun.next {
        Next::Work(work) => *work,
        Next::Paused(report) => return Err(paused(report.run, &report.source, "nothing was handed over")),
    };
    let Work { row, recipe, source, .. } = work;
    let recipe = Arc::new(recipe);
    // What is known of the source is taken out of it before anything is waited for: a source stays in its place.
    let known = source
        .as_ref()
        .filter(|_| !begun.created)
        .map(|source| Known { unchanged: source.standing() == Standing::Unchanged, start: source.start() });
    if let Some(known) = known {
        to_be_read_again(floor, &row, known).await?;
    }
    let source = source.filter(|_| SourceName::of(&row).is_read_once());
    let read = match source {
        Some(source) => read(floor, &row, &recipe, source).await.map(Some),
        None => Ok(None),
    };
    recipe.close().await;
    let read = read?;
    note(floor, &row, begun.created).await?;
    Ok(HandedOver {
        run: row.id,
        pipeline: row.spec.pipeline,
        source: row.spec.source,
        category: row.spec.category,
        priority: row.spec.priority,
        created: begun.created,
        admitted: read.map(|news| news.new + news.changed),
        read,
        other: begun.other,
        edit: begun.edit,
    })
}

/// What is known of a source that was read before.
struct Known {
    /// Whether it is as it was.
    unchanged: bool,
    /// From where on it is to be read.
    start: Start,
}

/// Notes that a source that has changed since it was read is to be read again. Somebody may be working on the run and have
/// looked at it for the last time: without a note it would end, and what was handed over would not be in it.
async fn to_be_read_again(floor: &Floor, row: &RunRow, known: Known) -> Result<()> {
    let makes_index = pipelines::definition_of(row).is_some_and(|definition| makes_index(&definition));
    if !row.admitted_all || known.unchanged || !SourceName::of(row).can_be_read_again() || makes_index {
        return Ok(());
    }
    let over = starts_over(&*floor.store, row).await?;
    let start = Start { position: known.start.position.filter(|_| !over), ..known.start };
    note_start(&*floor.store, row, &start).await?;
    match floor.store.begin_reading(row.id, row.reading, start.position).await {
        Ok(_) | Err(redrive_store::Error::Overtaken { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn paused(run: RunId, source: &str, so: &str) -> Error {
    let hint = match NewRun::is_inbox(source) {
        true => format!("`redrive resume {run}` goes on"),
        false => format!("`redrive resume {run}` goes on; --new starts another run"),
    };
    Error::paused(format!("run {run} of this pipeline and source is paused; {so}")).hint(hint)
}

/// Reads a source to its end. Nobody works beside it, so there is no room to wait for.
async fn read(floor: &Floor, row: &RunRow, recipe: &Arc<Recipe>, source: Box<dyn Source>) -> Result<News> {
    let (_teller, stop) = watch::channel(Stop::No);
    let admission = Admission {
        store: floor.store.clone(),
        recipe: recipe.clone(),
        env: floor.env.clone(),
        run: row.id,
        last: row.reading,
        wake: Arc::new(Notify::new()),
        admitting: Arc::new(AtomicBool::new(true)),
        stop,
        pace: Pace::HandingOver,
        part: None,
    };
    let Admitted { source, news, outcome, .. } = admission.admit(source).await;
    outcome.map_err(refused)?;
    let control = floor.store.run(row.id).await?.map_or(Control::Cancelled, |row| row.control);
    match (control, source) {
        (Control::Cancelled, _) => Err(Error::refused(format!("run {} was cancelled meanwhile", row.id))),
        (Control::Go, Some(_)) => Ok(news),
        (Control::Go, None) => {
            Err(Error::refused(format!("somebody else reads the input of run {}", row.id))
                .hint("say the same once more; what is known is not admitted twice"))
        }
        (_, Some(_) | None) => Err(paused(row.id, &row.spec.source, "its input was not read to the end")),
    }
}

/// Notes that a run was handed over, and that nobody is at a new one yet, unless somebody is: the time until then is none
/// that it took.
pub(super) async fn note(floor: &Floor, row: &RunRow, created: bool) -> Result<()> {
    let now = floor.now();
    let attended = || async {
        let workers = floor.store.workers().await?;
        redrive_store::Result::Ok(workers.iter().any(|worker| worker.attends(row.id, now)))
    };
    let left = created && !attended().await?;
    if !left && row.is_handed_over() {
        return Ok(());
    }
    let idle = left.then_some(Pause { since: Some(now), before_ms: 0 });
    let learn = Some((HANDED_OVER.to_owned(), 1));
    floor.store.change_run(row.id, RunChange { idle, learn, ..RunChange::default() }).await?;
    Ok(())
}
