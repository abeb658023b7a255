//! `--on-end COMMAND`: a program that is started when work ends, whatever the end.
//!
//! What it does changes nothing: that it fails is a warning. It is not started when the process is killed.

use std::io::{BufRead, BufReader, PipeReader, Read};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use redrive_engine::env::Env;
use redrive_engine::report::RunReport;
use redrive_operate::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::Context;
use super::signals::Signals;
use crate::exit;
use crate::output::text::safe;
use crate::output::{aside, error_document, note};

/// How long the program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How many are started at a time.
const AT_ONCE: usize = 4;
/// Most bytes of its output that are passed on to a machine.
const PASSED_ON: u64 = 64 << 10;

/// A program that is started when work ends.
#[derive(Clone)]
pub struct OnEnd {
    command: Arc<str>,
    store: Arc<str>,
    env: Env,
    places: Arc<Semaphore>,
}

/// How work ended.
pub struct End {
    run: String,
    pipeline: String,
    status: String,
    code: u8,
    document: String,
}

impl End {
    /// The work ended, and its run stands like this.
    pub fn of(report: &RunReport, code: u8) -> Self {
        Self {
            run: report.run.to_string(),
            pipeline: report.pipeline.clone(),
            status: report.status.to_string(),
            code,
            document: serde_json::to_string(report).unwrap_or_default(),
        }
    }

    /// There was nothing to do, and no run for it.
    pub fn without_a_run(code: u8) -> Self {
        let (run, pipeline) = (String::new(), String::new());
        Self { run, pipeline, status: String::new(), code, document: "null".to_owned() }
    }

    /// The work broke off.
    pub fn broken(run: String, pipeline: String, error: &Error) -> Self {
        let (code, document) = (exit::error_code(error), error_document(error));
        Self { run, pipeline, status: "error".to_owned(), code, document }
    }
}

impl OnEnd {
    /// The program that was named, if one was.
    pub fn of(context: &Context, command: Option<&str>) -> Option<Self> {
        Some(Self {
            command: command?.into(),
            store: context.global.store.as_str().into(),
            env: context.env.clone(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
        })
    }

    /// Starts it and waits for it, for some time.
    pub async fn start(&self, end: &End) {
        // Nobody closes the places.
        let _place = self.places.acquire().await;
        if let Err(why) = self.run(end).await {
            note(&format!("warning: the command of --on-end {}", safe(&why)));
        }
    }

    async fn run(&self, end: &End) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("could not be started: {error}");
        let (output, heard) = if aside::for_machines() {
            let (reader, writer) = std::io::pipe().map_err(failed)?;
            ([writer.try_clone().map_err(failed)?.into(), writer.into()], Some(reader))
        } else {
            ([standard_error().map_err(failed)?, standard_error().map_err(failed)?], None)
        };
        let [out, err] = output;
        let mut command = Command::new("sh");
        command.arg("-c").arg(&*self.command).stdin(Stdio::piped()).stdout(out).stderr(err);
        command.env("REDRIVE_RUN", &end.run).env("REDRIVE_PIPELINE", &end.pipeline);
        command.env("REDRIVE_STATUS", &end.status).env("REDRIVE_EXIT_CODE", end.code.to_string());
        command.env("REDRIVE_STORE", &*self.store);
        // What gives access to the server is not for whatever is started.
        command.env_remove("REDRIVE_TOKEN");
        // An interrupt at the terminal is for the work, which has ended.
        command.kill_on_drop(true).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        // What was given to the child is only the child's.
        drop(command);
        let passed_on = heard.map(|heard| tokio::task::spawn_blocking(|| pass_on(heard)));
        let stdin = child.stdin.take();
        let ended = async {
            if let Some(mut stdin) = stdin {
                // A program that does not want to know closes it.
                let _ = stdin.write_all(end.document.as_bytes()).await;
            }
            let status = child.wait().await;
            if let Some(passed_on) = passed_on {
                let _ = passed_on.await;
            }
            status
        };
        tokio::select! {
            status = ended => match status {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(format!("ended with {status}")),
                Err(error) => Err(format!("was lost: {error}")),
            },
            () = self.env.clock.sleep(LIMIT) => {
                Err(format!("took longer than {} s, and is ended", LIMIT.as_secs()))
            }
            () = told_to_stop() => Err("was broken off".to_owned()),
        }
    }
}

/// A second word to stop ends the program, too.
async fn told_to_stop() {
    match Signals::listen() {
        Ok(mut signals) => signals.next().await,
        Err(_) => std::future::pending().await,
    }
}

fn standard_error() -> std::io::Result<Stdio> {
    use std::os::fd::AsFd;
    Ok(std::io::stderr().as_fd().try_clone_to_owned()?.into())
}

/// Passes on what the program says, line by line; what is too much is dropped.
fn pass_on(heard: PipeReader) {
    let mut heard = BufReader::new(heard);
    for line in heard.by_ref().take(PASSED_ON).split(b'\n').map_while(Result::ok) {
        note(&String::from_utf8_lossy(&line));
    }
    // Whoever writes to a pipe that nobody reads waits for ever.
    let _ = std::io::copy(&mut heard, &mut std::io::sink());
}
