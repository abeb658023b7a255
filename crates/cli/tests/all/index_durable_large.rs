//! Files with thousands of chunks: more than any queue holds.

use std::time::Duration;

use crate::support::count;
use crate::support::index::{Library, Provider, Rows, prose, tell};
use serde_json::Value;

/// Small chunks, so that files need not be large.
const SMALL: [&str; 2] = ["--chunk-tokens", "32"];

fn chunks_of(rows: &Rows, path: &str) -> usize {
    rows.chunks.iter().filter(|chunk| chunk.starts_with(&format!("'{path}'"))).count()
}

fn completed(report: &Value, files: u64) {
    assert_eq!(
        (&report["status"], count(&report["counts"]["succeeded"])),
        (&"completed".into(), files),
        "{report:#}"
    );
}

#[test]
fn seven_large_files_in_two_processes_are_no_deadlock() {
    const FILES: u64 = 7;
    let library = Library::builtin();
    for n in 0..FILES {
        library.write(&format!("{n}.txt"), prose(n, 62_000));
    }
    let ran = library.run_with(&SMALL, &[]).expect(0);
    completed(&ran.json(), FILES);
    let rows = library.rows();
    let chunks: Vec<usize> = (0..FILES).map(|n| chunks_of(&rows, &format!("{n}.txt"))).collect();
    tell(&format!("{chunks:?} chunks in {:?}", ran.took));
    assert!(chunks.iter().all(|n| *n > 2_000), "{chunks:?}");
    library.place.check();
}

#[test]
fn a_file_of_twelve_thousand_chunks_is_indexed_and_every_text_sent_once() {
    let provider = Provider::start(Duration::from_millis(2));
    let library = Library::asking(&provider.base_url());
    library.write("large.txt", prose(99, 360_000));
    let ran = library.run_with(&SMALL, &[]).expect(0);
    completed(&ran.json(), 1);
    let chunks = chunks_of(&library.rows(), "large.txt");
    tell(&format!("{chunks} chunks in {:?}, {} calls", ran.took, provider.server.count()));
    assert!(chunks > 12_000, "{chunks}");
    let once = library.texts().into_iter().map(|text| (text, 1)).collect();
    assert!(provider.ledger() == once, "each text is sent exactly once");
    library.place.check();
}
