//! `redrive index`: a directory becomes a searchable index.

mod left_out;
mod summary;
mod watch;

use redrive_core::status::RunStatus;
use redrive_engine::report::RunReport;
use redrive_ingest::walk::SkipReason;
use redrive_operate::Error;
use redrive_operate::index::{Indexer, REFUSED, check_keys, root_of};
use redrive_operate::work::Worked;
use redrive_pipeline::Problem;

use super::on_end::{End, OnEnd};
use super::work::Watching;
use super::{Answer, Context};
use crate::args::IndexArgs;
use crate::exit;
use crate::wiring::Handlers;

/// A reason for which files are left out, as people are told it.
fn told(reason: &str) -> &str {
    match reason {
        REFUSED => "cannot be indexed as they are",
        other => SkipReason::told(other),
    }
}

/// Indexes a directory.
pub async fn index(context: &Context, args: IndexArgs) -> Answer {
    let root = root_of(&args.dir)?;
    let settings = args.settings()?;
    let definition = settings.definition(&root).map_err(|problems| wrong(&problems))?;
    if args.list_left_out {
        return left_out::list(context, &definition, &root).await;
    }
    check_keys(&Handlers::new(), &definition)?;
    let floor = context.floor_to_make()?;
    let text = settings.text(&root);
    let mut indexer = Indexer::open(&floor, root, text, definition, args.begin(), args.work()).await?;
    let ended = match args.watch {
        true => watch::stay(context, &args, &mut indexer).await,
        false => once(context, &args, &mut indexer).await,
    };
    if let Some(on_end) = OnEnd::of(context, args.end.on_end.as_deref()) {
        let end = match &ended {
            Ok(Ended { code, report: Some(report) }) => End::of(report, *code),
            Ok(Ended { code, report: None }) => End::without_a_run(*code),
            Err(error) => End::broken(String::new(), "index".to_owned(), error),
        };
        on_end.start(&end).await;
    }
    ended.map(|ended| ended.code.into())
}

/// How indexing ended.
struct Ended {
    code: u8,
    /// How the last run stood; `None` where none was made.
    report: Option<RunReport>,
}

impl Ended {
    fn of(status: RunStatus, report: Option<RunReport>) -> Self {
        Self { code: exit::status_code(status), report }
    }
}

async fn once(context: &Context, args: &IndexArgs, indexer: &mut Indexer<'_>) -> Result<Ended, Error> {
    let pass = indexer.pass(args.retry_refused, &Watching::of(context)).await?;
    summary::tell(context, args, indexer, &pass).await?;
    let Worked { report, interrupted, missing: _ } = pass.worked;
    Ok(Ended::of(if interrupted { RunStatus::Interrupted } else { report.status }, Some(report)))
}

/// What is wrong came from the command line, and is told in its words.
fn wrong(problems: &[Problem]) -> Error {
    let told = |problem: &Problem| {
        let key = problem.key.rsplit('.').next().unwrap_or_default();
        let option = match key {
            "concurrency" => "--processes".to_owned(),
            "path" => "DIR".to_owned(),
            key => format!("--{}", key.replace('_', "-")),
        };
        let hint = match (key, &problem.hint) {
            ("base_url", Some(_)) => " (a key is read from the variable that --api-key-env names)".to_owned(),
            (_, Some(hint)) => format!(" ({hint})"),
            (_, None) => String::new(),
        };
        format!("{option}: {}{hint}", problem.message)
    };
    let told: Vec<String> = problems.iter().map(told).collect();
    Error::wrong(told.join("\n       ")).hint("`redrive index --help` explains the options")
}
