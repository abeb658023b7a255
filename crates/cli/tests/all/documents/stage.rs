//! The folder that a page is played in: its files, its commands, and the servers it starts.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::page;
use crate::support::wait;

/// The address that pages name, for whatever listens there.
const ADDRESS: &str = "127.0.0.1:9000";

/// `redrive` and `cargo run -p redrive`, as a page spells them: the binary that was built, and a provider at the
/// page's own address.
const SHIM: &str = r#"#!/bin/bash
if [ "$(basename "$0")" = cargo ]; then
  [ "$1" = run ] || { echo "cargo $*: not in a test" >&2; exit 70; }
  while [ "$1" != -- ]; do shift; done
  shift
fi
if [ "$1" = rehearse ] && [[ "$*" != *--listen* ]]; then
  shift
  exec "$REDRIVE_UNDER_TEST" rehearse --listen "$PAGE_ADDRESS" "$@"
fi
exec "$REDRIVE_UNDER_TEST" "$@"
"#;

/// What a command printed, on both streams, and how it ended.
#[derive(Debug)]
pub struct Printed {
    /// The command.
    pub command: page::Command,
    /// Both streams, in the order in which they were written.
    pub text: String,
    /// Its exit code.
    pub code: i32,
}

/// A folder of its own for one page.
pub struct Stage {
    folder: tempfile::TempDir,
    tools: tempfile::TempDir,
    address: String,
    servers: Vec<(Child, PathBuf)>,
    scripts: usize,
}

/// An address that nobody has, as long as the one that pages name: tables have the widths that a reader sees.
fn free_address() -> String {
    // Pages are played side by side, each in a process of its own.
    let start = std::process::id().wrapping_mul(97) % 4_000;
    let ports = (0..4_000).map(|n| 5_000 + (start + n) % 4_000);
    let mut free = ports.map(|port| format!("127.0.0.1:{port}"));
    let address = free.find(|address| TcpListener::bind(address).is_ok()).expect("a port");
    assert_eq!(address.len(), ADDRESS.len());
    address
}

impl Stage {
    /// An empty folder, and an address that nobody has.
    pub fn new() -> Self {
        let tools = tempfile::tempdir().expect("a folder");
        for name in ["redrive", "cargo"] {
            let path = tools.path().join(name);
            std::fs::write(&path, SHIM).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
        }
        let address = free_address();
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, tools, address, servers: Vec::new(), scripts: 0 }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a folder or a file of the repository into the folder.
    pub fn bring(&self, root: &Path, name: &str) {
        let to = self.path(name);
        std::fs::create_dir_all(to.parent().expect("in a folder")).expect("made");
        let done =
            Command::new("cp").arg("-R").arg(root.join(name)).arg(to).status().expect("cp is everywhere");
        assert!(done.success(), "{name} cannot be copied");
        self.move_in(&self.path(name));
    }

    /// Gives pipelines below a path the address of this folder.
    fn move_in(&self, path: &Path) {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).expect("it is there");
            entries.for_each(|entry| self.move_in(&entry.expect("read").path()));
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            let text = std::fs::read_to_string(path).expect("a text");
            std::fs::write(path, self.here(&text)).expect("written");
        }
    }

    /// Writes a file of the page.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
        std::fs::write(path, self.here(text)).expect("written");
    }

    /// A text of the page with this folder's address.
    fn here(&self, text: &str) -> String {
        text.replace(ADDRESS, &self.address)
    }

    /// What was printed, with the address of the page and without the folder's name.
    fn there(&self, text: &str) -> String {
        let folder = self.folder.path().canonicalize().expect("it is there");
        text.replace(&self.address, ADDRESS).replace(&*folder.to_string_lossy(), "…")
    }

    fn bash(&self, script: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["-c", script])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.tools.path().display()))
            .env("REDRIVE_UNDER_TEST", env!("CARGO_BIN_EXE_redrive"))
            .env("PAGE_ADDRESS", &self.address)
            .envs([("TZ", "UTC"), ("LANG", "C.UTF-8"), ("USER", "ann"), ("NO_COLOR", "1")])
            .envs([("OPENAI_API_KEY", "dummy"), ("MY_TOKEN", "dummy"), ("AZURE_KEY", "dummy")])
            .stdin(Stdio::null())
            .process_group(0);
        for name in ["REDRIVE_STORE", "REDRIVE_LOG", "REDRIVE_CRASH_AT", "COLUMNS", "EDITOR", "VISUAL"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs a script, command by command, and returns what each printed.
    pub fn run(&mut self, script: &str) -> Vec<Printed> {
        self.scripts += 1;
        let out = self.tools.path().join(format!("out{}", self.scripts));
        std::fs::create_dir_all(&out).expect("made");
        let commands = page::commands(script);
        let mut whole = "shopt -s expand_aliases\n".to_owned();
        for (n, command) in commands.iter().enumerate() {
            let file = out.join(n.to_string());
            let text = self.here(&command.text);
            whole += &format!("exec >'{0}' 2>&1\n{text}echo $? >'{0}.code'\n", file.display());
        }
        let mut child = self.bash(&whole).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash");
        let begun = wait::now();
        while child.try_wait().expect("waited for").is_none() {
            if begun.elapsed() > wait::LIMIT {
                end_group(&mut child);
                panic!("the script hangs:\n{script}");
            }
            wait::pause();
        }
        let read = |name: String| std::fs::read_to_string(out.join(name)).unwrap_or_default();
        let printed = commands.into_iter().enumerate().map(|(n, command)| Printed {
            command,
            text: self.there(&read(n.to_string())),
            code: read(format!("{n}.code")).trim().parse().unwrap_or(-1),
        });
        printed.collect()
    }

    /// Starts one command that stays, and waits until it prints a text; any, where that is empty.
    pub fn start(&mut self, command: &str, text: &str) {
        let path = self.tools.path().join(format!("server{}", self.servers.len()));
        let file = std::fs::File::create(&path).expect("made");
        let script = format!("exec {}", self.here(command));
        let both = file.try_clone().expect("cloned");
        let mut child = self.bash(&script).stdout(file).stderr(both).spawn().expect("bash");
        wait::until(&format!("{command} prints {text:?}"), || {
            let said = std::fs::read_to_string(&path).unwrap_or_default();
            let ended = child.try_wait().expect("waited for").is_some();
            assert!(!ended, "{command} ended: {said}");
            said.contains('\n') && said.contains(text)
        });
        self.servers.push((child, path));
    }

    /// Ends what was started last, as Ctrl-C does, and returns what it printed.
    pub fn end(&mut self) -> String {
        let (mut child, path) = self.servers.pop().expect("something was started");
        let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
        assert!(sent.expect("kill is everywhere").success());
        wait::until("it ends", || child.try_wait().expect("waited for").is_some());
        self.there(&std::fs::read_to_string(path).unwrap_or_default())
    }
}

/// Kills a child with everything it started.
fn end_group(child: &mut Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status();
    let _ = child.wait();
}

impl Drop for Stage {
    fn drop(&mut self) {
        for (child, _) in &mut self.servers {
            end_group(child);
        }
    }
}
