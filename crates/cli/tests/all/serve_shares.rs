//! A client that sends slowly, with a token, takes no place from the others.

use std::io::Write;
use std::net::TcpStream;

use serde_json::json;

use crate::support::{Daemon, Place, wait};

/// Bodies of one token that are waited for at a time.
const SHARE: usize = 128;

#[test]
fn one_token_has_a_share_of_the_bodies_that_are_waited_for() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--no-work"]);
    let slow = place.run(&["token", "create", "slow", "--role", "operator"]).expect(0).stdout;
    let slow = slow.trim();
    let half = format!(
        "POST /v1/runs/r1/pause HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {slow}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        daemon.address()
    );
    let open = |_| {
        let mut stream = TcpStream::connect(daemon.address()).expect("it listens");
        stream.write_all(half.as_bytes()).expect("sent");
        stream
    };
    let all: Vec<TcpStream> = (0..SHARE).map(open).collect();
    let asked = || daemon.post_as(slow, "/v1/runs/r1/pause", &json!({}));
    wait::until("it has its share", || asked().status == 503);
    let refused = asked().expect(503);
    assert_eq!((&refused.json()["code"], refused.headers["retry-after"].as_str()), (&json!("crowded"), "1"));
    daemon.post("/v1/runs/r1/pause", &json!({})).expect(404);
    daemon.get_as(slow, "/v1/runs").expect(200);
    drop(all);
    wait::until("there is room again", || asked().status == 404);
    daemon.stop().expect(0);
}
