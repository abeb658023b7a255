//! Notifications of the daemon: told once, signed, after a receiver was away, and never in the way of work.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::server::failed;
use crate::support::shifted::Shifted;
use crate::support::{Answer, Daemon, Place, Server, array, count, one_stage, text, wait};

/// The key is 24 bytes.
pub const SECRET: &str = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnkh";
const HOUR: i64 = 3_600_000;
/// Takes the call and never answers.
const HANGS: u16 = 0;

/// A message as it came.
#[derive(Debug, Clone)]
pub struct Came {
    headers: BTreeMap<String, String>,
    body: String,
}

impl Came {
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// Somebody who is told.
pub struct Receiver {
    address: String,
    answers: Arc<AtomicU16>,
    came: Arc<Mutex<Vec<Came>>>,
}

impl Receiver {
    pub fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let (answers, came) = (Arc::new(AtomicU16::new(status)), Arc::new(Mutex::new(Vec::new())));
        let (status, all) = (answers.clone(), came.clone());
        std::thread::spawn(move || {
            let mut hanging = Vec::new();
            for stream in listener.incoming().flatten() {
                let Some(one) = read(&stream) else { continue };
                all.lock().expect("not poisoned").push(one);
                match status.load(Ordering::SeqCst) {
                    HANGS => hanging.push(stream),
                    status => {
                        let answer = format!(
                            "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
                        );
                        let _ = (&stream).write_all(answer.as_bytes());
                    }
                }
            }
        });
        Self { address, answers, came }
    }

    fn answer(&self, status: u16) {
        self.answers.store(status, Ordering::SeqCst);
    }

    pub fn came(&self) -> Vec<Came> {
        self.came.lock().expect("not poisoned").clone()
    }

    pub fn until(&self, messages: usize) -> Vec<Came> {
        wait::until(&format!("{messages} messages"), || self.came().len() >= messages);
        self.came()
    }

    pub fn kinds(&self) -> BTreeSet<String> {
        self.came().iter().map(|one| text(&one.message()["type"])).collect()
    }

    pub fn entry(&self, on: &str) -> String {
        format!("[[notify]]\non = [{on}]\nurl = \"http://{}/hook\"\nsecret_env = \"HOOK\"\n", self.address)
    }
}

fn read(stream: &TcpStream) -> Option<Came> {
    let mut reader = BufReader::new(stream);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Came { headers, body: String::from_utf8(body).ok()? })
}

/// What another program than this one makes of a message.
fn signature(one: &Came) -> String {
    let program = "import base64, hashlib, hmac, sys\n\
        key = base64.b64decode(sys.argv[1][len('whsec_'):])\n\
        body = f'{sys.argv[2]}.{sys.argv[3]}.'.encode() + sys.stdin.buffer.read()\n\
        print('v1,' + base64.b64encode(hmac.new(key, body, hashlib.sha256).digest()).decode())";
    let (id, time) = (&one.headers["webhook-id"], &one.headers["webhook-timestamp"]);
    let mut child = Command::new("python3")
        .args(["-c", program, SECRET, id, time])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    child.stdin.take().expect("piped").write_all(one.body.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

pub fn place(server: &Server, notify: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/p.toml", format!("{}\n{notify}", one_stage(&server.stage())));
    place
}

pub fn start(place: &Place, env: &[(&str, &str)]) -> Daemon {
    let env: Vec<(&str, &str)> = [("HOOK", SECRET)].into_iter().chain(env.iter().copied()).collect();
    let daemon = Daemon::start_with(place, &["--pipelines", "pipelines"], &env);
    daemon.until("/v1/pipelines", |list| list["items"][0]["problem"].is_null());
    daemon
}

/// Begins a run over so many items, once somebody looks at the pipeline.
pub fn begin(daemon: &Daemon, items: usize) -> String {
    let items: Vec<Value> =
        (0..items).map(|n| json!({"key": format!("k{n}"), "payload": {"n": n}})).collect();
    text(&daemon.post("/v1/runs", &json!({"pipeline": "test", "items": items})).expect(201).json()["run"])
}

/// Holds a message to the one of its type that the page shows.
pub fn is_as_the_page_says(message: &Value) {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/notifications.md");
    let page = std::fs::read_to_string(page).expect("it is there");
    let shown = page.lines().filter(|line| line.starts_with("{\"type\""));
    let shown: Vec<Value> = shown.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let like = shown.iter().find(|shown| shown["type"] == message["type"]).expect("the page shows it");
    let names =
        |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(message), names(like));
    assert_eq!(names(&message["data"]), names(&like["data"]), "{message}");
}

/// What the daemon knows of the pipeline is in the store, so that what comes is news.
pub fn until_watched(place: &Place) {
    wait::until("it is watched", || {
        let rows = Command::new("python3")
            .args(["-c", "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(\"select count(*) from memo where name like 'notify/%'\").fetchone()[0])"])
            .arg(place.path(".redrive/state.db"))
            .output()
            .expect("python3 starts");
        rows.stdout.starts_with(b"1")
    });
}

#[test]
fn what_happens_once_a_first_notify_is_in_force_is_told() {
    let (server, receiver) = (Server::good(), Receiver::start(204));
    let place = place(&server, "");
    let mut daemon = Daemon::start_with(
        &place,
        &["--pipelines", "pipelines"],
        &[("HOOK", SECRET), ("REDRIVE_LOG", "info")],
    );
    let entry = receiver.entry("\"run.ended\"");
    place.write(
        "pipelines/q.toml",
        format!("{}\n{entry}", one_stage(&server.stage()).replace("\"test\"", "\"other\"")),
    );
    wait::until("it is there", || daemon.get("/v1/pipelines").json()["items"][1]["name"] == "other");
    daemon.process().until_said("q.toml");
    let run = json!({"pipeline": "other", "items": [{"key": "a", "payload": {"n": 1}}]});
    daemon.post("/v1/runs", &run).expect(201);
    assert_eq!(receiver.until(1)[0].message()["type"], "run.ended");
    daemon.stop().expect(0);
}

#[test]
fn a_run_that_ends_is_told_once_by_a_signed_webhook() {
    let (server, receiver) = (Server::good(), Receiver::start(204));
    let place = place(&server, &receiver.entry("\"run.ended\""));
    let daemon = start(&place, &[]);
    until_watched(&place);
    let run = begin(&daemon, 5);
    let came = receiver.until(1);
    let message = came[0].message();
    assert_eq!((&message["type"], &message["data"]["run"]), (&json!("run.ended"), &json!(run)));
    assert_eq!(
        (&message["data"]["status"], &message["data"]["counts"]["succeeded"]),
        (&json!("completed"), &json!(5))
    );
    assert_eq!(came[0].headers["webhook-signature"], signature(&came[0]));
    is_as_the_page_says(&message);
    // Runs of Redrive's own are in nobody's way, and can be looked at.
    assert_eq!(array(&place.json(&["runs"])["runs"]).len(), 1);
    assert_eq!(place.json(&["show"])["run"], json!(run));
    let own = place.until_json(&["runs", "--pipeline", "redrive.notify"], |list| {
        list["runs"][0]["counts"]["succeeded"] == 1
    });
    assert_eq!(own["runs"][0]["counts"]["admitted"], 1);
    let ran = daemon.stop().expect(0);
    assert_eq!(receiver.came().len(), 1);
    place.check();
    let kept = std::fs::read(place.path(".redrive/state.db")).expect("read");
    let key = &SECRET.as_bytes()[6..];
    assert!(!kept.windows(key.len()).any(|part| part == key), "the secret is in no row");
    assert!(!ran.stderr.contains(SECRET) && !ran.stdout.contains(SECRET));
}

#[test]
fn a_run_that_goes_on_and_finds_nothing_is_not_told_again() {
    let (server, receiver) = (Server::good(), Receiver::start(200));
    let place = place(&server, &receiver.entry("\"run.ended\""));
    place.write("pipelines/in.jsonl", "{\"id\": \"a\"}\n");
    let daemon = start(&place, &[]);
    until_watched(&place);
    let begin = || daemon.post("/v1/runs", &json!({"pipeline": "test"}));
    let ended = |before: &Value| {
        let report = daemon.until("/v1/runs/r1", |report| {
            report["finished_at"].is_string() && report["finished_at"] != *before
        });
        report["finished_at"].clone()
    };
    begin();
    let first = ended(&Value::Null);
    receiver.until(1);
    begin();
    let second = ended(&first);
    place.write("pipelines/in.jsonl", "{\"id\": \"a\"}\n{\"id\": \"b\"}\n");
    begin();
    ended(&second);
    let came = receiver.until(2);
    let admitted: Vec<Value> =
        came.iter().map(|one| one.message()["data"]["counts"]["admitted"].clone()).collect();
    assert_eq!(admitted, [json!(1), json!(2)], "the second end has nothing to tell");
    daemon.stop().expect(0);
}

#[test]
fn a_receiver_that_was_away_for_a_day_is_told_after_it_by_the_same_id() {
    let (server, receiver) = (Server::good(), Receiver::start(503));
    let mut place = place(&server, &receiver.entry("\"run.ended\""));
    let clock = Shifted::in_place(&mut place);
    let daemon = start(&place, &[]);
    until_watched(&place);
    begin(&daemon, 1);
    receiver.until(1);
    daemon.stop().expect(0);
    // It is away for longer than a day, and asked now and then.
    for tries in 1..=5 {
        clock.put(tries * 5 * HOUR);
        let daemon = start(&place, &[]);
        receiver.until(1 + usize::try_from(tries).expect("few"));
        daemon.stop().expect(0);
    }
    receiver.answer(200);
    clock.put(30 * HOUR);
    let daemon = start(&place, &[]);
    receiver.until(7);
    place.until_json(&["runs", "--pipeline", "redrive.notify"], |list| {
        list["runs"][0]["counts"]["succeeded"] == 1
    });
    let ids: BTreeSet<String> = receiver.came().iter().map(|one| one.headers["webhook-id"].clone()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(array(&place.json(&["dead", "list"])["items"]).len(), 0);
    daemon.stop().expect(0);
    place.check();
}

/// A daemon dies between what it decides to tell and its handing over; two others tell it once. Tells whether it died.
pub fn tells_although_one_dies(point: &str) -> bool {
    let (server, receiver) = (Server::good(), Receiver::start(200));
    let place = place(&server, &receiver.entry("\"run.ended\""));
    let dies = start(&place, &[("REDRIVE_CRASH_AT", point)]);
    until_watched(&place);
    let run = begin(&dies, 3);
    let killed = dies.finish().killed_by() == Some(9);
    let daemons = [start(&place, &[]), start(&place, &[])];
    receiver.until(1);
    let own = place.until_json(&["runs", "--pipeline", "redrive.notify"], |list| {
        list["runs"][0]["counts"]["succeeded"] == 1
    });
    assert_eq!(own["runs"][0]["counts"]["admitted"], 1, "{point}: {own}");
    let ids: BTreeSet<String> = receiver.came().iter().map(|one| one.headers["webhook-id"].clone()).collect();
    assert_eq!(ids.len(), 1, "{point}");
    assert_eq!(receiver.came()[0].message()["data"]["run"], json!(run), "{point}");
    daemons.into_iter().for_each(|daemon| drop(daemon.stop().expect(0)));
    place.check();
    killed
}

#[test]
fn what_was_decided_is_told_once_although_a_daemon_dies_after_it() {
    assert!(tells_although_one_dies("notify.decided:1"));
}

#[test]
fn a_receiver_that_hangs_does_not_slow_work() {
    let (server, receiver) = (Server::good(), Receiver::start(HANGS));
    let place = place(&server, &receiver.entry("\"run.ended\""));
    let mut daemon = start(&place, &[]);
    until_watched(&place);
    begin(&daemon, 1);
    receiver.until(1);
    for items in 40..45 {
        let run = begin(&daemon, items);
        daemon.until(&format!("/v1/runs/{run}"), |report| report["counts"]["succeeded"] == items);
    }
    daemon.process().signal("KILL");
    daemon.finish();
    // What was under way is told by the next one.
    receiver.answer(200);
    let before = receiver.came().len();
    let daemon = start(&place, &[]);
    receiver.until(before + 1);
    daemon.stop().expect(0);
}

#[test]
fn pauses_dead_letters_and_gates_are_told_and_a_command_hears_of_them() {
    let server = Server::start(|call| {
        Answer::results(&call.items.iter().map(|item| failed(item, "final", "no good")).collect::<Vec<_>>())
    });
    let receiver = Receiver::start(200);
    let mut notify = receiver.entry("\"run.paused\", \"dead.growth\", \"gate.paused\"");
    notify.push_str("dead_growth = { count = 3, within = \"1h\" }\n");
    notify.push_str("[[notify]]\non = [\"gate.paused\"]\ncommand = [\"python3\", \"tell.py\"]\n");
    let place = place(&server, &notify);
    let budget = place
        .read("pipelines/p.toml")
        .replace("failure_budget = false", "failure_budget = { consecutive = 4 }")
        .replace("name = \"work\"\n", "name = \"work\"\nbatch = 10\nconcurrency = 1\n");
    place.write("pipelines/p.toml", budget);
    place.write(
        "pipelines/tell.py",
        "import json, sys\nfor line in sys.stdin:\n    item = json.loads(line)['items'][0]\n    open('told.txt', 'a').write(item['payload']['type'] + '\\n')\n    print(json.dumps({'results': [{'id': item['id'], 'output': 1}]}), flush=True)\n",
    );
    let daemon = start(&place, &[]);
    until_watched(&place);
    begin(&daemon, 30);
    wait::until("both are told", || {
        receiver.kinds() == BTreeSet::from(["run.paused".to_owned(), "dead.growth".to_owned()])
    });
    let paused = receiver.came().into_iter().find(|one| one.message()["type"] == "run.paused").expect("told");
    assert_eq!(paused.message()["data"]["status"], "paused_budget");
    let gate = text(&place.json(&["gates"])["gates"][0]["name"]);
    place.run(&["gates", "pause", &gate]).expect(0);
    wait::until("the gate is told", || receiver.kinds().contains("gate.paused"));
    wait::until("the command has heard of it", || {
        std::fs::read_to_string(place.path("pipelines/told.txt")).unwrap_or_default() == "gate.paused\n"
    });
    assert_eq!(receiver.came().len(), 3, "{:?}", receiver.came());
    receiver.came().iter().for_each(|one| is_as_the_page_says(&one.message()));
    let growth =
        receiver.came().into_iter().find(|one| one.message()["type"] == "dead.growth").expect("told");
    let data = growth.message()["data"].clone();
    assert_eq!(data["at_least"], data["runs"]["r1"]);
    assert!(
        count(&data["at_least"]) >= 10,
        "all that died are counted, and not only as many as matter: {data}"
    );
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn items_that_nobody_takes_for_long_are_told_of_once() {
    let (server, receiver) = (Server::good(), Receiver::start(200));
    let mut notify = receiver.entry("\"items.starved\", \"run.ended\"");
    notify.push_str("starved_after = \"10m\"\n");
    let mut place = place(&server, &notify);
    let clock = Shifted::in_place(&mut place);
    let daemon = start(&place, &[]);
    until_watched(&place);
    let before = begin(&daemon, 1);
    assert_eq!(receiver.until(1)[0].message()["data"]["run"], before);
    place.run(&["pipelines", "pause", "test", "--stage", "work", "--why", "a look"]).expect(0);
    let run = begin(&daemon, 3);
    clock.put(9 * 60_000);
    place.run(&["items", "--run", &run]).expect(0);
    assert_eq!(receiver.came().len(), 1, "nine minutes are not long");
    clock.put(11 * 60_000);
    let told = receiver.until(2)[1].message();
    assert_eq!((&told["type"], &told["data"]["run"]), (&json!("items.starved"), &json!(run)), "{told}");
    assert_eq!((&told["data"]["key"], &told["data"]["stage"]), (&json!("k0"), &json!("work")), "{told}");
    assert!(text(&told["data"]["why"]).contains("a look"), "{told}");
    // An hour later they still wait, and that is no news.
    clock.put(HOUR);
    place.run(&["pipelines", "resume", "test", "--stage", "work"]).expect(0);
    let ended = receiver.until(3)[2].message();
    assert_eq!((&ended["type"], &ended["data"]["run"]), (&json!("run.ended"), &json!(run)), "{ended}");
    assert_eq!(receiver.came().len(), 3, "{:?}", receiver.came());
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn an_entry_that_cannot_be_used_is_refused_and_shows_no_secret() {
    let (server, receiver) = (Server::good(), Receiver::start(200));
    let place = place(&server, &receiver.entry("\"run.ended\""));
    for (env, words) in [(vec![], "HOOK is not set"), (vec![("HOOK", "hunter2")], "whsec_ followed by")] {
        let daemon = Daemon::start_with(&place, &["--pipelines", "pipelines"], &env);
        let list = daemon.get("/v1/pipelines").json();
        let problem = list["items"][0]["problem"].to_string();
        assert!(problem.contains(words) && problem.contains("[[notify]] entry 1"), "{list}");
        let ran = daemon.stop().expect(0);
        assert!(!ran.stderr.contains("hunter2") && !list.to_string().contains("hunter2"), "{}", ran.stderr);
    }
    place.write("own.toml", "name = \"redrive.notify.x\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n");
    let refused = place.run(&["submit", "own.toml", "--item", "{}"]).expect(2);
    assert!(
        refused.stderr.contains("own.toml:1: name: names that begin with redrive.notify"),
        "{}",
        refused.stderr
    );
}
