//! Ten restarts in the middle of work lose nothing, whether the daemon was told to stop or killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::daemon::TOKEN;
use crate::support::server::{failed, passed};
use crate::support::{Answer, Daemon, Names, Place, Server, count, names, quick_retry, results, wait};

/// How a daemon is ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// It is told to stop.
    Stop,
    /// It is killed, as a power failure would.
    Kill,
}

fn start(place: &Place) -> Daemon {
    Daemon::start(place, &["--pipelines", "pipelines"])
}

/// Sends a request wherever the daemon is now; `None` when there is none, or it ended before the whole answer came.
fn try_post(address: &str, path: &str, body: &Value) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).ok()
}

/// Hands in items without end, each batch again until somebody has said that it is taken.
struct Load {
    address: Arc<Mutex<String>>,
    over: Arc<AtomicBool>,
    taken: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<()>,
}

const BATCH: usize = 20;

impl Load {
    fn on(address: &str) -> Self {
        let address = Arc::new(Mutex::new(address.to_owned()));
        let (over, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (to, ends, count) = (address.clone(), over.clone(), taken.clone());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::SeqCst) {
                let first = count.load(Ordering::SeqCst);
                let items: Vec<Value> = (first..first + BATCH)
                    .map(|n| json!({"payload": {"id": format!("k{n:05}"), "n": n}}))
                    .collect();
                let body = json!({ "items": items });
                wait::until("a batch is taken", || {
                    let address = to.lock().expect("not poisoned").clone();
                    try_post(&address, "/v1/pipelines/box/items", &body).is_some()
                });
                count.fetch_add(BATCH, Ordering::SeqCst);
            }
        });
        Self { address, over, taken, thread }
    }

    fn go_on_at(&self, address: &str) {
        address.clone_into(&mut self.address.lock().expect("not poisoned"));
    }

    /// Ends it; what was handed in.
    fn end(self) -> Names {
        self.over.store(true, Ordering::SeqCst);
        self.thread.join().expect("every batch was taken");
        (0..self.taken.load(Ordering::SeqCst)).map(|n| format!("k{n:05}")).collect()
    }
}

/// Ten restarts while items are handed in and worked on.
fn restarts_under_load(end: End) {
    let server = Server::start(|call| {
        wait::work(std::time::Duration::from_millis(4));
        let fails = |item: &crate::support::server::Item| {
            item.before == 0 && item.payload["n"].as_u64().is_some_and(|n| n % 10 == 3)
        };
        let answers = call.items.iter().map(|item| match fails(item) {
            true => failed(item, "retryable", "once"),
            false => passed(item),
        });
        Answer::results(&answers.collect::<Vec<_>>())
    });
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let pipeline = format!(
        "name = \"box\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
         [[stage]]\nname = \"work\"\n{}\nconcurrency = 8\ngate = \"plain\"\n{}[gate.plain]\nbreaker = false\n",
        server.stage(),
        quick_retry(3)
    );
    place.write("pipelines/box.toml", pipeline);
    let mut daemon = start(&place);
    let load = Load::on(daemon.address());
    let mut crashed = 0;
    for _ in 0..10 {
        let before = server.count();
        server.until_called(before + 60);
        match end {
            End::Stop => daemon.stop().expect(0),
            End::Kill => {
                crashed += 1;
                daemon.kill()
            }
        };
        daemon = start(&place);
        load.go_on_at(daemon.address());
    }
    let before = server.count();
    server.until_called(before + 60);
    let given = load.end();
    let done = |report: &Value| report["counts"]["succeeded"] == given.len();
    let report = daemon.until("/v1/runs/r1", done);
    assert_eq!(count(&report["counts"]["admitted"]), given.len() as u64, "{report}");
    let (attempts, crashes) = (&report["attempts"], count(&report["attempts"]["crashes"]));
    let failing = given.iter().filter(|key| key.ends_with('3')).count() as u64;
    match end {
        End::Stop => {
            assert_eq!((crashes, count(&attempts["total"])), (0, given.len() as u64 + failing), "{report}");
            assert_eq!(server.count() as u64, given.len() as u64 + failing, "nothing was called for twice");
        }
        End::Kill => assert!((crashed..=crashed * 16).contains(&crashes), "{report}"),
    }
    let streamed = daemon.get("/v1/runs/r1/results").expect(200).body;
    assert_eq!(names(results(&streamed).into_keys()), given);
    assert_eq!(names(server.times_called().into_keys()), given);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn ten_clean_restarts_under_load_lose_nothing_and_cost_no_attempt() {
    restarts_under_load(End::Stop);
}

#[test]
fn ten_kills_under_load_lose_nothing() {
    restarts_under_load(End::Kill);
}
