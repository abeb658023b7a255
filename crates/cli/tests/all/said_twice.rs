//! A command that is said twice, because nobody knows whether it was heard, ends as it did the first time.

use crate::support::server::failed;
use crate::support::{Answer, Place, Server, array, one_stage, samples, text};

fn refusing() -> (Server, Place) {
    let server = Server::start(|call| {
        let no = |item| failed(item, "final", "no");
        Answer::results(&call.items.iter().map(no).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    place.run(&["run", "p.toml"]).expect(4);
    (server, place)
}

#[test]
fn cancelling_twice_is_cancelling() {
    let (_server, place) = refusing();
    place.run(&["dead", "redrive", "--all"]).expect(0);
    let first = place.json(&["cancel", "r1", "--yes"]);
    assert_eq!(first["status"], "cancelled");
    let ran = place.run(&["cancel", "r1", "--json"]).expect(0);
    assert_eq!(ran.json()["counts"], first["counts"]);
    assert!(ran.stderr.contains("was cancelled already"), "{}", ran.stderr);
    let operations = place.json(&["dead", "operations"]);
    let kinds: Vec<&str> =
        array(&operations["operations"]).iter().filter_map(|operation| operation["kind"].as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "cancel").count(), 1, "{kinds:?}");
    place.check();
}

#[test]
fn a_run_that_ended_otherwise_is_not_cancelled() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(3));
    place.run(&["run", "p.toml"]).expect(0);
    for _ in 0..2 {
        let told = place.run(&["cancel", "r1", "--yes"]).expect(2).stderr;
        assert!(told.contains("run r1 is finished already"), "{told}");
    }
}

#[test]
fn an_import_that_is_repeated_ends_as_the_first_did() {
    let (_server, place) = refusing();
    place.run(&["dead", "export", "-o", "e.jsonl"]).expect(0);
    // The first one was killed after a line.
    let exported = place.read("e.jsonl");
    place.write("first.jsonl", exported.lines().next().expect("a line"));
    place.run(&["dead", "import", "first.jsonl"]).expect(0);
    let ran = place.run(&["dead", "import", "e.jsonl", "--json"]).expect(0);
    assert_eq!((&ran.json()["items"], &ran.json()["skipped"]), (&2.into(), &0.into()));
    assert!(ran.stderr.contains("1 item sent back before"), "{}", ran.stderr);
    let again = place.run(&["dead", "import", "e.jsonl", "--json"]).expect(0).json();
    assert_eq!((&again["items"], &again["skipped"]), (&0.into(), &0.into()));
    // What came back in another way has not the content of the file.
    place.run(&["resume", "r1"]).expect(4);
    place.run(&["dead", "export", "-o", "e.jsonl", "--overwrite"]).expect(0);
    place.run(&["dead", "redrive", "--all"]).expect(0);
    let ran = place.run(&["dead", "import", "e.jsonl"]).expect(3);
    assert!(ran.stderr.contains("is waiting, not dead"), "{}", ran.stderr);
    place.check();
}

#[test]
fn an_import_of_another_content_is_not_taken_for_the_first() {
    let (_server, place) = refusing();
    place.run(&["dead", "export", "-o", "e.jsonl"]).expect(0);
    let line = place.read("e.jsonl").lines().next().expect("a line").to_owned();
    let other = line.replace("\"n\":0", "\"n\":7");
    assert_ne!(line, other);
    place.write("two.jsonl", format!("{line}\n{other}\n"));
    let ran = place.run(&["dead", "import", "two.jsonl", "--json"]).expect(3);
    assert_eq!((&ran.json()["items"], &ran.json()["skipped"]), (&1.into(), &1.into()));
    assert!(ran.stderr.contains("sent back before, with another content than this"), "{}", ran.stderr);
    place.write("same.jsonl", format!("{line}\n"));
    place.run(&["dead", "import", "same.jsonl"]).expect(0);
    place.check();
}

#[test]
fn an_edit_that_is_repeated_ends_as_the_first_did() {
    let (_server, place) = refusing();
    let edit = ["dead", "edit", "k0000", "--set", "/n=7"];
    place.run(&edit).expect(0);
    let ran = place.run(&edit).expect(0);
    assert!(ran.stdout.contains("was sent back with this content before"), "{}", ran.stdout);
    let other = place.run(&["dead", "edit", "k0000", "--set", "/n=8"]).expect(2);
    assert!(other.stderr.contains("is waiting, not dead"), "{}", other.stderr);
    place.check();
}

#[test]
fn what_else_is_said_twice_ends_alike() {
    let (_server, place) = refusing();
    place.run(&["dead", "redrive", "--item", "k0000"]).expect(0);
    for args in [
        &["pause", "r1"][..],
        &["kill", "k0000"],
        &["gates", "pause", "g"],
        &["gates", "resume", "g"],
        &["gates", "reset", "g"],
        &["pipelines", "pause", "test"],
        &["pipelines", "resume", "test"],
        &["dead", "purge", "--all", "--yes"],
        &["prune", "--older-than", "0s", "--with-dead", "--yes"],
    ] {
        let gate = array(&place.json(&["gates"])["gates"])[0]["name"].as_str().expect("a name").to_owned();
        let args: Vec<&str> =
            args.iter().map(|word| if *word == "g" { gate.as_str() } else { *word }).collect();
        place.run(&args).expect(0);
        place.run(&args).expect(0);
    }
    let inbox = "name = \"box\"\n[source]\nkind = \"inbox\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n";
    place.write("box.toml", inbox);
    let handed = place.json(&["submit", "box.toml", "--items", "in.jsonl"]);
    let run = text(&handed["runs"][0]["run"]);
    place.run(&["close", &run]).expect(0);
    place.run(&["close", &run]).expect(0);
}

#[test]
fn an_item_that_ended_otherwise_is_not_killed() {
    let (_server, place) = refusing();
    let told = place.run(&["kill", "k0000"]).expect(2).stderr;
    assert!(told.contains("is dead already"), "{told}");
}

#[test]
fn a_run_or_group_that_nobody_has_is_not_taken_for_one_without_dead_items() {
    let (_server, place) = refusing();
    let told = place.run(&["dead", "list", "--run", "r99"]).expect(2).stderr;
    assert!(told.contains("run r99 does not exist"), "{told}");
    place.run(&["dead", "redrive", "--run", "r99", "--all"]).expect(2);
    let ran = place.run(&["dead", "list", "--group", "nope"]).expect(0);
    assert!(ran.stderr.contains("nothing dead is in group nope"), "{}", ran.stderr);
}

#[test]
fn who_asked_is_told_by_number_where_no_name_is_known() {
    let (_server, place) = refusing();
    place.run_with(&["dead", "redrive", "--all"], &[("USER", ""), ("LOGNAME", "")]).expect(0);
    let actor = place.json(&["dead", "operations"])["operations"][0]["actor"].clone();
    assert!(actor.as_str().is_some_and(|actor| actor.starts_with("uid ")), "{actor}");
}
