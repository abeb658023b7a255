//! What people use today, from public packages. What cannot be had is left out, and that is said.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::contestant::{Contestant, Ran};
use crate::Failure;
use crate::clock::pause;
use crate::python::{HERE, environment, ran};
use crate::report::say;

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// What it is.
    pub name: &'static str,
    /// The same beside a line.
    pub short: &'static str,
    /// The line's colour.
    pub colour: &'static str,
    script: &'static str,
    /// Attempts or retries.
    tries: &'static str,
    redis: bool,
}

const ALL: [Peer; 4] = [
    Peer {
        name: "tenacity, 6 attempts",
        short: "tenacity, 6 attempts",
        colour: "#d4740c",
        script: "loop.py",
        tries: "6",
        redis: false,
    },
    Peer {
        name: "tenacity, without end",
        short: "tenacity, no end",
        colour: "#b8a000",
        script: "loop.py",
        tries: "0",
        redis: false,
    },
    Peer {
        name: "Celery, 3 retries (default)",
        short: "Celery, 3 retries",
        colour: "#c2405f",
        script: "queue_peer.py",
        tries: "3",
        redis: true,
    },
    Peer {
        name: "Celery, without end",
        short: "Celery, no end",
        colour: "#9068e8",
        script: "queue_peer.py",
        tries: "-1",
        redis: true,
    },
];

/// Those that can be had here.
pub struct Peers {
    python: Option<PathBuf>,
    redis: bool,
    folder: PathBuf,
}

impl Peers {
    /// Sets up a virtual environment with the pinned packages, and looks for a Redis server.
    pub async fn prepare(folder: &Path) -> Self {
        let python = match environment("flow").await {
            Ok(python) => Some(python),
            Err(error) => {
                say(&format!("left out, since their packages cannot be had: tenacity, Celery ({error})"));
                None
            }
        };
        let redis = ran(Command::new("redis-server").arg("--version")).await;
        if let (Err(error), true) = (&redis, python.is_some()) {
            say(&format!("left out, since it needs a `redis-server` (as Debian has it): Celery ({error})"));
        }
        Self { python, redis: redis.is_ok(), folder: folder.to_owned() }
    }

    /// Those that can be had.
    pub fn list(&self) -> Vec<Peer> {
        ALL.into_iter().filter(|peer| self.python.is_some() && (self.redis || !peer.redis)).collect()
    }

    /// Runs one to its end, or as long as it may.
    pub async fn run(
        &self,
        peer: &Peer,
        scenario: &str,
        url: &str,
        items: usize,
        most: Duration,
    ) -> Result<Ran, Failure> {
        let folder = self.folder.join(format!("{scenario}-{}{}", peer.script, peer.tries));
        fs::create_dir_all(&folder)?;
        let python = self.python.as_ref().ok_or("no Python")?;
        let mut command = Command::new(python);
        command.arg("-B").arg(Path::new(HERE).join("flow").join(peer.script));
        command.arg(format!("{url}/work")).arg(items.to_string()).arg(peer.tries);
        let redis = if peer.redis {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
            command.arg(&port);
            let place = folder.join("redis");
            fs::create_dir_all(&place)?;
            let server = Contestant::start(
                Command::new("redis-server").args(["--port", &port, "--bind", "127.0.0.1"]),
                &place,
            )?;
            pause(Duration::from_millis(500)).await;
            Some(server)
        } else {
            None
        };
        let ran = Contestant::start(&mut command, &folder)?.end(most, || false).await?;
        if let Some(redis) = redis {
            redis.end(Duration::ZERO, || true).await?;
        }
        if ran.last_document().is_null() {
            let errors = fs::read_to_string(folder.join("errors")).unwrap_or_default();
            return Err(format!("{} said nothing: {}", peer.name, errors.trim()).into());
        }
        Ok(ran)
    }
}
