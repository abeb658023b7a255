//! Every text field there is takes what is written by those who mean harm: the document of the routes says which there are, so a new
//! one is asked as well. What is kept of it comes back as that text.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::serve_hostile::{escaped, hostile};
use crate::support::server::failed;
use crate::support::{Answer, Daemon, Place, Reply, Server, array, count, one_stage, text};

/// What a terminal would act upon is left out of errors and words that are kept, and what looks like a secret is not shown: the
/// rest of a text is still there, in order.
fn is_told(told: &str, said: &str) -> bool {
    let plain = |text: &str| {
        let text = text.replace("\u{1b}[2J", "").to_lowercase();
        text.chars().filter(|c| c.is_alphanumeric() || "<>'\"%{}$;|&`/\\".contains(*c)).collect::<String>()
    };
    let (told, said) = (plain(told), plain(said));
    // The value of such a header is taken for a secret.
    let shown =
        if told.contains("redacted") { said.split("setcookie").next().unwrap_or_default() } else { &said };
    told.contains(shown)
}

/// A text field of a route: where it is, and in what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Field {
    method: String,
    path: String,
    /// `path`, `query` or `body`.
    place: String,
    /// The way to it: names, and `[]` for an element of a list.
    way: Vec<String>,
}

/// Follows references to a schema.
fn resolved<'a>(document: &'a Value, mut schema: &'a Value) -> &'a Value {
    while let Some(at) = schema.get("$ref") {
        let at = text(at);
        schema = document.pointer(at.strip_prefix('#').expect("a reference within")).expect("it is there");
    }
    schema
}

/// The ways to everything in a schema that may be any text.
fn texts(document: &Value, schema: &Value, way: &[String], found: &mut BTreeSet<Vec<String>>) {
    let schema = resolved(document, schema);
    let step = |name: &str| [way, &[name.to_owned()]].concat();
    for below in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        texts(document, below, way, found);
    }
    let kinds = schema.get("type").map(Value::to_string).unwrap_or_default();
    let free = schema.get("enum").is_none() && schema.get("pattern").is_none();
    let anything = ["type", "anyOf", "enum", "properties"].iter().all(|word| schema.get(word).is_none());
    if free && (kinds.contains("\"string\"") || anything) {
        found.insert(way.to_vec());
    }
    for (name, below) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        texts(document, below, &step(name), found);
    }
    if let Some(below) = schema.get("items") {
        texts(document, below, &step("[]"), found);
    }
}

/// Every text field of every route.
fn fields(document: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, route) in methods.as_object().expect("methods") {
            let mut add = |place: &str, schema: &Value, way: &[String]| {
                let mut found = BTreeSet::new();
                texts(document, schema, way, &mut found);
                let (method, path, place) = (method.to_uppercase(), path.clone(), place.to_owned());
                let field =
                    |way| Field { method: method.clone(), path: path.clone(), place: place.clone(), way };
                fields.extend(found.into_iter().map(field));
            };
            for one in route.get("parameters").and_then(Value::as_array).into_iter().flatten() {
                add(&text(&one["in"]), &one["schema"], &[text(&one["name"])]);
            }
            let body = route.pointer("/requestBody/content/application~1json/schema");
            body.into_iter().for_each(|schema| add("body", schema, &[]));
        }
    }
    fields
}

/// A body with a text at the end of a way, over what a route has to be told beside it.
fn body(base: &Value, way: &[String], said: &str) -> Value {
    let Some((first, rest)) = way.split_first() else { return json!(said) };
    match first.as_str() {
        "[]" => json!([body(base.get(0).unwrap_or(&Value::Null), rest, said)]),
        name => {
            let mut whole = base.as_object().cloned().unwrap_or_default();
            let below = body(whole.get(name).unwrap_or(&Value::Null), rest, said);
            whole.insert(name.to_owned(), below);
            Value::Object(whole)
        }
    }
}

/// What a route has to be told so that one field of it matters.
fn base(path: &str) -> Value {
    match path {
        "/v1/runs" => json!({"pipeline": "box", "items": [{"payload": {"id": "x"}}]}),
        "/v1/pipelines/{pipeline}/items" => json!({"items": [{"payload": {"id": "x"}}]}),
        "/v1/operations" => json!({"kind": "redrive", "all": true, "dry_run": true}),
        "/v1/work/claim" => json!({"wait_ms": 0}),
        _ => json!({}),
    }
}

fn ask(daemon: &Daemon, field: &Field, said: &str) -> Reply {
    let mut path = field.path.clone();
    if field.place == "path" {
        path = path.replace(&format!("{{{}}}", field.way[0]), &escaped(said));
    }
    for (name, usual) in [("{run}", "r1"), ("{operation}", "op1"), ("{pipeline}", "box"), ("{policy}", "box")]
    {
        path = path.replace(name, usual);
    }
    let path = path.replace("{item}", "k0").replace("{gate}", "x").replace("{group}", "x");
    let query = match field.place.as_str() {
        "query" => format!("?{}={}", field.way[0], escaped(said)),
        _ => String::new(),
    };
    let needed = if field.path == "/v1/search" && field.way[0] != "q" { "&q=flour" } else { "" };
    let path = format!("{path}{query}{needed}");
    match (field.method.as_str(), field.place.as_str()) {
        ("GET", _) => daemon.get(&path),
        (_, "body") => daemon.post(&path, &body(&base(&field.path), &field.way, said)),
        _ => daemon.post(&path, &base(&field.path)),
    }
}

#[test]
fn every_text_field_of_every_route_takes_hostile_strings_without_harm() {
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write(
        "pipelines/box.toml",
        "name = \"box\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[[stage]]\nname = \"pass\"\nkind = \"pass\"\n",
    );
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    daemon.post("/v1/pipelines/box/items", &json!({"items": [{"payload": {"id": "k0"}}]})).expect(200);
    daemon.until("/v1/items/k0", |item| item["state"] == "succeeded");
    let fields = fields(&daemon.get("/v1/openapi.json").expect(200).json());
    let of =
        |path: &str, way: &str| fields.iter().any(|field| field.path == path && field.way.join(".") == way);
    for (path, way) in [
        ("/v1/operations", "filter.text"),
        ("/v1/operations", "keys.[]"),
        ("/v1/pipelines/{pipeline}/pause", "why"),
        ("/v1/runs", "items.[].payload"),
        ("/v1/work/claim", "worker"),
        ("/v1/dead", "after"),
        ("/v1/items/{item}", "item"),
    ] {
        assert!(of(path, way), "{way} of {path} is among {fields:#?}");
    }
    assert!(fields.len() > 70, "{} fields", fields.len());
    let all = hostile();
    for (n, field) in fields.iter().enumerate() {
        // An eighth of them for each field, so that all of them are met.
        for said in all.iter().skip(n % 8).step_by(8) {
            let reply = ask(&daemon, field, said);
            let asked = format!("{said:?} as {field:?}");
            assert!(reply.status < 500, "{asked}: {reply:?}");
            assert!(reply.headers["content-type"].starts_with("application/"), "{asked}: {reply:?}");
            assert_eq!(reply.headers["x-content-type-options"], "nosniff", "{asked}");
            assert!(!reply.headers.contains_key("set-cookie"), "{asked}: {reply:?}");
            match reply.headers["content-type"].as_str() {
                "application/jsonl" => {}
                _ => drop(reply.json()),
            }
        }
    }
    let stopped = daemon.stop().expect(0);
    assert!(!stopped.stderr.contains('\u{1b}') && !stopped.stderr.contains('\u{202e}'), "{}", stopped.stderr);
    place.check();
}

#[test]
fn what_a_service_and_an_operator_write_comes_back_as_that_text() {
    let all = hostile();
    let said = all.clone();
    let server = Server::start(move |call| {
        let item = call.item();
        let words =
            &said[item.payload["n"].as_u64().and_then(|n| usize::try_from(n).ok()).expect("a number")];
        match item.key.as_bytes()[0] {
            b'f' => Answer::results(&[json!({"id": item.id, "filtered": words})]),
            _ if item.payload["edited"].is_string() => Answer::all(call),
            _ => Answer::results(&[failed(item, "final", words)]),
        }
    });
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let items: Vec<Value> = ["f", "m"]
        .iter()
        .flat_map(|kind| {
            (0..all.len()).map(move |n| json!({"key": format!("{kind}{n}"), "payload": {"n": n}}))
        })
        .collect();
    let pipeline = one_stage(&server.stage());
    daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items})).expect(201);
    daemon.until("/v1/runs/r1", |report| !report["finished_at"].is_null());
    for (n, said) in all.iter().enumerate() {
        let message = text(&daemon.get(&format!("/v1/items/m{n}")).expect(200).json()["message"]);
        assert!(is_told(&message, said), "{said:?} became {message:?}");
        let filtered = daemon.get(&format!("/v1/items/f{n}")).expect(200).json();
        assert!(is_told(&text(&filtered["reason"]), said), "{said:?}: {filtered}");
        let why = json!({"why": said});
        let paused = daemon.post("/v1/pipelines/test/pause", &why).expect(200).json();
        assert!(is_told(&text(&paused["paused"][0]["why"]), said), "{said:?}: {paused}");
        // A redrive of a text that no item has makes no operation.
        let asked = json!({"kind": "retry", "filter": {"run": "r1", "text": said}});
        let kept = daemon.post("/v1/operations", &asked).expect(201).json();
        let request: Value =
            serde_json::from_str(&text(&kept["operations"][0]["request"])).expect("JSON in a string");
        assert!(has_text(&request, said), "{said:?}: {request}");
    }
    daemon.post("/v1/pipelines/test/resume", &json!({})).expect(200);
    // Contents that are edited and sent back.
    let exported = daemon.get("/v1/dead/export").expect(200).body;
    let edited = |line: &str| {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        let n = usize::try_from(count(&line["item"]["payload"]["n"])).expect("few");
        line["item"]["payload"]["edited"] = json!(all[n]);
        line
    };
    let lines: Vec<Value> = exported.lines().map(edited).collect();
    assert_eq!(lines.len(), all.len());
    let sent = daemon.post("/v1/dead/import", &json!({"items": lines})).expect(200).json();
    assert!(array(&sent["items"]).iter().all(|one| one["became"] == "sent_back"), "{sent}");
    daemon.until("/v1/runs/r1", |report| report["counts"]["succeeded"] == all.len());
    for (key, calls) in server.by_key().into_iter().filter(|(key, _)| key.starts_with('m')) {
        let (last, n) =
            (&calls.last().expect("called").1.payload, key[1..].parse::<usize>().expect("a number"));
        assert_eq!(last["edited"], json!(all[n]), "{key}");
    }
    daemon.stop().expect(0);
    place.check();
}

/// Whether a text is somewhere in a document, as it is.
fn has_text(document: &Value, said: &str) -> bool {
    match document {
        Value::String(text) => text == said,
        Value::Array(all) => all.iter().any(|one| has_text(one, said)),
        Value::Object(all) => all.values().any(|one| has_text(one, said)),
        _ => false,
    }
}

#[test]
fn names_and_words_of_external_workers_come_back_as_that_text() {
    let all: Vec<String> = hostile().into_iter().filter(|said| said.chars().count() <= 200).collect();
    assert!(all.len() >= 170, "{}", all.len());
    let place = Place::new();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    let stage = "kind = \"external\"\nbatch = 1\nconcurrency = 256\nretry = { preset = \"none\" }";
    let inbox = one_stage(stage).replace("path = \"in.jsonl\"", "kind = \"inbox\"");
    place.write("pipelines/outside.toml", inbox);
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    let items: Vec<Value> = (0..2 * all.len()).map(|n| json!({"payload": {"id": format!("k{n}")}})).collect();
    daemon.post("/v1/pipelines/test/items", &json!({"items": items})).expect(200);
    let claim = |worker: &str, lease_ms: u64| {
        let ask = json!({"worker": worker, "wait_ms": 30_000, "lease_ms": lease_ms});
        let claimed = daemon.post("/v1/work/claim", &ask).expect(200).json();
        let item = &claimed["items"][0];
        (claimed["lease"].clone(), (text(&item["key"]), count(&item["attempt"])))
    };
    let mut words = Vec::new();
    for said in &all {
        let (lease, what) = claim("somebody", 30_000);
        let body = json!({"lease": lease, "error": {"class": "final", "message": said}});
        daemon.post("/v1/work/fail", &body).expect(200);
        words.push((what, said.clone()));
        // Of a worker that gives no sign of life the name is told, within quotation marks.
        words.push((claim(said, 1_000).1, format!("{said:?}")));
    }
    daemon.until("/v1/runs/r1", |report| {
        report["counts"]["dead"] == all.len() && report["attempts"]["crashes"] == all.len()
    });
    // What nobody gave a sign of life for is claimed again: each attempt has its own words.
    for ((key, attempt), said) in words {
        let life = daemon.get(&format!("/v1/items/{key}/explain")).expect(200).json();
        let made = array(&life["attempts"]).iter().find(|made| made["attempt"] == attempt);
        let message = text(&made.expect("it is written down")["message"]);
        assert!(is_told(&message, &said), "{said:?} became {message:?}");
    }
    daemon.stop().expect(0);
    place.check();
}
