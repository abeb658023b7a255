//! One file per verb.

mod cancel;
mod check;
mod children;
mod completions;
mod dead;
mod doctor;
mod explain;
mod failures;
mod gates;
mod going_on;
pub mod index;
mod policy;
mod prune;
pub mod rehearse;
mod results;
mod run;
mod runs;
pub mod search;
mod show;
mod stats;
mod work;

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::plan::Plan;
use redrive_core::status::Thresholds;
use redrive_engine::env::Env;
use redrive_operate::Error;
use redrive_pipeline::Definition;
use redrive_store::{RunFilter, RunRow, Store};

use crate::args::{Args, Command, Global};
use crate::output::note;
use crate::wiring;

/// What a command answers with.
pub type Answer = Result<ExitCode, Error>;

/// Runs the command that was typed.
pub async fn run(args: Args) -> Answer {
    let context = Context { global: args.global, env: Env::system() };
    match args.command {
        Command::Run(args) => run::run(&context, args).await,
        Command::Index(args) => index::index(&context, args).await,
        Command::Search(args) => search::search(&context, args).await,
        Command::Show { run } => show::show(&context, run).await,
        Command::Runs { pipeline, limit } => runs::runs(&context, pipeline, limit).await,
        Command::Results(args) => results::results(&context, args).await,
        Command::Resume(args) => run::resume(&context, args).await,
        Command::Pause { run } => cancel::pause(&context, run).await,
        Command::Cancel { run, yes } => cancel::cancel(&context, run, yes).await,
        Command::Kill { item, run, why } => cancel::kill(&context, &item, run, &why).await,
        Command::Explain { item, run } => explain::explain(&context, &item, run).await,
        Command::Failures { run, limit } => failures::failures(&context, run, limit).await,
        Command::Stats { run } => stats::stats(&context, run).await,
        Command::Check { run } => check::check(&context, run).await,
        Command::Gates { command } => gates::gates(&context, command).await,
        Command::Rehearse(args) => rehearse::rehearse(&context, args).await,
        Command::Dead(command) => dead::dead(&context, command).await,
        Command::Policy(command) => policy::run(&context.global, &command).await,
        Command::Prune { older_than, with_dead, yes } => {
            prune::prune(&context, older_than, with_dead, yes).await
        }
        Command::Doctor { pipeline } => doctor::doctor(&context, pipeline).await,
        Command::ParseWorker { settings } => children::parse(&settings),
        Command::EmbedWorker { settings } => children::embed(&settings),
        Command::Completions { shell } => completions::completions(shell),
    }
}

/// What every command has.
pub struct Context {
    /// Options of every command.
    pub global: Global,
    /// Clock and dice.
    pub env: Env,
}

impl Context {
    /// The store, which has to be there.
    pub fn store(&self) -> Result<Arc<dyn Store>, Error> {
        Ok(wiring::existing_store(&self.global.store)?.store)
    }

    /// The store, which has to be there, for a command that only reads.
    pub fn store_to_read(&self) -> Result<Arc<dyn Store>, Error> {
        Ok(wiring::store_to_read(&self.global.store)?.store)
    }

    /// Tells what can be done next, unless nobody wants to hear it.
    pub fn hint(&self, hint: &str) {
        if !self.global.quiet {
            note(&format!("hint: {hint}"));
        }
    }

    /// Asks before something that cannot be undone.
    pub fn confirm(&self, question: &str, yes: bool) -> Result<(), Error> {
        if yes {
            return Ok(());
        }
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return Err(Error::wrong(format!("{question} Nobody is there to ask")).hint("say --yes"));
        }
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "{question} [y/N] ");
        let _ = err.flush();
        let mut answer = String::new();
        stdin.lock().read_line(&mut answer)?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Error::wrong("not done")),
        }
    }
}

/// A run with its pipeline.
pub struct KnownRun {
    /// The run.
    pub row: RunRow,
    /// Its pipeline.
    pub definition: Definition,
    /// What decisions need of it.
    pub plan: Plan,
}

impl KnownRun {
    /// From which share of success on the run counts as what.
    pub fn thresholds(&self) -> Thresholds {
        self.definition.thresholds
    }
}

/// Finds a run, or the newest one, and reads its pipeline.
pub async fn known_run(store: &dyn Store, run: Option<RunId>) -> Result<KnownRun, Error> {
    let row = match run {
        Some(run) => store.run(run).await?,
        None => store.runs(RunFilter::default(), None, 1).await?.into_iter().next(),
    };
    let row = row.ok_or_else(|| {
        let what = run
            .map_or_else(|| "this store has no runs".to_owned(), |run| format!("run {run} does not exist"));
        Error::wrong(what).hint("`redrive runs` lists the runs of this store")
    })?;
    let definition = wiring::definition(&row.spec.definition, &format!("the pipeline of {}", row.id))?;
    let plan = wiring::plan(&definition);
    Ok(KnownRun { row, definition, plan })
}

/// Who is asking, for the record.
pub fn actor() -> String {
    let name =
        std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "unknown".to_owned());
    name.chars().take(64).collect()
}
