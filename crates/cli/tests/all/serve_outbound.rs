//! Pipelines that are sent call public addresses only, in whatever process they are worked on; more is what an operator allows.

use serde_json::{Value, json};

use crate::support::{Answer, Daemon, Place, Server, one_stage, text};

/// A daemon to which nothing was said of calls.
fn strict(place: &Place, more: &[&str]) -> Daemon {
    Daemon::start_with(place, more, &[])
}

/// A pipeline that calls this address.
fn calls(url: &str) -> String {
    one_stage(&format!("kind = \"http\"\nurl = \"{url}\""))
}

fn begin(daemon: &Daemon, pipeline: &str) -> (u16, Value) {
    let items = json!([{"key": "a", "payload": {"n": 1}}]);
    let reply = daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items}));
    (reply.status, reply.json())
}

/// The address of a service by a name that leads to this machine.
fn by_name(server: &Server) -> String {
    format!("http://localhost:{}/work", port(server))
}

fn port(server: &Server) -> &str {
    server.address().rsplit(':').next().expect("a port")
}

fn until_dead(daemon: &Daemon) -> String {
    let dead = daemon.until("/v1/items/a", |item| item["state"] == "dead");
    assert_eq!(
        (&dead["reason"], &dead["class"], &dead["attempts"]),
        (&json!("final"), &json!("final"), &json!(1))
    );
    text(&dead["message"])
}

#[test]
fn an_address_that_is_not_public_is_refused_when_the_pipeline_is_sent() {
    let place = Place::new();
    let daemon = strict(&place, &[]);
    let model = |kind: &str, url: &str| {
        one_stage(&format!("kind = \"{kind}\"\nbase_url = \"{url}\"\nmodel = \"m\"\nprompt = \"x\""))
            .replace("\nprompt = \"x\"", if kind == "chat" { "\nprompt = \"x\"" } else { "" })
    };
    for url in [
        "http://127.0.0.1:9/",
        "http://2130706433:9/",
        "http://0x7f.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://192.168.1.1/",
        "https://[fd00:ec2::254]/",
        "http://0.0.0.0/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://224.0.0.1/",
    ] {
        for pipeline in [calls(url), model("chat", url), model("embed", url)] {
            let (status, told) = begin(&daemon, &pipeline);
            assert_eq!((status, told["code"].as_str()), (403, Some("forbidden")), "{url}: {told}");
            assert!(text(&told["detail"]).starts_with("stage work names "), "{told}");
            assert!(text(&told["hint"]).contains("--allow-outbound"), "{told}");
        }
    }
    let any = format!("outbound = \"any\"\n{}", calls("http://1.1.1.1/"));
    let (status, told) = begin(&daemon, &any);
    assert_eq!(status, 403, "{told}");
    let wrong = format!("outbound = \"publik\"\n{}", calls("http://1.1.1.1/"));
    let (status, told) = begin(&daemon, &wrong);
    assert_eq!((status, told["problems"][0]["line"].as_u64()), (422, Some(1)), "{told}");
    daemon.stop().expect(0);
}

#[test]
fn a_name_that_leads_to_this_machine_is_not_called_and_the_item_says_why() {
    let server = Server::good();
    let place = Place::new();
    // A proxy would make the call for it.
    let proxy = format!("http://{}", server.address());
    let proxies: Vec<(&str, &str)> =
        ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"].map(|name| (name, proxy.as_str())).to_vec();
    let daemon = Daemon::start_with(&place, &[], &proxies);
    assert_eq!(begin(&daemon, &calls(&by_name(&server))).0, 201);
    let message = until_dead(&daemon);
    assert!(message.contains("localhost leads to ") && message.contains(", a loopback address"), "{message}");
    assert!(message.contains(&format!("--allow-outbound localhost:{}", port(&server))), "{message}");
    assert_eq!(server.count(), 0);
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn what_was_sent_is_held_to_it_by_every_process_that_works_on_it() {
    let server = Server::good();
    let place = Place::new();
    let daemon = strict(&place, &["--no-work", "--allow-outbound", server.address()]);
    assert_eq!(begin(&daemon, &calls(&format!("http://{}/work", server.address()))).0, 201);
    daemon.stop().expect(0);
    place.run(&["work", "--until-idle"]).expect(4);
    let dead = place.dead();
    assert!(text(&dead[0]["message"]).contains("a loopback address"), "{dead:?}");
    assert_eq!(server.count(), 0);
    // What somebody gives a command by hand is another matter, and so is what an operator allows.
    place.run(&["dead", "redrive", "--all"]).expect(0);
    place.run(&["work", "--until-idle", "--allow-outbound", "127.0.0.0/8"]).expect(0);
    assert_eq!(server.count(), 1);
    place.check();
}

#[test]
fn what_an_operator_allows_is_called_and_redirects_are_not_followed() {
    let inside = Server::good();
    let to = format!("http://{}/", inside.address());
    let server = Server::start(move |call| match call.item().key.as_str() {
        "a" => Answer::Http(307, vec![("location", to.clone())], String::new()),
        _ => Answer::all(call),
    });
    let place = Place::new();
    let daemon = strict(&place, &["--allow-outbound", &format!("localhost:{}", port(&server))]);
    let items = json!([{"key": "a", "payload": {"n": 1}}, {"key": "b", "payload": {"n": 2}}]);
    let run = json!({"pipeline": calls(&by_name(&server)), "items": items});
    daemon.post("/v1/runs", &run).expect(201);
    daemon.until("/v1/items/b", |item| item["state"] == "succeeded");
    let message = until_dead(&daemon);
    assert!(message.contains("redirects are not followed"), "{message}");
    assert_eq!((inside.count(), server.count()), (0, 2));
    daemon.stop().expect(0);
}

#[test]
fn a_pipeline_of_the_folder_calls_whom_it_names_unless_there_is_a_list() {
    let (server, other) = (Server::good(), Server::good());
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/one.toml", calls(&by_name(&server)).replace("\"test\"", "\"one\""));
    let url = format!("http://{}/", other.address());
    place.write("pipelines/two.toml", calls(&url).replace("\"test\"", "\"two\""));
    let begin = |daemon: &Daemon, pipeline: &str, key: &str| {
        let items = json!([{"key": key, "payload": {"n": 1}}]);
        daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items})).expect(201);
    };
    let free = strict(&place, &["--pipelines", "pipelines"]);
    begin(&free, "one", "free");
    free.until("/v1/items/free", |item| item["state"] == "succeeded");
    free.stop().expect(0);
    let only = format!("localhost:{}", port(&server));
    let held = strict(&place, &["--pipelines", "pipelines", "--outbound-only", &only]);
    begin(&held, "one", "listed");
    held.until("/v1/items/listed", |item| item["state"] == "succeeded");
    begin(&held, "two", "a");
    let message = until_dead(&held);
    assert!(message.contains("is not among those that --outbound-only names"), "{message}");
    assert_eq!((server.count(), other.count()), (2, 0));
    held.stop().expect(0);
    let wrong = place.run(&["serve", "--outbound-only", "http://x"]).expect(2);
    assert!(wrong.stderr.contains("is no HOST, HOST:PORT, address or block"), "{}", wrong.stderr);
}
