//! Programs of other people that tests start: installed by their packages where that can be done, and never done without.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{Place, wait};

/// Sees to it that a program is there, which is in this package of Debian.
pub fn needed(program: &str, package: &str) {
    needed_for(&format!("command -v {program}"), package);
}

/// Sees to it that a shell says yes to this, for which this package of Debian is needed.
///
/// Root installs it by `apt-get`; anybody else is told to. It is an error where it stays missing, here and in CI: a test that
/// is left out proves nothing.
pub fn needed_for(check: &str, package: &str) {
    let there = || {
        let asked =
            Command::new("sh").args(["-c", check]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    if there() {
        return;
    }
    // Tests run side by side, and apt-get does not.
    let install = format!(
        "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {package}"
    );
    let made = Command::new("flock").args(["/tmp/redrive-tests-apt.lock", "sh", "-c"]).arg(&install).output();
    let told = made.map(|made| String::from_utf8_lossy(&made.stderr).into_owned()).unwrap_or_default();
    assert!(there(), "this test needs {package}: `sudo apt-get install {package}` installs it. {told}");
}

/// A port that nobody listens at now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port()
}

/// A service that answers over HTTP, and ends with the test.
pub struct Service {
    child: Child,
    address: String,
}

impl Service {
    /// Starts a program that listens at this port, and waits until this path answers with 200.
    pub fn start(place: &Place, program: &str, args: &[String], port: u16, ready: &str) -> Self {
        let log = std::fs::File::create(place.path(&format!("{program}.log"))).expect("a log");
        let child = Command::new(program)
            .args(args)
            .current_dir(place.path("."))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let service = Self { child, address: format!("127.0.0.1:{port}") };
        wait::until(program, || service.get(ready).is_some_and(|(status, _)| status == 200));
        service
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks for something; `None` where nobody listens.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address).as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// Asks for a JSON document.
    pub fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).expect("it answers");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{status} {error}: {body}"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A text as it stands in a query.
pub fn quoted(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
