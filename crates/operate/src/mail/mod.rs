//! Mail: archives become messages that can be searched, and threads with summaries.
//!
//! A [`Mailer`] does one pass after the other. Each is two ordinary runs of the pipelines that [`MailSettings`] describe: one over archives, whose items
//! expand into messages and those into chunks, and one over threads, which cut across archives and so are items of their own.

mod mailer;
mod refusals;
mod report;
mod settings;
mod threads;

pub use mailer::{MailPass, Mailer};
pub use report::{MailFigures, MailReport, ThreadRun};
pub use settings::{Chat, MailSettings, PIPELINE, THREADS_PIPELINE};
pub use threads::{
    ThreadList, ThreadMessage, ThreadRequest, ThreadSummary, ThreadView, ThreadsRequest, thread, threads,
};
