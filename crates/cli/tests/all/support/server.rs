//! An HTTP service on the loopback that answers by plan and remembers every call.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wait;

/// An item of a call.
#[derive(Debug, Clone)]
pub struct Item {
    /// What names the work: its id for the handler.
    pub id: String,
    /// Its id for operators.
    pub item: String,
    /// Its key.
    pub key: String,
    /// The number of the attempt, as the engine gave it.
    pub attempt: u64,
    /// Its content.
    pub payload: Value,
    /// What its answer names, where it may come later; empty otherwise.
    pub token: String,
    /// How often it was called at this stage before, by this service's own count.
    pub before: usize,
}

/// A call as it came in.
#[derive(Debug, Clone)]
pub struct Call {
    /// The stage; where somebody asks for an answer, the path that is asked.
    pub stage: String,
    /// Its items.
    pub items: Vec<Item>,
    /// Header names, in lower case, with their values.
    pub headers: BTreeMap<String, String>,
    /// When it came.
    pub at: Instant,
}

impl Call {
    /// The only item.
    pub fn item(&self) -> &Item {
        assert_eq!(self.items.len(), 1, "one item");
        &self.items[0]
    }
}

/// What the service does with a call.
pub enum Answer {
    /// A status, headers and a body.
    Http(u16, Vec<(&'static str, String)>, String),
    /// These very bytes.
    Raw(String),
    /// Reads the call and closes the connection.
    Cut,
    /// Closes the connection in the middle of the answer.
    CutInside,
    /// An answer without an end.
    Endless,
    /// No answer for as long as the caller waits.
    Never,
}

impl Answer {
    /// A status with a body.
    pub fn status(status: u16, body: &str) -> Self {
        Self::Http(status, Vec::new(), body.to_owned())
    }

    /// A list of results.
    pub fn results(results: &[Value]) -> Self {
        Self::status(200, &json!({ "results": results }).to_string())
    }

    /// Every item passes, with [`output`] as its output.
    pub fn all(call: &Call) -> Self {
        Self::results(&call.items.iter().map(passed).collect::<Vec<_>>())
    }
}

/// The output of an item that passes: its number doubled.
pub fn output(item: &Item) -> Value {
    json!({ "id": item.key, "twice": item.payload["n"].as_u64().unwrap_or(0) * 2 })
}

/// The result of an item that passes.
pub fn passed(item: &Item) -> Value {
    json!({ "id": item.id, "output": output(item) })
}

/// The result of an item that fails.
pub fn failed(item: &Item, class: &str, message: &str) -> Value {
    json!({ "id": item.id, "error": { "class": class, "message": message } })
}

type Plan = dyn Fn(&Call) -> Answer + Send + Sync;

/// The service.
pub struct Server {
    address: String,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    calls: Mutex<Vec<Call>>,
    seen: Mutex<BTreeMap<(String, String), usize>>,
    open: Mutex<usize>,
    closed_gate: Mutex<bool>,
    gate: Condvar,
}

impl Server {
    /// Begins to listen.
    pub fn start(plan: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let log = Arc::new(Log::default());
        let (plan, shared): (Arc<Plan>, _) = (Arc::new(plan), log.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (plan, log) = (plan.clone(), shared.clone());
                std::thread::spawn(move || serve(&stream, &*plan, &log));
            }
        });
        Self { address, log }
    }

    /// A service where everything passes.
    pub fn good() -> Self {
        Self::start(Answer::all)
    }

    /// The lines of a stage that asks it.
    pub fn stage(&self) -> String {
        format!("kind = \"http\"\nurl = \"http://{}/work\"", self.address)
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<Call> {
        self.log.calls.lock().expect("not poisoned").clone()
    }

    /// How many calls came so far.
    pub fn count(&self) -> usize {
        self.log.calls.lock().expect("not poisoned").len()
    }

    /// How many calls are not answered yet.
    pub fn open(&self) -> usize {
        *self.log.open.lock().expect("not poisoned")
    }

    /// Keeps every answer back until [`Server::release`].
    pub fn hold(&self) {
        *self.log.closed_gate.lock().expect("not poisoned") = true;
    }

    /// Lets the answers go.
    pub fn release(&self) {
        *self.log.closed_gate.lock().expect("not poisoned") = false;
        self.log.gate.notify_all();
    }

    /// Waits until so many calls came.
    pub fn until_called(&self, calls: usize) {
        wait::until(&format!("{calls} calls"), || self.count() >= calls);
    }

    /// Waits until so many calls are held.
    pub fn until_open(&self, calls: usize) {
        wait::until(&format!("{calls} open calls"), || self.open() >= calls);
    }

    /// The calls of every item, by key.
    pub fn by_key(&self) -> BTreeMap<String, Vec<(Call, Item)>> {
        let mut all: BTreeMap<String, Vec<(Call, Item)>> = BTreeMap::new();
        for call in self.calls() {
            for item in &call.items {
                all.entry(item.key.clone()).or_default().push((call.clone(), item.clone()));
            }
        }
        all
    }

    /// How often every item was called, by key.
    pub fn times_called(&self) -> BTreeMap<String, usize> {
        let mut times = BTreeMap::new();
        for item in self.log.calls.lock().expect("not poisoned").iter().flat_map(|call| &call.items) {
            *times.entry(item.key.clone()).or_default() += 1;
        }
        times
    }

    /// Fails unless attempts of every item are numbered 1, 2, 3 … and every item keeps an idempotency key of its own.
    /// Only for `batch = 1`.
    pub fn assert_numbered(&self) {
        let mut known = BTreeSet::new();
        for (key, calls) in self.by_key() {
            let numbers: Vec<u64> = calls.iter().map(|(_, item)| item.attempt).collect();
            let expected: Vec<u64> = (1..=calls.len() as u64).collect();
            assert_eq!(numbers, expected, "{key}");
            let keys: BTreeSet<&String> =
                calls.iter().map(|(call, _)| &call.headers["idempotency-key"]).collect();
            assert_eq!(keys.len(), 1, "{key} keeps its idempotency key");
            assert!(known.insert((*keys.first().expect("one")).clone()), "{key} shares its idempotency key");
        }
    }

    /// The shortest time between two calls of an item.
    pub fn shortest_gap(&self, key: &str) -> Duration {
        let calls = &self.by_key()[key];
        calls.windows(2).map(|pair| pair[1].0.at - pair[0].0.at).min().expect("called twice")
    }
}

fn serve(stream: &TcpStream, plan: &Plan, log: &Log) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream.try_clone().expect("cloned"));
    while let Some((asked, headers, body)) = read_request(&mut reader) {
        let call = log.record(&asked, headers, &body);
        let answer = plan(&call);
        log.pass_gate();
        let goes_on = reply(stream, &mut reader, answer);
        *log.open.lock().expect("not poisoned") -= 1;
        if !goes_on {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

impl Log {
    fn record(&self, asked: &str, headers: BTreeMap<String, String>, body: &[u8]) -> Call {
        let polled = asked.strip_prefix("GET ").map(|rest| rest.split(' ').next().unwrap_or_default());
        let body: Value = match polled {
            Some(_) => Value::Null,
            None => serde_json::from_slice(body).expect("the protocol"),
        };
        let stage = polled.or(body["stage"].as_str()).unwrap_or("model").to_owned();
        let mut seen = self.seen.lock().expect("not poisoned");
        let mut before = |key: &str| {
            let times = seen.entry((stage.clone(), key.to_owned())).or_default();
            *times += 1;
            *times - 1
        };
        let items = match body["items"].as_array() {
            Some(items) => items
                .iter()
                .map(|item| {
                    let key = super::text(&item["key"]);
                    Item {
                        id: super::text(&item["id"]),
                        item: super::text(&item["item"]),
                        attempt: super::count(&item["attempt"]),
                        payload: item["payload"].clone(),
                        token: item["answer_token"].as_str().unwrap_or_default().to_owned(),
                        before: before(&key),
                        key,
                    }
                })
                .collect(),
            None => {
                let text = polled.map_or_else(|| asked_for(&body), str::to_owned);
                let before = before(&text);
                vec![Item {
                    id: text.clone(),
                    item: String::new(),
                    attempt: 0,
                    payload: body,
                    token: String::new(),
                    before,
                    key: text,
                }]
            }
        };
        let call = Call { stage, items, headers, at: wait::now() };
        self.calls.lock().expect("not poisoned").push(call.clone());
        *self.open.lock().expect("not poisoned") += 1;
        call
    }

    fn pass_gate(&self) {
        let mut closed = self.closed_gate.lock().expect("not poisoned");
        while *closed {
            closed = self.gate.wait(closed).expect("not poisoned");
        }
    }
}

/// What a model is asked: the only text to embed, or the last message.
fn asked_for(body: &Value) -> String {
    let message = body["messages"].as_array().and_then(|all| all.last()).map(|last| &last["content"]);
    super::text(message.unwrap_or(&body["input"][0]))
}

/// The first line, the headers and the body of a request.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, BTreeMap<String, String>, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length: usize = match headers.get("content-length") {
        Some(length) => length.parse().ok()?,
        None if line.starts_with("GET ") => 0,
        None => return None,
    };
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((line, headers, body))
}

/// Answers; `false` when the connection is to be closed.
fn reply(mut stream: &TcpStream, reader: &mut BufReader<TcpStream>, answer: Answer) -> bool {
    let head =
        |status: u16, length: usize| format!("HTTP/1.1 {status} Planned\r\nContent-Length: {length}\r\n");
    match answer {
        Answer::Http(status, headers, body) => {
            let mut text = head(status, body.len());
            headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
            text.push_str("\r\n");
            text.push_str(&body);
            stream.write_all(text.as_bytes()).is_ok()
        }
        Answer::Raw(text) => stream.write_all(text.as_bytes()).is_ok(),
        Answer::Cut => false,
        Answer::CutInside => {
            let _ = stream.write_all(format!("{}\r\n{{\"results\":", head(200, 5_000)).as_bytes());
            false
        }
        Answer::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 Planned\r\nTransfer-Encoding: chunked\r\n\r\n");
            let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
            while stream.write_all(chunk.as_bytes()).is_ok() {}
            false
        }
        Answer::Never => {
            // Ends when the caller hangs up.
            let _ = reader.read(&mut [0]);
            false
        }
    }
}
