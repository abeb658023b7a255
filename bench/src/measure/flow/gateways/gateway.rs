//! A gateway as a process of its own, with its configuration in a folder of its own.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::process::Command;

use super::super::contestant::Contestant;
use super::list::{Case, Program};
use crate::Failure;
use crate::clock::{Watch, pause};
use crate::python::{HERE, environment, ran};

/// How long a gateway may take to listen.
const START: Duration = Duration::from_secs(90);

/// A gateway that runs.
pub struct Gateway {
    process: Contestant,
    port: u16,
}

impl Gateway {
    /// Whether the program can be had.
    pub async fn is_here(program: Program) -> Result<(), Failure> {
        match program {
            Program::Nginx => ran(Command::new("nginx").arg("-v")).await,
            Program::Haproxy => ran(Command::new("haproxy").arg("-v")).await,
            Program::LiteLlm => environment("flow/litellm").await.map(drop),
        }
    }

    /// Starts it in front of an address, and waits until it listens.
    pub async fn start(case: &Case, upstream: &str, place: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(place)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let file = match case.program {
            Program::Nginx => "nginx.conf",
            Program::Haproxy => "haproxy.cfg",
            Program::LiteLlm => "litellm.yaml",
        };
        let text = fs::read_to_string(Path::new(HERE).join("flow").join(file))?
            .replace("@FOLDER@", &place.display().to_string())
            .replace("@UPSTREAM@", upstream)
            .replace("@PORT@", &port.to_string())
            .replace("@LIMIT@", case.text);
        let config = place.join(file);
        fs::write(&config, text)?;
        let mut command = command(case.program, &config, place, port).await?;
        let process = Contestant::start(&mut command, place)?;
        let gateway = Self { process, port };
        let watch = Watch::start();
        while TcpStream::connect(gateway.address()).await.is_err() {
            if watch.elapsed() > START {
                let errors = fs::read_to_string(place.join("errors")).unwrap_or_default();
                let last: Vec<&str> = errors.trim().lines().rev().take(12).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                return Err(format!("{} does not listen: {}", case.program, last.join("\n")).into());
            }
            pause(Duration::from_millis(50)).await;
        }
        Ok(gateway)
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends it.
    pub async fn end(self) -> Result<(), Failure> {
        self.process.terminate().await
    }
}

async fn command(program: Program, config: &Path, place: &Path, port: u16) -> Result<Command, Failure> {
    let mut command = match program {
        Program::Nginx => {
            let mut command = Command::new("nginx");
            command.arg("-p").arg(place).arg("-e").arg(place.join("errors")).arg("-c").arg(config);
            command
        }
        Program::Haproxy => {
            let mut command = Command::new("haproxy");
            command.arg("-db").arg("-f").arg(config);
            command
        }
        Program::LiteLlm => {
            let python = environment("flow/litellm").await?;
            let mut command = Command::new(python.with_file_name("litellm"));
            command.arg("--config").arg(config).args(["--host", "127.0.0.1", "--port", &port.to_string()]);
            command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
            command
        }
    };
    command.stdin(std::process::Stdio::null());
    Ok(command)
}
