//! A child process with everything it starts: begun on a thread that stays, ended as a group.
//!
//! The kernel sends the parent-death signal when the *thread* that forked ends, and threads of a runtime come and go.
//! So all children are started by one thread that lives as long as the process.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::sys;

/// How a child is started.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// The program as it is named.
    pub(super) program: String,
    /// The file that is started; `None`: what the name leads to.
    pub(super) file: Option<PathBuf>,
    pub(super) arguments: Vec<String>,
    pub(super) cwd: Option<PathBuf>,
    /// The whole environment.
    pub(super) env: Vec<(OsString, OsString)>,
}

/// A process group, as long as its leader has not been waited for; after that its number may belong to another.
#[derive(Debug)]
pub(super) struct Group(Mutex<Option<u32>>);

impl Group {
    /// Kills the group.
    pub(super) fn kill(&self) {
        if let Some(leader) = *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            sys::kill_group(leader);
        }
    }

    /// Kills what the leader left behind, for the last time.
    fn retire(&self) {
        if let Some(leader) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            sys::kill_group(leader);
        }
    }
}

/// A running child. Dropping it kills its group.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
    pub(super) group: Arc<Group>,
}

impl Process {
    /// Starts a child.
    pub(super) async fn start(launch: &Launch) -> io::Result<Self> {
        let (reply, started) = oneshot::channel();
        let job = Job { command: command(launch), runtime: Handle::current(), reply };
        queue()?.send(job).map_err(|_| io::Error::other("the starting thread is gone"))?;
        started.await.map_err(|_| io::Error::other("the starting thread is gone"))?
    }

    /// Waits for the leader, and kills what it left behind.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.group.retire();
        status
    }

    /// Whether the leader has ended or is about to: its files are closed before its status can be had.
    pub(super) fn is_ending(&self) -> bool {
        let Some(pid) = self.child.id() else { return true };
        if cfg!(not(target_os = "linux")) {
            return true;
        }
        std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| is_ending(&stat))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.group.kill();
    }
}

/// Reads a line of `/proc/PID/stat`: the state, and the flag that the kernel sets when a process begins to end.
fn is_ending(stat: &str) -> bool {
    const PF_EXITING: u64 = 0x4;
    let Some((_, fields)) = stat.rsplit_once(')') else { return true };
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or(0);
    matches!(state, None | Some("Z" | "X" | "x")) || flags & PF_EXITING != 0
}

fn command(launch: &Launch) -> Command {
    let named = OsStr::new(&launch.program);
    let mut command = Command::new(launch.file.as_ref().map_or(named, |file| file.as_os_str()));
    command
        .args(&launch.arguments)
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    sys::isolate(&mut command);
    command
}

struct Job {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Process>>,
}

/// The way to the thread that starts children; the thread is started with the first of them.
fn queue() -> io::Result<mpsc::Sender<Job>> {
    static QUEUE: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(queue) = &*queue {
        return Ok(queue.clone());
    }
    let (sender, jobs) = mpsc::channel();
    std::thread::Builder::new().name("redrive-children".into()).spawn(move || run(&jobs))?;
    Ok(queue.insert(sender).clone())
}

fn run(jobs: &mpsc::Receiver<Job>) {
    for Job { mut command, runtime, reply } in jobs {
        let _inside = runtime.enter();
        let process = command.spawn().map(|child| {
            let group = Arc::new(Group(Mutex::new(child.id())));
            Process { child, group }
        });
        // When nobody waits for it any more, the child ends here.
        let _ = reply.send(process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_is_told_from_one_that_lives() {
        assert!(!is_ending("7 (a) b) S 1 7 7 0 -1 4194560 1 2"));
        assert!(is_ending("7 (a) b) S 1 7 7 0 -1 4194564 1 2"));
        assert!(is_ending("7 (a) Z 1 7 7 0 -1 4194560 1 2"));
        assert!(is_ending(""));
    }
}
