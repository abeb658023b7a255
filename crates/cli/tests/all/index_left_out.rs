//! Nothing below a directory is passed by in silence: it is in the index, or told as left out, with the reason.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use crate::support::index::Library;
use crate::support::{Names, array, count, names, text};
use serde_json::Value;

/// A directory with something of every kind that is left out.
fn library() -> Library {
    let library = Library::builtin();
    for name in [
        "a.md",
        "sub/b.md",
        ".env",
        ".github/workflow.yml",
        "node_modules/left-pad/index.js",
        "py/__pycache__/x.txt",
        "rs/Cargo.toml",
        "rs/target/notes.txt",
        "build/out.txt",
        "drop.log",
        ".git/config",
        "picture.png",
    ] {
        library.write(name, "some words about a walrus");
    }
    library.write(".gitignore", "build/\n*.log\n");
    library.write("large.txt", "walrus ".repeat(300_000));
    library.write("binary.txt", [b'a', 0, b'b', 0, 0, 1]);
    for n in 0..7 {
        symlink("a.md", library.place.path(&format!("docs/link{n}"))).expect("linked");
    }
    let made = std::process::Command::new("mkfifo").arg(library.place.path("docs/pipe")).status();
    assert!(made.expect("mkfifo is everywhere").success());
    library
}

fn counts(of: &Value) -> BTreeMap<String, u64> {
    let counts = of.as_object().expect("an object").iter();
    counts.map(|(reason, n)| (reason.clone(), count(n))).collect()
}

fn listed(report: &Value) -> BTreeMap<String, String> {
    let entries = array(&report["left_out"]).iter();
    entries.map(|entry| (text(&entry["path"]), text(&entry["reason"]))).collect()
}

const LIST: [&str; 5] = ["index", "docs", "--list-left-out", "--max-bytes", "1MiB"];

#[test]
fn everything_is_in_the_index_or_told_as_left_out() {
    let library = library();
    // The list needs no index, and makes none.
    let list = library.place.json(&LIST);
    assert!(!library.place.path(".redrive").exists());
    let left_out = listed(&list);
    let reasons = |reason: &str| -> Names {
        names(left_out.iter().filter(|(_, why)| *why == reason).map(|(path, _)| path))
    };
    assert_eq!(reasons("hidden"), names([".env", ".github", ".gitignore"]));
    assert_eq!(reasons("ignored"), names(["build", "drop.log"]));
    assert_eq!(reasons("generated"), names(["node_modules", "py/__pycache__", "rs/target"]));
    assert_eq!(reasons("version_control"), names([".git"]));
    assert_eq!(reasons("not_text"), names(["picture.png"]));
    assert_eq!(reasons("special"), names(["pipe"]));
    assert_eq!(reasons("too_large"), names(["large.txt"]));
    assert_eq!(reasons("link").len(), 7);
    assert_eq!(counts(&list["counts"]).values().sum::<u64>(), left_out.len() as u64);

    let report = library.index(&["--max-bytes", "1MiB"], 0);
    assert_eq!(counts(&report["index"]["walk"]["skipped"]), counts(&list["counts"]));
    // What is rare is named, however much else is left out.
    let named = array(&report["index"]["walk"]["examples"]).iter().map(|example| text(&example[0]));
    assert_eq!(names(named), names(["large.txt", "pipe"]));
    assert_eq!(report["index"]["indexed"], 3);
    let no_text = &report["index"]["no_text"][0];
    assert_eq!(
        (text(&no_text[0]), text(&no_text[1])),
        ("binary.txt".to_owned(), "not a text: it has NUL bytes".to_owned())
    );

    let told = library.place.run(&["index", "docs", "--max-bytes", "1MiB"]).expect(0).stdout;
    assert!(told.starts_with("docs: 3 files, 3 chunks in the index\n"), "{told}");
    for line in [
        "3 hidden",
        "2 by an ignore rule",
        "1 too large",
        "7 symbolic links",
        "large.txt: ",
        "1 cannot be indexed",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    // Once it is known, the list has what is no text by its content, too.
    assert_eq!(listed(&library.place.json(&LIST))["binary.txt"], "refused");
    let shown = library.place.run(&LIST).expect(0).stdout;
    assert!(shown.lines().any(|line| line == "drop.log: an ignore rule names it"), "{shown}");
}

#[test]
fn flags_take_in_what_they_say() {
    let library = library();
    let with = |flags: &[&str]| -> Names {
        names(listed(&library.place.json(&[&LIST[..], flags].concat())).into_keys())
    };
    let all = with(&[]);
    let taken = |flags: &[&str]| -> Names { all.difference(&with(flags)).cloned().collect() };
    assert_eq!(taken(&["--hidden"]), names([".env", ".github", ".gitignore"]));
    let made = ["build", "drop.log", "node_modules", "py/__pycache__", "rs/target"];
    assert_eq!(taken(&["--no-ignore"]), names(made));
    let everything =
        library.index(&["--no-ignore", "--hidden", "--follow-symlinks", "--max-bytes", "64MiB"], 0);
    let left = counts(&everything["index"]["walk"]["skipped"]);
    assert_eq!(names(left.keys()), names(["not_text", "special", "version_control"]));
    let found =
        library.place.json(&["search", "walrus", "-k", "50", "--mode", "words", "--path", "node_modules"]);
    assert_eq!(array(&found["hits"]).len(), 1);
}

#[test]
fn one_is_not_many() {
    let library = Library::builtin();
    library.write("a.md", "walrus");
    let told = library.place.run(&["index", "docs"]).expect(0).stdout;
    assert!(told.contains(": 1 file, 1 chunk in the index\n"), "{told}");
}

#[test]
fn files_that_failed_are_named() {
    let library = Library::builtin();
    library.write("broken.pdf", "%PDF-1.4 nothing");
    library.write("a.md", "walrus");
    let told = library.place.run(&["index", "docs"]).expect(3).stdout;
    assert!(told.contains("1 failed") && told.contains("    broken.pdf: "), "{told}");
    let again = library.place.run(&["index", "docs"]).expect(0).stdout;
    assert!(again.contains("    broken.pdf: "), "{again}");
}
