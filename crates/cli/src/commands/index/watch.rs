//! `redrive index --watch`: stays, and follows changes of files and retries that fall due.

use std::sync::Arc;

use redrive_core::status::RunStatus;
use redrive_operate::Error;
use redrive_operate::index::{Indexer, Pass};
use tokio::sync::watch;

use super::{Ended, summary};
use crate::args::IndexArgs;
use crate::commands::Context;
use crate::commands::follow::{Ear, Heard, TIDY_EVERY, listen, own_files, rest, stop, wait_for};
use crate::commands::work::Watching;
use crate::exit;
use crate::output::note;
use crate::output::text::safe;

/// Indexes, and stays until told to stop.
pub(super) async fn stay(
    context: &Context,
    args: &IndexArgs,
    indexer: &mut Indexer<'_>,
) -> Result<Ended, Error> {
    let ear = Arc::new(Ear::default());
    let own = own_files(context)?;
    // It hears for as long as it is kept.
    let place = Heard { path: indexer.directory().to_owned(), below: true };
    let _watcher = listen(&[place], &ear, own)
        .inspect_err(|error| ear.deafen(error).into_iter().for_each(|told| context.say(&told)));
    // One listener for as long as it watches: whenever the word comes, it is heard.
    let (teller, told) = watch::channel(false);
    let listener = tokio::spawn(stop(teller));
    let ended = Watch { context, args, indexer, ear: &ear, told }.follow().await;
    listener.abort();
    ended
}

/// A directory that is watched.
struct Watch<'a, 'f> {
    context: &'a Context,
    args: &'a IndexArgs,
    indexer: &'a mut Indexer<'f>,
    ear: &'a Ear,
    told: watch::Receiver<bool>,
}

impl Watch<'_, '_> {
    /// Passes until told to stop.
    async fn follow(mut self) -> Result<Ended, Error> {
        let (mut first, mut last) = (true, None);
        let mut passes = 0_u32;
        loop {
            if let Some(pass) = self.pass(first).await? {
                if passes.is_multiple_of(TIDY_EVERY) {
                    self.tidy().await;
                }
                passes = passes.wrapping_add(1);
                if pass.worked.interrupted || *self.told.borrow() {
                    return Ok(Ended::of(RunStatus::Interrupted, Some(pass.worked.report)));
                }
                if first || has_news(&pass) {
                    summary::tell(self.context, self.args, self.indexer, &pass).await?;
                }
                let status = pass.worked.report.status;
                last = Some(pass.worked.report);
                if exit::is_paused(status) {
                    return Ok(Ended::of(status, last));
                }
            }
            if first {
                self.context.say("watching; Ctrl-C ends it");
                first = false;
            }
            let wait = wait_for(self.indexer.due_in().await?, self.ear);
            tokio::select! {
                () = rest(self.context, self.ear, wait) => {}
                _ = self.told.wait_for(|told| *told) => {}
            }
            if *self.told.borrow() {
                return Ok(Ended::of(RunStatus::Interrupted, last));
            }
        }
    }

    /// Works on what there is to do; `None` when there is nothing. What goes wrong once it watches may pass: the directory is
    /// away for a moment, the store is busy.
    async fn pass(&mut self, first: bool) -> Result<Option<Pass>, Error> {
        let watching = Watching::of(self.context);
        if first {
            return self.indexer.pass(self.args.retry_refused, &watching).await.map(Some);
        }
        Ok(self.indexer.pass_if_news(&watching).await.unwrap_or_else(|error| {
            note(&format!("warning: {}; trying again", safe(&error.message)));
            None
        }))
    }

    /// Keeps the store small. That it fails is no reason to stop watching.
    async fn tidy(&self) {
        if let Err(error) = self.indexer.tidy().await {
            note(&format!("warning: old passes could not be forgotten: {error}"));
        }
    }
}

/// Whether a pass did something worth telling.
fn has_news(pass: &Pass) -> bool {
    pass.tally.changed + pass.tally.gone > 0 || pass.worked.report.status != RunStatus::Completed
}
