//! Pipelines that are sent start programs of the folders that an operator allowed, in whatever process they are worked on, and
//! no others.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::support::{Daemon, Place, one_stage, text};

/// A program that answers one request with the folder that it runs in, and ends.
const TOOL: &str = r#"#!/usr/bin/env python3
import json, os, sys
items = json.loads(sys.stdin.readline())["items"]
print(json.dumps({"results": [{"id": item["id"], "output": os.getcwd()} for item in items]}), flush=True)
"#;

/// One that leaves a mark where it was started.
const EVIL: &str = "#!/bin/sh\ntouch \"$(dirname \"$0\")/started\"\ncat > /dev/null\n";

fn program(place: &Place, name: &str, content: &str) {
    place.write(name, content);
    std::fs::set_permissions(place.path(name), PermissionsExt::from_mode(0o755)).expect("changed");
}

/// A place with the folder `tools`, which may be allowed, and `out`, which is not.
fn place() -> Place {
    let place = Place::new();
    for folder in ["tools/sub", "more", "out"] {
        std::fs::create_dir_all(place.path(folder)).expect("made");
    }
    program(&place, "tools/tool", TOOL);
    program(&place, "tools/sub/deep", TOOL);
    program(&place, "more/other", TOOL);
    program(&place, "out/evil", EVIL);
    place.write("tools/plain", "");
    symlink("tool", place.path("tools/alias")).expect("linked");
    symlink("../out/evil", place.path("tools/leak")).expect("linked");
    symlink("../out", place.path("tools/folder")).expect("linked");
    symlink("/bin/sh", place.path("tools/sh")).expect("linked");
    place
}

fn starts(command: &[&str]) -> String {
    one_stage(&format!("kind = \"command\"\ncommand = {}", json!(command)))
}

fn begin(daemon: &Daemon, pipeline: &str, key: &str) -> (u16, Value) {
    let items = json!([{"key": key, "payload": {"n": 1}}]);
    let reply = daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items}));
    (reply.status, reply.json())
}

fn until_dead(daemon: &Daemon, key: &str) -> String {
    let dead = daemon.until(&format!("/v1/items/{key}"), |item| item["state"] == "dead");
    let told = (&dead["reason"], &dead["class"], &dead["attempts"]);
    assert_eq!(told, (&json!("final"), &json!("final"), &json!(1)));
    text(&dead["message"])
}

/// Commands that a sent pipeline may not have where `tools` and `more` are allowed, and what is said of each.
fn refused(place: &Place) -> Vec<(Vec<String>, &'static str)> {
    let whole = |name: &str| place.path(name).display().to_string();
    let one = |word: &str| vec![word.to_owned()];
    vec![
        (one("python3"), "in no folder that --allow-commands names"),
        (vec!["python3".to_owned(), whole("tools/tool")], "in no folder that --allow-commands names"),
        (vec!["sh".to_owned(), "-c".to_owned(), "id".to_owned()], "leads out of the folders"),
        (one("/bin/sh"), "leads out of the folders"),
        (one("/usr/bin/env"), "leads out of the folders"),
        (one(&whole("out/evil")), "leads out of the folders"),
        (one("leak"), "leads out of the folders"),
        (one("./leak"), "leads out of the folders"),
        (one("folder/evil"), "leads out of the folders"),
        (one("../out/evil"), "has `..` in it"),
        (one("sub/../tool"), "has `..` in it"),
        (one(&whole("tools/../out/evil")), "has `..` in it"),
        (one("deep"), "in no folder that --allow-commands names"),
        (one("tools/tool"), "in no folder that --allow-commands names"),
        (one("plain"), "chmod +x"),
        (one("sub"), "is no program"),
        (one("."), "is no program"),
    ]
}

#[test]
fn a_program_that_is_in_no_allowed_folder_is_refused_when_the_pipeline_is_sent() {
    let place = place();
    let daemon = Daemon::start(&place, &["--allow-commands", "tools", "--allow-commands", "more"]);
    for (command, why) in refused(&place) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let (status, told) = begin(&daemon, &starts(&words), "a");
        assert_eq!((status, told["code"].as_str()), (403, Some("forbidden")), "{command:?}: {told}");
        let detail = text(&told["detail"]);
        assert!(detail.starts_with("stage work may not start its `command`: "), "{told}");
        assert!(detail.contains(why), "{command:?}: {told}");
        assert!(text(&told["hint"]).contains("--allow-commands"), "{told}");
    }
    let elsewhere = one_stage("kind = \"command\"\ncommand = [\"tool\"]\ncwd = \"/\"");
    let (status, told) = begin(&daemon, &elsewhere, "a");
    assert!(status == 403 && text(&told["detail"]).contains("leave `cwd` out"), "{told}");
    let any = format!("commands = \"any\"\n{}", starts(&["tool"]));
    let (status, told) = begin(&daemon, &any, "a");
    assert!(status == 403 && text(&told["hint"]).contains("leave `commands` out"), "{told}");
    let wrong = format!("commands = \"all\"\n{}", starts(&["tool"]));
    let (status, told) = begin(&daemon, &wrong, "a");
    assert_eq!((status, told["problems"][0]["line"].as_u64()), (422, Some(1)), "{told}");
    let child = "name = \"test\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n[[stage.children]]\nname = \"b\"\n\
                 kind = \"command\"\ncommand = [\"leak\"]\n";
    let (status, told) = begin(&daemon, child, "a");
    assert!(status == 403 && text(&told["detail"]).starts_with("stage b may not start"), "{told}");
    assert!(!place.path("out/started").exists());
    daemon.stop().expect(0);
}

#[test]
fn a_program_of_an_allowed_folder_is_started_in_it() {
    let place = place();
    let daemon = Daemon::start(&place, &["--allow-commands", "tools", "--allow-commands", "more"]);
    let whole = place.path("tools/tool").display().to_string();
    for (key, program, folder) in [
        ("name", "tool", "tools"),
        ("path", "./tool", "tools"),
        ("below", "sub/deep", "tools"),
        ("alias", "alias", "tools"),
        ("whole", whole.as_str(), "tools"),
        ("second", "other", "more"),
    ] {
        let named = starts(&[program]).replace("\"test\"", &format!("\"{key}\""));
        let (status, told) = begin(&daemon, &named, key);
        assert_eq!(status, 201, "{key}: {told}");
        daemon.until(&format!("/v1/items/{key}"), |item| item["state"] == "succeeded");
        let run = text(&told["run"]);
        let made = daemon.get(&format!("/v1/runs/{run}/results")).expect(200).body;
        let folder = std::fs::canonicalize(place.path(folder)).expect("there");
        assert!(made.contains(&json!(folder.display().to_string()).to_string()), "{key}: {made}");
    }
    daemon.stop().expect(0);
    place.check();
}

#[test]
fn without_a_folder_no_program_is_started_and_a_folder_has_to_be_one() {
    let place = place();
    let daemon = Daemon::start(&place, &[]);
    for command in ["tool", "sh", "/bin/sh"] {
        let (status, told) = begin(&daemon, &starts(&[command]), "a");
        assert!(status == 403 && text(&told["detail"]).contains("--allow-commands DIR"), "{told}");
    }
    daemon.stop().expect(0);
    for (folder, why) in [("nowhere", "nowhere is no folder"), ("tools/tool", "tools/tool is no folder")] {
        let ran = place.run(&["serve", "--allow-commands", folder]).expect(2);
        assert!(ran.stderr.contains(why) && ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
}

#[test]
fn a_link_that_leads_out_later_is_not_followed() {
    let place = place();
    let daemon = Daemon::start(&place, &["--allow-commands", "tools"]);
    let (status, told) = begin(&daemon, &starts(&["alias"]), "a");
    assert_eq!(status, 201, "{told}");
    daemon.until("/v1/items/a", |item| item["state"] == "succeeded");
    daemon.post("/v1/pipelines/test/pause", &json!({})).expect(200);
    assert_eq!(begin(&daemon, &starts(&["alias"]), "b").0, 201);
    // The child has ended with its answer, so that the next item has another started.
    std::fs::remove_file(place.path("tools/alias")).expect("removed");
    symlink("../out/evil", place.path("tools/alias")).expect("linked");
    daemon.post("/v1/pipelines/test/resume", &json!({})).expect(200);
    assert!(until_dead(&daemon, "b").contains("leads out of the folders"));
    assert_eq!(begin(&daemon, &starts(&["alias"]), "c").0, 403);
    daemon.stop().expect(0);
    assert!(!place.path("out/started").exists());
}

#[test]
fn what_was_sent_is_held_to_the_folders_of_every_process_that_works_on_it() {
    let place = place();
    let daemon = Daemon::start(&place, &["--no-work", "--allow-commands", "tools"]);
    assert_eq!(begin(&daemon, &starts(&["alias"]), "a").0, 201);
    daemon.stop().expect(0);
    let dies_of = |args: &[&str], why: &str| {
        place.run(&[&["work", "--until-idle"], args].concat()).expect(4);
        let dead = place.dead();
        let message = text(&dead[0]["message"]);
        assert!(message.starts_with("cannot start alias: ") && message.contains(why), "{message}");
        assert_eq!((&dead[0]["class"], &dead[0]["attempts"]), (&json!("final"), &json!(1)), "{dead:?}");
        place.run(&["dead", "redrive", "--all"]).expect(0);
    };
    dies_of(&[], "this process was given none");
    dies_of(&["--allow-commands", "more"], "in no folder that --allow-commands names");
    std::fs::remove_file(place.path("tools/alias")).expect("removed");
    symlink("../out/evil", place.path("tools/alias")).expect("linked");
    dies_of(&["--allow-commands", "tools"], "leads out of the folders");
    assert!(!place.path("out/started").exists());
    std::fs::remove_file(place.path("tools/alias")).expect("removed");
    symlink("tool", place.path("tools/alias")).expect("linked");
    place.run(&["work", "--until-idle", "--allow-commands", "tools"]).expect(0);
    place.check();
}

#[test]
fn a_pipeline_of_the_folder_starts_what_it_names() {
    let place = place();
    std::fs::create_dir(place.path("pipelines")).expect("made");
    program(&place, "pipelines/own", TOOL);
    place.write("pipelines/test.toml", starts(&["python3", "own"]));
    let daemon = Daemon::start(&place, &["--pipelines", "pipelines", "--allow-commands", "tools"]);
    assert_eq!(begin(&daemon, "test", "a").0, 201);
    daemon.until("/v1/items/a", |item| item["state"] == "succeeded");
    // One that says so itself is held to the folders, too.
    let held = format!("commands = \"allowed\"\n{}", starts(&["python3"]).replace("\"test\"", "\"held\""));
    place.write("pipelines/held.toml", held);
    daemon.until("/v1/pipelines", |list| list["items"].as_array().is_some_and(|items| items.len() == 2));
    assert_eq!(begin(&daemon, "held", "b").0, 201);
    assert!(until_dead(&daemon, "b").contains("in no folder that --allow-commands names"));
    daemon.stop().expect(0);
}
