//! Threads: complete, the same in any order, and as others find them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use redrive_mail::corpus::{Options, make};
use redrive_mail::head::Head;
use redrive_mail::mbox::Mbox;
use redrive_mail::thread::{Link, base_subject, threads};

fn link(key: &str, references: &[&str], subject: &str, date_ms: i64) -> Link {
    let references = references.iter().map(|&name| name.to_owned()).collect();
    Link { key: key.to_owned(), references, subject: subject.to_owned(), date_ms: Some(date_ms) }
}

/// The threads as lists of names with their depths.
fn shown(links: &[Link]) -> Vec<Vec<(String, u32)>> {
    let name = |at: usize| links[at].key.clone();
    threads(links)
        .iter()
        .map(|thread| thread.messages.iter().map(|one| (name(one.at), one.depth)).collect())
        .collect()
}

#[test]
fn answers_are_below_what_they_answer_also_when_that_is_missing() {
    let links = [
        link("a", &[], "x", 1),
        link("c", &["a", "b"], "Re: x", 3),
        link("d", &["a", "b"], "Re: x", 2),
        link("e", &["lost"], "y", 9),
        link("f", &["lost"], "y", 8),
    ];
    let all = shown(&links);
    assert_eq!(all[0], [("a".into(), 0), ("d".into(), 1), ("c".into(), 1)]);
    assert_eq!(all[1], [("f".into(), 0), ("e".into(), 0)]);
    assert_eq!(threads(&links)[1].root, "lost");
}

#[test]
fn loops_keep_every_message_once() {
    let links = [
        link("a", &["b"], "", 1),
        link("b", &["c"], "", 2),
        link("c", &["a"], "", 3),
        link("d", &["d"], "", 4),
    ];
    let all = shown(&links);
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn an_answer_without_references_joins_the_thread_of_its_subject_and_equal_subjects_alone_do_not_join() {
    let links = [
        link("old", &[], "[dev] Minutes", 1),
        link("new", &[], "Minutes", 5),
        link("re", &[], "Re: [dev] AW: minutes", 7),
        link("lonely", &[], "Re: other", 8),
        link("lonely2", &["gone"], "RE[2]: Other", 9),
        link("none", &[], "Re:", 10),
        link("none2", &[], "Re: ", 11),
    ];
    let all: Vec<Vec<String>> =
        shown(&links).into_iter().map(|one| one.into_iter().map(|(key, _)| key).collect()).collect();
    let wanted: [&[&str]; 5] = [&["old", "re"], &["new"], &["lonely", "lonely2"], &["none"], &["none2"]];
    assert_eq!(all, wanted);
    assert_eq!(base_subject("Re: Re[3]: [a] b: c"), ("b: c".into(), true));
}

#[test]
fn a_chain_of_200_000_answers_is_one_thread_in_no_time() {
    let links: Vec<Link> = (0..200_000_u32)
        .map(|n| {
            let before = if n == 0 { vec![] } else { vec![format!("m{}", n - 1)] };
            Link {
                key: format!("m{n}"),
                references: before,
                subject: String::new(),
                date_ms: Some(i64::from(n)),
            }
        })
        .collect();
    let all = threads(&links);
    assert_eq!((all.len(), all[0].messages.len()), (1, 200_000));
}

fn any_links() -> impl Strategy<Value = Vec<Link>> {
    let one = (proptest::collection::vec(0..24_u8, 0..5), 0..4_u8, 0..6_i64, any::<bool>());
    proptest::collection::vec(one, 0..20).prop_map(|all| {
        let links = all.into_iter().enumerate().map(|(n, (references, subject, date, re))| Link {
            key: format!("m{n}"),
            references: references.into_iter().map(|n| format!("m{n}")).collect(),
            subject: format!("{}{}", if re { "Re: " } else { "" }, ["", "a", "b", "c"][usize::from(subject)]),
            date_ms: (date > 0).then_some(date),
        });
        links.collect()
    })
}

proptest! {
    #[test]
    fn threads_hold_every_message_once_whatever_the_order((links, shuffled) in any_links().prop_flat_map(|links| (Just(links.clone()), Just(links).prop_shuffle()))) {
        let all = shown(&links);
        prop_assert_eq!(all.iter().map(Vec::len).sum::<usize>(), links.len());
        let names: BTreeSet<&String> = all.iter().flatten().map(|(name, _)| name).collect();
        prop_assert_eq!(names.len(), links.len());
        prop_assert_eq!(all, shown(&shuffled));
        let roots = |links: &[Link]| threads(links).into_iter().map(|thread| thread.root).collect::<Vec<_>>();
        prop_assert_eq!(roots(&links), roots(&shuffled));
    }
}

/// The messages with a name, of all archives below a directory.
fn read_all(files: &[redrive_mail::corpus::MadeFile]) -> Vec<Link> {
    let mut links = BTreeMap::new();
    for file in files {
        let mut bytes = file.bytes.clone();
        if file.path.ends_with(".gz") {
            bytes.clear();
            std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(&file.bytes[..]), &mut bytes)
                .unwrap();
        }
        for entry in Mbox::new(&bytes[..]) {
            let head = Head::read(&entry.unwrap().head);
            if let Some(key) = head.id {
                links.entry(key.clone()).or_insert(Link {
                    key,
                    references: head.references,
                    subject: head.subject,
                    date_ms: head.date_ms,
                });
            }
        }
    }
    links.into_values().collect()
}

/// What the script says.
fn by_python(dir: &Path, more: &[&str]) -> (BTreeSet<BTreeSet<String>>, usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jwz.py");
    let output =
        Command::new("python3").arg(script).arg(dir).args(more).output().expect("python3 can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let groups: BTreeSet<BTreeSet<String>> = serde_json::from_value(told["groups"].clone()).expect("groups");
    (groups, usize::try_from(told["pieces"].as_u64().unwrap()).unwrap())
}

/// Where they differ: Python's `mailbox` ends a message at every line that begins with `From `, whatever stands there, and knows no `Content-Length`; so
/// it finds pieces that are no messages, and messages that are pasted into others. Of the messages that both find, the threads are equal; with jwz's joining of
/// equal subjects that are no answers, Python has fewer.
#[test]
fn threads_of_the_corpus_are_those_of_an_independent_implementation() {
    let corpus = make(Options { seed: 7, messages: 5_000, big: 0, big_bytes: 0 });
    let dir = tempfile::tempdir().unwrap();
    for file in &corpus.files {
        let path = dir.path().join(&file.path);
        for folder in ["cur", "new", "tmp"] {
            std::fs::create_dir_all(dir.path().join("box").join(folder)).unwrap();
        }
        std::fs::write(path, &file.bytes).unwrap();
    }
    let links = read_all(&corpus.files);
    let found: BTreeSet<String> = links.iter().map(|link| link.key.clone()).collect();
    assert_eq!(found, corpus.ids, "every message is found, and none that is text of another");
    let (theirs, pieces) = by_python(dir.path(), &[]);
    let more: BTreeSet<String> = theirs.iter().flatten().filter(|id| !found.contains(*id)).cloned().collect();
    assert_eq!(more, corpus.pasted, "what only Python takes for a message");
    assert!(!more.is_empty() && pieces > found.len() + corpus.copies, "{pieces} pieces");
    let key = |at: usize| links[at].key.clone();
    let ours: BTreeSet<BTreeSet<String>> = threads(&links)
        .iter()
        .map(|thread| thread.messages.iter().map(|one| key(one.at)).collect())
        .collect();
    let theirs: BTreeSet<BTreeSet<String>> = theirs
        .into_iter()
        .map(|group| group.into_iter().filter(|id| found.contains(id)).collect::<BTreeSet<_>>())
        .filter(|group| !group.is_empty())
        .collect();
    let differ: Vec<_> = ours.symmetric_difference(&theirs).collect();
    assert!(differ.is_empty(), "{} of {} threads differ: {differ:?}", differ.len(), ours.len());
    let (merged, _) = by_python(dir.path(), &["--merge-subjects"]);
    assert!(merged.len() <= theirs.len() + more.len());
}
