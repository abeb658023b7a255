//! `redrive rehearse` as a process of its own, and asking it what it did.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{Place, Started, count, text};

/// A provider that misbehaves by plan. It ends with this value.
pub struct Rehearsal {
    started: Started,
    address: String,
    _place: Place,
}

impl Rehearsal {
    /// Plays a plan, given as TOML.
    pub fn start(plan: &str) -> Self {
        let place = Place::new();
        place.write("plan.toml", plan);
        let started =
            place.start(&["rehearse", "--listen", "127.0.0.1:0", "--plan", "./plan.toml", "--json"]);
        let first: Value = serde_json::from_str(&started.first_line()).expect("JSON");
        let address = text(&first["listening"]).trim_start_matches("http://").to_owned();
        Self { started, address, _place: place }
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The lines of an `embed` stage that asks it.
    pub fn embed(&self) -> String {
        format!("kind = \"embed\"\nbase_url = \"http://{}/v1\"\nmodel = \"m\"\n", self.address)
    }

    /// The lines of an `http` stage that asks it.
    pub fn http(&self) -> String {
        format!("kind = \"http\"\nurl = \"http://{}/work\"\n", self.address)
    }

    /// What it did so far.
    pub fn report(&self) -> Value {
        let answer = request(&self.address, "GET", "/rehearse/report", "");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// A count of the report.
    pub fn count(&self, field: &str) -> u64 {
        count(&self.report()[field])
    }

    /// Buys credit.
    pub fn top_up(&self) {
        request(&self.address, "POST", "/rehearse/top-up", "");
    }

    /// Forgets everything.
    pub fn reset(&self) {
        request(&self.address, "POST", "/rehearse/reset", "");
    }

    /// Embeds one text and returns the whole answer.
    pub fn ask(&self, text: &str) -> String {
        request(
            &self.address,
            "POST",
            "/v1/embeddings",
            &json!({ "model": "m", "input": [text] }).to_string(),
        )
    }

    /// Ends it and returns its report.
    pub fn end(self) -> Value {
        self.started.signal("TERM");
        let ran = self.started.finish().expect(0);
        serde_json::from_str(ran.stdout.lines().last().expect("a report")).expect("JSON")
    }
}

/// One request on a connection of its own; returns the body.
fn request(address: &str, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}
