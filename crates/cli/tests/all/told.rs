//! What is told is so, and can be acted on: hints, empty lists, words for what was asked.

use serde_json::{Value, json};

use crate::support::server::{Answer, Item, Server, failed, passed};
use crate::support::{Place, one_stage, quick_retry, samples, text};

const ITEMS: usize = 6;

/// Two of six items are dead at the first of two stages.
fn dead_run() -> (Server, Place) {
    let server = Server::start(|call| {
        let one = |item: &Item| match item.payload["n"].as_u64() {
            Some(1 | 4) => failed(item, "final", &format!("not like this {}x", "like ".repeat(80))),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let stage = format!("{}\n{}", server.stage(), quick_retry(2));
    let last = "[[stage]]\nname = \"last\"\nkind = \"pass\"\n";
    let place = Place::with(&format!("{}{last}", one_stage(&stage)), &samples(ITEMS));
    place.run(&["run", "p.toml"]).expect(3);
    (server, place)
}

/// The command in a text that begins like that, without its first word.
fn command<'a>(text: &'a str, beginning: &str) -> Vec<&'a str> {
    let found = text.split('`').find(|part| part.starts_with(beginning));
    found.unwrap_or_else(|| panic!("no `{beginning} …` in {text}")).split(' ').skip(1).collect()
}

#[test]
fn what_sends_listed_dead_items_back_can_be_typed_as_it_is_told() {
    let (server, place) = dead_run();
    for (filters, told) in [
        (&[][..], "--run r1 --all --work"),
        (&["--run", "r1"], "--run r1 --all --work"),
        (&["--pipeline", "test", "--stage", "work"], "--run r1 --pipeline test --stage work --work"),
        (&["--class", "final", "--since", "2h"], "--run r1 --class final --since 7200000ms --work"),
        (&["--text", "not like"], "--run r1 --text 'not like' --work"),
    ] {
        let listed = place.run(&[&["dead", "list"], filters].concat()).expect(0).stderr;
        let told = format!("`redrive dead redrive {told}` sends them back");
        assert!(listed.contains(&told), "{listed}");
    }
    let listed = place.run(&["dead", "list"]).expect(0).stderr;
    let calls = server.calls().len();
    place.run(&command(&listed, "redrive dead redrive")).expect(3);
    assert_eq!(server.calls().len(), calls + 2, "both were sent back and worked on");
}

#[test]
fn groups_that_are_all_looked_after_are_not_taken_for_no_dead_items() {
    let (_server, place) = dead_run();
    let groups = place.json(&["dead", "groups"]);
    let group = text(&groups["groups"][0]["group"]);
    place.run(&["dead", "note", &group, "known", "--ack"]).expect(0);
    let open = place.run(&["dead", "groups", "--open"]).expect(0).stdout;
    assert_eq!(open, "no open groups; 1 is acknowledged\n");
    assert_eq!(place.json(&["dead", "groups", "--open"]), json!({ "groups": [] }));
    place.run(&["dead", "purge", "--all", "--yes"]).expect(0);
    assert_eq!(place.run(&["dead", "groups", "--open"]).expect(0).stdout, "no dead items\n");
}

#[test]
fn nothing_of_what_was_asked_for_is_not_told_as_nothing_failed() {
    let (_server, place) = dead_run();
    for (args, told) in [
        (&["--permanent"][..], "nothing that looks permanent"),
        (&["--stage", "last"], "nothing failed at stage last"),
        (&["--stage", "last", "--permanent"], "nothing that looks permanent at stage last"),
    ] {
        let ran = place.run(&[&["failures", "r1"], args].concat()).expect(0).stdout;
        assert!(ran.trim_end().ends_with(&format!(": {told}")), "{ran}");
    }
}

#[test]
fn what_an_operation_was_asked_is_told_in_words_and_uncut() {
    let (_server, place) = dead_run();
    let words = "like ".repeat(80);
    place
        .run(&["dead", "redrive", "--run", "r1", "--stage", "work", "--class", "final", "--limit", "1"])
        .expect(0);
    place.run(&["dead", "redrive", "--text", &words]).expect(0);
    place.run(&["cancel", "r1", "--yes"]).expect(0);
    let shown = place.run(&["dead", "operations"]).expect(0).stdout;
    for told in ["run r1, stage work, class final, at most 1\n", &format!("text {words:?}\n"), "run r1\n"] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    assert!(!shown.contains("null") && !shown.contains('…'), "{shown}");
    let first = text(&place.json(&["dead", "operations"])["operations"][2]["request"]);
    assert!(serde_json::from_str::<Value>(&first).is_ok(), "a program has it as it is kept: {first}");
}

#[test]
fn a_level_that_is_none_is_told_with_what_holds_instead() {
    let (_server, place) = dead_run();
    for wrong in ["deubg", "bogus=zz"] {
        let told = place.run_with(&["runs"], &[("REDRIVE_LOG", wrong)]).expect(0).stderr;
        let names =
            told.contains(&format!("warning: REDRIVE_LOG: {wrong:?}")) && told.contains("debug, trace");
        assert!(names && told.contains("warnings are logged"), "{told}");
    }
    for right in ["debug", "redrive::item=debug", ""] {
        let told = place.run_with(&["runs"], &[("REDRIVE_LOG", right)]).expect(0).stderr;
        assert!(!told.contains("REDRIVE_LOG"), "{right}: {told}");
    }
}

#[test]
fn of_many_items_of_one_name_the_newest_come_first_and_the_rest_is_counted() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(1));
    for _ in 0..8 {
        place.run(&["run", "p.toml", "--new"]).expect(0);
    }
    let told = place.run(&["kill", "k0000"]).expect(2).stderr;
    let runs: Vec<&str> = told.lines().filter_map(|line| line.split(" in ").nth(1)).collect();
    assert_eq!(runs, ["r8)", "r7)", "r6)", "r5)", "r4)"], "{told}");
    assert!(told.contains("\n       and 3 more\n"), "{told}");
}

#[test]
fn a_store_without_runs_is_told_how_to_start_one() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(1));
    place.run(&["run", "p.toml"]).expect(0);
    place.run(&["prune", "--older-than", "0s", "--yes"]).expect(0);
    for verb in ["stats", "show"] {
        let told = place.run(&[verb]).expect(2).stderr;
        assert!(
            told.contains("no runs") && told.contains("`redrive run PIPELINE.toml` starts one"),
            "{told}"
        );
    }
}

#[test]
fn no_service_takes_a_try_for_the_one_before_it() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), "");
    for _ in 0..2 {
        place.run(&["try", "p.toml", "work", "--payload", "{\"n\":1}"]).expect(0);
    }
    let calls = server.calls();
    assert_ne!(calls[0].item().id, calls[1].item().id);
    let key = |n: usize| calls[n].headers["idempotency-key"].clone();
    assert_ne!(key(0), key(1));
}
