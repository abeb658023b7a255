//! Readers that go away before the end, and outputs that are full.

use std::process::{Command, Output};

use crate::support::{Place, one_stage, samples};

const ITEMS: usize = 3_000;

/// Runs a line of bash in which `redrive` is the binary.
fn bash(place: &Place, line: &str) -> Output {
    let script = format!("set -o pipefail; redrive() {{ \"$REDRIVE\" \"$@\"; }}\n{line}");
    Command::new("bash")
        .args(["-c", &script])
        .env("REDRIVE", env!("CARGO_BIN_EXE_redrive"))
        .env_remove("REDRIVE_STORE")
        .current_dir(place.path("."))
        .output()
        .expect("bash is everywhere")
}

/// A run whose every second item is dead, so that there is much to print of everything.
fn large() -> Place {
    let pipeline = one_stage("kind = \"filter\"\nkeep = \"payload.nothing > 1\"\nretry.max_attempts = 1");
    let place = Place::with(&pipeline, &samples(ITEMS));
    place.run(&["run", "p.toml", "--quiet"]);
    assert_eq!(place.json(&["show"])["counts"]["dead"], ITEMS, "{}", place.json(&["show"]));
    place.write("q.toml", one_stage("kind = \"pass\"").replace("\"test\"", "\"good\""));
    place.run(&["run", "q.toml", "--quiet"]).expect(0);
    place
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = large();
    for command in [
        "dead export",
        "dead list -n 500",
        "dead list -n 500 --json",
        "dead redrive --all --dry-run",
        "dead redrive --all --dry-run --json",
        "failures r1 -n 3000",
        "failures r1 -n 3000 --json",
        "results r2",
        "results r2 --json",
        "results r2 --stage work",
        "results r2 --follow",
        "resume r2 --results /dev/stdout",
        "resume r2 --json",
        "completions zsh",
        "policy list --json",
        "help",
    ] {
        for reader in ["head -c 1 > /dev/null", "true"] {
            let ran = bash(&place, &format!("redrive {command} | {reader}"));
            let told = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.code(), Some(0), "{command} | {reader}: {told}");
            let silent =
                !told.contains("error") && !told.contains("panicked") && !told.contains("roken pipe");
            assert!(silent, "{command} | {reader}: {told}");
        }
    }
    // The same for what is written by name.
    let ran = bash(&place, "redrive results r2 -o >(head -n 2 > two.jsonl); wait $!");
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert_eq!(place.read("two.jsonl").lines().count(), 2);
    let ran = bash(
        &place,
        "redrive resume r2 --quiet --results >(gzip > all.gz) > /dev/null; wait $!; gzip -dc all.gz | wc -l",
    );
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), ITEMS.to_string(), "{ran:?}");
}

#[test]
fn a_full_standard_output_is_an_error() {
    let place = large();
    for command in [
        "dead export",
        "dead list --json",
        "dead redrive --all --dry-run",
        "results r2",
        "results r2 --json",
        "show r2",
        "runs --json",
        "completions bash",
        "policy list",
    ] {
        let ran = bash(&place, &format!("redrive {command} > /dev/full"));
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{command}: {told}");
        assert!(told.contains("standard output") && told.contains("No space left"), "{command}: {told}");
    }
}

#[test]
fn a_descriptor_on_a_file_keeps_what_was_written_before() {
    let place = large();
    let ran = bash(&place, "{ echo first; redrive results r2 -o /dev/stdout; echo last; } > out.txt");
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let text = place.read("out.txt");
    assert!(text.starts_with("first\n{\"id\"") && text.ends_with("}\nlast\n"), "{}", &text[..200]);
    assert_eq!(text.lines().count(), ITEMS + 2);
    let ran = bash(&place, "exec 5> five.txt; echo first >&5; redrive results r2 -o /dev/fd/5");
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert_eq!(place.read("five.txt").lines().count(), ITEMS + 1);
    // A descriptor on the store is the store.
    let ran = bash(&place, "redrive results r2 -o /dev/fd/5 5>> .redrive/state.db");
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    place.check();
}
