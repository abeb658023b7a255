//! Edits of kinds and encodings that have expectations of their own.

use std::io::Write;

use super::world::{EDITS, KINDS, Kind, Rows, accounted, pipeline, rows, service, twice};
use crate::support::{Answer, Names, Place, Server, count, key, names, one_stage, samples};

/// A retry that takes long enough for an edit to be noticed before it.
const SLOW_RETRY: &str =
    "retry.max_attempts = 5\nretry.backoff = { kind = \"fixed\", delay = \"4s\" }\nretry.jitter = \"none\"";

#[test]
fn an_edit_between_retries_is_noticed_in_every_kind_of_source() {
    // All kinds wait for their retries at the same time.
    std::thread::scope(|scope| {
        for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Jsonl) {
            scope.spawn(move || {
                let (name, edit) = EDITS[2];
                let what = format!("{kind:?}, {name}");
                let (server, ledger) = service(Some("k0012"));
                let place = Place::new();
                place.write("p.toml", pipeline(kind, &server, &format!("batch = 1\n{SLOW_RETRY}")));
                let mut rows = rows(20);
                kind.write(&place, &rows);
                let run = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
                place.until_json(&["show"], |run| count(&run["counts"]["succeeded"]) == 19);
                edit(&mut rows);
                kind.write(&place, &rows);
                run.finish().expect(0);
                accounted(&what, &place, &rows);
                assert_eq!(twice(&ledger), [], "{what}");
            });
        }
    });
}

#[test]
fn an_edit_while_a_living_process_reads_loses_no_line() {
    let (server, ledger) = service(None);
    let place = Place::new();
    place.write("p.toml", pipeline(Kind::Jsonl, &server, "batch = 100"));
    let mut rows = rows(23_000);
    Kind::Jsonl.write(&place, &rows);
    // No more is read while so many items wait.
    server.hold();
    let run = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
    place.until_json(&["show"], |run| count(&run["counts"]["admitted"]) >= 20_000);
    assert_eq!(place.json(&["show"])["admitted_all"], false, "it still reads");
    rows.drain(5..8);
    rows[9].1 = 7_777;
    rows.push(("late".to_owned(), 9));
    Kind::Jsonl.write(&place, &rows);
    server.release();
    run.finish().expect(0);
    accounted("while it reads", &place, &rows);
    assert_eq!(twice(&ledger), []);
}

/// Lines of rows, with this at their ends.
fn lines(rows: &Rows, end: &str) -> String {
    rows.iter().map(|(key, n)| format!("{{\"id\":\"{key}\",\"n\":{n}}}{end}")).collect()
}

#[test]
fn another_encoding_costs_nothing_where_it_says_the_same() {
    let (server, ledger) = service(None);
    let place = Place::with(&pipeline(Kind::Jsonl, &server, ""), "");
    let rows = rows(6);
    let plain = lines(&rows, "\n");
    place.write("in.jsonl", &plain);
    place.run_pipeline(0);
    let calls = server.count();
    let marked = [b"\xef\xbb\xbf".to_vec(), plain.clone().into_bytes()].concat();
    for (what, bytes) in [("BOM", marked), ("CRLF", lines(&rows, "\r\n").into_bytes())] {
        place.write("in.jsonl", bytes);
        let report = place.run_pipeline(0);
        accounted(what, &place, &rows);
        assert_eq!((server.count(), twice(&ledger)), (calls, vec![]), "{what}: {report}");
    }
    // What is no text of lines is told, and takes nothing away.
    let utf16: Vec<u8> = plain.encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.write("in.jsonl", [b"\xff\xfe".to_vec(), utf16].concat());
    let ran = place.run(&["run", "p.toml"]).expect(2);
    assert!(ran.stderr.contains("it is UTF-16"), "{}", ran.stderr);
    place.write("in.jsonl", &plain);
    place.run_pipeline(0);
    accounted("UTF-16 and back", &place, &rows);
    assert_eq!(server.count(), calls, "nothing was paid for");
}

#[test]
fn a_line_in_latin_1_is_refused_and_the_others_stay() {
    let (server, ledger) = service(None);
    let place = Place::with(&pipeline(Kind::Jsonl, &server, ""), &samples(3));
    place.run_pipeline(0);
    place.write("in.jsonl", [samples(3).as_bytes(), b"{\"id\":\"caf\xe9\",\"n\":9}\n"].concat());
    place.run_pipeline(3);
    assert_eq!((place.result_keys(), place.dead_keys().len()), (names((0..3).map(key)), 1));
    place.write("in.jsonl", format!("{}{{\"id\":\"café\",\"n\":9}}\n", samples(3)));
    place.run_pipeline(0);
    assert_eq!(place.result_keys(), names((0..3).map(key).chain(["café".to_owned()])));
    assert_eq!(twice(&ledger), []);
    place.check();
}

#[test]
fn an_edit_that_keeps_size_and_time_is_seen() {
    let (server, ledger) = service(None);
    let place = Place::with(&pipeline(Kind::Jsonl, &server, ""), "");
    let mut rows = rows(6);
    Kind::Jsonl.write(&place, &rows);
    place.run_pipeline(0);
    let before = std::fs::metadata(place.path("in.jsonl")).expect("there");
    rows[3].1 = 7;
    Kind::Jsonl.write(&place, &rows);
    let file = std::fs::File::options().write(true).open(place.path("in.jsonl")).expect("opened");
    file.set_modified(before.modified().expect("known")).expect("set");
    let after = file.metadata().expect("there");
    assert_eq!((before.len(), before.modified().ok()), (after.len(), after.modified().ok()));
    place.run_pipeline(0);
    accounted("same size and time", &place, &rows);
    assert_eq!(twice(&ledger), []);
}

#[test]
fn files_that_a_pattern_gains_and_loses_are_told() {
    let (server, ledger) = service(None);
    let place = Place::new();
    place.write("p.toml", pipeline(Kind::Several, &server, ""));
    let mut rows = rows(6);
    Kind::Several.write(&place, &rows);
    place.run_pipeline(0);
    place.write("part-3.jsonl", "{\"id\":\"third\",\"n\":33}\n");
    rows.push(("third".to_owned(), 33));
    let report = place.run_pipeline(0);
    assert_eq!(count(&report["read"]["new"]), 1, "{report}");
    accounted("a file more", &place, &rows);
    std::fs::remove_file(place.path("part-1.jsonl")).expect("removed");
    let report = place.run_pipeline(0);
    assert_eq!(count(&report["read"]["removed"]), 3, "{report}");
    accounted("a file less", &place, &rows.split_off(3));
    assert_eq!(twice(&ledger), []);
}

#[test]
fn another_header_makes_other_content_of_every_record() {
    let place = Place::with(&one_stage("kind = \"pass\"").replace("in.jsonl", "in.csv"), "");
    place.write("in.csv", "id,n\na,1\nb,2\n");
    place.run_pipeline(0);
    place.write("in.csv", "id,m\na,1\nb,2\n");
    let report = place.run_pipeline(0);
    assert_eq!(count(&report["read"]["changed"]), 2, "{report}");
    assert_eq!(place.result_keys(), names(["a", "b"]));
    assert!(place.results().values().all(|output| output["m"].is_string() && output["n"].is_null()));
    place.check();
}

#[test]
fn every_edit_of_a_directory_costs_what_is_new_and_changed_only() {
    for (name, edit) in EDITS {
        let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let book = asked.clone();
        let server = Server::start(move |call| {
            let seen = call.items.iter().map(|item| (item.key.clone(), item.payload["hash"].to_string()));
            book.lock().expect("not poisoned").extend(seen);
            Answer::all(call)
        });
        let place = Place::new();
        std::fs::create_dir(place.path("docs")).expect("made");
        let stage = format!("[[stage]]\nname = \"work\"\n{}\nbatch = 10\nconcurrency = 4\n", server.stage());
        place.write(
            "p.toml",
            format!("name = \"test\"\n[source]\nkind = \"files\"\npath = \"docs\"\n{stage}"),
        );
        let mut rows = rows(30);
        let write = |rows: &Rows| {
            std::fs::remove_dir_all(place.path("docs")).expect("removed");
            std::fs::create_dir(place.path("docs")).expect("made");
            for (key, n) in rows {
                let mut file = std::fs::File::create(place.path(&format!("docs/{key}"))).expect("made");
                file.write_all(n.to_string().as_bytes()).expect("written");
            }
        };
        write(&rows);
        place.run_pipeline(0);
        let before = rows.clone();
        edit(&mut rows);
        write(&rows);
        place.run_pipeline(0);
        let wanted: Names = rows.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(place.result_keys(), wanted, "{name}");
        let fresh = rows.iter().filter(|row| !before.contains(row)).count();
        let mut asked = asked.lock().expect("not poisoned").clone();
        assert_eq!(asked.len(), 30 + fresh, "{name}");
        asked.sort();
        assert!(asked.windows(2).all(|pair| pair[0] != pair[1]), "{name}: {asked:?}");
        place.check();
    }
}

#[test]
fn every_edit_of_standard_input_costs_what_is_new_and_changed_only() {
    for (name, edit) in EDITS {
        let (server, ledger) = service(None);
        let place = Place::with(&pipeline(Kind::Jsonl, &server, "batch = 20"), "");
        let give = |rows: &Rows| {
            let args = ["run", "p.toml", "--input", "-", "--results", "out.jsonl", "--json"];
            place.start_with(&args, &[], lines(rows, "\n").as_bytes()).finish().expect(0).json()
        };
        let mut rows = rows(30);
        give(&rows);
        let before = rows.clone();
        edit(&mut rows);
        let report = give(&rows);
        let fresh = rows.iter().filter(|row| !before.contains(row)).count() as u64;
        let read = &report["read"];
        assert_eq!(count(&read["new"]) + count(&read["changed"]), fresh, "{name}: {read}");
        // What it does not have is not taken for removed.
        rows.extend(
            before.into_iter().filter(|(key, _)| !rows.iter().any(|(of, _)| of == key)).collect::<Rows>(),
        );
        accounted(name, &place, &rows);
        assert_eq!(twice(&ledger), [], "{name}");
    }
}
