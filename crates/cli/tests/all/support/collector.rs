//! A collector of OpenTelemetry on the loopback: it keeps every body, answers as it is told, and has what it was sent read by
//! the published messages of OTLP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{python_with, wait};

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Body {
    /// The path of its address.
    pub path: String,
    /// Header names, in lower case, with their values.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

/// What the collector does with a request.
pub enum Way {
    /// Takes it.
    Take,
    /// Answers with this head (after the status line's `HTTP/1.1 `) and body.
    Say(String, String),
    /// An answer without an end.
    Endless,
    /// No answer for as long as the caller waits.
    Never,
}

type Plan = dyn Fn(&Body) -> Way + Send + Sync;

/// The collector.
pub struct OtelCollector {
    address: String,
    bodies: Arc<Mutex<Vec<Body>>>,
}

impl OtelCollector {
    /// One that takes everything.
    pub fn good() -> Self {
        Self::start(|_| Way::Take)
    }

    /// Begins to listen.
    pub fn start(plan: impl Fn(&Body) -> Way + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let (plan, kept): (Arc<Plan>, _) = (Arc::new(plan), bodies.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (plan, kept) = (plan.clone(), kept.clone());
                std::thread::spawn(move || serve(&stream, &*plan, &kept));
            }
        });
        Self { address, bodies }
    }

    /// The address to name in the environment.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far.
    pub fn bodies(&self) -> Vec<Body> {
        self.bodies.lock().expect("not poisoned").clone()
    }

    /// How many spans came so far, as far as can be seen without reading them.
    pub fn spans_so_far(&self) -> usize {
        self.bodies().iter().map(|body| body.body.matches("\"spanId\":").count()).sum()
    }

    /// Everything that was sent, as the published messages have it; fails when a body is none of them.
    pub fn read(&self) -> Told {
        let bodies: Vec<Value> =
            self.bodies().iter().map(|body| json!({ "path": body.path, "body": body.body })).collect();
        let mut child = Command::new(python_with("opentelemetry-proto", "1.45.2", "REDRIVE_OTLP_PYTHON"))
            .args(["-c", include_str!("../otlp_reader.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut to = child.stdin.take().expect("piped");
        let sent = Value::from(bodies).to_string();
        let writer = std::thread::spawn(move || drop(to.write_all(sent.as_bytes())));
        let ran = child.wait_with_output().expect("it ends");
        writer.join().expect("written");
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "this is not OTLP: {err}");
        let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}\n{err}"));
        Told { spans: super::array(&told["spans"]).to_vec(), points: super::array(&told["points"]).to_vec() }
    }
}

/// What was sent.
pub struct Told {
    /// Spans, with their attributes by name.
    pub spans: Vec<Value>,
    /// Values of metrics, in the order in which they came.
    pub points: Vec<Value>,
}

fn serve(stream: &TcpStream, plan: &Plan, kept: &Mutex<Vec<Body>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("cloned"));
    while let Some(body) = read_request(&mut reader) {
        let way = plan(&body);
        kept.lock().expect("not poisoned").push(body);
        if !reply(stream, &mut reader, &way) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Body> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|n| *n > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length: usize = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).expect("JSON is text");
    Some(Body { path: first.split(' ').nth(1)?.to_owned(), headers, body })
}

/// Answers; `false` when the connection is to be closed.
fn reply(mut stream: &TcpStream, reader: &mut BufReader<TcpStream>, way: &Way) -> bool {
    let said =
        |head: &str, body: &str| format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    match way {
        Way::Take => stream.write_all(said("200 OK", "{}").as_bytes()).is_ok(),
        Way::Say(head, body) => stream.write_all(said(head, body).as_bytes()).is_ok(),
        Way::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
            while stream.write_all(chunk.as_bytes()).is_ok() {}
            false
        }
        Way::Never => {
            // Ends when the caller hangs up.
            let _ = reader.read(&mut [0]);
            false
        }
    }
}

/// Waits until so many spans came.
pub fn until_spans(collector: &OtelCollector, spans: usize) {
    wait::until(&format!("{spans} spans"), || collector.spans_so_far() >= spans);
}
