//! What the system withholds: permissions, room on the disk, a directory that is suddenly empty. Nothing that was indexed is
//! taken for deleted, and the next run goes on.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::support::guest::guest;
use crate::support::index::{DOCS, Library};
use crate::support::{Names, Place, array, column, names, text, wait};
use serde_json::Value;

/// A place where permissions bind: the binary runs as somebody who owns the store but none of the files.
struct Bound {
    place: Place,
}

impl Bound {
    fn new() -> Self {
        let bound = Self { place: Place::new() };
        bound.allow("", 0o777);
        std::fs::create_dir_all(bound.place.path("docs/closed")).expect("made");
        bound
    }

    fn allow(&self, name: &str, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.place.path(name), mode).expect("changed");
    }

    fn run(&self, args: &[&str]) -> Output {
        guest(&self.place, args).output().expect("it runs")
    }

    fn json(&self, args: &[&str], code: i32) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let ran = self.run(&args);
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{args:?}: {stderr}");
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
    }

    fn index(&self) -> Value {
        self.json(&["index", "docs", "--processes", "2"], 0)
    }

    fn found(&self) -> Names {
        column(&self.json(&["search", "words", "--mode", "words", "-k", "50"], 0)["hits"], "path")
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Somebody who is not root could not clean up otherwise.
        for name in ["docs", "docs/closed", "docs/secret.md"] {
            let _ = std::fs::set_permissions(self.place.path(name), std::fs::Permissions::from_mode(0o755));
        }
    }
}

fn left_out(report: &Value) -> BTreeMap<String, String> {
    let examples = array(&report["index"]["walk"]["examples"]);
    examples.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

#[test]
fn what_may_not_be_read_is_told_and_stays_in_the_index() {
    let bound = Bound::new();
    for name in ["open.md", "secret.md", "closed/inside.md", "going.md"] {
        bound.place.write(&format!("docs/{name}"), format!("Words of {name}."));
    }
    bound.index();
    let all = names(["open.md", "secret.md", "closed/inside.md", "going.md"]);
    assert_eq!(bound.found(), all);

    bound.allow("docs/closed", 0o000);
    bound.allow("docs/secret.md", 0o000);
    bound.place.write("docs/secret2.md", "Words that nobody reads.");
    bound.allow("docs/secret2.md", 0o000);
    bound.place.write("docs/new.md", "Words that are new.");
    std::fs::remove_file(bound.place.path("docs/going.md")).expect("removed");
    let now = names(["open.md", "secret.md", "closed/inside.md", "new.md"]);
    for _ in 0..2 {
        let report = bound.index();
        assert_eq!(report["status"], "completed");
        let out = left_out(&report);
        assert!(out.values().all(|why| why == "permission denied"), "{out:?}");
        assert!(["closed", "secret2.md"].iter().all(|path| out.contains_key(*path)), "{out:?}");
        assert_eq!(bound.found(), now, "only what is gone for certain goes");
    }
    let shown = String::from_utf8(bound.run(&["index", "docs"]).stdout).expect("a text");
    assert!(shown.contains("secret2.md: permission denied"), "{shown}");

    bound.allow("docs/closed", 0o755);
    bound.allow("docs/secret.md", 0o644);
    bound.allow("docs/secret2.md", 0o644);
    let report = bound.index();
    assert_eq!(left_out(&report), BTreeMap::new());
    assert_eq!(bound.found(), &now | &names(["secret2.md"]));
}

#[test]
fn a_directory_that_may_not_be_read_is_refused_and_keeps_its_index() {
    let bound = Bound::new();
    bound.place.write("docs/a.md", "Words of a.");
    bound.index();
    bound.allow("docs", 0o000);
    let ran = bound.run(&["index", "docs"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("docs") && said.to_lowercase().contains("permission denied"), "{said}");
    bound.allow("docs", 0o755);
    assert_eq!(bound.found(), names(["a.md"]));
}

fn found(library: &Library) -> Names {
    column(&library.place.json(&["search", "words", "--mode", "words", "-k", "50"])["hits"], "path")
}

/// Two files that are indexed, and then gone, as when a disk is not mounted.
fn emptied() -> Library {
    let library = Library::builtin();
    library.write("a.md", "Words of a.");
    library.write("deep/b.md", "Words of b.");
    library.index(&[], 0);
    std::fs::remove_dir_all(library.place.path(DOCS)).expect("removed");
    std::fs::create_dir(library.place.path(DOCS)).expect("made");
    library
}

#[test]
fn an_emptied_directory_removes_nothing() {
    let library = emptied();
    library.index(&[], 0);
    assert_eq!(found(&library), names(["a.md", "deep/b.md"]));
    // With one file there it is a directory again.
    library.write("a.md", "Words of a.");
    library.index(&[], 0);
    assert_eq!(found(&library), names(["a.md"]));
    library.place.check();
}

#[test]
fn an_emptied_directory_is_told_to_be_suspicious() {
    let library = emptied();
    let ran = library.place.run(&["index", DOCS]).expect(0);
    let said = format!("{}{}", ran.stdout, ran.stderr).to_lowercase();
    assert!(
        ["mounted", "no files", "kept"].iter().any(|word| said.contains(word)),
        "nothing says why two files are in the index of an empty directory:\n{said}"
    );
}

/// Starts `redrive index` with a disk that takes files up to so many blocks.
fn with_a_small_disk(library: &Library, blocks: usize) -> std::process::Child {
    let binary = env!("CARGO_BIN_EXE_redrive");
    // Writing too much is a signal first, and an error, as on a full disk, for who bears it.
    let script = format!("ulimit -S -f {blocks}; exec '{binary}' index {DOCS} --processes 2");
    Command::new("sh")
        .args(["-c", &script])
        .current_dir(library.place.path(""))
        .env_remove("REDRIVE_STORE")
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(library.place.path("said")).expect("made"))
        .spawn()
        .expect("it starts")
}

#[test]
fn a_full_disk_and_a_limit_on_file_sizes_are_told_and_the_next_run_completes() {
    let library = Library::builtin();
    let files = crate::support::index::mixed(60);
    library.write_all(&files);
    let mut full = with_a_small_disk(&library, 1_600);
    wait::until("it says that the store cannot be written", || {
        assert!(full.try_wait().expect("asked").is_none(), "it does not end: {}", library.place.read("said"));
        library.place.read("said").contains("state.db")
    });
    let said = library.place.read("said");
    assert!(said.contains("trying again") && said.contains("ulimit -f"), "{said}");
    // As if the power went while the disk is full.
    full.kill().expect("killed");
    full.wait().expect("ended");

    let report = library.index(&[], 0);
    assert_eq!(report["status"], "completed");
    let whole = Library::builtin();
    whole.write_all(&files);
    whole.index(&[], 0);
    library.rows().assert_same(&whole.rows());
    library.place.check();
}
