//! By which addresses a daemon is reached that listens at all of them.

use std::net::UdpSocket;

use crate::support::Place;
use crate::support::daemon::TOKEN;

/// The address of this machine that others reach it by; the loopback where there is none. Nothing is sent.
fn own_address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let found = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    found.map_or_else(|_| "127.0.0.1".to_owned(), |address| address.ip().to_string())
}

#[test]
fn a_daemon_at_all_addresses_answers_at_its_own_address_and_by_no_name_it_was_not_given() {
    let place = Place::new();
    let started = place.start_with(
        &[
            "serve",
            "--listen",
            "0.0.0.0:0",
            "--allow-remote",
            "--insecure-http",
            "--host",
            "redrive.lan",
            "--no-work",
        ],
        &[("REDRIVE_TOKEN", TOKEN)],
        b"",
    );
    let line = started.first_line();
    let port = line.rsplit(':').next().expect("a port").to_owned();
    let address = own_address();
    let status = |host: &str, path: &str| {
        let asked = std::process::Command::new("curl")
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--noproxy", "*"])
            .args(["-H", &format!("Host: {host}"), "-H", &format!("Authorization: Bearer {TOKEN}")])
            .arg(format!("http://{address}:{port}{path}"))
            .output()
            .expect("curl");
        String::from_utf8_lossy(&asked.stdout).into_owned()
    };
    for (host, path, wanted) in [
        (format!("{address}:{port}"), "/metrics", "200"),
        (address.clone(), "/v1/runs", "200"),
        ("redrive.lan".to_owned(), "/v1/runs", "200"),
        ("192.0.2.77:7300".to_owned(), "/v1/runs", "421"),
        ("evil.example".to_owned(), "/v1/runs", "421"),
        ("evil.example".to_owned(), "/healthz", "200"),
        ("evil.example".to_owned(), "/readyz", "200"),
    ] {
        assert_eq!(status(&host, path), wanted, "{host} {path}");
    }
    started.signal("TERM");
    started.finish().expect(0);
}
