//! What is asked of dead items that are not there is said, and makes no operation.

use crate::support::server::failed;
use crate::support::{Answer, Place, Server, array, one_stage, quick_retry, samples};

fn world() -> (Server, Place) {
    let server = Server::start(|call| {
        Answer::results(&call.items.iter().map(|item| failed(item, "final", "no good")).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&format!("{}\n{}", server.stage(), quick_retry(1))), &samples(3));
    place.run(&["run", "p.toml", "--quiet"]).expect(4);
    (server, place)
}

fn operations(place: &Place) -> usize {
    array(&place.json(&["dead", "operations"])["operations"]).len()
}

#[test]
fn a_group_that_is_not_there_is_refused_and_makes_no_operation() {
    let (_server, place) = world();
    for args in [
        &["dead", "redrive", "--group", "typo"][..],
        &["dead", "redrive", "--group", "typo", "--dry-run"],
        &["dead", "redrive", "--group", "typo", "--canary", "5"],
        &["dead", "redrive", "--group", "typo", "--stop-at", "0.5"],
        &["dead", "purge", "--group", "typo", "--yes"],
        &["dead", "purge", "--group", "typo", "--dry-run"],
        &["dead", "purge", "--group", "typo", "--yes", "--undo-for", "10m"],
        &["dead", "freeze", "--group", "typo"],
    ] {
        let ran = place.run(args).expect(2);
        let told =
            ran.stderr.contains("no dead item is in a group \"typo\"") && ran.stderr.contains("dead groups");
        assert!(told, "{args:?}: {}", ran.stderr);
    }
    assert_eq!(operations(&place), 0);
}

#[test]
fn what_finds_nothing_says_so_and_makes_no_operation() {
    let (_server, place) = world();
    for args in [
        &["dead", "redrive", "--text", "nowhere"][..],
        &["dead", "purge", "--text", "nowhere", "--yes"],
        &["dead", "purge", "--text", "nowhere", "--yes", "--undo-for", "10m"],
        &["dead", "freeze", "--text", "nowhere"],
    ] {
        let ran = place.run(args).expect(0);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("0 items") || said.contains("nothing is dead"), "{args:?}: {said}");
    }
    assert_eq!(operations(&place), 0);
}

#[test]
fn a_canary_is_told_as_one_and_what_was_sent_back_before_is_no_canary_of_now() {
    let (_server, place) = world();
    place.run(&["dead", "redrive", "--run", "r1", "--all", "--canary", "2"]).expect(3);
    let told = place.run(&["dead", "operations"]).expect(0).stdout;
    assert!(told.contains("a canary of 2"), "{told}");
    place.run(&["dead", "redrive", "--run", "r1", "--all"]).expect(0);
    let ran = place.run(&["dead", "redrive", "--run", "r1", "--all", "--canary", "2"]).expect(3);
    assert!(
        ran.stderr.contains("nothing is dead that could be sent back; of 2 items sent back before"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_words_of_a_note_need_no_quotes() {
    let (_server, place) = world();
    let group = place.dead()[0]["group"].as_str().expect("a group").to_owned();
    place.run(&["dead", "note", &group, "ticket", "4711,", "ask", "Ann", "--ack"]).expect(0);
    let noted = place.json(&["dead", "groups"]);
    assert_eq!(array(&noted["groups"])[0]["note"], "ticket 4711, ask Ann");
}
