//! Sources that cannot be read any more, and files of a directory.

use std::sync::{Arc, Mutex};

use crate::support::{Answer, Place, Server, count, key, names, one_stage, samples, text};

#[test]
fn resume_tells_a_source_that_cannot_be_read() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(3));
    place.run_pipeline(0);
    let utf16: Vec<u8> = samples(3).encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.write("in.jsonl", [b"\xff\xfe".to_vec(), utf16].concat());
    let ran = place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert!(ran.stderr.contains("it is UTF-16") && ran.stderr.contains("in.jsonl"), "{}", ran.stderr);
    assert_eq!(place.result_keys(), names((0..3).map(key)), "what was read before goes on");
    std::fs::remove_file(place.path("in.jsonl")).expect("removed");
    let ran = place.run(&["resume", "r1"]).expect(0);
    assert!(ran.stderr.contains("warning: ") && ran.stderr.contains("in.jsonl"), "{}", ran.stderr);
    let pattern = Place::with(&one_stage("kind = \"pass\"").replace("in.jsonl", "part-*.jsonl"), "");
    pattern.write("part-1.jsonl", samples(3));
    pattern.run_pipeline(0);
    std::fs::rename(pattern.path("part-1.jsonl"), pattern.path("other.jsonl")).expect("renamed");
    let ran = pattern.run(&["resume", "r1"]).expect(0);
    assert!(ran.stderr.contains("part-*.jsonl"), "{}", ran.stderr);
    pattern.check();
}

#[test]
fn a_file_edited_between_retries_is_worked_on_once() {
    // What was asked for: path, hash that the item has, hash of the file as it was when it was asked for.
    let place = Place::new();
    std::fs::create_dir_all(place.path("docs")).expect("made");
    let asked: Arc<Mutex<Vec<(String, u64, u64)>>> = Arc::default();
    let book = asked.clone();
    let server = Server::start(move |call| {
        let item = call.item();
        let there = std::fs::metadata(text(&item.payload["file"])).map_or(0, |file| file.len());
        let size = count(&item.payload["size"]);
        if item.key == "b.txt" && size == 3 {
            return Answer::status(500, "not yet");
        }
        book.lock().expect("not poisoned").push((item.key.clone(), size, there));
        Answer::all(call)
    });
    let retry = "retry.max_attempts = 5\nretry.backoff = { kind = \"fixed\", delay = \"6s\" }\nretry.jitter = \"none\"";
    place.write(
        "p.toml",
        format!(
            "name = \"files\"\n[source]\nkind = \"files\"\npath = \"docs\"\n[[stage]]\nname = \"work\"\n{}\n{retry}\n",
            server.stage()
        ),
    );
    place.write("docs/a.txt", "one");
    place.write("docs/b.txt", "two");
    place.write("docs/c.txt", "three");
    let run = place.start(&["run", "p.toml", "--results", "out.jsonl", "--json"]);
    place.until_json(&["show"], |run| count(&run["counts"]["succeeded"]) == 2);
    place.write("docs/b.txt", "another two");
    place.write("docs/d.txt", "four");
    std::fs::remove_file(place.path("docs/c.txt")).expect("removed");
    run.finish().expect(0);
    let mut asked = asked.lock().expect("not poisoned").clone();
    asked.sort();
    let wanted = [("a.txt", 3, 3), ("b.txt", 11, 11), ("c.txt", 5, 5), ("d.txt", 4, 4)];
    assert_eq!(asked, wanted.map(|(key, size, there)| (key.to_owned(), size, there)));
    assert_eq!(server.times_called()["b.txt"], 2, "the old version is not called for again");
    assert_eq!(place.result_keys(), names(["a.txt", "b.txt", "d.txt"]));
    place.check();
}
