//! Directories as they are found in the wild.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use redrive_ingest::path::RelPath;
use redrive_ingest::read::{self, read};
use redrive_ingest::walk::{Error, Presence, SkipReason, Step, WalkOptions, presence, walk};

fn put(root: &Path, name: &str, content: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn steps(root: &Path, options: &WalkOptions) -> (Vec<String>, Vec<(String, SkipReason)>) {
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    for step in walk(root, options).unwrap() {
        match step {
            Step::Found(file) => found.push(file.rel.to_string()),
            Step::Skipped(other) => {
                skipped.push((other.rel.map(|rel| rel.to_string()).unwrap_or_default(), other.why));
            }
        }
    }
    (found, skipped)
}

fn rel(name: &str) -> RelPath {
    RelPath::new(Path::new(name)).unwrap()
}

#[test]
fn order_is_by_bytes_and_rules_hold() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for name in ["b.md", "a/z.txt", "a/y.txt", "B.md", "a.md", "keep.log", "drop.log", "sub/gen/x.txt"] {
        put(root, name, b"x");
    }
    for name in [".hidden", ".git/config", "node_modules/m/i.js", ".redrive/state.txt", "rs/target/x.txt"] {
        put(root, name, b"x");
    }
    put(root, "rs/Cargo.toml", b"");
    put(root, "target/book.md", b"a directory of that name that is not Cargo's");
    put(root, "cache/CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55\n");
    put(root, "cache/x.txt", b"x");
    put(root, ".gitignore", b"*.log\n!keep.log\n");
    put(root, "sub/.ignore", b"gen/\n");
    put(root, ".redriveignore", b"b.md\n");
    let (found, skipped) = steps(root, &WalkOptions::default());
    assert_eq!(found, ["B.md", "a/y.txt", "a/z.txt", "a.md", "keep.log", "rs/Cargo.toml", "target/book.md"]);
    let told = |skipped: Vec<(String, SkipReason)>| -> Vec<String> {
        let mut told: Vec<String> =
            skipped.into_iter().map(|(path, why)| format!("{path} {}", why.name())).collect();
        told.sort();
        told
    };
    let left_out = [
        ".git version_control",
        ".gitignore hidden",
        ".hidden hidden",
        ".redrive version_control",
        ".redriveignore hidden",
        "b.md ignored",
        "cache generated",
        "drop.log ignored",
        "node_modules generated",
        "rs/target generated",
        "sub/.ignore hidden",
        "sub/gen ignored",
    ];
    assert_eq!(told(skipped), left_out);
    let all = WalkOptions { ignore_rules: false, hidden: true, ..WalkOptions::default() };
    let (found, skipped) = steps(root, &all);
    for name in
        ["drop.log", ".hidden", "node_modules/m/i.js", "rs/target/x.txt", "cache/x.txt", "sub/gen/x.txt"]
    {
        assert!(found.contains(&name.into()), "{name}");
    }
    assert_eq!(told(skipped), [".git version_control", ".redrive version_control"]);
}

#[test]
fn roots_that_are_no_directories_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "file", b"x");
    let options = WalkOptions::default();
    assert!(matches!(walk(&dir.path().join("none"), &options), Err(Error::Missing(_))));
    assert!(matches!(walk(&dir.path().join("file"), &options), Err(Error::NotADirectory(_))));
    fs::create_dir(dir.path().join("empty")).unwrap();
    assert_eq!(steps(&dir.path().join("empty"), &options), (vec![], vec![]));
    symlink(dir.path(), dir.path().join("empty/link")).unwrap();
    assert!(steps(&dir.path().join("empty/link"), &options).0.contains(&"file".into()));
}

#[test]
fn names_of_any_bytes_are_walked_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let names: [&[u8]; 4] = [b"two\nlines.md", b"caf\xe9.txt", b"back\\slash.txt", b"-rf.txt"];
    for name in names {
        fs::write(dir.path().join(OsStr::from_bytes(name)), name).unwrap();
    }
    let (found, _) = steps(dir.path(), &WalkOptions::default());
    assert_eq!(found, ["-rf.txt", "back\\\\slash.txt", "caf\\xe9.txt", "two\\x0alines.md"]);
    for shown in found {
        let rel: RelPath = shown.parse().unwrap();
        assert_eq!(read(dir.path(), &rel, 100, false).unwrap().bytes, rel.as_bytes());
    }
}

#[test]
fn what_is_not_read_is_named_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::File::create(root.join("huge.txt")).unwrap().set_len(2 << 30).unwrap();
    fs::File::create(root.join("large.pdf")).unwrap().set_len(9 << 20).unwrap();
    put(root, "photo.png", b"x");
    put(root, "d/a.txt", b"x");
    symlink("a.txt", root.join("d/link.txt")).unwrap();
    symlink("..", root.join("d/up")).unwrap();
    symlink("nowhere", root.join("d/dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let (found, skipped) = steps(root, &WalkOptions::default());
    assert_eq!(found, ["d/a.txt", "large.pdf"]);
    assert_eq!(
        skipped,
        [
            ("d/dangling".into(), SkipReason::Symlink),
            ("d/link.txt".into(), SkipReason::Symlink),
            ("d/up".into(), SkipReason::Symlink),
            ("huge.txt".into(), SkipReason::TooLarge { size: 2 << 30, limit: 8 << 20 }),
            ("photo.png".into(), SkipReason::Binary),
            ("socket".into(), SkipReason::Special),
        ]
    );
    let (found, skipped) = steps(root, &WalkOptions { follow_symlinks: true, ..WalkOptions::default() });
    assert_eq!(found, ["d/a.txt", "d/link.txt", "large.pdf"]);
    assert!(skipped.contains(&("d/up".into(), SkipReason::Loop)), "{skipped:?}");
    assert!(skipped.contains(&("d/dangling".into(), SkipReason::Vanished)), "{skipped:?}");
    assert!(matches!(read(root, &rel("socket"), 10, false), Err(read::Error::NotRegular)));
    assert!(matches!(read(root, &rel("d/link.txt"), 10, false), Err(read::Error::NotRegular)));
    assert!(matches!(read(root, &rel("huge.txt"), 8 << 20, false), Err(read::Error::TooLarge { .. })));
}

/// Runs the work as somebody who is not root; root is refused nothing.
#[expect(unsafe_code, reason = "the user of one thread's file accesses has no safe interface in std")]
fn as_nobody<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(move || {
        // SAFETY: takes numbers only, and changes this thread alone, which ends with the work.
        if unsafe { libc::geteuid() } == 0 {
            unsafe { libc::setfsuid(65534) };
        }
        work()
    })
    .join()
    .unwrap()
}

#[test]
fn missing_permissions_are_reported_and_prove_no_deletion() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_path_buf();
    put(&root, "a.txt", b"x");
    put(&root, "closed/b.txt", b"x");
    put(&root, "secret.txt", b"x");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(root.join("secret.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    let there = root.clone();
    let (found, skipped, secret, closed, gone) = as_nobody(move || {
        let (found, skipped) = steps(&there, &WalkOptions::default());
        let secret = read(&there, &rel("secret.txt"), 10, false);
        (found, skipped, secret, presence(&there, &rel("closed/b.txt")), presence(&there, &rel("gone.txt")))
    });
    fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(found, ["a.txt", "secret.txt"]);
    assert_eq!(skipped, [("closed".into(), SkipReason::Denied)]);
    assert!(matches!(secret, Err(read::Error::Denied)));
    assert_eq!((closed, gone), (Presence::Unknown, Presence::Absent));
}

#[test]
fn absence_is_only_claimed_when_seen() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(root, "d/a.txt", b"x");
    assert_eq!(presence(root, &rel("d/a.txt")), Presence::Present);
    assert_eq!(presence(root, &rel("d/b.txt")), Presence::Absent);
    assert_eq!(presence(root, &rel("gone/deep/b.txt")), Presence::Absent);
    assert_eq!(presence(root, &rel("d/a.txt/b")), Presence::Absent);
    assert_eq!(presence(&root.join("unmounted"), &rel("d/a.txt")), Presence::Unknown);
}

#[test]
fn a_file_that_vanishes_between_walk_and_read_is_said_to_have_vanished() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "a.txt", b"x");
    let Some(Step::Found(file)) = walk(dir.path(), &WalkOptions::default()).unwrap().next() else { panic!() };
    fs::remove_file(dir.path().join("a.txt")).unwrap();
    assert!(matches!(read(dir.path(), &file.rel, 10, false), Err(read::Error::Vanished)));
    assert_eq!(presence(dir.path(), &file.rel), Presence::Absent);
}
