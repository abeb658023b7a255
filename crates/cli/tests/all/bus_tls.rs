//! TLS to the broker: who is not who was meant is told nothing.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::broker::PASSWORD;
use crate::support::tools::free_port;
use crate::support::{Broker, Daemon, Place, array, count, one_stage, samples};

const ITEMS: usize = 20;

fn openssl(folder: &Path, args: &[&str]) {
    let made = Command::new("openssl").args(args).current_dir(folder).output().expect("openssl starts");
    assert!(made.status.success(), "{args:?}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Arguments that ask for a new key.
const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/// Makes an authority.
fn authority(folder: &Path, name: &str) {
    let (key, out, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
    let what = ["req", "-x509", "-days", "2", "-subj", &subject, "-keyout", &key, "-out", &out];
    openssl(folder, &[&what[..], &NEW_KEY].concat());
}

/// Makes a certificate of `own` for this machine by its name, and not by its number, that holds for so many days.
fn certificate(folder: &Path, days: &str) {
    let what = ["req", "-new", "-subj", "/CN=a broker", "-addext", "subjectAltName=DNS:localhost"];
    openssl(folder, &[&what[..], &NEW_KEY, &["-keyout", "broker.key", "-out", "broker.csr"]].concat());
    let signed =
        ["x509", "-req", "-in", "broker.csr", "-CA", "own.pem", "-CAkey", "own.key", "-CAcreateserial"];
    let as_asked = ["-copy_extensions", "copy", "-days", days, "-out", "broker.pem"];
    openssl(folder, &[&signed[..], &as_asked].concat());
}

fn settings(folder: &Path, port: u16) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    format!(
        "listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\nssl_options.verify = verify_none\n",
        path("own.pem"),
        path("broker.pem"),
        path("broker.key")
    )
}

fn place() -> Place {
    let queue =
        one_stage("kind = \"pass\"").replace("path = \"in.jsonl\"", "kind = \"inbox\"\nqueue = \"orders\"");
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(ITEMS));
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/orders.toml", queue.replace("name = \"test\"", "name = \"orders\""));
    place
}

#[test]
fn a_broker_is_told_over_tls_only_when_its_certificate_is_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, port) = (folder.path(), free_port());
    authority(folder, "own");
    authority(folder, "other");
    certificate(folder, "2");
    let mut broker = Broker::start_with(&settings(folder, port));
    let client = broker.client();
    client.bind("all", &["#"], &[]);
    let place = place();
    let address = |host: &str, port: u16| format!("amqps://me:{PASSWORD}@{host}:{port}");
    let (url, own) = (address("localhost", port), folder.join("own.pem").display().to_string());
    let other = folder.join("other.pem").display().to_string();
    let relay =
        |bus: &str, ca: &str| place.run_with(&["relay", "--once", "--bus", bus], &[("REDRIVE_BUS_CA", ca)]);
    relay(&url, &own).expect(0);
    place.run(&["run", "p.toml", "--quiet"]).expect(0);
    let refused = |bus: &str, ca: &str, words: &str| {
        let ran = relay(bus, ca).expect(1);
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(told.contains(words) && !told.contains(PASSWORD), "{words}: {told}");
        assert_eq!(client.count("all"), 0, "nothing was told");
    };
    refused(&url, &other, "is of an authority that is not trusted here; name that one by --bus-ca");
    refused(&url, "", "is of an authority that is not trusted here");
    refused(&address("127.0.0.1", port), &own, "is for another machine than 127.0.0.1");
    let plain: u16 = broker.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    refused(&address("localhost", plain), &own, "does not speak TLS at this port");
    // The same broker with the right certificate is told everything, and what it has is taken.
    relay(&url, &own).expect(0);
    assert!(client.count("all") > u32::try_from(2 * ITEMS).expect("few"));
    let looked = place.run_with(&["doctor", &url, "--bus-ca", &own, "--json"], &[]).expect(0).json();
    assert!(array(&looked["findings"]).iter().any(|found| found["what"] == "bus"), "{looked}");
    client.declare("orders");
    client.put("orders", &["{\"id\":\"a\"}", "{\"id\":\"b\"}"], &[]);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines", "--bus", &url, "--bus-ca", &own]);
    let done = |run: &Value| run["pipeline"] == "orders" && count(&run["counts"]["succeeded"]) == 2;
    daemon.until("/v1/runs", |runs| array(&runs["items"]).iter().any(done));
    let ran = daemon.stop().expect(0);
    assert!(!ran.stderr.contains(PASSWORD), "{}", ran.stderr);
    drop(client);
    // One that holds for no day is over when the broker is there again.
    certificate(folder, "0");
    broker.stop();
    broker.begin();
    place.run(&["run", "p.toml", "--new", "--quiet"]).expect(0);
    let ran = relay(&url, &own).expect(1);
    assert!(ran.stderr.contains("has expired") && !ran.stderr.contains(PASSWORD), "{}", ran.stderr);
    place.check();
}
