//! A real `redrive serve` on a store, and what is asked of it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::Value;

use crate::client::Client;
use crate::clock::{Watch, pause};
use crate::{Failure, process};

/// What the daemon is asked with.
const TOKEN: &str = "a-token-of-the-bench";
/// How often something is looked at that takes its time.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long the daemon may take to end.
const END_WITHIN: Duration = Duration::from_secs(30);

/// A daemon; it is killed where it was not told to stop.
pub struct Daemon {
    child: Child,
    address: String,
}

impl Daemon {
    /// Starts one, and waits until it listens.
    pub fn start(binary: &Path, store: &Path, args: &[&str]) -> Result<Self, Failure> {
        let mut child = Command::new(binary)
            .args(["serve", "--json", "--quiet", "--listen", "127.0.0.1:0"])
            .args(["--store", &format!("sqlite:{}", store.display())])
            .args(args)
            .env("REDRIVE_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let told: Value = serde_json::from_str(&line)?;
        let address = told["listening"].as_str().and_then(|url| url.strip_prefix("http://"));
        Ok(Self { address: address.ok_or("it listens nowhere")?.to_owned(), child })
    }

    /// Somebody who asks it.
    pub fn client(&self) -> Client {
        Client::new(&self.address, TOKEN)
    }

    /// Its CPU time so far, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        process::cpu_seconds_of(&self.child.id().to_string())
    }

    /// Its resident memory now, in MB.
    pub fn rss_mb(&self) -> f64 {
        process::rss_mb_of(self.child.id())
    }

    /// Tells it to stop, and waits for that.
    pub async fn stop(mut self) -> Result<(), Failure> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let watch = Watch::start();
        while self.child.try_wait()?.is_none() {
            if watch.elapsed() > END_WITHIN {
                return Err("the daemon does not end".into());
            }
            pause(LOOK_EVERY).await;
        }
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended cannot be killed, which is as well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What is answered with this status; everything else ends the measurement.
pub async fn fetch(client: &mut Client, path: &str) -> Result<Bytes, Failure> {
    let answer = client.get(path).await?;
    if answer.status != 200 {
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        return Err(format!("GET {path}: {} {body}", answer.status).into());
    }
    Ok(answer.body)
}

/// The same, read as JSON.
pub async fn get(client: &mut Client, path: &str) -> Result<Value, Failure> {
    Ok(serde_json::from_slice(&fetch(client, path).await?)?)
}

/// The same of what makes something.
pub async fn post(client: &mut Client, path: &str, body: &Value) -> Result<Value, Failure> {
    let answer = client.post(path, &body.to_string()).await?;
    if !matches!(answer.status, 200 | 201) {
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        return Err(format!("POST {path}: {} {body}", answer.status).into());
    }
    Ok(serde_json::from_slice(&answer.body)?)
}

/// Asks again and again until an answer will do.
pub async fn until(
    client: &mut Client,
    path: &str,
    mut fits: impl FnMut(&Value) -> bool,
) -> Result<Value, Failure> {
    loop {
        let answer = get(client, path).await?;
        if fits(&answer) {
            return Ok(answer);
        }
        pause(LOOK_EVERY).await;
    }
}
