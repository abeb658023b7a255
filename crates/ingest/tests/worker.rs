//! The worker's loop over pipes that are only memory, on files that are real.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use redrive_core::id::ContentHash;
use redrive_ingest::chunk::{ChunkOptions, chunk};
use redrive_ingest::kind::Kind;
use redrive_ingest::parse::{Limits, parse};
use redrive_ingest::payload::{ChunkPayload, FilePayload};
use redrive_ingest::walk::WalkOptions;
use redrive_ingest::worker::{CHANGED, THERE_AGAIN, VANISHED, WorkerOptions, serve};
use serde_json::{Value, json};
use tempfile::TempDir;

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn options(root: &Path) -> WorkerOptions {
    WorkerOptions { root: root.to_path_buf(), ..WorkerOptions::default() }
}

fn payload(path: &str, bytes: &[u8]) -> Value {
    let path = path.parse().unwrap();
    json!(FilePayload {
        path,
        hash: ContentHash::of(&[bytes]),
        size: bytes.len() as u64,
        looks: 0,
        replaces: 0,
        gone: false,
        left_out: false
    })
}

fn request(payloads: &[Value]) -> String {
    let item =
        |(at, payload)| json!({ "id": format!("i{at}"), "key": "k", "attempt": 1, "payload": payload });
    let items: Vec<Value> = payloads.iter().enumerate().map(item).collect();
    json!({ "stage": "parse", "items": items }).to_string() + "\n"
}

fn lines(input: &str, options: &WorkerOptions) -> Vec<Value> {
    let mut output = Vec::new();
    serve(input.as_bytes(), &mut output, options, &words, &mut || Ok(())).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The results for these payloads, in one request.
fn results(payloads: &[Value], options: &WorkerOptions) -> Vec<Value> {
    let answer = lines(&request(payloads), options).remove(0);
    let results = answer["results"].as_array().unwrap();
    for (at, result) in results.iter().enumerate() {
        assert_eq!(result["id"], format!("i{at}"));
        assert_eq!(result.as_object().unwrap().len(), 2, "{result}");
    }
    results.clone()
}

fn directory(files: &[(&str, &[u8])]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::create_dir_all(root.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(root.path().join(name), bytes).unwrap();
    }
    root
}

#[test]
fn a_file_becomes_the_chunks_that_cutting_it_gives() {
    let text = format!("# Guide\n\n{}\n\n# End\n\n{0}\n", "Some words that are many. ".repeat(90));
    let root = directory(&[("docs/guide.md", text.as_bytes()), ("empty.txt", b""), ("blank", b" \n\n")]);
    let asked =
        [payload("docs/guide.md", text.as_bytes()), payload("empty.txt", b""), payload("blank", b" \n\n")];
    let results = results(&asked, &options(root.path()));
    let document = parse(text.as_bytes(), Kind::Markdown, &Limits::default()).unwrap();
    let chunks = chunk(&document, &ChunkOptions::default(), &words);
    let children = results[0]["children"].as_array().unwrap();
    assert!(chunks.len() > 3);
    assert_eq!(children.len(), chunks.len());
    for (child, chunk) in children.iter().zip(&chunks) {
        assert_eq!(child["key"], chunk.key.to_string());
        let written = child["payload"].to_string();
        let read: ChunkPayload<'_> = serde_json::from_str(&written).unwrap();
        assert_eq!(read, ChunkPayload::new("docs/guide.md", ContentHash::of(&[text.as_bytes()]), chunk));
        assert_eq!(read.input(), chunk.input());
        assert_eq!(child["payload"]["page"], Value::Null);
        assert_eq!(child["payload"]["lines"], json!([chunk.lines.first, chunk.lines.last]));
        let [start, end] = read.bytes.map(|at| usize::try_from(at).unwrap());
        assert_eq!(&text[start..end], chunk.text);
    }
    assert_eq!((&results[1]["children"], &results[2]["children"]), (&json!([]), &json!([])));
}

#[test]
fn equal_chunks_have_keys_of_their_own() {
    let line = "the same words again and again. ".repeat(40);
    let text = format!("## A\n\n{line}\n\n").repeat(50);
    let root = directory(&[("a.md", text.as_bytes())]);
    let results = results(&[payload("a.md", text.as_bytes())], &options(root.path()));
    let children = results[0]["children"].as_array().unwrap();
    let mut keys: Vec<&str> = children.iter().map(|child| child["key"].as_str().unwrap()).collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert!(count >= 50 && keys.len() == count, "{} keys of {count} chunks", keys.len());
}

#[test]
fn what_is_not_as_it_was_listed_is_left_out_or_fails_alone() {
    let root = directory(&[
        ("new.txt", b"new"),
        ("binary", b"\0\0\0\x01\x02\0\0"),
        ("photo.jpg", b"text"),
        ("large.txt", &[b'x'; 101]),
        ("locked.txt", b"locked"),
    ]);
    std::os::unix::fs::symlink("new.txt", root.path().join("link.txt")).unwrap();
    std::fs::set_permissions(root.path().join("locked.txt"), PermissionsExt::from_mode(0o000)).unwrap();
    let walk = WalkOptions { max_bytes: 100, ..WalkOptions::default() };
    let options = WorkerOptions { walk, ..options(root.path()) };
    let asked = [
        payload("new.txt", b"old"),
        payload("missing.txt", b""),
        payload("binary", b"\0\0\0\x01\x02\0\0"),
        payload("photo.jpg", b"text"),
        payload("large.txt", &[b'x'; 101]),
        payload("link.txt", b"new"),
        json!({ "path": "../new.txt", "hash": ContentHash::of(&[b"new"]).to_string() }),
        json!({ "path": "new.txt" }),
        json!(7),
        payload("new.txt", b"new"),
        payload("locked.txt", b"locked"),
    ];
    let results = results(&asked, &options);
    assert_eq!(results[0]["filtered"], CHANGED);
    assert_eq!(results[1]["filtered"], VANISHED);
    for at in [2, 3] {
        assert!(results[at]["filtered"].as_str().unwrap().starts_with("not a text: "), "{}", results[at]);
    }
    for (at, message) in [
        (4, "more than the 100 bytes that are read"),
        (5, "not a regular file"),
        (6, "the payload cannot be read: '../new.txt' is not a path below the directory"),
        (7, "the payload cannot be read: missing field `hash`"),
        (8, "the payload cannot be read: invalid type"),
    ] {
        assert_eq!(results[at]["error"]["class"], "final", "{}", results[at]);
        assert!(results[at]["error"]["message"].as_str().unwrap().starts_with(message), "{}", results[at]);
    }
    assert_eq!(results[9]["children"][0]["payload"]["text"], "new");
    // The superuser reads everything.
    if std::fs::read(root.path().join("locked.txt")).is_err() {
        assert_eq!(
            results[10]["error"],
            json!({ "class": "final", "message": "permission denied: locked.txt" })
        );
    }
}

#[test]
fn a_file_that_is_gone_passes_and_one_that_is_there_does_not() {
    let root = directory(&[("here.txt", b"here"), ("file", b"")]);
    let gone = |path: &str| {
        let mut payload = payload(path, b"old");
        payload["gone"] = json!(true);
        payload["more"] = json!({ "kept": [1, 2] });
        payload
    };
    let asked = ["gone.txt", "no/such/folder.txt", "file/below.txt", "here.txt"].map(gone);
    let shown = results(&asked, &options(root.path()));
    for at in 0..3 {
        assert_eq!(shown[at]["output"], asked[at]);
    }
    assert_eq!(shown[3]["filtered"], THERE_AGAIN);
    let unknown = results(&asked[..1], &options(&root.path().join("unmounted")));
    assert_eq!(unknown[0]["error"]["class"], "retryable", "{unknown:?}");
}

#[test]
fn too_many_chunks_and_too_long_answers_are_the_files_failure() {
    let many = "one two\n\n".repeat(100_001);
    let root = directory(&[("many.txt", many.as_bytes()), ("small.txt", b"small")]);
    let tiny = ChunkOptions { max_tokens: 2, min_tokens: 0, overlap: 0 };
    let options = WorkerOptions { chunk: tiny, ..options(root.path()) };
    let asked = [payload("many.txt", many.as_bytes()), payload("small.txt", b"small")];
    let refused = results(&asked, &options);
    let message = refused[0]["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("100001 chunks are more than the 100000"), "{message}");
    assert_eq!(refused[1]["children"][0]["payload"]["text"], "small");
    let options = WorkerOptions { chunk: ChunkOptions::default(), max_answer: 10_000, ..options };
    let together = results(&asked, &options);
    assert_eq!(together[0]["error"]["class"], "retryable");
    assert!(together[1]["children"].is_array());
    assert_eq!(results(&asked[..1], &options)[0]["error"]["class"], "final");
}

#[test]
fn requests_that_make_no_sense_fail_alone() {
    let root = directory(&[("a.txt", b"a")]);
    let good = request(&[payload("a.txt", b"a")]);
    let options = WorkerOptions { max_request: good.len(), ..options(root.path()) };
    let long = "x".repeat(good.len() * 3);
    let answers = lines(&format!("nonsense\n{good}{{\"items\":7}}\n\n{long}\n{good}"), &options);
    assert_eq!(answers.len(), 5);
    for (at, fine) in [(0, false), (1, true), (2, false), (3, false), (4, true)] {
        assert_eq!(answers[at].get("results").is_some(), fine, "{}", answers[at]);
        assert_eq!(answers[at].get("error").is_some(), !fine, "{}", answers[at]);
    }
    for end in 0..good.len() {
        assert_eq!(lines(&good[..end], &options), Vec::<Value>::new());
    }
}

/// A pipe that fails with this kind of error, whichever end it is.
struct Broken(io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
}

#[test]
fn a_closed_pipe_is_an_end_and_any_other_failure_an_error() {
    let root = directory(&[("a.txt", b"a")]);
    let (options, input) = (options(root.path()), request(&[payload("a.txt", b"a")]));
    let fine = &mut || Ok(());
    serve(input.as_bytes(), Broken(io::ErrorKind::BrokenPipe), &options, &words, fine).unwrap();
    let full = serve(input.as_bytes(), Broken(io::ErrorKind::StorageFull), &options, &words, fine);
    assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    let unreadable = BufReader::new(Broken(io::ErrorKind::Other));
    assert_eq!(
        serve(unreadable, Vec::new(), &options, &words, fine).unwrap_err().kind(),
        io::ErrorKind::Other
    );
    let refuse = &mut || Err(io::Error::other("no time left"));
    assert!(serve(input.as_bytes(), Vec::new(), &options, &words, refuse).is_err());
}
