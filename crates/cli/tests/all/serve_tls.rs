//! TLS by certificate files: a client that verifies is served, one that does not speak TLS is told so.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output};

use crate::support::daemon::TOKEN;
use crate::support::{Place, Started};

/// Makes a certificate for this machine in a place.
fn certificate(place: &Place, name: &str) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=a daemon of a test", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .arg("-keyout")
        .arg(place.path(&format!("{name}.key")))
        .arg("-out")
        .arg(place.path(&format!("{name}.pem")))
        .output()
        .expect("openssl starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// A daemon with this certificate, and its port.
fn start(place: &Place, name: &str) -> (Started, String) {
    let (chain, key) = (format!("{name}.pem"), format!("{name}.key"));
    let args = ["serve", "--listen", "127.0.0.1:0", "--no-work", "--tls-cert", &chain, "--tls-key", &key];
    let started = place.start_with(&args, &[("REDRIVE_TOKEN", TOKEN)], b"");
    let line = started.first_line();
    let port = line.strip_prefix("listening at https://127.0.0.1:").unwrap_or_else(|| panic!("{line}"));
    let port = port.to_owned();
    (started, port)
}

/// Asks by a public client, which verifies.
fn curl(place: &Place, args: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["-sS", "--noproxy", "*", "--max-time", "30"]).args(args);
    command.current_dir(place.path("")).output().expect("curl starts")
}

#[test]
fn a_client_that_verifies_the_certificate_is_served_and_no_other_certificate_is_taken_for_it() {
    let place = Place::new();
    certificate(&place, "own");
    certificate(&place, "other");
    let (daemon, port) = start(&place, "own");
    let bearer = format!("Authorization: Bearer {TOKEN}");
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{port}/v1/runs");
        let served = curl(&place, &["--cacert", "own.pem", "-H", &bearer, &url]);
        assert_eq!(String::from_utf8_lossy(&served.stdout), "{\"items\":[],\"next\":null}", "{served:?}");
    }
    // 60: the certificate cannot be verified.
    let url = format!("https://localhost:{port}/healthz");
    let elsewhere = format!("https://elsewhere.example:{port}/healthz");
    let bent = format!("elsewhere.example:{port}:127.0.0.1");
    for args in [
        &["--cacert", "other.pem", &url][..],
        &[&url],
        &["--cacert", "own.pem", "--resolve", &bent, &elsewhere],
    ] {
        assert_eq!(curl(&place, args).status.code(), Some(60), "{args:?}");
    }
    daemon.signal("TERM");
    daemon.finish().expect(0);
}

#[test]
fn whoever_does_not_speak_tls_is_told_to() {
    let place = Place::new();
    certificate(&place, "own");
    let (daemon, port) = start(&place, "own");
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    let head =
        format!("GET /v1/runs HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered, and closed");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("application/problem+json") && answer.contains("https://"), "{answer}");
    // Neither that nor bytes of no meaning keep anybody else out.
    let mut odd = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    odd.write_all(&[0, 255, 22, 3]).expect("sent");
    let _ = odd.read(&mut [0; 64]);
    let url = format!("https://localhost:{port}/healthz");
    assert!(curl(&place, &["--cacert", "own.pem", "-f", &url]).status.success());
    daemon.signal("TERM");
    daemon.finish().expect(0);
}

#[test]
fn files_that_are_no_certificate_are_refused_by_name() {
    let place = Place::new();
    certificate(&place, "own");
    place.write("empty.pem", "");
    place.write("empty.key", "");
    certificate(&place, "other");
    for (chain, key, named) in [
        ("empty.pem", "own.key", "empty.pem"),
        ("own.pem", "empty.key", "empty.key"),
        ("own.pem", "other.key", "own.pem"),
    ] {
        let ran =
            place.run(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", chain, "--tls-key", key]).expect(2);
        assert!(ran.stderr.contains(named), "{}", ran.stderr);
    }
}
