//! What a daemon does about schedules, again and again.

use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::schedule::{Book, Cron, Skip, next_after};
use redrive_core::time::Timestamp;
use redrive_engine::crash;
use redrive_store::{Applied, Memo, RunFilter};

use super::{Kept, KnownZone, MEMO, pipeline_of};
use crate::catalog::Catalog;
use crate::error::{Error, Kind, Result};
use crate::memo;
use crate::pipelines::Pipeline;
use crate::runs::{self, Begin};
use crate::sources::SourceName;
use crate::submit;
use crate::{Asker, Floor};

/// In whose name runs are begun.
const NAME: &str = "schedule";

/// Looks after the schedules of a folder of pipelines.
pub struct Clerk {
    floor: Floor,
    /// The name of this process, which no other has.
    who: String,
}

/// Something that happened to a schedule, for a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Happened {
    /// The pipeline.
    pub pipeline: String,
    /// The time that it is about.
    pub due: Option<Timestamp>,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A run was begun, or gone on with.
    Fired(RunId),
    /// No run could be begun.
    Failed(Error),
    /// The time was skipped.
    Skipped(Skip),
    /// It could not be looked after; what was decided is done later.
    Broken(Error),
}

impl Clerk {
    /// Begins; `who` is a name that no other process has.
    #[must_use]
    pub fn new(floor: Floor, who: String) -> Self {
        Self { floor: Floor { asker: Asker::admin(NAME), ..floor }, who }
    }

    /// Looks at all schedules once: decides about times that have come, and begins their runs.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn look(&self, catalog: &Catalog) -> Result<Vec<Happened>> {
        let pipelines = catalog.in_force();
        let memos = self.floor.store.memos(MEMO.to_owned()).await?;
        let mut happened = Vec::new();
        for pipeline in &pipelines {
            let name = &pipeline.definition.name;
            let memo = memos.iter().find(|memo| pipeline_of(memo) == name);
            if pipeline.definition.schedule.is_none() {
                continue;
            }
            if let Err(error) = self.look_after(pipeline, memo, &mut happened).await {
                happened.push(Happened { pipeline: name.clone(), due: None, what: What::Broken(error) });
            }
        }
        // A file that is wrong now may be one that has a schedule.
        if let Some(folder) = catalog.folder().filter(|_| !catalog.has_problems()) {
            let folder = std::fs::canonicalize(folder)?.display().to_string();
            self.forget(&folder, &pipelines, &memos).await?;
        }
        Ok(happened)
    }

    /// Forgets what is kept of schedules that the folder does not have any more.
    async fn forget(&self, folder: &str, pipelines: &[Arc<Pipeline>], memos: &[Memo]) -> Result<()> {
        for memo in memos {
            let scheduled = pipelines.iter().map(|pipeline| &pipeline.definition);
            let mut scheduled = scheduled.filter(|definition| definition.schedule.is_some());
            let there = scheduled.any(|definition| definition.name == pipeline_of(memo));
            if !there && memo::read::<Kept>(memo).is_ok_and(|kept| kept.folder == folder) {
                self.floor.store.save_memo(Memo { state: String::new(), ..memo.clone() }).await?;
            }
        }
        Ok(())
    }

    async fn look_after(
        &self,
        pipeline: &Arc<Pipeline>,
        memo: Option<&Memo>,
        happened: &mut Vec<Happened>,
    ) -> Result<()> {
        let definition = &pipeline.definition;
        let Some(rule) = definition.schedule.clone() else { return Ok(()) };
        let cron = Cron::parse(&rule.cron).map_err(Error::wrong)?;
        let zone = KnownZone::find(&rule.time_zone).map_err(Error::wrong)?;
        let (now, folder) = (self.floor.now(), pipeline.folder.display().to_string());
        let known = memo.map(memo::read::<Kept>).transpose()?;
        let mut kept = known
            .clone()
            .unwrap_or_else(|| Kept { folder: folder.clone(), book: Book::new(rule.clone(), now) });
        kept.folder = folder;
        let book = &mut kept.book;
        book.edit(rule, now);
        let skipped = book.times_skipped;
        let come = next_after(&cron, &zone, book.through).is_some_and(|next| next <= now);
        let mut taken = None;
        if come || book.firing.is_some() || !book.queue.is_empty() {
            let busy = self.busy(pipeline).await?;
            book.look(&cron, &zone, now, busy);
            taken = book.take(&self.who, now, busy);
        }
        if book.times_skipped > skipped
            && let Some(last) = &book.skipped
        {
            let (due, what) = (Some(last.due), What::Skipped(last.why));
            happened.push(Happened { pipeline: definition.name.clone(), due, what });
        }
        let mut rev = memo.map_or(0, |memo| memo.rev);
        if known.as_ref() != Some(&kept) && !self.save(&definition.name, &kept, &mut rev).await? {
            // Somebody else decided; what is to be seen of that is seen next time.
            happened.pop_if(|last| matches!(last.what, What::Skipped(_)));
            return Ok(());
        }
        let Some(due) = taken else { return Ok(()) };
        crash::point("schedule.decided");
        let begun = self.begin(pipeline).await;
        crash::point("schedule.begun");
        if let Err(error) = &begun
            && error.kind == Kind::Busy
        {
            return Err(error.clone());
        }
        kept.book.fired(self.floor.now(), begun.clone().map_err(|error| error.to_string()));
        self.save(&definition.name, &kept, &mut rev).await?;
        let what = begun.map_or_else(What::Failed, What::Fired);
        happened.push(Happened { pipeline: definition.name.clone(), due: Some(due), what });
        Ok(())
    }

    /// Writes what is to be kept; `false` when somebody else was faster.
    async fn save(&self, pipeline: &str, kept: &Kept, rev: &mut i64) -> Result<bool> {
        let name = format!("{MEMO}{pipeline}");
        let memo = Memo { name, rev: *rev, state: memo::written(kept)?, updated_at: self.floor.now() };
        let saved = self.floor.store.save_memo(memo).await? == Applied::Done;
        *rev += i64::from(saved);
        Ok(saved)
    }

    /// Whether a run of the pipeline over its source has not ended. A source that is not there has none.
    async fn busy(&self, pipeline: &Pipeline) -> Result<bool> {
        let Ok(source) = SourceName::find(&pipeline.definition, &[], &pipeline.folder) else {
            return Ok(false);
        };
        let filter = RunFilter {
            pipeline: Some(pipeline.definition.name.clone()),
            source: Some(source.name().to_owned()),
            unfinished: true,
            ..RunFilter::default()
        };
        Ok(!self.floor.store.runs(filter, None, 1).await?.is_empty())
    }

    /// Begins the run, or goes on with it, as somebody would who asks for it.
    async fn begin(&self, pipeline: &Arc<Pipeline>) -> Result<RunId> {
        let source = SourceName::find(&pipeline.definition, &[], &pipeline.folder)?;
        if source.is_read_once() {
            return Err(Error::wrong("a source that can be read once only is not read by a schedule"));
        }
        let prepared = runs::prepare(&*self.floor.wiring, Pipeline::clone(pipeline), source)?;
        Ok(submit::run(&self.floor, prepared, Begin::default()).await?.run)
    }
}
