//! One file per verb.

mod again;
mod bus;
mod cancel;
mod care;
mod check;
mod children;
mod completions;
mod crew;
mod dead;
mod doctor;
mod dry_run;
mod edit;
mod explain;
mod failures;
mod follow;
mod gates;
mod index;
mod items;
mod mail;
mod man;
mod mcp;
mod on_end;
mod pipelines;
mod policy;
mod prune;
mod rehearse;
mod results;
mod retry_job;
mod run;
mod runs;
mod schedules;
mod schema;
mod search;
mod serve;
mod services;
mod show;
mod signals;
mod skill;
mod stats;
mod submit;
mod telemetry;
mod token;
mod top;
mod tryout;
mod work;

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use redrive_engine::env::Env;
use redrive_operate::items::ItemName;
use redrive_operate::telemetry::Telemetry;
use redrive_operate::{Asker, Code, Error, Floor};

use crate::args::{Args, Command, Global, StatsArgs};
use crate::output::progress::{Unit, Watch};
use crate::output::screen::Screen;
use crate::output::text::safe;
use crate::output::{aside, lines, note};
use crate::wiring;

/// How often somebody who waited for a store looks again at one that cannot be read yet.
const BEING_MADE: u32 = 5;

/// What a command answers with.
pub type Answer = Result<ExitCode, Error>;

/// Runs the command that was typed.
pub async fn run(args: Args) -> Answer {
    let mut env = Env::system();
    let telemetry = telemetry::begin(&args.command, &mut env)?.map(Arc::new);
    let context = Context { global: args.global, env, telemetry };
    let answer = asked(&context, args.command).await;
    if let Some(telemetry) = &context.telemetry {
        telemetry.end().await;
    }
    answer
}

async fn asked(context: &Context, command: Command) -> Answer {
    match command {
        Command::Run(args) => run::run(context, args).await,
        Command::Try(args) => tryout::tryout(context, args).await,
        Command::Work(args) => crew::work(context, args).await,
        Command::Serve(args) => serve::serve(context, args).await,
        Command::Token(command) => token::token(context, command),
        Command::Submit(args) => submit::submit(context, args).await,
        Command::Close { run } => submit::close(context, run).await,
        Command::Index(args) => index::index(context, args).await,
        Command::Mail(args) => mail::mail(context, args).await,
        Command::Search(args) => search::search(context, args).await,
        Command::Threads(args) => mail::threads(context, &args).await,
        Command::Thread { id } => mail::thread(context, id).await,
        Command::Show { run } => show::show(context, run).await,
        Command::Runs(args) => runs::runs(context, &args).await,
        Command::Top(args) => top::top(context, args).await,
        Command::Results(args) => results::results(context, args).await,
        Command::Resume(args) => run::resume(context, args).await,
        Command::Pause { run, why } => cancel::pause(context, run, &why).await,
        Command::Cancel { run, yes } => cancel::cancel(context, run, yes).await,
        Command::Kill { item, run, why } => cancel::kill(context, ItemName { item, run }, &why).await,
        Command::Retry(args) => again::retry(context, args).await,
        Command::RetryJob(args) => retry_job::retry_job(context, &args).await,
        Command::Relay(args) => bus::relay(context, args).await,
        Command::Queues(command) => bus::queues(context, command).await,
        Command::Rerun(args) => again::rerun(context, args).await,
        Command::Items(args) => items::items(context, &args).await,
        Command::Stuck(args) => items::stuck(context, &args).await,
        Command::Explain { item, run } => explain::explain(context, &ItemName { item, run }).await,
        Command::Failures(args) => failures::failures(context, &args.into()).await,
        Command::Stats(StatsArgs { prometheus: true, .. }) => stats::metrics(context).await,
        Command::Stats(args) => stats::stats(context, &args.into()).await,
        Command::Check { run } => check::check(context, run).await,
        Command::Gates { command } => gates::gates(context, command).await,
        Command::Schedules => schedules::schedules(context).await,
        Command::Pipelines { command } => pipelines::pipelines(context, command).await,
        Command::Rehearse(args) => rehearse::rehearse(context, args).await,
        Command::Dead(command) => dead::dead(context, command).await,
        Command::Policy(command) => policy::run(context, command).await,
        Command::Prune { older_than, with_dead, yes } => {
            prune::prune(context, older_than, with_dead, yes).await
        }
        Command::Compact => care::compact(context).await,
        Command::Backup(args) => care::backup(context, args).await,
        Command::Doctor { pipeline, ca } => doctor::doctor(context, pipeline, &ca).await,
        Command::ParseWorker { settings } => children::parse(&settings),
        Command::MailWorker { settings } => children::mail(&settings),
        Command::EmbedWorker { settings } => children::embed(&settings),
        Command::FilterWorker { settings } => children::filter(&settings),
        Command::Mcp(args) => mcp::mcp(context, args).await,
        Command::Skill => skill::skill(),
        Command::Schema(args) => schema::schema(context, &args),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man => man::man(),
    }
}

/// What every command has.
#[derive(Clone)]
pub struct Context {
    /// Options of every command.
    pub global: Global,
    /// Clock and dice.
    pub env: Env,
    /// What is sent to a collector, where one is named.
    telemetry: Option<Arc<Telemetry>>,
}

impl Context {
    /// The floor over the store, which has to be there.
    pub fn floor(&self) -> Result<Floor, Error> {
        let floor = wiring::existing_floor(&self.global.store, self.env.clone(), Asker::admin(actor()))?;
        Ok(self.watched(floor))
    }

    /// The floor over the store, which has to be there, for a command that only reads.
    pub fn floor_to_read(&self) -> Result<Floor, Error> {
        wiring::floor_to_read(&self.global.store, self.env.clone(), Asker::admin(actor()))
    }

    /// The floor over the store, for a command that only reads and goes on doing so: it waits until there is one.
    pub async fn floor_when_there(&self, look_every: Duration) -> Result<Floor, Error> {
        let mut begun = None;
        loop {
            match self.floor_to_read() {
                Err(error) if error.code == Code::StoreNotFound => {
                    if begun.is_none() {
                        note(&format!("no store yet at {}; waiting for it", safe(&self.global.store)));
                    }
                    begun = Some(BEING_MADE);
                }
                // Somebody is making it just now.
                Err(_) if begun.is_some_and(|left| left > 0) => begun = begun.map(|left| left - 1),
                opened => return opened,
            }
            self.env.clock.sleep(look_every).await;
        }
    }

    /// The floor over the store, or over an empty one where there is none, for a command that only looks.
    pub fn floor_to_look(&self) -> Result<Floor, Error> {
        wiring::floor_to_look(&self.global.store, self.env.clone(), Asker::admin(actor()))
    }

    /// The floor over the store, which is made when it is not there. A file that was there with nothing in it is told.
    pub fn floor_to_make(&self) -> Result<Floor, Error> {
        let opened = wiring::make_floor(&self.global.store, self.env.clone(), Asker::admin(actor()))?;
        if let Some(path) = opened.was_empty {
            let path = safe(&path.display().to_string());
            note(&format!("warning: {path} was there and empty (0 bytes): a new store begins in it"));
        }
        Ok(self.watched(opened.floor))
    }

    /// The floor, which what is sent to a collector is read from.
    fn watched(&self, floor: Floor) -> Floor {
        self.telemetry.iter().for_each(|telemetry| telemetry.over(&floor));
        floor
    }

    /// Standard output, as it is now.
    pub fn screen(&self) -> Screen {
        Screen::out(self.env.clock.now())
    }

    /// Tells the answer, in lines of the width there is.
    pub fn tell(&self, text: &str) -> Result<(), Error> {
        lines(&self.screen().prose(text))
    }

    /// Shows how far what is asked of the floor is, until what it answers with is dropped: on a terminal, unless nobody wants
    /// to see it.
    pub fn watch(&self, floor: &mut Floor, what: &'static str, unit: Unit) -> Watch {
        let watch = Watch::new(what, unit, self.global.quiet || aside::for_machines());
        floor.env.progress = watch.progress();
        watch
    }

    /// Tells something on the way, unless nobody wants to hear it.
    pub fn say(&self, text: &str) {
        if !self.global.quiet {
            note(text);
        }
    }

    /// Tells what can be done next, unless nobody wants to hear it.
    pub fn hint(&self, hint: &str) {
        self.say(&format!("hint: {hint}"));
    }

    /// Asks before something that cannot be undone.
    pub fn confirm(&self, question: &str, yes: bool) -> Result<(), Error> {
        if yes {
            return Ok(());
        }
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return Err(Error::wrong(format!("{question} Nobody is there to ask"))
                .code(Code::NotConfirmed)
                .hint("say --yes"));
        }
        if aside::for_machines() {
            note(&format!("{question} [y/N]"));
        } else {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "{question} [y/N] ");
            let _ = err.flush();
        }
        let mut answer = String::new();
        stdin.lock().read_line(&mut answer)?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Error::wrong("not done").code(Code::NotConfirmed)),
        }
    }
}

/// Who is asking, for the record: by name or, as in a container or a cron job, by number; empty where nothing tells.
fn actor() -> String {
    let named = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let number = || {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata("/proc/self").ok().map(|own| format!("uid {}", own.uid()))
    };
    let name = named("USER").or_else(|| named("LOGNAME")).or_else(number).unwrap_or_default();
    name.chars().take(64).collect()
}
