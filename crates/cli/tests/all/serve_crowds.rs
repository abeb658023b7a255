//! One token that has more than its share of the connections keeps nobody out.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::support::daemon::TOKEN;
use crate::support::{Daemon, Place, wait};

/// More than are served at a time, those of the reserve included.
const CROWD: usize = 600;
/// Connections of one token that do not give way to others.
const SHARE: usize = 128;
/// Nobody else waits as long as this.
const SOON: Duration = Duration::from_secs(1);

fn world() -> (Place, Daemon, String) {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let worker = place.run(&["token", "create", "wim", "--role", "worker"]).expect(0).stdout;
    (place, daemon, worker.trim().to_owned())
}

/// Sends a request on a new connection, and leaves that open.
fn sent(address: &str, token: &str, method: &str, path: &str, body: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).ok().map(|()| stream)
}

/// Whether somebody is answered soon: a probe, and an administrator.
fn others_are_answered(daemon: &Daemon) {
    for round in 0..5 {
        let began = wait::now();
        daemon.ask("GET", "/healthz", &[], "").expect(200);
        daemon.get("/v1/runs").expect(200);
        assert!(began.elapsed() < SOON, "round {round} took {:?}", began.elapsed());
    }
}

#[test]
fn connections_that_one_token_keeps_open_lock_nobody_out() {
    let (_place, daemon, worker) = world();
    let (address, over) = (daemon.address().to_owned(), Arc::new(AtomicBool::new(false)));
    let refused = Arc::new(AtomicUsize::new(0));
    let (until, counted) = (over.clone(), refused.clone());
    // A worker may not list runs: every request is refused, and its connection is kept and used again.
    let crowd = std::thread::spawn(move || {
        let open = || sent(&address, &worker, "GET", "/v1/runs", "");
        let mut kept: Vec<Option<TcpStream>> = (0..CROWD).map(|_| open()).collect();
        while !until.load(Ordering::SeqCst) {
            for place in &mut kept {
                let mut answer = [0; 4096];
                let read = place.as_mut().and_then(|stream| stream.read(&mut answer).ok()).unwrap_or(0);
                counted.fetch_add(usize::from(answer.starts_with(b"HTTP/1.1 403")), Ordering::SeqCst);
                let again = format!(
                    "GET /v1/runs HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {worker}\r\n\r\n"
                );
                let goes_on = read > 0
                    && place.as_mut().is_some_and(|stream| stream.write_all(again.as_bytes()).is_ok());
                if !goes_on {
                    *place = open();
                }
            }
        }
    });
    wait::until("the crowd is there", || refused.load(Ordering::SeqCst) > CROWD);
    others_are_answered(&daemon);
    over.store(true, Ordering::SeqCst);
    crowd.join().expect("it ends");
    daemon.stop().expect(0);
}

#[test]
fn claims_of_one_token_that_wait_give_way_to_others_and_a_token_keeps_its_share() {
    let (_place, daemon, worker) = world();
    let claim = json!({"wait_ms": 60_000}).to_string();
    let claims: Vec<TcpStream> = (0..CROWD)
        .filter_map(|_| sent(daemon.address(), &worker, "POST", "/v1/work/claim", &claim))
        .collect();
    assert_eq!(claims.len(), CROWD, "each found a place");
    others_are_answered(&daemon);
    let mut told = 0;
    for mut stream in claims {
        stream.set_nonblocking(true).expect("set");
        let mut answer = [0; 4096];
        if let Ok(read) = stream.read(&mut answer) {
            let answer = String::from_utf8_lossy(&answer[..read]).to_ascii_lowercase();
            let is_told = answer.starts_with("http/1.1 503") && answer.contains("retry-after");
            assert!(is_told, "whoever gives way is told so: {answer}");
            told += 1;
        }
    }
    assert!(told >= CROWD - 512 && CROWD - told >= SHARE, "{told} gave way, and a token keeps its share");
    daemon.stop().expect(0);
}

#[test]
fn a_follower_of_another_token_is_not_cut_off_for_a_crowd() {
    let (_place, daemon, worker) = world();
    let mut follower = sent(daemon.address(), TOKEN, "GET", "/v1/events", "").expect("sent");
    let mut begun = [0; 12];
    follower.read_exact(&mut begun).expect("answered");
    assert_eq!(begun, *b"HTTP/1.1 200");
    let claim = json!({"wait_ms": 60_000}).to_string();
    let crowd: Vec<_> =
        (0..CROWD).map(|_| sent(daemon.address(), &worker, "POST", "/v1/work/claim", &claim)).collect();
    others_are_answered(&daemon);
    follower.set_nonblocking(true).expect("set");
    let mut rest = [0; 4096];
    loop {
        match follower.read(&mut rest) {
            Ok(0) => panic!("the follower was cut off"),
            Ok(_) => {}
            Err(error) => break assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    drop(crowd);
    daemon.stop().expect(0);
}
