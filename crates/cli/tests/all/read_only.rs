//! A store that may not be written: everything that only reads works on it, and nothing is left beside it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use crate::support::guest::{guest, is_root};
use crate::support::{Answer, Place, Server, index::Library, key, one_stage, quick_retry, samples};

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
}

fn as_a_guest(place: &Place, args: &[&str]) -> Output {
    guest(place, args).output().expect("it starts")
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn names(folder: &Path) -> Vec<String> {
    let listed = std::fs::read_dir(folder).expect("listed");
    let mut names: Vec<String> =
        listed.map(|entry| entry.expect("listed").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A store with dead and succeeded items and an index.
fn stocked() -> Library {
    let library = Library::builtin();
    library.write("otter.md", "# Otters\n\nAn otter sleeps in a river and holds hands.\n");
    library.write("goat.md", "# Goats\n\nA goat climbs a steep rock.\n");
    library.index(&[], 0);
    let server =
        Server::start(
            |call| {
                if call.item().key == key(3) { Answer::status(400, "no") } else { Answer::all(call) }
            },
        );
    library.place.write("p.toml", one_stage(&format!("{}\n{}", server.stage(), quick_retry(1))));
    library.place.write("in.jsonl", samples(5));
    library.place.run(&["run", "p.toml"]).expect(3);
    library
}

const READING: [&[&str]; 16] = [
    &["check"],
    &["doctor"],
    &["runs"],
    &["show"],
    &["show", "r1"],
    &["failures"],
    &["stats"],
    &["explain", "k0001"],
    &["gates"],
    &["results", "r2"],
    &["dead", "list"],
    &["dead", "groups"],
    &["dead", "export"],
    &["dead", "operations"],
    &["dead", "redrive", "--all", "--dry-run"],
    &["search", "where", "do", "otters", "sleep"],
];

#[test]
fn a_store_that_may_not_be_written_can_be_searched_and_read() {
    let library = stocked();
    let place = &library.place;
    let (top, folder, file) = (place.path(""), place.path(".redrive"), place.path(".redrive/state.db"));
    mode(&top, 0o755);
    for (of_folder, of_file) in [(0o555, 0o444), (0o555, 0o644), (0o777, 0o444), (0o755, 0o644)] {
        if !is_root() && of_folder & 0o200 != 0 && of_file & 0o200 != 0 {
            // The owner may write this one.
            continue;
        }
        mode(&file, of_file);
        mode(&folder, of_folder);
        let (before, bytes) = (names(&folder), std::fs::read(&file).expect("read"));
        for command in READING {
            let ran = as_a_guest(place, command);
            let told = told(&ran);
            assert!(ran.status.success(), "{of_folder:o} {of_file:o} {command:?}: {told}");
        }
        let found = as_a_guest(place, &["search", "where", "do", "otters", "sleep"]);
        assert!(told(&found).contains("otter.md"), "{}", told(&found));
        assert_eq!(names(&folder), before, "nothing is left beside it");
        assert_eq!(std::fs::read(&file).expect("read"), bytes);
        for command in
            [&["run", "p.toml", "--new"][..], &["kill", "k0001"], &["prune", "--older-than", "0s", "--yes"]]
        {
            let ran = as_a_guest(place, command);
            let told = told(&ran);
            assert_eq!(ran.status.code(), Some(2), "{command:?}: {told}");
            assert!(told.contains("state.db") && told.contains("hint: "), "{command:?}: {told}");
        }
        assert_eq!(names(&folder), before);
    }
    mode(&folder, 0o700);
}

#[test]
fn somebody_else_can_look_at_a_run_while_its_owner_works_on_it() {
    let server = Server::good();
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 2\n", server.stage())), &samples(20));
    place.run(&["run", "p.toml"]).expect(0);
    let (folder, file) = (place.path(".redrive"), place.path(".redrive/state.db"));
    mode(&place.path(""), 0o755);
    mode(&folder, 0o755);
    mode(&file, 0o644);
    place.write("p.toml", place.read("p.toml").replace("\"test\"", "\"other\""));
    server.hold();
    let owner = place.start(&["run", "p.toml", "--json"]);
    server.until_open(2);
    let before = names(&folder);
    for _ in 0..3 {
        let seen = as_a_guest(&place, &["show", "--json"]);
        assert!(seen.status.success(), "{}", told(&seen));
        let seen: serde_json::Value = serde_json::from_slice(&seen.stdout).expect("JSON");
        assert_eq!((&seen["run"], &seen["counts"]["running"]), (&"r2".into(), &2.into()), "{seen:#}");
        let checked = as_a_guest(&place, &["check"]);
        assert!(checked.status.success(), "{}", told(&checked));
    }
    assert_eq!(names(&folder), before);
    server.release();
    owner.finish().expect(0);
    place.check();
}
