//! Bombs, in a real process under real limits: each is its own file's failure.
#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "some of it is for other tests")]
mod fixtures;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use fixtures::{encrypted_pdf, pdf, pdf_objects, pdf_of, stream};
use redrive_core::id::ContentHash;
use redrive_ingest::limits::{ProcessLimits, apply, grant_cpu};
use redrive_ingest::worker::{WorkerOptions, quiet_panics, serve};
use serde_json::{Value, json};
use tempfile::TempDir;

const ROLE: &str = "REDRIVE_INGEST_TEST_ROLE";

/// Not a test of its own: the process that the others start is this one.
#[test]
fn the_child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let limits = ProcessLimits { address_space: 300 << 20, cpu_seconds: 20, open_files: 8 };
    let parent = std::env::var("REDRIVE_INGEST_TEST_PARENT").unwrap().parse().unwrap();
    quiet_panics();
    apply(&limits, Some(parent)).unwrap();
    if role == "spin" {
        grant_cpu(0).unwrap();
        loop {
            std::hint::spin_loop();
        }
    }
    if role == "write" {
        // A write past the limit raises SIGXFSZ, which ends the process.
        std::fs::write("file", "x").unwrap();
        std::process::exit(0);
    }
    let count = |text: &str| text.split_whitespace().count();
    let options = WorkerOptions::default();
    serve(std::io::stdin().lock(), std::io::stdout(), &options, &count, &mut || grant_cpu(20)).unwrap();
    std::process::exit(0);
}

/// A directory and a process that runs in it.
struct Worker {
    root: TempDir,
    child: Child,
}

impl Worker {
    fn start(role: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_child", "--nocapture"])
            .current_dir(root.path())
            .env(ROLE, role)
            .env("REDRIVE_INGEST_TEST_PARENT", std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { root, child }
    }

    /// Writes one file, asks for it, and takes its result, or how the child ended.
    fn ask(&mut self, name: &str, bytes: &[u8]) -> Result<Value, ExitStatus> {
        std::fs::write(self.root.path().join(name), bytes).unwrap();
        let payload = json!({ "path": name, "hash": ContentHash::of(&[bytes]).to_string(), "replaces": 0 });
        let item = json!({ "id": name, "key": name, "attempt": 1, "payload": payload });
        let sent =
            writeln!(self.child.stdin.as_mut().unwrap(), "{}", json!({ "stage": "parse", "items": [item] }));
        let mut output = BufReader::new(self.child.stdout.as_mut().unwrap());
        let mut line = String::new();
        while sent.is_ok() && output.read_line(&mut line).unwrap_or(0) > 0 {
            // The test harness writes to the same output.
            if let Some(at) = line.find('{') {
                let answer: Value = serde_json::from_str(&line[at..]).unwrap();
                assert_eq!(answer["results"][0]["id"], name);
                return Ok(answer["results"][0].clone());
            }
            line.clear();
        }
        Err(self.child.wait().unwrap())
    }
}

/// The text of a file's only chunk.
fn text_of(result: &Result<Value, ExitStatus>) -> &str {
    let result = result.as_ref().unwrap();
    assert_eq!(result["children"].as_array().map(Vec::len), Some(1), "{result}");
    result["children"][0]["payload"]["text"].as_str().unwrap()
}

fn error_of(result: &Result<Value, ExitStatus>) -> &str {
    let error = &result.as_ref().unwrap()["error"];
    assert_eq!(error["class"], "final", "{result:?}");
    error["message"].as_str().unwrap()
}

#[test]
fn one_child_answers_many_requests() {
    let mut worker = Worker::start("serve");
    let many: Vec<String> = (0..10_000).map(|page| format!("page {page}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(text_of(&worker.ask("one.pdf", &pdf(&["one"]))), "one");
    assert!(error_of(&worker.ask("broken.pdf", b"%PDF-1.4 nothing")).starts_with("broken pdf"));
    assert_eq!(text_of(&worker.ask("two.html", b"<p>two")), "two");
    assert_eq!(error_of(&worker.ask("locked.pdf", &encrypted_pdf())), "encrypted: it needs a password");
    let refused = worker.ask("long.pdf", &pdf(&many));
    assert_eq!(error_of(&refused), "10000 pages are more than the 2000 that are read");
    let garbage: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let left_out = worker.ask("garbage", &garbage).unwrap();
    assert!(left_out["filtered"].as_str().unwrap().starts_with("not a text: "), "{left_out}");
    for name in ["garbage.pdf", "garbage.html", "garbage.eml", "garbage.mbox", "garbage.md", "garbage.rs"] {
        let result = worker.ask(name, &garbage).unwrap();
        assert!(result.get("output").is_none(), "{name}: {result}");
    }
    assert_eq!(text_of(&worker.ask("three.txt", b"three")), "three");
    drop(worker.child.stdin.take());
    assert!(worker.child.wait().unwrap().success());
}

#[test]
fn a_million_open_tags_are_only_tokens() {
    let html = "<div>".repeat(1_000_000) + "inside";
    assert_eq!(text_of(&Worker::start("serve").ask("a.html", html.as_bytes())), "inside");
}

fn squeezed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn with_content(content: Vec<u8>) -> Vec<u8> {
    let mut objects = pdf_objects(&["x"]);
    objects[4] = content;
    pdf_of(&objects, "")
}

#[test]
fn a_stream_that_unpacks_to_more_than_the_memory_ends_the_child() {
    let bomb = squeezed(&squeezed(&vec![b' '; 600 << 20]));
    assert!(bomb.len() < 1 << 20);
    let file = with_content(stream("/Filter [/FlateDecode /FlateDecode]", &bomb));
    let result = Worker::start("serve").ask("bomb.pdf", &file);
    assert_eq!(result.unwrap_err().signal(), Some(libc::SIGABRT));
}

#[test]
fn deep_nesting_is_the_files_failure() {
    let deep = with_content(stream("", &b"[".repeat(1_000_000)));
    let circle = {
        let mut objects = pdf_objects(&["x"]);
        objects[1] = b"<< /Type /Pages /Kids [2 0 R 4 0 R] /Count 1 /Parent 2 0 R >>".to_vec();
        objects[3] = b"<< /Type /Page /Parent 2 0 R /Contents 5 0 R >>".to_vec();
        pdf_of(&objects, "")
    };
    for (name, file) in [("brackets.pdf", deep), ("circle.pdf", circle)] {
        let result = Worker::start("serve").ask(name, &file);
        let harmless = match &result {
            Ok(result) => result["children"] == json!([]) || result["error"]["class"] == "final",
            Err(status) => status.signal().is_some(),
        };
        assert!(harmless, "{name}: {result:?}");
    }
}

#[test]
fn processor_time_and_writing_are_limited() {
    for (role, signal) in [("spin", libc::SIGXCPU), ("write", libc::SIGXFSZ)] {
        let mut worker = Worker::start(role);
        let mut rest = Vec::new();
        worker.child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
        assert_eq!(worker.child.wait().unwrap().signal(), Some(signal), "{role}");
        if role == "write" {
            assert_eq!(std::fs::read(Path::join(worker.root.path(), "file")).unwrap(), b"");
        }
    }
}
