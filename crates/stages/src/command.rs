//! A stage that asks a child process.
//!
//! Children live long: each is asked one line at a time and answers with one line, by one call at a time. A child
//! that is out of step (garbage, a second answer, an answer to something else) or whose call was dropped is killed
//! with its whole process group and never asked again; the next call starts another.
//!
//! Items reach a child by its standard input only, never by its arguments or environment, and there is no shell.
//! Of the environment a child sees [`INHERITED`] and what the specification lists.
//!
//! A program that only ever dies is not started over and over: see [`RestartBudget`].

mod folders;
mod process;
mod restarts;
mod room;
mod script;
mod stderr;
mod sys;
mod worker;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::item::Payload;
use redrive_core::secret::Secret;
use redrive_engine::handler::{self, Answer, Handler, Reply, Request};
use redrive_engine::tap::{Came, MOST_SHOWN, Tap, Wire};
use tokio::sync::Semaphore;

use crate::protocol::{self, Decoder, Defer};
use crate::secrets::Secrets;
use crate::service::Now;
use crate::shortage::is_shortage;
use crate::usage;
pub use folders::{Folders, Found};
use process::{Group, Launch};
pub use restarts::RestartBudget;
use restarts::Restarts;
use room::Room;
use script::Script;
use worker::{Trouble, Worker};

/// The variables that every child inherits.
pub const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];

/// Parts of names of variables whose values are taken for secrets.
const SECRET_NAMES: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"];
/// Most bytes of a child's last words in a message; the end of them is kept.
const LAST_WORDS: usize = 1_500;

/// How a command is asked.
#[derive(Clone)]
pub struct CommandSpec {
    /// The program and its arguments; a name without a slash is looked up in `PATH`, a relative path is below `cwd`.
    pub argv: Vec<String>,
    /// Where it runs; `None`: where this process runs.
    pub cwd: Option<PathBuf>,
    /// The folders whose programs alone may be started, each in its folder; `cwd` does not count then. `None`: any program.
    pub only: Option<Arc<Folders>>,
    /// Variables it sees besides [`INHERITED`].
    pub env: Vec<(String, Secret)>,
    /// Most bytes of an answer.
    pub max_answer: usize,
    /// Most children at once.
    pub processes: usize,
    /// Where in the payload the output is put: a JSON pointer. `None`: in place of the payload.
    pub output: Option<String>,
    /// Where in the output the verdict stands: a JSON pointer. `None`: nowhere.
    pub verdict: Option<String>,
    /// How answers that come later are waited for; `None`: none does.
    pub defer: Option<Defer>,
    /// How many items a child answers before it is ended and another takes its place. `None`: no end.
    pub recycle_after: Option<u64>,
    /// Where somebody looks on.
    pub tap: Option<Arc<Tap>>,
}

impl CommandSpec {
    /// Runs this program, with everything else as usual: one child for good, answers of up to 16 MiB.
    pub fn new<T: Into<String>>(argv: impl IntoIterator<Item = T>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: None,
            only: None,
            env: Vec::new(),
            max_answer: 16 << 20,
            processes: 1,
            output: None,
            verdict: None,
            defer: None,
            recycle_after: None,
            tap: None,
        }
    }
}

/// Asks child processes.
pub struct CommandHandler {
    launch: Launch,
    only: Option<Arc<Folders>>,
    max_answer: usize,
    decoder: Decoder,
    recycle_after: Option<u64>,
    restarts: Option<Restarts>,
    starts: AtomicU64,
    deaths: AtomicU64,
    slots: Semaphore,
    room: Room,
    idle: Mutex<Vec<Worker>>,
    script: Script,
    groups: Mutex<Vec<Weak<Group>>>,
    tap: Option<Arc<Tap>>,
}

impl CommandHandler {
    /// Prepares the calls; starts nothing.
    ///
    /// # Errors
    /// Says which part of the specification cannot be used.
    pub fn new(spec: CommandSpec) -> Result<Self, String> {
        let (program, arguments) = spec.argv.split_first().ok_or("the command is empty")?;
        if program.is_empty() {
            return Err("the program's name is empty".to_owned());
        }
        if spec
            .argv
            .iter()
            .map(String::as_str)
            .chain(spec.env.iter().map(|(_, value)| value.expose()))
            .any(|text| text.contains('\0'))
        {
            return Err("the command contains a zero byte".to_owned());
        }
        if let Some((name, _)) =
            spec.env.iter().find(|(name, _)| name.is_empty() || name.contains(['=', '\0']))
        {
            return Err(format!("{name:?} is no name of a variable"));
        }
        let inherited =
            INHERITED.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        let listed = spec.env.iter().map(|(name, value)| (name.into(), value.expose().into()));
        let secrets = spec.env.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.expose());
        let script = match &spec.only {
            None => Script::of(&spec.argv, spec.cwd.as_deref()),
            Some(only) => Script::held(only.find(program).ok().map(|found| found.program)),
        };
        Ok(Self {
            launch: Launch {
                program: program.clone(),
                file: None,
                arguments: arguments.to_vec(),
                env: inherited.chain(listed).collect(),
                cwd: spec.cwd.filter(|_| spec.only.is_none()),
            },
            only: spec.only,
            max_answer: spec.max_answer,
            decoder: Decoder {
                secrets: Secrets::new(secrets),
                output: spec.output,
                verdict: spec.verdict,
                defer: spec.defer,
            },
            recycle_after: spec.recycle_after,
            restarts: None,
            starts: AtomicU64::new(0),
            deaths: AtomicU64::new(0),
            slots: Semaphore::new(spec.processes.clamp(1, Semaphore::MAX_PERMITS)),
            room: Room::new(spec.processes.max(1)),
            idle: Mutex::default(),
            script,
            groups: Mutex::default(),
            tap: spec.tap,
        })
    }

    /// Waits longer and longer between the starts of a program that only dies. `now` reads the clock.
    #[must_use]
    pub fn with_restart_budget(mut self, budget: RestartBudget, now: Now) -> Self {
        self.restarts = Some(Restarts::new(budget, now));
        self
    }

    /// How many children were started.
    #[must_use]
    pub fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }

    /// How many children ended, or hung up, instead of answering. Those that this side ended are not among them.
    #[must_use]
    pub fn deaths(&self) -> u64 {
        self.deaths.load(Ordering::Relaxed)
    }

    /// A child that can be asked: an idle one, or a new one. One that runs an older version of the script is ended.
    async fn take(&self) -> Result<Worker, Failure> {
        while let Some(mut worker) = self.pop() {
            if worker.is_ready() && !self.script.is_outdated(worker.version) {
                return Ok(worker);
            }
        }
        if let Some(pause) = self.restarts.as_ref().and_then(Restarts::pause) {
            return Err(pause.failure(&self.launch.program));
        }
        // Read before it starts: a change in between is noticed at the next call.
        let version = self.script.version();
        let launch = self.launch_now()?;
        let mut worker = Worker::start(&launch).await.map_err(|error| self.not_started(&error))?;
        worker.version = version;
        self.starts.fetch_add(1, Ordering::Relaxed);
        let mut groups = lock(&self.groups);
        groups.retain(|group| group.strong_count() > 0);
        groups.push(Arc::downgrade(&worker.process.group));
        Ok(worker)
    }

    /// How a child is started at this moment: a link may lead elsewhere than a moment ago, so where the program is looked
    /// for in folders, what they have now is what is started, by the path that no link is in.
    fn launch_now(&self) -> Result<Cow<'_, Launch>, Failure> {
        let Some(only) = &self.only else { return Ok(Cow::Borrowed(&self.launch)) };
        let found = only.find(&self.launch.program).map_err(|why| {
            let text = format!("cannot start {}: {why}", self.launch.program);
            self.decoder.failure(Class::Final, Kind::Process, text)
        })?;
        let Found { program, folder } = found;
        Ok(Cow::Owned(Launch { file: Some(program), cwd: Some(folder), ..self.launch.clone() }))
    }

    fn pop(&self) -> Option<Worker> {
        lock(&self.idle).pop()
    }

    /// Keeps a child for the next call, unless it has said more than it was asked for or has answered its share. One
    /// that is not kept is ended here, where it owes no answer.
    fn give_back(&self, mut worker: Worker, items: usize) {
        worker.answered = worker.answered.saturating_add(items as u64);
        if self.recycle_after.is_some_and(|most| worker.answered >= most) {
            return;
        }
        let mut idle = lock(&self.idle);
        if !self.slots.is_closed() && worker.is_ready() {
            idle.push(worker);
        }
    }

    /// What a child is asked, as it may be shown.
    fn shown(&self, line: &[u8]) -> Wire {
        let clean = |text: &[u8]| self.decoder.secrets.clean(text, MOST_SHOWN);
        let words = std::iter::once(&self.launch.program).chain(&self.launch.arguments);
        let to: Vec<String> = words.map(|word| clean(word.as_bytes())).collect();
        Wire { to: to.join(" "), headers: Vec::new(), body: clean(line), bytes: line.len(), answer: None }
    }

    fn not_started(&self, error: &std::io::Error) -> Failure {
        let program = &self.launch.program;
        let cwd = self.launch.cwd.as_ref().filter(|cwd| !cwd.is_dir());
        let (class, why) = match (error.kind(), cwd) {
            (_, Some(cwd)) => (Class::Final, format!("{} is no folder", cwd.display())),
            (ErrorKind::NotFound, None) => (Class::Final, "there is no such program".to_owned()),
            (ErrorKind::PermissionDenied, None) => (Class::Final, "it is not executable".to_owned()),
            (ErrorKind::ArgumentListTooLong | ErrorKind::InvalidInput, None) => {
                (Class::Final, error.to_string())
            }
            (_, None) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                (Class::Final, "it is no program".to_owned())
            }
            (_, None) if is_shortage(error) => (Class::RateLimited, self.short_of(error)),
            (_, None) => (Class::Retryable, error.to_string()),
        };
        self.decoder.failure(class, Kind::Process, format!("cannot start {program}: {why}"))
    }

    /// The machine lets no more children start. Those that are there go on, and no more calls are taken than they can answer.
    fn short_of(&self, error: &std::io::Error) -> String {
        let alive = lock(&self.groups).iter().filter(|group| group.strong_count() > 0).count();
        if self.room.only(alive) {
            let program = &self.launch.program;
            tracing::warn!(
                "cannot start more than {alive} of {} children of {program}: {error}; going on with those, and nothing is spent by it",
                self.room.most()
            );
        }
        format!("{error}; the machine is short of something, and nothing is spent by that")
    }

    /// Counts a child that will never answer.
    fn died(&self, trouble: &Trouble) {
        if self.slots.is_closed() || !matches!(trouble, Trouble::Ended(_) | Trouble::Closed(_)) {
            return;
        }
        self.deaths.fetch_add(1, Ordering::Relaxed);
        let program = self.launch.program.as_str();
        let how = match trouble {
            Trouble::Ended(status) => ending(status),
            _ => "hung up".to_owned(),
        };
        tracing::warn!(program, "a child {how} with work in hand");
        if let Some(wait) = self.restarts.as_ref().and_then(Restarts::died) {
            tracing::warn!(
                program,
                ?wait,
                "its children die one after the other; none is started for a while"
            );
        }
    }

    /// What trouble with a child means. The child is ended.
    async fn failure(&self, worker: Worker, trouble: Trouble) -> Failure {
        self.died(&trouble);
        let program = &self.launch.program;
        let failure = match &trouble {
            Trouble::Ended(_) if self.slots.is_closed() => {
                Failure::new(Class::Retryable, Kind::Process, format!("{program} was ended with its stage"))
            }
            Trouble::Ended(status) => {
                let text = format!("{program} {} without answering", ending(status));
                Failure::new(Class::Crash, Kind::Process, text)
            }
            Trouble::Closed(pipe) => {
                let text = format!("{program} closed its {pipe} instead of answering");
                Failure::new(Class::Retryable, Kind::Answer, text)
            }
            Trouble::TooEarly(line) => self.decoder.broken("came before the request was read", line),
            Trouble::TooLong => {
                let text =
                    format!("answer larger than {} bytes from {program}; it was refused", self.max_answer);
                Failure::new(Class::Retryable, Kind::Answer, text)
            }
        };
        self.with_last_words(failure, worker).await
    }

    /// Adds what the child wrote last to its standard error.
    async fn with_last_words(&self, failure: Failure, worker: Worker) -> Failure {
        let words = worker.last_words().await;
        let words = self.decoder.secrets.clean(words.trim_ascii(), usize::MAX);
        if words.is_empty() {
            return failure;
        }
        let from = words.len().saturating_sub(LAST_WORDS);
        let from = (from..=words.len()).find(|at| words.is_char_boundary(*at)).unwrap_or(0);
        let dots = if from > 0 { "…" } else { "" };
        let text = format!("{}; stderr: {dots}{}", failure.message(), &words[from..]);
        self.decoder.failure(failure.class, failure.kind, text)
    }
}

#[async_trait]
impl Handler for CommandHandler {
    async fn call(&self, request: Request) -> Answer {
        let Ok(_slot) = self.slots.acquire().await else {
            let failure = Failure::new(Class::Retryable, Kind::Process, "the stage is closed");
            return Reply::Whole(failure).into();
        };
        let mut line = protocol::encode_with(&request, self.decoder.defer.as_ref());
        line.push(b'\n');
        if let Some(tap) = &self.tap {
            tap.sent(self.shown(&line));
        }
        let mut worker = match self.take().await {
            Ok(worker) => worker,
            Err(failure) => return Reply::Whole(failure).into(),
        };
        let answer = match worker.ask(&line, self.max_answer).await {
            Ok(answer) => answer,
            Err(trouble) => return Reply::Whole(self.failure(worker, trouble).await).into(),
        };
        if let Some(tap) = &self.tap {
            let body = self.decoder.secrets.clean(&answer, MOST_SHOWN);
            tap.came(Came { status: None, body, bytes: answer.len() });
        }
        let decoded = self.decoder.read(&answer, &request.items);
        let reply = match decoded.reply {
            Reply::Whole(failure) => Reply::Whole(self.with_last_words(failure, worker).await),
            reply => {
                self.room.answered();
                if let Some(restarts) = &self.restarts {
                    restarts.answered();
                }
                if decoded.in_step {
                    self.give_back(worker, request.items.len());
                }
                reply
            }
        };
        Answer { usage: decoded.usage, ..reply.into() }
    }

    fn tokens(&self, payload: &Payload) -> u64 {
        usage::of_bytes(payload)
    }

    fn room(&self) -> Option<handler::Room> {
        Some(handler::Room { calls: self.room.now().max(1), items: None, never: false })
    }

    fn deaths(&self) -> u64 {
        Self::deaths(self)
    }

    async fn close(&self) {
        self.slots.close();
        lock(&self.idle).clear();
        for group in lock(&self.groups).drain(..).filter_map(|group| group.upgrade()) {
            group.kill();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn ending(status: &std::io::Result<ExitStatus>) -> String {
    match status {
        Err(error) => format!("ended ({error})"),
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with status {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "ended".to_owned(),
        },
    }
}
