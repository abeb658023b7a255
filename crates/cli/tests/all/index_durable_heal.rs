//! What heals by itself, and what is not embedded again: texts that fail for a while, two processes at once, and files
//! that were moved, copied, or cut differently.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::index::{DOCS, Library, Provider, mixed, prose, tell};
use crate::support::{Names, Ran, array, count, names, text};

#[test]
fn texts_that_fail_for_a_while_wait_and_are_then_the_only_ones_embedded() {
    const MARK: &str = "UNLUCKY";
    let provider = Provider::start(Duration::from_millis(2));
    let library = Library::asking(&provider.base_url());
    library.write_all(&mixed(40));
    library.write("hurt.txt", format!("{}\n\n{MARK} words here.\n\n{}", prose(1, 400), prose(2, 400)));
    library.write("hurt.md", format!("# Hurt\n\n{MARK} in a paper.\n"));
    provider.fail_for(MARK, 500);
    let report = library.index(&[], 3);
    assert_eq!(report["status"], "partially_completed", "{report:#}");
    assert_eq!((count(&report["counts"]["succeeded"]), count(&report["counts"]["dead"])), (40, 0));
    assert!(report["next_due"].is_string(), "{report:#}");
    let failures = library.place.json(&["failures"]);
    let hurt = ["hurt.md", "hurt.txt"];
    assert_eq!(array(&failures["failed"]), hurt, "{failures:#}");
    for item in array(&failures["items"]) {
        assert!(hurt.contains(&text(&item["of"]).as_str()), "{item:#}");
        assert_eq!(count(&item["retries"]), 3, "four attempts at once: {item:#}");
        assert!(text(&item["next_at"]).starts_with("20"), "{item:#}");
    }
    let words = library.place.run(&["failures"]).expect(0).stdout;
    assert!(hurt.iter().all(|file| words.contains(file)) && words.contains("3 retries"), "{words}");
    assert!(library.place.dead().is_empty(), "what may pass another time is not dead");
    library.place.check();

    // Until it is due nothing is sent, well or not.
    let before = provider.server.count();
    assert_eq!(library.index(&[], 3)["status"], "partially_completed");
    assert_eq!(provider.server.count(), before);

    provider.recover();
    assert_eq!(library.make_due(), array(&failures["items"]).len(), "only those wait");
    let ledger = provider.ledger();
    let report = library.index(&[], 0);
    assert_eq!((&report["status"], count(&report["counts"]["dead"])), (&"completed".into(), 0), "{report:#}");
    let after = provider.ledger();
    let sent =
        names(after.iter().filter(|(text, times)| ledger.get(*text) != Some(*times)).map(|(text, _)| text));
    let marked: Names = library.texts().into_iter().filter(|text| text.contains(MARK)).collect();
    assert_eq!(marked.len(), 2);
    assert_eq!(sent, marked, "nothing else is embedded");
    assert_eq!(provider.texts(), library.texts());
    library.place.check();
}

const REFUSED: &str = "REFUSED";

/// A directory with a file one chunk of which was refused by the provider, which is well now; and what came of it.
fn refused() -> (Provider, Library, Ran) {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::asking(&provider.base_url());
    library.write_all(&mixed(30));
    let hurt = format!("{}\n\n{REFUSED} words here.\n\n{}", prose(1, 400), prose(2, 400));
    library.write("hurt.txt", hurt);
    provider.fail_for(REFUSED, 400);
    let ran = library.run_with(&[], &[]);
    provider.recover();
    (provider, library, ran)
}

#[test]
fn a_file_a_part_of_which_is_refused_is_told_of() {
    let (_, library, ran) = refused();
    assert_eq!(array(&library.place.json(&["failures"])["failed"]), ["hurt.txt"]);
    let (report, status) = (ran.json(), ran.json()["status"].clone());
    assert_eq!(count(&report["dead"]["by_reason"]["final"]), 1, "{report:#}");
    assert_eq!((ran.code(), status), (Some(3), "partial_success".into()), "a part is missing: no success");
}

#[test]
fn a_file_a_part_of_which_is_refused_is_mended_when_asked_for() {
    let (provider, library, _) = refused();
    library.index(&["--retry-refused"], 0);
    let marked: Names = library.texts().into_iter().filter(|text| text.contains(REFUSED)).collect();
    assert_eq!(marked.len(), 1, "the missing chunk is there now");
    assert_eq!(provider.texts(), library.texts());
    library.place.check();
}

#[test]
fn two_processes_on_one_directory_make_one_index() {
    const FILES: usize = 150;
    let latency = Duration::from_millis(60);
    let calm = Provider::start(latency);
    let expected = Library::asking(&calm.base_url());
    expected.write_all(&mixed(FILES));
    expected.index(&[], 0);
    for begun_together in [true, false] {
        let provider = Provider::start(latency);
        let library = Library::asking(&provider.base_url());
        library.write_all(&mixed(FILES));
        let first = library.start(&[]);
        if !begun_together {
            provider.server.until_called(1);
        }
        let second = library.start(&[]);
        let (first, second) = (first.finish().expect(0).json(), second.finish().expect(0).json());
        assert_eq!((&first["status"], &second["status"]), (&"completed".into(), &"completed".into()));
        library.rows().assert_same(&expected.rows());
        assert_eq!(provider.texts(), library.texts());
        let again = provider.sent_again();
        tell(&format!(
            "{} of {} texts were sent twice, runs {} and {}",
            again.len(),
            provider.texts().len(),
            first["run"],
            second["run"]
        ));
        // Only a text that is in several chunks can be away with both at once.
        let repeated = library.repeated_texts();
        let strangers: Vec<&String> = again.difference(&repeated).collect();
        assert!(
            strangers.is_empty(),
            "{} sent twice though they are in one chunk only: {:?}",
            strangers.len(),
            strangers.first()
        );
        library.place.check();
    }
}

#[test]
fn moved_copied_and_differently_cut_files_are_not_embedded_again() {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::asking(&provider.base_url());
    library.write_all(&mixed(60));
    library.index(&[], 0);
    let docs = library.place.path(DOCS);
    let known = provider.ledger();
    let documents = |n: u64, report: &serde_json::Value| {
        assert_eq!(count(&report["index"]["size"]["documents"]), n, "{report:#}");
        let once: BTreeMap<String, usize> = provider.texts().into_iter().map(|text| (text, 1)).collect();
        assert_eq!(provider.ledger(), once, "every text is sent once");
    };
    documents(60, &library.index(&[], 0));

    std::fs::rename(docs.join("0000.md"), docs.join("renamed.md")).expect("renamed");
    std::fs::rename(docs.join("notes"), docs.join("moved")).expect("moved");
    std::fs::copy(docs.join("0008.txt"), docs.join("copy.txt")).expect("copied");
    documents(61, &library.index(&[], 0));
    assert_eq!(provider.ledger(), known, "nothing new was said");
    let paths = published(&library);
    assert!(
        paths.contains("renamed.md") && paths.contains("moved/0001.rs") && paths.contains("copy.txt"),
        "{paths:?}"
    );
    assert!(!paths.contains("0000.md") && !paths.iter().any(|path| path.starts_with("notes/")), "{paths:?}");

    documents(61, &library.index(&["--chunk-tokens", "100"], 0));
    let smaller = provider.ledger();
    assert!(smaller.len() > known.len(), "other chunks are other texts");
    assert!(library.texts().is_subset(&provider.texts()));
    documents(61, &library.index(&[], 0));
    documents(61, &library.index(&["--chunk-tokens", "100"], 0));
    documents(61, &library.index(&[], 0));
    assert_eq!(provider.ledger(), smaller, "back and forth costs nothing");
    library.place.check();
}

#[test]
fn a_directory_that_is_cut_anew_keeps_no_chunk_of_the_old_cut() {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::asking(&provider.base_url());
    library.write_all(&mixed(10));
    let wide = {
        library.index(&[], 0);
        library.rows().without_vectors()
    };
    let small = ["--chunk-tokens", "100"];
    let expected = Library::asking(&provider.base_url());
    expected.write_all(&mixed(10));
    expected.index(&small, 0);
    library.index(&small, 0);
    library.rows().without_vectors().assert_same(&expected.rows().without_vectors());
    library.index(&[], 0);
    library.rows().without_vectors().assert_same(&wide);
    library.place.check();
}

fn published(library: &Library) -> Names {
    let store = library.store();
    let mut rows = store.prepare("SELECT path FROM doc WHERE published IS NOT NULL").expect("it is SQL");
    rows.query_map([], |row| row.get(0)).expect("asked").map(|path| path.expect("read")).collect()
}
