//! `redrive serve` in a place, and a client that says exactly what a test wants to be said.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::place::Ran;
use super::{Place, Started, wait};

/// The token of the administrator in tests.
pub const TOKEN: &str = "an-administrator-of-these-tests";

/// A daemon that runs.
pub struct Daemon {
    started: Started,
    address: String,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: String,
}

impl Reply {
    /// Fails unless it has this status.
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }

    /// Its body as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

impl Daemon {
    /// Starts it in a place, with [`TOKEN`], and waits until it listens. Pipelines that are sent may call this machine, where
    /// the services of tests are.
    pub fn start(place: &Place, more: &[&str]) -> Self {
        Self::start_with(place, &[&["--allow-outbound", "127.0.0.0/8"], more].concat(), &[])
    }

    /// The same with further variables.
    pub fn start_with(place: &Place, more: &[&str], env: &[(&str, &str)]) -> Self {
        let args: Vec<&str> =
            ["serve", "--listen", "127.0.0.1:0"].into_iter().chain(more.iter().copied()).collect();
        let env: Vec<(&str, &str)> =
            [("REDRIVE_TOKEN", TOKEN)].into_iter().chain(env.iter().copied()).collect();
        let started = place.start_with(&args, &env, b"");
        let line = started.first_line();
        let address =
            line.strip_prefix("listening at http://").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { started, address }
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The process.
    pub fn process(&mut self) -> &mut Started {
        &mut self.started
    }

    /// Its number among the processes.
    pub fn pid(&self) -> u32 {
        self.started.pid()
    }

    /// Asks, and reads the whole answer.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let limit = Some(Duration::from_secs(60));
        stream.set_read_timeout(limit).expect("set");
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        read(&String::from_utf8_lossy(&answer))
    }

    /// Asks for something as an administrator.
    pub fn get(&self, path: &str) -> Reply {
        self.get_as(TOKEN, path)
    }

    /// Asks for something with this token.
    pub fn get_as(&self, token: &str, path: &str) -> Reply {
        self.ask("GET", path, &[("Authorization", &format!("Bearer {token}"))], "")
    }

    /// Sends something as an administrator.
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_as(TOKEN, path, body)
    }

    /// Sends something with this token.
    pub fn post_as(&self, token: &str, path: &str, body: &Value) -> Reply {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        self.ask("POST", path, &headers, &body.to_string())
    }

    /// Sends something as an administrator to one that may die of it; whether it was answered.
    pub fn bring(&self, path: &str, body: &str) -> bool {
        let Ok(mut stream) = TcpStream::connect(&self.address) else { return false };
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nConnection: close\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut answer = Vec::new();
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.read_to_end(&mut answer));
        sent.is_ok() && answer.starts_with(b"HTTP/1.1 200")
    }

    /// Waits until what is asked for is as wanted.
    pub fn until(&self, path: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        let begun = wait::now();
        loop {
            let reply = self.get(path);
            let found = if reply.status == 200 { reply.json() } else { Value::Null };
            if wanted(&found) {
                return found;
            }
            assert!(begun.elapsed() < wait::LIMIT, "{path} is not as wanted: {found:#}");
            wait::pause();
        }
    }

    /// Has it stop, and waits for its end.
    pub fn stop(self) -> Ran {
        self.started.signal("TERM");
        self.started.finish()
    }

    /// Kills it at once, as a power failure would.
    pub fn kill(self) -> Ran {
        self.started.kill()
    }

    /// Waits for its end.
    pub fn finish(self) -> Ran {
        self.started.finish()
    }
}

fn read(text: &str) -> Reply {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let chunked = headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked");
    let body = if chunked { joined(body) } else { body.to_owned() };
    Reply { status: status.unwrap_or_else(|| panic!("an answer: {text}")), headers, body }
}

/// The body of chunks.
fn joined(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        body.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    body
}
