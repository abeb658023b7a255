//! Passes over archives: take in what is new, then summarise the threads that it changed.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redrive_core::status::RunStatus;
use redrive_engine::maintain;
use redrive_engine::source::{Source, SourceError};
use redrive_index::mail::{ArchivesTally, ListTally, ThreadsTally, find_archives};
use redrive_pipeline::Definition;
use redrive_store::{NewRun, RunFilter};

use super::{MailSettings, PIPELINE, THREADS_PIPELINE, refusals};
use crate::Floor;
use crate::error::{Error, Result};
use crate::index::{IndexTarget, begin};
use crate::pipelines::recipe;
use crate::sources::THREADS;
use crate::work::{Observer, Work, WorkSettings, Worked, work};

/// How soon a run is looked at again whose work another process has in hand.
const ELSEWHERE: Duration = Duration::from_secs(5);
/// Passes that are kept, those with dead letters not counted.
const PASSES: usize = 100;

/// Takes archives in.
pub struct Mailer<'a> {
    pub(super) floor: &'a Floor,
    /// The archives' paths, as they are kept.
    paths: Vec<String>,
    texts: (String, String),
    definitions: (Definition, Definition),
    anew: bool,
    settings: WorkSettings,
    /// Where the mail goes.
    pub(super) target: IndexTarget,
}

/// What a pass brought.
pub struct MailPass {
    /// How the work on archives went.
    pub archives: Worked,
    /// How the work on threads went; `None` when there was nothing to do.
    pub threads: Option<Worked>,
    /// What was found of archives.
    pub found: ArchivesTally,
    /// What was found in them.
    pub listed: ListTally,
    /// What was found of threads.
    pub made: ThreadsTally,
    /// How long it took.
    pub took_ms: i64,
    /// Child processes that died with work in hand.
    pub children_died: u64,
}

impl MailPass {
    /// How it stands: as the archives do, or as the threads do where nothing is wrong with those.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        let threads = self.threads.as_ref().map_or(RunStatus::Completed, |worked| worked.report.status);
        if self.archives.report.status == RunStatus::Completed {
            threads
        } else {
            self.archives.report.status
        }
    }

    /// Whether somebody broke it off.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.archives.interrupted || self.threads.as_ref().is_some_and(|worked| worked.interrupted)
    }
}

impl<'a> Mailer<'a> {
    /// Makes ready to take in the archives at these paths.
    ///
    /// # Errors
    /// When one of them is not there, a setting is wrong, or the mail of the store was taken in with another model.
    pub async fn open(
        floor: &'a Floor,
        given: &[String],
        mail: &MailSettings,
        anew: bool,
        settings: WorkSettings,
    ) -> Result<Self> {
        let paths = whole(given)?;
        let wrong = |problems: Vec<redrive_pipeline::Problem>| {
            Error::wrong("the settings of the mail pipeline are wrong").with_problems(problems)
        };
        let definitions = mail.definitions(&paths).map_err(wrong)?;
        let texts = (mail.text(&paths), mail.threads_text());
        let target = open_target(floor, &definitions.0).await?;
        Ok(Self { floor, paths, texts, definitions, anew, settings, target })
    }

    /// The archives' paths.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// One pass.
    ///
    /// # Errors
    /// When an archive or the store fails, or a run of them is paused.
    pub async fn pass(&mut self, observer: &dyn Observer) -> Result<MailPass> {
        match self.look(true, observer).await? {
            Some(pass) => Ok(pass),
            None => Err(Error::internal("a pass that was asked for was not made")),
        }
    }

    /// One pass if there is something to do; `None` when there is nothing.
    ///
    /// # Errors
    /// As [`Mailer::pass`].
    pub async fn pass_if_news(&mut self, observer: &dyn Observer) -> Result<Option<MailPass>> {
        self.look(false, observer).await
    }

    async fn look(&mut self, asked: bool, observer: &dyn Observer) -> Result<Option<MailPass>> {
        let began = self.floor.now();
        self.target = open_target(self.floor, &self.definitions.0).await?;
        refusals::remember(self.floor, &self.target).await?;
        let archives = self.target.archives(&self.paths)?;
        let found = archives.tally();
        let (archives, news) = peek(archives, |archives| archives.has_news()).await?;
        let is_due = self.due_of(PIPELINE).await?.is_some_and(|due| due.is_zero());
        if !(asked || news || is_due || self.has_threads_to_do().await?) {
            return Ok(None);
        }
        let (archives, mut children_died) = self.run(Which::Archives, Box::new(archives), observer).await?;
        refusals::remember(self.floor, &self.target).await?;
        let (mut threads, mut made) = (None, ThreadsTally::default());
        if !archives.interrupted {
            let target = open_target(self.floor, &self.definitions.1).await?;
            let source = target.threads();
            let tally: Arc<Mutex<ThreadsTally>> = source.tally();
            let (source, news) = peek(source, |source| source.has_news()).await?;
            if news || self.due_of(THREADS_PIPELINE).await?.is_some() {
                let (worked, died) = self.run(Which::Threads(&target), Box::new(source), observer).await?;
                children_died += died;
                threads = Some(worked);
            }
            made = *tally.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let found = found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let listed = *self.target.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let took_ms = self.floor.now().0 - began.0;
        Ok(Some(MailPass { archives, threads, found, listed, made, took_ms, children_died }))
    }

    async fn has_threads_to_do(&self) -> Result<bool> {
        let is_due = self.due_of(THREADS_PIPELINE).await?.is_some_and(|due| due.is_zero());
        if is_due {
            return Ok(true);
        }
        let target = open_target(self.floor, &self.definitions.1).await?;
        let (_, news) = peek(target.threads(), |source| source.has_news()).await?;
        Ok(news)
    }

    async fn run(
        &self,
        which: Which<'_>,
        source: Box<dyn Source>,
        observer: &dyn Observer,
    ) -> Result<(Worked, u64)> {
        let (definition, text, name, target) = match which {
            Which::Archives => (&self.definitions.0, &self.texts.0, self.paths.join("\n"), &self.target),
            Which::Threads(target) => (&self.definitions.1, &self.texts.1, THREADS.to_owned(), target),
        };
        let new = NewRun {
            pipeline: definition.name.clone(),
            source: name,
            category: None,
            priority: 0,
            definition: text.clone(),
            folder: "/".to_owned(),
        };
        let row = begin::go_on_or_begin(self.floor, definition, new, self.anew, observer).await?;
        let recipe = recipe(&*self.floor.wiring, definition, Path::new("/"), Some(target))?;
        let handlers: Vec<_> = recipe.stages.iter().map(|stage| stage.handler.clone()).collect();
        let ready = Work { row, recipe, source: Some(source), part: None };
        let worked = work(self.floor, ready, self.settings, observer).await?;
        Ok((worked, handlers.iter().map(|handler| handler.deaths()).sum()))
    }

    /// How long until something of an unfinished run is due; `None` when nothing is left to be done.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn due_in(&self) -> Result<Option<Duration>> {
        let both = [self.due_of(PIPELINE).await?, self.due_of(THREADS_PIPELINE).await?];
        Ok(both.into_iter().flatten().min())
    }

    async fn due_of(&self, pipeline: &str) -> Result<Option<Duration>> {
        let source = if pipeline == PIPELINE { self.paths.join("\n") } else { THREADS.to_owned() };
        let filter = RunFilter {
            pipeline: Some(pipeline.to_owned()),
            source: Some(source),
            unfinished: true,
            ..RunFilter::default()
        };
        let Some(row) = self.floor.store.runs(filter, None, 1).await?.pop() else { return Ok(None) };
        let due = self.floor.store.next_due(row.id).await?.at;
        // With nothing that waits, somebody else has the rest in hand: a look now and then is enough. So it is where answers may come.
        let wait = due.map_or(ELSEWHERE, |due| due.since(self.floor.now()));
        let answers = self.settings.answers_within.map(|_| ELSEWHERE);
        Ok(Some(answers.map_or(wait, |most| wait.min(most))))
    }

    /// Keeps the store small: a pass is two runs, and an archive that grows makes thousands a day.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tidy(&self) -> Result<()> {
        maintain::keep_last(&*self.floor.store, PIPELINE, &self.paths.join("\n"), PASSES).await?;
        maintain::keep_last(&*self.floor.store, THREADS_PIPELINE, THREADS, PASSES).await?;
        Ok(())
    }
}

/// Which run of a pass.
enum Which<'a> {
    Archives,
    Threads(&'a IndexTarget),
}

/// Paths as they are kept: absolute, each once, in order.
fn whole(given: &[String]) -> Result<Vec<String>> {
    find_archives(given).map_err(|why| {
        Error::wrong(why).hint("name mbox files or Maildirs, for example `redrive mail list.mbox`")
    })?;
    let mut paths = Vec::new();
    for path in given {
        let whole = std::fs::canonicalize(path)?;
        let name = whole.to_str().filter(|name| !name.contains('\n'));
        let name = name.ok_or_else(|| Error::wrong(format!("the name of '{path}' cannot be kept")))?;
        paths.push(name.to_owned());
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Looks into a source where waiting for a disk holds nobody up.
async fn peek<S: Send + 'static>(
    mut source: S,
    look: impl FnOnce(&mut S) -> std::result::Result<bool, SourceError> + Send + 'static,
) -> Result<(S, bool)> {
    let looked = tokio::task::spawn_blocking(move || {
        let news = look(&mut source);
        (source, news)
    });
    let (source, news) = looked.await.map_err(|error| Error::internal(format!("looking broke: {error}")))?;
    Ok((source, news.map_err(|error| Error::internal(error.to_string()))?))
}

async fn open_target(floor: &Floor, definition: &Definition) -> Result<IndexTarget> {
    let target = IndexTarget::open(floor, definition, "").await?;
    target.ok_or_else(|| Error::internal("the pipeline of mail makes no index"))
}
