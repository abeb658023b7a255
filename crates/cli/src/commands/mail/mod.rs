//! `redrive mail`: archives become messages to search, and threads with summaries.

mod summary;
mod threads;
mod watch;

use redrive_core::status::RunStatus;
use redrive_operate::mail::{Mailer, PIPELINE, THREADS_PIPELINE};

use super::services::StandingBy;
use super::work::Watching;
use super::{Answer, Context};
use crate::args::MailArgs;
use crate::exit;

pub use threads::{thread, threads};

/// Takes archives in.
pub async fn mail(context: &Context, args: MailArgs) -> Answer {
    let settings = args.settings()?;
    let bus = args.bus.address()?;
    let floor = context.floor_to_make()?;
    let work = args.work(settings.services);
    let mut mailer = Mailer::open(&floor, &args.archives, &settings, args.new, work).await?;
    let standing_by = match bus {
        Some(address) => Some(StandingBy::start(&floor, &[PIPELINE, THREADS_PIPELINE], address).await?),
        None => None,
    };
    let ended = take_in(context, &mut mailer, args.watch).await;
    if let Some(standing_by) = standing_by {
        standing_by.end(context).await;
    }
    ended
}

async fn take_in(context: &Context, mailer: &mut Mailer<'_>, stays: bool) -> Answer {
    if stays {
        return watch::stay(context, mailer).await;
    }
    let pass = mailer.pass(&Watching::of(context)).await?;
    summary::tell(context, mailer, &pass).await?;
    let status = if pass.interrupted() { RunStatus::Interrupted } else { pass.status() };
    Ok(exit::status_code(status).into())
}
