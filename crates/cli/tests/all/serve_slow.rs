//! Clients that send slowly, or too much, are cut off; those that do not are served meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::support::daemon::TOKEN;
use crate::support::shifted::Shifted;
use crate::support::{Daemon, Place, wait};

/// A connection on which this was said.
fn says(daemon: &Daemon, words: &str) -> TcpStream {
    let mut stream = TcpStream::connect(daemon.address()).expect("it listens");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("set");
    stream.write_all(words.as_bytes()).expect("it reads");
    stream
}

/// The beginning of a request with a token, whose head is whole.
fn head(daemon: &Daemon, more: &str) -> String {
    format!(
        "POST /v1/operations HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n{more}\r\n\r\n",
        daemon.address()
    )
}

/// Whether a connection is open and nothing was said on it.
fn waits(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("set");
    let looked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).expect("set");
    looked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// What is said on a connection until it is closed.
fn to_its_end(mut stream: TcpStream) -> String {
    let (mut told, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => told.extend_from_slice(&buffer[..n]),
            // It is closed before all was read that was sent: what it said came before.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("it is not closed: {error}"),
        }
    }
    String::from_utf8_lossy(&told).into_owned()
}

#[test]
fn whoever_sends_too_slowly_is_cut_off_in_time_and_not_before() {
    let mut place = Place::new();
    let clock = Shifted::with_waits(&mut place);
    let daemon = Daemon::start(&place, &["--no-work"]);
    let silent = says(&daemon, "");
    let half_a_head = says(&daemon, "POST /v1/operations HTTP/1.1\r\nHost: local");
    let half_a_body = says(&daemon, &format!("{}{{\"kind\":", head(&daemon, "Content-Length: 100")));
    let pieces = says(&daemon, &format!("{}9\r\n{{\"kind\":", head(&daemon, "Transfer-Encoding: chunked")));
    // Whoever is answered wakes it: whatever it would have done by then is done.
    let looks = || drop((daemon.get("/healthz").expect(200), daemon.get("/v1/runs").expect(200)));
    looks();
    clock.pass(3_000);
    looks();
    for (what, stream) in
        [("silence", &silent), ("a head", &half_a_head), ("a body", &half_a_body), ("pieces", &pieces)]
    {
        assert!(waits(stream), "{what} may take three seconds");
    }
    clock.pass(15_000);
    looks();
    assert_eq!(to_its_end(silent), "");
    let told = to_its_end(half_a_head);
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 408 "), "{told}");
    assert!(waits(&half_a_body) && waits(&pieces), "a body may take longer than a head");
    clock.pass(60_000);
    looks();
    for stream in [half_a_body, pieces] {
        let told = to_its_end(stream);
        assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
        assert!(told.contains("application/problem+json") && told.contains("did not come in time"), "{told}");
    }
    looks();
    daemon.stop().expect(0);
}

#[test]
fn a_head_that_is_too_large_is_refused_with_its_own_status() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--no-work"]);
    let with = |bytes: usize| {
        let more = format!("Connection: close\r\nX-Long: {}", "x".repeat(bytes));
        to_its_end(says(&daemon, &head(&daemon, &format!("{more}\r\nContent-Length: 0"))))
    };
    assert!(with(40 << 10).starts_with("HTTP/1.1 431 "), "forty KiB are too much");
    let fits = with(16 << 10);
    assert!(fits.starts_with("HTTP/1.1 400 "), "it is read, and found to have no body: {fits}");
    let line = format!("GET /v1/runs?pipeline={} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(70_000));
    let told = to_its_end(says(&daemon, &line));
    assert!(told.starts_with("HTTP/1.1 414 ") || told.starts_with("HTTP/1.1 431 "), "{told}");
    daemon.get("/v1/runs").expect(200);
    daemon.stop().expect(0);
}
