//! What commands print with `--json` is what `redrive schema` says, in their usual states.

use serde_json::Value;

use crate::support::server::{failed, passed};
use crate::support::{Answer, Daemon, Place, Server, one_stage, quick_retry, text};

/// The schemas of the binary.
pub struct Schemas(Value);

impl Schemas {
    pub fn of(place: &Place) -> Self {
        Self(place.json(&["schema"]))
    }

    /// Fails when a document is not as the schema of that name says.
    pub fn check(&self, name: &str, document: &Value) {
        let mut wrong = Vec::new();
        self.look(document, &self.0["commands"][name], "$", &mut wrong);
        assert!(self.0["commands"].get(name).is_some(), "there is a schema {name}");
        assert!(wrong.is_empty(), "{name}: {wrong:#?}\n{document:#}");
    }

    /// Fails when a document is not as the shape of that name says.
    fn check_shape(&self, name: &str, document: &Value) {
        let mut wrong = Vec::new();
        self.look(document, &self.0["$defs"][name], "$", &mut wrong);
        assert!(wrong.is_empty(), "{name}: {wrong:#?}\n{document:#}");
    }

    /// Takes in everything that is wrong with a value. It knows the words that the schemas use, and no others.
    fn look(&self, value: &Value, schema: &Value, at: &str, wrong: &mut Vec<String>) {
        let words = schema.as_object().unwrap_or_else(|| panic!("a schema: {schema}"));
        for (word, says) in words {
            let fits = match word.as_str() {
                "description" | "properties" | "minItems" | "maxItems" => true,
                "$ref" => {
                    let name = text(says);
                    let name = name.strip_prefix("#/$defs/").expect("a reference within");
                    let below = self.0["$defs"].get(name).unwrap_or_else(|| panic!("{name} is written down"));
                    self.look(value, below, at, wrong);
                    true
                }
                "anyOf" => says.as_array().expect("a list").iter().any(|below| {
                    let mut found = Vec::new();
                    self.look(value, below, at, &mut found);
                    found.is_empty()
                }),
                "enum" => says.as_array().expect("a list").contains(value),
                "type" if says.is_array() => {
                    says.as_array().expect("a list").iter().any(|kind| is(value, &text(kind)))
                }
                "type" => is(value, &text(says)),
                "pattern" => matches(value.as_str().unwrap_or_default(), &text(says)),
                "required" => says.as_array().expect("a list").iter().all(|key| {
                    let there = value.get(text(key)).is_some();
                    if !there {
                        wrong.push(format!("{at}: lacks {key}"));
                    }
                    there
                }),
                "items" => {
                    for (n, below) in value.as_array().into_iter().flatten().enumerate() {
                        self.look(below, says, &format!("{at}[{n}]"), wrong);
                    }
                    true
                }
                "additionalProperties" => {
                    self.look_inside(value, schema, says, at, wrong);
                    true
                }
                other => panic!("a word that is not known here: {other}"),
            };
            if !fits {
                wrong.push(format!("{at}: {word} {says}, not {value}"));
            }
        }
    }

    fn look_inside(&self, value: &Value, schema: &Value, others: &Value, at: &str, wrong: &mut Vec<String>) {
        for (key, below) in value.as_object().into_iter().flatten() {
            let at = format!("{at}.{key}");
            match schema.get("properties").and_then(|known| known.get(key)) {
                Some(known) => self.look(below, known, &at, wrong),
                None if *others == Value::Bool(false) => wrong.push(format!("{at} is not written down")),
                None => self.look(below, others, &at, wrong),
            }
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        other => panic!("a type that is not known here: {other}"),
    }
}

/// The two patterns that there are: a run, and a time.
fn matches(text: &str, pattern: &str) -> bool {
    if pattern == "^r[0-9]{1,18}$" {
        return text
            .strip_prefix('r')
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    }
    text.len() > 20 && text.as_bytes()[4] == b'-' && text.as_bytes()[10] == b'T' && text.ends_with('Z')
}

/// One item passes, one at its second try, one never, and one is refused at once.
fn server() -> Server {
    Server::start(|call| {
        let answers = call.items.iter().map(|item| match (item.key.as_str(), item.before) {
            ("good", _) | ("flaky", 1..) => passed(item),
            ("bad", _) => failed(item, "final", "no good"),
            _ => failed(item, "retryable", "again"),
        });
        Answer::results(&answers.collect::<Vec<_>>())
    })
}

const SOURCE: &str = "{\"id\":\"good\"}\n{\"id\":\"flaky\"}\n{\"id\":\"worn\"}\n{\"id\":\"bad\"}\n";

fn place(server: &Server) -> Place {
    Place::with(&one_stage(&format!("{}\n{}", server.stage(), quick_retry(2))), SOURCE)
}

/// Runs commands one after the other and looks at what each prints.
fn walk(place: &Place, steps: &[(&str, &[&str], i32)]) {
    let schemas = Schemas::of(place);
    for (name, args, code) in steps {
        let ran = place.run(&[args, &["--json"][..]].concat()).expect(*code);
        schemas.check(name, &ran.json());
    }
}

#[test]
fn runs_and_items_are_told_as_is_written_down() {
    let server = server();
    let place = place(&server);
    walk(
        &place,
        &[
            ("doctor", &["doctor"], 0),
            ("error", &["runs"], 2),
            ("run", &["run", "p.toml"], 3),
            ("run", &["run", "p.toml"], 3),
            ("show", &["show"], 0),
            ("runs", &["runs"], 0),
            ("top", &["top"], 0),
            ("results", &["results"], 0),
            ("results", &["results", "--stage", "work"], 0),
            ("results file", &["results", "-o", "out.jsonl"], 0),
            ("explain", &["explain", "flaky"], 0),
            ("explain", &["explain", "worn"], 0),
            ("failures", &["failures"], 0),
            ("stats", &["stats"], 0),
            ("check", &["check"], 0),
            ("doctor", &["doctor", "p.toml"], 0),
            ("gates", &["gates"], 0),
            ("top", &["top"], 0),
            ("backup", &["backup", "copy.db"], 0),
            ("compact", &["compact"], 0),
            ("error", &["show", "r99"], 2),
            ("error", &["runs", "--nonsense"], 2),
        ],
    );
}

#[test]
fn dead_letters_are_told_as_is_written_down_whatever_the_options() {
    let server = server();
    let place = place(&server);
    place.run(&["run", "p.toml"]).expect(3);
    let group = text(&place.json(&["dead", "groups"])["groups"][0]["group"]);
    walk(
        &place,
        &[
            ("dead list", &["dead", "list"], 0),
            ("dead list", &["dead", "list", "-n", "1"], 0),
            ("dead groups", &["dead", "groups"], 0),
            ("dead show", &["dead", "show", "bad"], 0),
            ("dead note", &["dead", "note", &group, "known", "--ack"], 0),
            ("dead groups", &["dead", "groups"], 0),
            ("dead export file", &["dead", "export", "-o", "dead.jsonl"], 0),
            ("dead redrive", &["dead", "redrive", "--all", "--dry-run"], 0),
            ("dead freeze", &["dead", "freeze", "--all", "--canary", "1", "--stop-at", "0.5"], 0),
            ("dead outcomes", &["dead", "outcomes", "op2"], 0),
            ("dead start", &["dead", "start", "op2"], 0),
            ("dead outcomes", &["dead", "outcomes", "op2", "--outcome", "live"], 0),
            ("dead purge", &["dead", "purge", "--all", "--yes", "--undo-for", "1h"], 0),
            ("dead list", &["dead", "list"], 0),
            ("dead operations", &["dead", "operations", "--stop", "op3"], 0),
            ("resume", &["resume", "r1"], 3),
            ("dead redrive", &["dead", "redrive", "--all", "--canary", "1"], 3),
            ("dead redrive", &["dead", "redrive", "--all", "--canary", "1", "--work"], 3),
            ("dead redrive", &["dead", "redrive", "--all", "--stop-at", "0.5", "--work"], 3),
            ("dead redrive", &["dead", "redrive", "--all", "--work"], 3),
            ("run", &["run", "p.toml", "--new"], 3),
            ("dead redrive", &["dead", "redrive", "--all", "--work"], 3),
            ("error", &["dead", "redrive", "--item", "nobody"], 2),
            ("dead redrive", &["dead", "redrive", "--run", "r1", "--all"], 0),
            ("dead import", &["dead", "import", "dead.jsonl"], 3),
            ("pause", &["pause", "r1"], 0),
            ("run", &["run", "p.toml"], 3),
            ("kill", &["kill", "bad", "--run", "r1"], 0),
            ("dead purge", &["dead", "purge", "--all", "--dry-run"], 0),
            ("dead purge", &["dead", "purge", "--all", "--yes"], 0),
            ("explain", &["explain", "bad", "--run", "r1"], 0),
            ("dead operations", &["dead", "operations"], 0),
            ("cancel", &["cancel", "r1", "--yes"], 0),
            ("cancel", &["cancel", "r1", "--yes"], 0),
            ("prune", &["prune", "--older-than", "0s", "--yes"], 0),
        ],
    );
}

#[test]
fn items_that_wait_or_go_again_are_told_as_is_written_down() {
    let server = server();
    let slow = "retry.max_attempts = 2\nretry.backoff = { kind = \"fixed\", delay = \"1h\" }\n";
    let place = Place::with(&one_stage(&format!("{}\n{slow}", server.stage())), SOURCE);
    walk(
        &place,
        &[
            ("run dry-run", &["run", "p.toml", "--dry-run"], 0),
            ("try", &["try", "p.toml", "work", "--payload", "{\"id\":\"good\"}", "--key", "good"], 0),
            ("try", &["try", "p.toml", "work", "--payload", "{\"id\":\"bad\"}", "--key", "bad"], 3),
            ("run", &["run", "p.toml", "--max-wait", "0s"], 3),
            ("run dry-run", &["run", "p.toml", "--dry-run"], 0),
            ("dead edit", &["dead", "edit", "bad", "--set", "/id=\"better\""], 0),
            ("items", &["items"], 0),
            ("items", &["items", "--state", "waiting", "-n", "1"], 0),
            ("explain", &["explain", "worn"], 0),
            ("stuck", &["stuck", "--older-than", "0s"], 0),
            ("retry-job", &["retry-job", "--once"], 0),
            ("retry", &["retry", "--run", "r1", "--dry-run"], 0),
            ("retry", &["retry", "--run", "r1", "--work"], 3),
            ("rerun", &["rerun", "r1", "--stage", "work", "--dry-run"], 0),
            ("rerun", &["rerun", "r1", "--stage", "work", "--yes"], 0),
        ],
    );
}

#[test]
fn each_line_of_an_export_is_as_is_written_down() {
    let server = server();
    let place = place(&server);
    place.run(&["run", "p.toml"]).expect(3);
    let schemas = Schemas::of(&place);
    let exported = place.run(&["dead", "export"]).expect(0).stdout;
    assert_eq!(exported.lines().count(), 2);
    exported
        .lines()
        .for_each(|line| schemas.check("dead export", &serde_json::from_str(line).expect("JSON")));
}

#[test]
fn gates_and_inboxes_are_told_as_is_written_down() {
    let server = server();
    let place = place(&server);
    place.run(&["run", "p.toml"]).expect(3);
    let gate = text(&place.json(&["gates"])["gates"][0]["name"]);
    place.write(
        "box.toml",
        "name = \"box\"\n[source]\nkind = \"inbox\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n",
    );
    place.write("other.toml", place.read("p.toml").replace("\"test\"", "\"other\""));
    walk(
        &place,
        &[
            ("gates pause", &["gates", "pause", &gate], 0),
            ("gates resume", &["gates", "resume", &gate], 0),
            ("gates reset", &["gates", "reset", &gate], 0),
            ("schedules", &["schedules"], 0),
            ("pipelines pause", &["pipelines", "pause", "test", "--why", "a look"], 0),
            ("pipelines", &["pipelines"], 0),
            ("pipelines resume", &["pipelines", "resume", "test"], 0),
            ("submit items", &["submit", "box.toml", "--items", "in.jsonl"], 0),
            ("show", &["show", "r2"], 0),
            ("submit", &["submit", "other.toml"], 0),
            ("work", &["work", "--until-idle"], 3),
            ("close", &["close", "r2"], 0),
            ("close", &["close", "r2"], 0),
            ("resume", &["resume", "r1"], 3),
        ],
    );
}

#[test]
fn policies_plans_and_indexes_are_told_as_is_written_down() {
    let place = Place::with(&one_stage("kind = \"http\"\nurl = \"http://127.0.0.1:9\""), SOURCE);
    std::fs::create_dir(place.path("docs")).expect("made");
    place.write("docs/a.txt", "the walrus and the carpenter");
    place.write("docs/b.bin", [0_u8; 50]);
    place.write(
        "list.mbox",
        "From a@x Tue Nov 17 10:00:00 2026\nMessage-ID: <m1@x>\nSubject: s\n\nThe walrus reads its mail.\n",
    );
    walk(
        &place,
        &[
            ("policy list", &["policy", "list"], 0),
            ("policy show", &["policy", "show", "sample"], 0),
            ("policy show", &["policy", "show", "p.toml"], 0),
            ("policy simulate", &["policy", "simulate", "p.toml", "--requests-per-minute", "60"], 0),
            ("policy lint", &["policy", "lint", "p.toml", "daemon"], 0),
            ("rehearse list", &["rehearse", "--list"], 0),
            ("schema", &["schema", "run"], 0),
            ("index", &["index", "docs"], 0),
            ("index", &["index", "docs"], 0),
            ("index left-out", &["index", "docs", "--list-left-out"], 0),
            ("search", &["search", "walrus"], 0),
            ("mail", &["mail", "list.mbox"], 0),
            ("mail", &["mail", "list.mbox"], 0),
            ("threads", &["threads"], 0),
            ("thread", &["thread", "m1@x"], 0),
            ("stats", &["stats"], 0),
            ("check", &["check"], 0),
        ],
    );
}

#[test]
fn a_rehearsal_is_told_as_is_written_down() {
    let place = Place::new();
    let schemas = Schemas::of(&place);
    let running = place.start(&["rehearse", "--json"]);
    let first = running.first_line();
    running.signal("TERM");
    let said = running.finish().expect(0).stdout;
    schemas.check("rehearse first", &serde_json::from_str(&first).expect("JSON"));
    let last = said.lines().last().expect("a line");
    schemas.check("rehearse", &serde_json::from_str(last).expect("JSON"));
}

#[test]
fn a_schema_is_printed_by_the_words_of_its_command() {
    let place = Place::new();
    let listed = place.run(&["schema"]).expect(0).stdout;
    assert!(listed.contains("dead list\n") && listed.contains("run\n"), "{listed}");
    let one = place.json(&["schema", "dead", "list"]);
    assert_eq!(one["title"], "redrive dead list --json");
    assert!(one["$defs"]["dead_item"]["properties"]["failed_at"].is_object(), "{one}");
    place.run(&["schema", "nothing"]).expect(2);
}

#[test]
fn tokens_are_told_as_is_written_down() {
    walk(
        &Place::new(),
        &[
            ("token list", &["token", "list"], 0),
            ("token create", &["token", "create", "ann", "--role", "viewer"], 0),
            ("token list", &["token", "list"], 0),
            ("token rotate", &["token", "rotate", "ann"], 0),
            ("token revoke", &["token", "revoke", "ann"], 0),
            ("error", &["token", "revoke", "ann"], 2),
        ],
    );
}

#[test]
fn the_server_answers_as_is_written_down() {
    let server = server();
    let place = place(&server);
    let schemas = Schemas::of(&place);
    std::fs::create_dir(place.path("pipelines")).expect("made");
    place.write("pipelines/lines.toml", place.read("p.toml"));
    place.write("pipelines/in.jsonl", SOURCE);
    place.write("pipelines/broken.toml", "name = \"broken\"\n");
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines"]);
    schemas.check_shape(
        "begun_run",
        &daemon.post("/v1/runs", &serde_json::json!({"pipeline": "test"})).expect(201).json(),
    );
    daemon.until("/v1/runs/r1", |report| !report["finished_at"].is_null());
    let id = text(&daemon.get("/v1/dead").json()["items"][0]["id"]);
    for (shape, path) in [
        ("health", "/healthz"),
        ("readiness", "/readyz"),
        ("run_page", "/v1/runs"),
        ("run_report", "/v1/runs/r1"),
        ("item_list", "/v1/runs/r1/items"),
        ("dead_list", "/v1/dead"),
        ("group_page", "/v1/dead/groups"),
        ("life", &format!("/v1/dead/{id}")),
        ("item", &format!("/v1/items/{id}")),
        ("life", &format!("/v1/items/{id}/explain")),
        ("attempt_page", &format!("/v1/items/{id}/attempts")),
        ("gate_page", "/v1/gates"),
        ("worker_list", "/v1/workers"),
        ("pipeline_list", "/v1/pipelines"),
        ("preset_page", "/v1/policies"),
        ("shown", "/v1/policies/sample"),
        ("shown", "/v1/policies/sample/simulate?failure_rate=0.5&requests_per_minute=60"),
        ("lint", "/v1/policies/sample/lint"),
        ("overview", "/v1/overview"),
        ("statistics", "/v1/stats"),
        ("failures", "/v1/failures"),
        ("stuck_page", "/v1/stuck"),
        ("operation_page", "/v1/operations"),
    ] {
        schemas.check_shape(shape, &daemon.get(path).expect(200).json());
    }
    let exported = daemon.get("/v1/dead/export?limit=1");
    exported.expect(400);
    for line in daemon.get("/v1/dead/export").expect(200).body.lines() {
        schemas.check_shape("life", &serde_json::from_str(line).expect("JSON"));
    }
    let nonsense = serde_json::json!({"items": [{"item": {"id": "nothing"}}, {}]});
    schemas.check_shape("imported", &daemon.post("/v1/dead/import", &nonsense).expect(200).json());
    let redrive = serde_json::json!({"kind": "redrive", "all": true, "dry_run": true});
    schemas.check_shape("started", &daemon.post("/v1/operations", &redrive).expect(201).json());
    let redrive = serde_json::json!({"kind": "redrive", "all": true});
    let started = daemon.post("/v1/operations", &redrive).expect(201).json();
    schemas.check_shape("started", &started);
    let operation = format!("/v1/operations/{}", text(&started["operations"][0]["id"]));
    schemas.check_shape("operation", &daemon.get(&operation).expect(200).json());
    for line in daemon.get("/v1/runs/r1/results").expect(200).body.lines() {
        schemas.check_shape("result_line", &serde_json::from_str(line).expect("JSON"));
    }
    let items = serde_json::json!({"pipeline": place.read("p.toml"), "items": [{"payload": {"id": "a"}}, {"payload": 1}]});
    schemas.check_shape("begun_run", &daemon.post("/v1/runs", &items).expect(201).json());
    schemas.check_shape("problem_document", &daemon.get("/v1/runs/r99").expect(404).json());
    schemas.check_shape(
        "problem_document",
        &daemon.post("/v1/runs", &serde_json::json!({"pipeline": "a=1"})).expect(422).json(),
    );
    std::fs::create_dir(place.path("docs")).expect("made");
    place.write("docs/a.txt", "the walrus and the carpenter");
    place.run(&["index", "docs", "--processes", "1", "--quiet"]).expect(0);
    let found = daemon.get("/v1/search?q=walrus").expect(200).json();
    assert!(text(&found["hits"][0]["text"]).contains("the walrus"), "{found}");
    schemas.check_shape("search", &found);
    daemon.stop().expect(0);
}
