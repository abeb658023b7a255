//! `redrive mail --watch`: stays, and follows archives as they grow and retries that fall due.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redrive_core::status::RunStatus;
use redrive_operate::Error;
use redrive_operate::mail::{MailPass, Mailer};
use tokio::sync::watch;

use super::summary;
use crate::commands::follow::{Ear, Heard, TIDY_EVERY, listen, own_files, rest, stop, wait_for};
use crate::commands::work::Watching;
use crate::commands::{Answer, Context};
use crate::exit;
use crate::output::note;
use crate::output::text::safe;

/// Takes in what there is, and stays until told to stop.
pub(super) async fn stay(context: &Context, mailer: &mut Mailer<'_>) -> Answer {
    let ear = Arc::new(Ear::default());
    let own = own_files(context)?;
    let places: Vec<Heard> = mailer.paths().iter().map(|path| heard(Path::new(path))).collect();
    // It hears for as long as it is kept.
    let _watcher = listen(&places, &ear, own)
        .inspect_err(|error| ear.deafen(error).into_iter().for_each(|told| context.say(&told)));
    let (teller, mut told) = watch::channel(false);
    let listener = tokio::spawn(stop(teller));
    let ended = follow(context, mailer, &ear, &mut told).await;
    listener.abort();
    ended.map(|status| exit::status_code(status).into())
}

/// A Maildir is heard with everything in it; a file by its directory, since it may be replaced.
fn heard(path: &Path) -> Heard {
    if path.is_dir() {
        return Heard { path: path.to_owned(), below: true };
    }
    Heard { path: path.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned), below: false }
}

async fn follow(
    context: &Context,
    mailer: &mut Mailer<'_>,
    ear: &Ear,
    told: &mut watch::Receiver<bool>,
) -> Result<RunStatus, Error> {
    let (mut first, mut passes) = (true, 0_u32);
    loop {
        if let Some(pass) = pass(context, mailer, first).await? {
            if passes.is_multiple_of(TIDY_EVERY)
                && let Err(error) = mailer.tidy().await
            {
                note(&format!("warning: old passes could not be forgotten: {error}"));
            }
            passes = passes.wrapping_add(1);
            if pass.interrupted() || *told.borrow() {
                return Ok(RunStatus::Interrupted);
            }
            summary::tell(context, mailer, &pass).await?;
            if exit::is_paused(pass.status()) {
                return Ok(pass.status());
            }
        }
        if first {
            context.say("watching; Ctrl-C ends it");
            first = false;
        }
        let wait = wait_for(mailer.due_in().await?, ear);
        tokio::select! {
            () = rest(context, ear, wait) => {}
            _ = told.wait_for(|told| *told) => {}
        }
        if *told.borrow() {
            return Ok(RunStatus::Interrupted);
        }
    }
}

/// Takes in what is new; `None` when nothing is. What goes wrong once it watches may pass.
async fn pass(context: &Context, mailer: &mut Mailer<'_>, first: bool) -> Result<Option<MailPass>, Error> {
    let watching = Watching::of(context);
    if first {
        return mailer.pass(&watching).await.map(Some);
    }
    Ok(mailer.pass_if_news(&watching).await.unwrap_or_else(|error| {
        note(&format!("warning: {}; trying again", safe(&error.message)));
        None
    }))
}
