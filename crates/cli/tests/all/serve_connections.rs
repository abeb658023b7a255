//! Connections that are kept open without a word, or that speak very slowly, keep nobody out.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::support::daemon::TOKEN;
use crate::support::{Daemon, Place, Server, one_stage, wait};

/// More than are served at a time.
const SILENT: usize = 1_000;
/// Half of what a connection may take for the head of its first request: whoever is let in sooner did not wait for the
/// others to be cut off.
const SOON: Duration = Duration::from_secs(5);

/// Connections that say nothing, half a head, a head without its body, or a byte now and then.
fn silent(daemon: &Daemon) -> Vec<TcpStream> {
    let address = daemon.address();
    let said = |n: usize| match n % 4 {
        0 => String::new(),
        1 => "POST /v1/runs HTTP/1.1\r\nHost: local".to_owned(),
        2 => format!("POST /v1/runs HTTP/1.1\r\nHost: {address}\r\nContent-Length: 9000\r\n\r\n{{"),
        _ => "G".to_owned(),
    };
    let open = |n: usize| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // One that was cut off meanwhile is no loss.
        let _ = stream.write_all(said(n).as_bytes());
        stream
    };
    (0..SILENT).map(open).collect()
}

/// Says a byte to every connection again and again.
fn drip(streams: &[TcpStream], over: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let slow: Vec<TcpStream> =
        streams.iter().skip(3).step_by(4).map(|stream| stream.try_clone().expect("cloned")).collect();
    std::thread::spawn(move || {
        while !over.load(Ordering::SeqCst) {
            for mut stream in &slow {
                let _ = stream.write_all(b"E");
            }
            wait::pause();
        }
    })
}

#[test]
fn a_thousand_silent_and_slow_connections_do_not_stop_a_submit() {
    let server = Server::good();
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    // Whoever came with a token is not cut off for others.
    let mut follower = TcpStream::connect(daemon.address()).expect("it listens");
    let head = format!(
        "GET /v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n",
        daemon.address()
    );
    follower.write_all(head.as_bytes()).expect("sent");
    let mut begun = [0; 12];
    follower.read_exact(&mut begun).expect("answered");
    let streams = silent(&daemon);
    let over = Arc::new(AtomicBool::new(false));
    let dripping = drip(&streams, over.clone());
    for n in 0..3 {
        let began = wait::now();
        let items = json!([{"key": format!("k{n}"), "payload": {"n": n}}]);
        let run = json!({"pipeline": one_stage(&server.stage()), "items": items});
        daemon.post("/v1/runs", &run).expect(201);
        assert!(began.elapsed() < SOON, "submit {n} took {:?}", began.elapsed());
        daemon.until(&format!("/v1/runs/r{}", n + 1), |report| report["status"] == "completed");
    }
    over.store(true, Ordering::SeqCst);
    dripping.join().expect("it ends");
    let mut told = [0; 512];
    follower.set_read_timeout(Some(wait::LIMIT)).expect("set");
    assert_ne!(follower.read(&mut told).expect("it is told"), 0, "the follower is served yet");
    drop(streams);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn a_body_that_is_announced_as_too_large_is_refused_before_it_comes() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let mut stream = TcpStream::connect(daemon.address()).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("set");
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: 17825792\r\n\r\n",
        daemon.address()
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("it answers soon");
    assert_eq!(answer, *b"HTTP/1.1 413");
    daemon.stop().expect(0);
}
