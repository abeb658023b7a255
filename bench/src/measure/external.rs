//! How fast external workers are, beside a handler in the process: the real `redrive serve`, the same items, the same batches.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::Scratch;
use crate::clock::{Watch, pause_here};
use crate::material::item;
use crate::report::{Spread, save, table};
use crate::{Common, Failure, facts};

/// Items of a batch.
const BATCH: usize = 100;
/// Workers that ask at a time.
const WORKERS: usize = 4;
const TOKEN: &str = "the-token-of-this-measurement";

/// Items that are worked on.
pub const ITEMS: usize = 50_000;
/// What is wanted: this share of the rate in the process.
pub const WANTED: f64 = 0.5;

/// Measures it by itself.
pub fn run(common: &Common) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let mut result = measure(&scratch, common, common.items.unwrap_or(ITEMS))?;
    result["facts"] = json!(facts);
    save(common.json.as_deref(), &result)
}

/// Works on as many items inside and outside, taking turns.
pub fn measure(scratch: &Scratch, common: &Common, items: usize) -> Result<Value, Failure> {
    let (mut inside, mut outside, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..common.repeat {
        let folder = scratch.folder().join(format!("external-{turn}"));
        prepare(&folder, items, common.payload)?;
        let daemon = Daemon::start(&folder)?;
        let rate = |seconds: f64| items as f64 / seconds;
        let (here, there) = (rate(daemon.work("inside", items)?), rate(with_workers(&daemon, items)?));
        inside.push(here);
        outside.push(there);
        shares.push(there / here);
    }
    let (inside, outside, share) = (Spread::of(inside), Spread::of(outside), Spread::of(shares));
    let rows = vec![
        vec!["in the process".to_owned(), inside.text(0)],
        vec![format!("{WORKERS} external workers"), outside.text(0)],
        vec!["share".to_owned(), share.text(2)],
    ];
    table(&["items a second, batches of 100", "median (min–max)"], &rows);
    Ok(json!({
        "items": items,
        "batch": BATCH,
        "workers": WORKERS,
        "inside_per_second": inside.json(),
        "outside_per_second": outside.json(),
        "share": share.json(),
        "wanted": WANTED,
    }))
}

fn prepare(folder: &Path, items: usize, payload: usize) -> Result<(), Failure> {
    let pipelines = folder.join("pipelines");
    fs::create_dir_all(&pipelines)?;
    for (name, stage) in [("inside", "kind = \"pass\""), ("outside", "kind = \"external\"")] {
        let text = format!(
            "name = \"{name}\"\n[source]\npath = \"in.jsonl\"\n[[stage]]\nname = \"work\"\n{stage}\nbatch = {BATCH}\nconcurrency = 16\n"
        );
        fs::write(pipelines.join(format!("{name}.toml")), text)?;
    }
    let mut lines = Vec::new();
    for n in 0..items {
        lines.extend_from_slice(&item(n, payload).payload);
        lines.push(b'\n');
    }
    fs::write(pipelines.join("in.jsonl"), lines)?;
    Ok(())
}

struct Daemon {
    child: Child,
    address: String,
}

impl Daemon {
    fn start(folder: &Path) -> Result<Self, Failure> {
        let beside: PathBuf = std::env::current_exe()?.with_file_name("redrive");
        let mut child = Command::new(beside)
            .args(["serve", "--quiet", "--listen", "127.0.0.1:0", "--pipelines", "pipelines"])
            .current_dir(folder)
            .env("REDRIVE_TOKEN", TOKEN)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening at http://").ok_or(line.clone())?.to_owned();
        Ok(Self { child, address })
    }

    /// Has a run of a pipeline worked on; the seconds that it took.
    fn work(&self, pipeline: &str, items: usize) -> Result<f64, Failure> {
        let mut line = Line::to(&self.address)?;
        let watch = Watch::start();
        let begun = line.post("/v1/runs", &json!({"pipeline": pipeline}))?;
        let run = begun["run"].as_str().ok_or_else(|| begun.to_string())?.to_owned();
        loop {
            let report = line.ask("GET", &format!("/v1/runs/{run}"), "")?;
            if !report["finished_at"].is_null() {
                if report["counts"]["succeeded"] != items {
                    return Err(format!("not all passed: {}", report["counts"]).into());
                }
                return Ok(watch.seconds());
            }
            pause_here(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_workers(daemon: &Daemon, items: usize) -> Result<f64, Failure> {
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|_| scope.spawn(|| works(&daemon.address, &over, &done))).collect();
        let took = daemon.work("outside", items);
        over.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().map_err(|_| "a worker broke")??;
        }
        match done.load(Ordering::Relaxed) == items as u64 {
            true => took,
            false => Err(format!("{} of {items} were done", done.load(Ordering::Relaxed)).into()),
        }
    })
}

/// Claims and answers until it is over.
fn works(address: &str, over: &AtomicBool, done: &AtomicU64) -> Result<(), Failure> {
    let mut line = Line::to(address)?;
    let ask = json!({"stages": ["work"], "max_items": BATCH, "wait_ms": 200});
    while !over.load(Ordering::Relaxed) {
        let claim = line.post("/v1/work/claim", &ask)?;
        let items = claim["items"].as_array().cloned().unwrap_or_default();
        if items.is_empty() {
            continue;
        }
        let results: Vec<Value> =
            items.iter().map(|item| json!({"id": item["id"], "output": item["payload"]})).collect();
        let heard = line.post("/v1/work/complete", &json!({"lease": claim["lease"], "results": results}))?;
        done.fetch_add(heard["recorded"].as_u64().unwrap_or(0), Ordering::Relaxed);
    }
    Ok(())
}

/// One connection that stays.
struct Line {
    stream: BufReader<TcpStream>,
    address: String,
}

impl Line {
    fn to(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), address: address.to_owned() })
    }

    fn post(&mut self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask("POST", path, &body.to_string())
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Value, Failure> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())?;
        let (mut length, mut status) = (0, String::new());
        self.stream.read_line(&mut status)?;
        loop {
            let mut field = String::new();
            self.stream.read_line(&mut field)?;
            let Some((name, value)) = field.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        match status.split(' ').nth(1) {
            Some("200" | "201") => Ok(serde_json::from_slice(&answer)?),
            _ => Err(format!("{status}: {}", String::from_utf8_lossy(&answer)).into()),
        }
    }
}
