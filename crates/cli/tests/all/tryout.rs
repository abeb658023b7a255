//! One call of one stage, and one dead item given other content.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::server::{failed, passed};
use crate::support::{Answer, Place, Server, array, count, names, one_stage, quick_retry, samples, text};

fn tried(place: &Place, more: &[&str], code: i32) -> Value {
    let args: Vec<&str> =
        ["try", "p.toml"].into_iter().chain(more.iter().copied()).chain(["--json"]).collect();
    place.run(&args).expect(code).json()
}

/// A service that does what an item asks it to.
fn obliging() -> Server {
    Server::start(|call| {
        let item = call.item();
        match item.payload["do"].as_str() {
            Some("die") => Answer::results(&[failed(item, "final", "cannot be read")]),
            Some("fail") => Answer::results(&[failed(item, "retryable", "later")]),
            Some("split") => {
                let children = json!([{"key": "one", "payload": 1}, {"key": "two", "payload": 2}]);
                Answer::results(&[json!({"id": item.id, "children": children})])
            }
            Some("slow") => Answer::Http(429, vec![("Retry-After", "7".to_owned())], "slow down".to_owned()),
            Some("crash") => Answer::status(500, "a secret: open-sesame-0123"),
            _ => Answer::results(&[passed(item)]),
        }
    })
}

fn two_stages(server: &Server, more: &str) -> String {
    let first = one_stage(&format!("{}\n{more}\n{}", server.stage(), quick_retry(3)));
    format!("{first}[[stage]]\nname = \"last\"\nkind = \"filter\"\nkeep = \"payload.n > 1\"\n")
}

#[test]
fn a_stage_is_called_once_and_what_would_follow_is_told() {
    let server = obliging();
    let place = Place::with(&two_stages(&server, ""), "");
    let well = tried(&place, &["work", "--payload", "{\"n\":4}", "--key", "k"], 0);
    assert_eq!((&well["outcome"], &well["output"]), (&json!("succeeded"), &json!({"id": "k", "twice": 8})));
    assert_eq!((&well["follows"]["state"], &well["follows"]["stage"]), (&json!("waiting"), &json!("last")));
    assert_eq!(well["wire"]["answer"]["status"], 200);
    let sent: Value = serde_json::from_str(&text(&well["wire"]["body"])).expect("the request is JSON");
    assert_eq!((&sent["items"][0]["payload"], &sent["items"][0]["attempt"]), (&json!({"n": 4}), &json!(1)));

    let fails = tried(&place, &["work", "--payload", "{\"do\":\"fail\"}"], 3);
    assert_eq!(
        (&fails["failure"]["class"], &fails["failure"]["kind"]),
        (&json!("retryable"), &json!("handler"))
    );
    let follows = &fails["follows"];
    assert_eq!((count(&follows["failures"]), count(&follows["of"]), count(&follows["wait_ms"])), (1, 3, 20));
    let dies = tried(&place, &["work", "--payload", "{\"do\":\"die\"}"], 3);
    assert_eq!(
        (&dies["follows"]["state"], &dies["follows"]["dead_because"]),
        (&json!("dead"), &json!("final"))
    );
    let slow = tried(&place, &["work", "--payload", "{\"do\":\"slow\"}"], 3);
    assert_eq!((&slow["outcome"], count(&slow["failure"]["hint_ms"])), (&json!("throttled"), 7_000));
    assert_eq!(slow["failure"]["status"], 429);
    let splits = tried(&place, &["work", "--payload", "{\"do\":\"split\"}"], 3);
    assert!(text(&splits["failure"]["message"]).contains("no [[stage.children]]"), "{splits}");
    assert_eq!(server.count(), 5, "one call each");
    assert!(!place.path(".redrive").exists(), "and no store");

    let out = tried(&place, &["last", "--payload", "{\"n\":1}"], 0);
    assert_eq!((&out["outcome"], &out["wire"]), (&json!("filtered"), &Value::Null));
    assert!(text(&out["filtered"]).contains("payload.n > 1"));
    place.write("payload.json", "{\"n\": 2}");
    assert_eq!(tried(&place, &["last", "--payload", "@payload.json"], 0)["follows"]["state"], "succeeded");
    let args = ["try", "p.toml", "last", "--payload", "-", "--json"];
    assert_eq!(place.start_with(&args, &[], b"{\"n\":2}").finish().expect(0).json()["outcome"], "succeeded");
}

#[test]
fn what_is_tried_wrongly_is_refused() {
    let server = obliging();
    let place = Place::with(&two_stages(&server, ""), "");
    for (more, says) in [
        (&["nobody", "--payload", "{}"][..], "its stages are work, last"),
        (&["work", "--payload", "{"], "the payload is not JSON"),
        (&["work", "--payload", "@nowhere.json"], "cannot read the payload from nowhere.json"),
        (&["work"], "--payload"),
        (&["work", "--item", "k0001"], "no item has the id or key"),
    ] {
        let args: Vec<&str> = ["try", "p.toml"].into_iter().chain(more.iter().copied()).collect();
        let ran = place.run(&args).expect(2);
        assert!(ran.stderr.contains(says), "{more:?}: {}", ran.stderr);
    }
    assert_eq!(server.count(), 0);
}

#[test]
fn no_secret_is_shown_of_what_is_tried() {
    let server = obliging();
    let mut place = Place::with(&two_stages(&server, "header_env = { Authorization = \"KEY\" }"), "");
    place.set("KEY", "open-sesame-0123");
    let payload = "{\"do\":\"crash\",\"note\":\"open-sesame-0123\"}";
    let args = ["try", "p.toml", "work", "--payload", payload];
    let ran = place.run(&args).expect(3);
    let json = place.run(&[&args[..], &["--json"]].concat()).expect(3);
    let sent = ran.stdout.replace(payload, "");
    assert!(sent.contains("authorization: [redacted]"), "{sent}");
    assert!(!sent.contains("open-sesame"), "{sent}");
    let told = json.json();
    for part in ["wire", "failure"] {
        assert!(!told[part].to_string().contains("open-sesame"), "{}", told[part]);
    }
    assert_eq!(server.calls()[0].headers["authorization"], "open-sesame-0123", "it was sent");
}

#[test]
fn an_item_is_tried_with_what_it_has_and_stays_as_it_is() {
    let server = obliging();
    let place =
        Place::with(&two_stages(&server, "gate = \"svc\""), "{\"id\":\"a\",\"n\":1,\"do\":\"die\"}\n");
    place.run(&["run", "p.toml"]).expect(4);
    place.run(&["gates", "pause", "svc", "--why", "maintenance"]).expect(0);
    let before = (place.json(&["explain", "a"]), place.json(&["gates"]));
    let ran = place.run(&["try", "p.toml", "work", "--item", "a", "--json"]).expect(3);
    assert!(ran.stderr.contains("warning: gate svc is paused"), "{}", ran.stderr);
    assert_eq!(ran.json()["failure"]["group"], place.dead()[0]["group"]);
    assert_eq!((place.json(&["explain", "a"]), place.json(&["gates"])), before);
    let calls = server.calls();
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].item().id, calls[1].item().id, "a service does not take it for the item's own work");
}

#[test]
fn commands_and_children_are_tried_too() {
    let place = Place::new();
    place.write(
        "split.sh",
        "#!/bin/sh\nwhile read -r line; do id=$(printf '%s' \"$line\" | sed 's/.*\"id\":\"\\([0-9a-f]*\\)\".*/\\1/')\n\
         printf '{\"results\":[{\"id\":\"%s\",\"children\":[{\"key\":\"x\",\"payload\":1}]}]}\\n' \"$id\"; done\n",
    );
    place.write(
        "p.toml",
        "name = \"t\"\n[[stage]]\nname = \"split\"\nkind = \"command\"\ncommand = [\"sh\", \"split.sh\"]\n\
         [[stage.children]]\nname = \"part\"\nkind = \"pass\"\n[[stage]]\nname = \"dies\"\nkind = \"command\"\n\
         command = [\"sh\", \"-c\", \"read -r line; exit 3\"]\n",
    );
    let split = tried(&place, &["split", "--payload", "{}"], 0);
    assert_eq!((&split["outcome"], &split["follows"]["state"]), (&json!("expanded"), &json!("joining")));
    assert_eq!(split["children"], json!([{"key": "x", "payload": 1}]));
    assert_eq!(tried(&place, &["part", "--payload", "7"], 0)["output"], 7);
    let dies = tried(&place, &["dies", "--payload", "{}"], 3);
    assert_eq!((&dies["outcome"], &dies["failure"]["class"]), (&json!("crashed"), &json!("crash")));
    let told = place.run(&["try", "p.toml", "dies", "--payload", "{}"]).expect(3);
    assert!(told.stdout.contains("then: crash 1 of "), "a crash is no failure: {}", told.stdout);
}

/// A run with one dead item `a`, which passes once its content does not ask it to die.
fn one_dead() -> (Server, Place) {
    let server = obliging();
    let content = "{\"id\":\"a\",\"n\":2,\"do\":\"die\",\"big\":12345678901234567890123}";
    let place = Place::with(&one_stage(&server.stage()), &format!("{content}\n{}", samples(3)));
    place.run(&["run", "p.toml"]).expect(3);
    (server, place)
}

fn editor(place: &Place, script: &str) -> String {
    place.write("edit.sh", format!("#!/bin/sh\n{script}\n"));
    let path = place.path("edit.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("changed");
    path.display().to_string()
}

#[test]
fn a_dead_item_is_edited_and_goes_on_with_its_new_content() {
    let (server, place) = one_dead();
    let looks = place.path("seen.json");
    let script = format!(
        "stat -c %a \"$1\" > {0}.mode; cat \"$1\" > {0}; sed -i 's/\"die\"/\"pass\"/' \"$1\"",
        looks.display()
    );
    let editor = editor(&place, &script);
    let folder = place.path("").display().to_string();
    let env = [("EDITOR", editor.as_str()), ("TMPDIR", folder.as_str())];
    let ran = place.run_with(&["dead", "edit", "a", "--work"], &env).expect(0);
    assert!(ran.stdout.contains("/do: \"die\" → \"pass\""), "{}", ran.stdout);
    assert_eq!(place.read("seen.json.mode").trim(), "600");
    assert!(place.read("seen.json").starts_with("{\n  \"id\": \"a\",\n"), "{}", place.read("seen.json"));
    let last = server.calls().pop().expect("a call");
    assert_eq!(last.item().payload["do"], "pass");
    assert_eq!(place.json(&["show"])["status"], "completed");
    let operation = &place.json(&["dead", "operations"])["operations"][0];
    assert_eq!((&operation["kind"], count(&operation["changed"])), (&json!("import"), 1));
    assert_eq!(operation["state"], "done");
    let left = std::fs::read_dir(place.path("")).expect("listed").flatten();
    assert!(left.into_iter().all(|file| !file.file_name().to_string_lossy().starts_with("redrive-")));
    place.check();
}

#[test]
fn an_edit_for_scripts_needs_no_editor_and_keeps_what_it_does_not_name() {
    let (server, place) = one_dead();
    let refused = place.run(&["dead", "edit", "a"]).expect(2);
    assert!(refused.stderr.contains("neither VISUAL nor EDITOR is set"), "{}", refused.stderr);
    assert!(place.run(&["dead", "edit", "a", "--set", "do=1"]).expect(2).stderr.contains("/POINTER=VALUE"));
    let same = place.json(&["dead", "edit", "a", "--set", "/n=2"]);
    assert_eq!((&same["sent_back"], &same["differences"]), (&json!(false), &json!([])));
    assert_eq!(array(&place.json(&["dead", "operations"])["operations"]).len(), 0);
    let edited =
        place.json(&["dead", "edit", "a", "--set", "/do=pass", "--set", "/tags/new=[1, 2]", "--work"]);
    assert_eq!((&edited["sent_back"], &edited["report"]["status"]), (&json!(true), &json!("completed")));
    let pointers: Vec<String> =
        array(&edited["differences"]).iter().map(|found| text(&found["pointer"])).collect();
    assert_eq!(pointers, ["/do", "/tags"]);
    let last = server.calls().pop().expect("a call");
    assert_eq!(last.item().payload["tags"]["new"], json!([1, 2]));
    let kept = place.run(&["explain", "a", "--json"]).expect(0).stdout;
    assert!(!kept.contains("1.23456"), "a long number is not rounded");
    let alive = place.run(&["dead", "edit", "a", "--set", "/do=die"]).expect(2);
    assert!(alive.stderr.contains("is succeeded, not dead"), "{}", alive.stderr);
}

#[test]
fn an_edit_that_goes_wrong_is_kept() {
    let (_server, place) = one_dead();
    let folder = place.path("").display().to_string();
    let run = |script: &str, code| {
        let editor = editor(&place, script);
        place.run_with(&["dead", "edit", "a"], &[("VISUAL", &editor), ("TMPDIR", &folder)]).expect(code)
    };
    let unchanged = run("true", 0);
    assert!(unchanged.stdout.contains("is unchanged; nothing was done"), "{}", unchanged.stdout);
    let broken = run("echo '{' > \"$1\"", 2);
    assert!(broken.stderr.contains("is not JSON"), "{}", broken.stderr);
    for (script, told) in [
        ("printf '\"\\377\"' > \"$1\"", "is not UTF-8: byte 2 of it"),
        ("rm \"$1\"", "cannot be read after the editor"),
        ("rm \"$1\"; mkfifo \"$1\"", "is no regular file any more"),
    ] {
        let ran = run(script, 2);
        assert!(ran.stderr.contains(told) && ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
    assert!(run("exit 7", 2).stderr.contains("the editor ended with exit status: 7"));
    assert_eq!(place.dead_keys(), names(["a"]));
    let kept = || -> Vec<String> {
        let names = std::fs::read_dir(place.path("")).expect("listed").flatten();
        let names = names.map(|file| file.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("redrive-")).collect()
    };
    assert_eq!(kept().len(), 4, "{:?}", kept());

    // Somebody else sends it back, and it dies again, while it is being edited.
    let other = format!(
        "sed -i 's/\"die\"/\"pass\"/' \"$1\"; {} dead redrive --all --work --store sqlite:{folder}/.redrive/state.db",
        env!("CARGO_BIN_EXE_redrive")
    );
    let overtaken = run(&format!("{other}; true"), 2);
    assert!(overtaken.stderr.contains("changed meanwhile"), "{}", overtaken.stderr);
    let file = kept().into_iter().find(|name| name.ends_with(".jsonl")).expect("a file to be imported");
    assert_eq!(place.dead_keys(), names(["a"]));
    place.run(&["dead", "import", &file]).expect(0);
    place.run(&["resume", "r1"]).expect(0);
    assert!(place.dead().is_empty());
    let operations = place.json(&["dead", "operations"]);
    let kinds: Vec<String> =
        array(&operations["operations"]).iter().map(|operation| text(&operation["kind"])).collect();
    assert_eq!(kinds, ["import", "import", "redrive"]);
    place.check();
}
