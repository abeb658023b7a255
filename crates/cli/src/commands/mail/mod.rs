//! `redrive mail`: archives become messages to search, and threads with summaries.

mod summary;
mod threads;
mod watch;

use redrive_core::status::RunStatus;
use redrive_operate::mail::Mailer;

use super::work::Watching;
use super::{Answer, Context};
use crate::args::MailArgs;
use crate::exit;

pub use threads::{thread, threads};

/// Takes archives in.
pub async fn mail(context: &Context, args: MailArgs) -> Answer {
    let settings = args.settings()?;
    let floor = context.floor_to_make()?;
    let mut mailer = Mailer::open(&floor, &args.archives, &settings, args.new, args.work()).await?;
    if args.watch {
        return watch::stay(context, &mut mailer).await;
    }
    let pass = mailer.pass(&Watching::of(context)).await?;
    summary::tell(context, &mailer, &pass).await?;
    let status = if pass.interrupted() { RunStatus::Interrupted } else { pass.status() };
    Ok(exit::status_code(status).into())
}
