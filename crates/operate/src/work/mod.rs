//! Work on a run: admission, calls, and the report at the end.
//!
//! Whoever works hands in an [`Observer`], which is told when the work begins and can stop it. Signals, bars and words are
//! its own affair.

mod crew;
mod round;
mod shared_handlers;
mod workers;

pub use crew::{Serve, Served, serve};
pub use workers::{WorkerList, WorkerView, workers};

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::status::{Control, Left};
use redrive_engine::admit::{AdmitError, Missing, News, Part};
use redrive_engine::recipe::Recipe;
use redrive_engine::report::{ReadReport, RunReport, report_on_leaving};
use redrive_engine::source::Source;
use redrive_engine::worker::{Among, Ending, Stop, finish};
use redrive_store::{RunRow, Store};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::error::{Code, Error, Result};
use crate::index::IndexTarget;
use crate::pipelines::{definition_of, recipe};
use crate::runs::{Runs, edited_to_the_end};
use crate::sources::{Reopened, open_left, reopen};
use crate::{Floor, Role};
use round::Round;

/// How often a source that keeps changing is read again at the end of a run.
const ROUNDS: u32 = 20;
/// How soon a run is looked at again whose source somebody else reads anew.
const ELSEWHERE: Duration = Duration::from_millis(300);
/// How long a source that changed is left alone: somebody may be in the middle of writing it.
const SETTLE: Duration = Duration::from_secs(1);

/// A run that is ready to be worked on.
pub struct Work {
    /// The run.
    pub row: RunRow,
    /// Its pipeline, ready to run.
    pub recipe: Recipe,
    /// What is left to be read; `None` when all was.
    pub source: Option<Box<dyn Source>>,
    /// Which part of it is admitted; `None`: all of it.
    pub part: Option<Arc<Part>>,
}

/// How a run is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkSettings {
    /// How long work is held without a sign of life before others may take it over.
    pub lease: Duration,
    /// Ends the work when only retries due later than this remain; `None` waits for all.
    pub max_wait: Option<Duration>,
    /// Stays, whatever `max_wait` says, while answers of others are awaited and something has changed within this time; `None` waits for
    /// answers as for retries.
    pub answers_within: Option<Duration>,
    /// How long the store is asked again where the disk has no room.
    pub full_disk: Duration,
}

impl Default for WorkSettings {
    fn default() -> Self {
        let (lease, full_disk) = (Duration::from_secs(30), Duration::from_secs(30));
        Self { lease, max_wait: None, answers_within: None, full_disk }
    }
}

/// Work on a run that has begun, for whoever watches it or may stop it.
#[derive(Clone)]
pub struct UnderWay {
    /// Where its items are.
    pub store: Arc<dyn Store>,
    /// The run.
    pub run: RunId,
    /// Its pipeline.
    pub recipe: Arc<Recipe>,
    /// Says when to stop.
    pub stop: watch::Sender<Stop>,
}

/// Something that happens while a run is worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Notice {
    /// An unfinished run of the same directory is gone on with.
    GoingOn {
        /// The run.
        run: RunId,
    },
    /// An unfinished run of the same directory was cancelled; what it embedded is kept.
    Replaced {
        /// The run.
        run: RunId,
        /// Whether that was asked for; otherwise it was made with other settings.
        asked: bool,
    },
    /// Somebody changed the pipeline of the run; the work goes on with the new one.
    PipelineChanged {
        /// The run.
        run: RunId,
    },
    /// A run cannot be worked on here: something of it cannot be built or read.
    Unworkable {
        /// The run.
        run: RunId,
        /// Why.
        why: String,
    },
    /// Stages that external workers do, who cannot ask this process: what comes to these waits for a daemon.
    NobodyCanAsk {
        /// Their names.
        stages: Vec<String>,
    },
    /// The source keeps changing; the next run takes in what is not there yet.
    SourceKeepsChanging,
    /// The source cannot be looked at again; what was read of it before is done.
    SourceUnreadable {
        /// Why.
        why: String,
    },
}

/// Watches work on runs.
pub trait Observer: Send + Sync {
    /// Takes note that work begins. What it answers with is dropped when the work ends.
    fn begins(&self, work: UnderWay) -> Box<dyn Any + Send>;

    /// Takes note of something on the way.
    fn notice(&self, notice: &Notice);

    /// Takes note that work on any number of runs begins; `stop` ends it. What it answers with is dropped when the work ends.
    fn serving(&self, _stop: watch::Sender<Stop>) -> Box<dyn Any + Send> {
        Box::new(())
    }

    /// Takes note that a run among others came to an end, or was left.
    fn left(&self, _report: &RunReport) {}
}

/// Watches nothing.
pub struct Unobserved;

impl Observer for Unobserved {
    fn begins(&self, _work: UnderWay) -> Box<dyn Any + Send> {
        Box::new(())
    }

    fn notice(&self, _notice: &Notice) {}
}

/// How the work went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Worked {
    /// How the run stands.
    pub report: RunReport,
    /// Whether it was told to stop.
    pub interrupted: bool,
    /// Keys that were asked for and are not in the source.
    pub missing: Vec<String>,
}

/// Works on a run until it ends and its source is as it was read, or somebody says to stop.
///
/// # Errors
/// When the store or the source fails; what was done before is recorded.
pub async fn work(
    floor: &Floor,
    work: Work,
    settings: WorkSettings,
    observer: &dyn Observer,
) -> Result<Worked> {
    floor.require(Role::Operator)?;
    let Work { row, mut recipe, source, part } = work;
    recipe.plan = recipe.plan.with_grace(paused(&row));
    let recipe = Arc::new(recipe);
    let stages = recipe.plan.stages().zip(&recipe.stages).filter(|(_, work)| work.never_has_room());
    let stages: Vec<String> = stages.map(|((_, stage), _)| stage.name.clone()).collect();
    if !stages.is_empty() {
        observer.notice(&Notice::NobodyCanAsk { stages });
    }
    let (stop, stopped) = watch::channel(Stop::No);
    let watching = observer.begins(UnderWay {
        store: floor.store.clone(),
        run: row.id,
        recipe: recipe.clone(),
        stop: stop.clone(),
    });
    let reads = source.is_some();
    let mut run = Rounds {
        floor,
        row,
        recipe,
        settings,
        observer,
        stop,
        stopped,
        among: None,
        part: part.clone(),
        failed: None,
    };
    let ended = run.until_it_stays_ended(source).await;
    drop(watching);
    let recipe = run.recipe;
    recipe.close().await;
    let (Ended { ending, news }, row) = ended?;
    let left = left_as(&ending);
    let missing = match part.filter(|_| left.is_none() && row.admitted_all) {
        Some(part) => part.missing(&*floor.store, Some(row.id)).await?,
        None => Missing::default(),
    };
    if missing.none {
        return Err(nothing_asked_for(&row.spec.source, &missing));
    }
    let (plan, thresholds) = (&recipe.plan, recipe.thresholds);
    let mut report = report_on_leaving(&*floor.store, &row, plan, thresholds, left, floor.now()).await?;
    report.read = reads.then(|| ReadReport::new(news, &report.counts));
    Ok(Worked { report, interrupted: left == Some(Left::Stopped), missing: missing.keys })
}

/// Works on what is left of a run that goes on.
///
/// # Errors
/// When there is no such run, it is paused, something cannot be built or read, or the store fails.
pub async fn work_on(floor: &Floor, run: RunId, observer: &dyn Observer) -> Result<Worked> {
    work_on_with(floor, run, WorkSettings::default(), observer).await
}

/// Works on a run as [`work_on`] does, until nothing of it is left that is due within this time.
pub(crate) async fn work_on_due(
    floor: &Floor,
    run: RunId,
    within: Duration,
    observer: &dyn Observer,
) -> Result<Worked> {
    let settings = WorkSettings { max_wait: Some(within), ..WorkSettings::default() };
    work_on_with(floor, run, settings, observer).await
}

async fn work_on_with(
    floor: &Floor,
    run: RunId,
    settings: WorkSettings,
    observer: &dyn Observer,
) -> Result<Worked> {
    floor.require(Role::Operator)?;
    let known = Runs::of(&*floor.store).find(Some(run)).await?;
    if known.row.control != Control::Go {
        return Err(Error::paused(format!("run {run} is paused; its items were sent back and wait"))
            .hint(format!("`redrive resume {run}` goes on")));
    }
    let (definition, wiring) = (&known.definition, &*floor.wiring);
    let index = IndexTarget::open(floor, definition, &known.row.spec.source).await?;
    let recipe = recipe(wiring, definition, known.row.spec.folder.as_ref(), index.as_ref())?;
    let source = open_left(wiring, &known.row, definition, index.as_ref())?;
    let ready = Work { row: known.row, recipe, source, part: None };
    work(floor, ready, settings, observer).await
}

/// How a run was left, and what was found in its source.
struct Ended {
    ending: Ending,
    news: News,
}

/// Rounds of work on one run: another one begins where its source has changed meanwhile.
struct Rounds<'a> {
    floor: &'a Floor,
    row: RunRow,
    recipe: Arc<Recipe>,
    settings: WorkSettings,
    observer: &'a dyn Observer,
    stop: watch::Sender<Stop>,
    stopped: watch::Receiver<Stop>,
    /// The worker that has other runs open, too; whoever opened this one opens it again when there is more to do.
    among: Option<Among>,
    /// Which part of the source is admitted; `None`: all of it.
    part: Option<Arc<Part>>,
    /// What the store failed with.
    failed: Option<redrive_store::Error>,
}

impl Rounds<'_> {
    fn goes_on(&self) -> bool {
        *self.stopped.borrow() == Stop::No
    }

    /// Works on it until it has ended, and is not begun anew by somebody else at that moment; how it stands then.
    async fn until_it_stays_ended(&mut self, mut source: Option<Box<dyn Source>>) -> Result<(Ended, RunRow)> {
        let (reads, mut all, mut rounds) = (source.is_some(), News::default(), 0);
        loop {
            let Ended { ending, news } = self.until_the_end(source.take()).await?;
            all.add(&news);
            // Whoever took the store away took what was done with it.
            self.floor.store.stamp().await?;
            let row = match ending {
                // Not before its source was looked at once more: who follows it takes this for the end.
                Ending::Finished => finish(&*self.floor.store, self.row.id, self.floor.now()).await?,
                _ => self.floor.store.run(self.row.id).await?,
            };
            let row = row.unwrap_or_else(|| self.row.clone());
            let anew = ending == Ending::Finished && row.finished_at.is_none();
            if !(reads && anew && self.goes_on() && rounds < ROUNDS) {
                return Ok((Ended { ending, news: all }, row));
            }
            rounds += 1;
            self.floor.env.clock.sleep(ELSEWHERE).await;
            source = self.look_again().await?;
        }
    }

    async fn until_the_end(&mut self, mut source: Option<Box<dyn Source>>) -> Result<Ended> {
        let reads = source.is_some();
        let mut news = News::default();
        let (mut rounds, mut last) = (0, self.row.reading);
        loop {
            let round = Round {
                last,
                store: &self.floor.store,
                env: &self.floor.env,
                row: &self.row,
                recipe: &self.recipe,
                settings: self.settings,
                stop: &self.stop,
                stopped: &self.stopped,
                among: self.among.as_ref(),
                part: self.part.as_ref(),
            };
            let (ending, admitted) = round.work(source.take()).await;
            let ending = ending.inspect_err(|error| self.failed = Some(error.clone()))?;
            let alone = self.among.is_none();
            if ending == Ending::Outdated && alone && self.goes_on() {
                admitted.iter().for_each(|told| news.add(&told.news));
                source = self.reload().await?;
                last = self.row.reading;
                continue;
            }
            let elsewhere = admitted.as_ref().is_none_or(|told| told.outcome.is_ok());
            if reads && elsewhere && ending == Ending::Stopped && self.goes_on() && rounds < ROUNDS {
                // Somebody else reads the source anew, or only said that it is to be read.
                rounds += 1;
                admitted.iter().for_each(|told| news.add(&told.news));
                self.floor.env.clock.sleep(ELSEWHERE).await;
                source = self.look_again().await?;
                last = self.row.reading;
                continue;
            }
            let Some(admitted) = admitted else { return Ok(Ended { ending, news }) };
            news.add(&admitted.news);
            last = admitted.last;
            admitted.outcome.map_err(refused)?;
            let over = matches!(ending, Ending::Finished | Ending::Waiting { .. });
            if let Some(left) = admitted.source.filter(|_| over && self.goes_on() && self.part.is_none()) {
                rounds += 1;
                source = self.has_more(left, rounds).await?;
            }
            if source.is_none() {
                return Ok(Ended { ending, news });
            }
            self.refresh().await?;
        }
    }

    /// What is known of the run is of the round before: that it was left alone, and how long, too.
    async fn refresh(&mut self) -> Result<()> {
        if let Some(row) = self.floor.store.run(self.row.id).await? {
            self.row = RunRow { finished_at: None, ..row };
        }
        Ok(())
    }

    /// Opens what is left to be read of the source.
    async fn look_again(&mut self) -> Result<Option<Box<dyn Source>>> {
        self.refresh().await?;
        let Some(definition) = definition_of(&self.row) else { return Ok(None) };
        let index = IndexTarget::open(self.floor, &definition, &self.row.spec.source).await?;
        open_left(&*self.floor.wiring, &self.row, &definition, index.as_ref())
    }

    /// Goes on with the pipeline that somebody gave the run meanwhile. Its source is read as that asks for, here as well as
    /// by whoever did, who may only have handed it over.
    async fn reload(&mut self) -> Result<Option<Box<dyn Source>>> {
        let row = self.floor.store.run(self.row.id).await?.unwrap_or_else(|| self.row.clone());
        edited_to_the_end(self.floor, row).await?;
        let known = Runs::of(&*self.floor.store).find(Some(self.row.id)).await?;
        let (definition, wiring) = (&known.definition, &*self.floor.wiring);
        let index = IndexTarget::open(self.floor, definition, &known.row.spec.source).await?;
        let mut recipe = recipe(wiring, definition, known.row.spec.folder.as_ref(), index.as_ref())?;
        recipe.plan = recipe.plan.with_grace(paused(&known.row));
        let before = std::mem::replace(&mut self.recipe, Arc::new(recipe));
        before.close().await;
        let Reopened { source, .. } = reopen(wiring, &known.row, definition, index.as_ref())?;
        self.row = known.row;
        self.observer.notice(&Notice::PipelineChanged { run: self.row.id });
        Ok(source)
    }

    /// Looks at a source once more when all of it is done; it is given back when there is more to be done.
    async fn has_more(&self, mut source: Box<dyn Source>, rounds: u32) -> Result<Option<Box<dyn Source>>> {
        let row = self.floor.store.run(self.row.id).await?;
        let unread = row.is_some_and(|row| !row.admitted_all);
        let looked = tokio::task::spawn_blocking(move || {
            let changed = if unread { Ok(true) } else { source.has_changed(true) };
            (source, changed)
        });
        let Ok((source, changed)) = looked.await else { return Ok(None) };
        match changed {
            Ok(true) if rounds >= ROUNDS => {
                self.observer.notice(&Notice::SourceKeepsChanging);
                Ok(None)
            }
            Ok(true) => {
                self.floor.env.clock.sleep(SETTLE).await;
                Ok(Some(source))
            }
            Ok(false) => Ok(None),
            Err(error) => {
                self.observer.notice(&Notice::SourceUnreadable { why: error.to_string() });
                Ok(None)
            }
        }
    }
}

/// None of the keys is there that were asked for.
pub(crate) fn nothing_asked_for(source: &str, missing: &Missing) -> Error {
    let keys: Vec<String> = missing.keys.iter().take(5).map(|key| format!("{key:?}")).collect();
    let error = Error::not_found(format!("nothing in {source} has the key {}", keys.join(" or ")));
    match &missing.near[..] {
        [] => error.hint(
            "keys are what `key` of the pipeline's [source] points at; without it, the hash of the line",
        ),
        near => {
            let near: Vec<String> = near.iter().map(|key| format!("{key:?}")).collect();
            error.hint(format!("it has {}", near.join(", ")))
        }
    }
}

/// How a run is left by whoever worked on it, where it has not come to an end.
fn left_as(ending: &Ending) -> Option<Left> {
    match ending {
        Ending::Stopped | Ending::Outdated => Some(Left::Stopped),
        Ending::Waiting { .. } => Some(Left::Waiting),
        Ending::Finished | Ending::Open | Ending::Halted(_) => None,
    }
}

/// How long a run was kept from going on.
fn paused(row: &RunRow) -> Duration {
    Duration::from_millis(u64::try_from(row.pause.before_ms).unwrap_or(0))
}

/// Why what a source has was not admitted.
pub(crate) fn refused(error: AdmitError) -> Error {
    match error {
        AdmitError::Source(error) => Error::internal(error.to_string())
            .code(Code::UnreadableSource)
            .hint("what was read before is admitted; the same command goes on once the source can be read"),
        AdmitError::Store(error) => error.into(),
    }
}
