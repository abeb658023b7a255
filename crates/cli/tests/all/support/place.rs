//! A folder of its own, and the binary run in it.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

use super::{Names, column, wait};

/// A folder with a pipeline, a source and a store.
pub struct Place {
    folder: tempfile::TempDir,
    env: Vec<(String, String)>,
}

impl Place {
    /// An empty folder.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), env: Vec::new() }
    }

    /// A folder with `p.toml` and `in.jsonl`.
    pub fn with(pipeline: &str, source: &str) -> Self {
        let place = Self::new();
        place.write("p.toml", pipeline);
        place.write("in.jsonl", source);
        place
    }

    /// Sets a variable for every command from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("written");
    }

    /// Reads a file; empty when it is not there.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Starts the binary.
    pub fn start(&self, args: &[&str]) -> Started {
        self.start_with(args, &[], b"")
    }

    /// Starts the binary with further variables, and something on its standard input, which then ends.
    pub fn start_with(&self, args: &[&str], env: &[(&str, &str)], input: &[u8]) -> Started {
        let mut started = self.start_open(args, env);
        let mut stdin = started.child.stdin.take().expect("piped");
        let input = input.to_vec();
        // The reader may go away first; that is seen by its exit code.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
        started
    }

    /// Starts the binary by another program, which is given its path and arguments.
    pub fn start_under(&self, program: &[&str], args: &[&str]) -> Started {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(env!("CARGO_BIN_EXE_redrive"));
        self.started(command, args, &[])
    }

    /// Starts the binary with a standard input that does not end.
    pub fn start_open(&self, args: &[&str], env: &[(&str, &str)]) -> Started {
        self.started(Command::new(env!("CARGO_BIN_EXE_redrive")), args, env)
    }

    fn started(&self, mut command: Command, args: &[&str], env: &[(&str, &str)]) -> Started {
        let mut child = command
            .args(args)
            .current_dir(self.folder.path())
            .env_remove("REDRIVE_STORE")
            .env_remove("REDRIVE_LOG")
            .env_remove("COLUMNS")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .env_remove("REDRIVE_CRASH_AT")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stdout = Output::collect(child.stdout.take().expect("piped"));
        let stderr = Output::collect(child.stderr.take().expect("piped"));
        Started { what: args.join(" "), child, stdout, stderr }
    }

    /// Runs the binary to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.start(args).finish()
    }

    /// Runs the binary with further variables to its end.
    pub fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        self.start_with(args, env, b"").finish()
    }

    /// Runs `run p.toml --results out.jsonl --json` and expects an exit code. Returns the report.
    pub fn run_pipeline(&self, code: i32) -> Value {
        self.run(&["run", "p.toml", "--results", "out.jsonl", "--json"]).expect(code).json()
    }

    /// Waits until a command, with `--json`, succeeds and its answer is as wanted: a store may not be there yet.
    pub fn until_json(&self, args: &[&str], mut wanted: impl FnMut(&Value) -> bool) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let mut found = Value::Null;
        wait::until(&format!("`redrive {}` is as wanted", args.join(" ")), || {
            let ran = self.run(&args);
            found = if ran.code() == Some(0) { ran.json() } else { Value::Null };
            ran.code() == Some(0) && wanted(&found)
        });
        found
    }

    /// Runs a command with `--json`, expects success, and reads its answer.
    pub fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.run(&args).expect(0).json()
    }

    /// Every dead item, as `dead list --json` shows it.
    pub fn dead(&self) -> Vec<Value> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let mut args = vec!["dead", "list", "-n", "500", "--json"];
            let cursor: String;
            if let Some(next) = after {
                cursor = next;
                args.extend(["--after", &cursor]);
            }
            let page = self.run(&args).expect(0).json();
            all.extend(super::array(&page["items"]).iter().cloned());
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                return all;
            }
        }
    }

    /// The keys of every dead item.
    pub fn dead_keys(&self) -> Names {
        column(&Value::Array(self.dead()), "key")
    }

    /// What `--results out.jsonl` wrote: key to output.
    pub fn results(&self) -> std::collections::BTreeMap<String, Value> {
        super::results(&self.read("out.jsonl"))
    }

    /// The keys in `out.jsonl`.
    pub fn result_keys(&self) -> Names {
        self.results().into_keys().collect()
    }

    /// A gate, as `gates --json` shows it; `null` when it is not known.
    pub fn gate(&self, name: &str) -> Value {
        named(&self.json(&["gates"]), name)
    }

    /// Waits until a gate stands so, and returns it.
    pub fn until_gate(&self, name: &str, state: &str) -> Value {
        let report = self.until_json(&["gates"], |report| named(report, name)["state"] == state);
        named(&report, name)
    }

    /// Every law holds.
    pub fn check(&self) {
        let ran = self.run(&["check", "--json"]);
        let report = ran.json();
        assert_eq!(report["ok"], true, "{report:#}");
        assert_eq!(ran.code(), Some(0));
    }
}

fn named(report: &Value, name: &str) -> Value {
    let found = super::array(&report["gates"]).iter().find(|gate| gate["name"] == name);
    found.cloned().unwrap_or(Value::Null)
}

/// What a process writes, as it comes.
#[derive(Clone)]
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Output {
    fn collect(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = bytes.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(n @ 1..) = pipe.read(&mut buffer) {
                sink.lock().expect("not poisoned").extend_from_slice(&buffer[..n]);
            }
        });
        Self { bytes, reader: Arc::new(Mutex::new(Some(reader))) }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().expect("not poisoned")).into_owned()
    }

    fn whole(&self) -> String {
        if let Some(reader) = self.reader.lock().expect("not poisoned").take() {
            reader.join().expect("it reads to the end");
        }
        self.so_far()
    }
}

/// A process that runs.
pub struct Started {
    what: String,
    child: Child,
    stdout: Output,
    stderr: Output,
}

impl Started {
    /// Sends a signal, for example `INT`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill is everywhere").success());
    }

    /// Its number among the processes.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its standard input.
    pub fn say(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("open");
        stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).expect("it reads");
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it can be waited for").is_some()
    }

    /// Waits until its standard error holds a text.
    pub fn until_said(&self, text: &str) {
        wait::until(&format!("{} says {text:?}", self.what), || self.stderr.so_far().contains(text));
    }

    /// Waits until its standard output holds a text.
    pub fn until_printed(&self, text: &str) {
        wait::until(&format!("{} prints {text:?}", self.what), || self.stdout.so_far().contains(text));
    }

    /// The first line of its standard output.
    pub fn first_line(&self) -> String {
        wait::until(&format!("{} says something", self.what), || self.stdout.so_far().contains('\n'));
        self.stdout.so_far().lines().next().unwrap_or_default().to_owned()
    }

    /// Kills it at once, as a power failure would.
    pub fn kill(mut self) -> Ran {
        self.child.kill().expect("it can be killed");
        self.finish()
    }

    /// Waits for its end; nothing may take longer than [`wait::LIMIT`].
    pub fn finish(mut self) -> Ran {
        let begun = wait::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            if begun.elapsed() > wait::LIMIT {
                self.child.kill().expect("it can be killed");
                panic!("`redrive {}` hangs; stderr: {}", self.what, self.stderr.so_far());
            }
            wait::pause();
        };
        Ran {
            what: self.what.clone(),
            status,
            stdout: self.stdout.whole(),
            stderr: self.stderr.whole(),
            took: begun.elapsed(),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It has ended already, unless the test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that ended.
#[derive(Debug)]
pub struct Ran {
    what: String,
    status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// How long it was waited for.
    pub took: std::time::Duration,
}

impl Ran {
    /// Its exit code.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that killed it.
    pub fn killed_by(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Fails unless it ended with this code.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "`redrive {}`\n{}\n{}", self.what, self.stdout, self.stderr);
        self
    }

    /// Its standard output as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!("`redrive {}`: {error}\n{}\n{}", self.what, self.stdout, self.stderr)
        })
    }
}
