//! Files that are written on request: what they may be written over, and what is written through.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::guest::{guest, is_root};
use crate::support::server::{Answer, Server, failed};
use crate::support::{Place, Ran, count, key, keys, names, one_stage, samples, wait};

const ITEMS: usize = 5;

/// Every way to name a file for output, each with the words before the file and those after it.
const OPTIONS: &[(&str, &[&str], &[&str])] = &[
    ("run", &["run", "p.toml", "--new", "--results"], &[]),
    ("resume", &["resume", "r1", "--results"], &[]),
    ("resume with a file", &["resume", "r1", "--pipeline", "p.toml", "--results"], &[]),
    ("redrive", &["dead", "redrive", "--all", "--work", "--results"], &[]),
    ("results", &["results", "r1", "-o"], &[]),
    ("results of a stage", &["results", "r1", "--stage", "work", "-o"], &[]),
    ("export", &["dead", "export", "-o"], &[]),
    ("export over", &["dead", "export", "--overwrite", "-o"], &[]),
    ("plot", &["policy", "simulate", "p.toml", "--stage", "work", "--plot"], &[]),
];

/// A store `s.db` with a run of which one item is dead, its pipeline and its source.
fn world() -> (Server, Place) {
    let server = Server::start(|call| match call.item().key.as_str() {
        "k0001" => Answer::results(&[failed(call.item(), "final", "never")]),
        _ => Answer::all(call),
    });
    let mut place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    place.set("REDRIVE_STORE", "sqlite:s.db");
    place.run(&["run", "p.toml"]).expect(3);
    (server, place)
}

fn asked(place: &Place, option: &(&str, &[&str], &[&str]), file: &str) -> Ran {
    let args: Vec<&str> = option.1.iter().copied().chain([file]).chain(option.2.iter().copied()).collect();
    place.run(&args)
}

#[test]
fn nothing_is_written_over_the_store_a_source_or_a_pipeline_whatever_its_name() {
    let (server, place) = world();
    let link = |from: &str, to: &str| std::fs::hard_link(place.path(from), place.path(to)).expect("linked");
    link("s.db", "hard.db");
    link("in.jsonl", "hard.jsonl");
    link("p.toml", "hard.txt");
    symlink("s.db", place.path("link.db")).expect("linked");
    symlink("link.db", place.path("link-of-link.db")).expect("linked");
    symlink(place.path("in.jsonl"), place.path("link.jsonl")).expect("linked");
    symlink("p.toml", place.path("link.txt")).expect("linked");
    std::fs::create_dir(place.path("folder")).expect("made");
    symlink("folder", place.path("to-folder")).expect("linked");
    symlink("a-loop", place.path("a-loop")).expect("linked");
    place.write("other.toml", "name = 1");
    let written = place.read("p.toml");
    place.write("pipe.conf", &written);
    place.write("edited.conf", written.replace("name = \"test\"", "name = \"edited\""));
    assert_ne!(place.read("edited.conf"), written);
    let missing_log = asked(&place, &OPTIONS[0], "s.db-wal").expect(2);
    assert!(missing_log.stderr.contains("a part of the store"), "{}", missing_log.stderr);
    // With a reader at it, the log and its index are there.
    let reader = rusqlite::Connection::open(place.path("s.db")).expect("opened");
    reader.execute_batch("BEGIN; SELECT count(*) FROM item;").expect("read");
    assert!(place.path("s.db-wal").exists() && place.path("s.db-shm").exists());
    link("s.db-wal", "hard-wal");
    let unreadable = std::path::absolute(place.path("s.db")).expect("a path").display().to_string();
    let spots: &[(&str, &str)] = &[
        ("s.db", "the store"),
        ("./folder/../s.db", "the store"),
        (&unreadable, "the store"),
        ("s.db-wal", "a part of the store"),
        ("s.db-shm", "a part of the store"),
        ("s.db-journal", "a part of the store"),
        ("hard-wal", "a part of the store"),
        ("hard.db", "the store"),
        ("link.db", "the store"),
        ("link-of-link.db", "the store"),
        ("in.jsonl", "a source"),
        ("hard.jsonl", "a source"),
        ("link.jsonl", "a source"),
        ("p.toml", "pipeline"),
        ("link.txt", "pipeline"),
        ("hard.txt", "pipeline file"),
        ("pipe.conf", "pipeline file"),
        ("edited.conf", "a pipeline file"),
        ("other.toml", "a TOML file"),
        ("folder", "a directory"),
        ("to-folder", "a directory"),
        ("nowhere/out", "there is no folder nowhere"),
        ("nowhere/", "there is no folder nowhere"),
        ("p.toml/out", "Not a directory"),
        ("a-loop", "symbolic links"),
        ("/proc/redrive-out", "takes no new file"),
    ];
    let source = place.read("in.jsonl");
    let pipelines = ["p.toml", "hard.txt", "pipe.conf", "edited.conf"];
    let read_all = || pipelines.map(|name| place.read(name));
    let (written, store) = (read_all(), std::fs::read(place.path("s.db")).expect("read"));
    let calls = server.count();
    let listed = || {
        let names = std::fs::read_dir(place.path(".")).expect("listed");
        let mut names: Vec<_> = names.map(|entry| entry.expect("listed").file_name()).collect();
        names.sort();
        names
    };
    let before = listed();
    for option in OPTIONS {
        for (file, why) in spots {
            let ran = asked(&place, option, file).expect(2);
            // What is there already is kept anyway; only --overwrite makes it matter what it is.
            let kept = option.0 == "export" && ran.stderr.contains("--overwrite");
            let why = kept || ran.stderr.contains(why);
            let told = ran.stderr.contains(file) && why && ran.stderr.contains("hint:");
            assert!(told, "{} {file}: {}", option.0, ran.stderr);
            assert_eq!(place.read("in.jsonl"), source, "{} {file}", option.0);
            assert_eq!(read_all(), written, "{} {file}", option.0);
        }
    }
    assert_eq!(std::fs::read(place.path("s.db")).expect("read"), store);
    assert_eq!(listed(), before, "nothing is made and nothing left behind");
    assert_eq!(server.count(), calls, "all of it is told before the work");
    drop(reader);
    assert_eq!(array_len(&place), 1);
    place.check();
}

fn array_len(place: &Place) -> usize {
    crate::support::array(&place.json(&["runs"])["runs"]).len()
}

#[test]
fn what_a_pipeline_names_is_spared_and_so_are_the_files_of_a_directory() {
    let script = "import sys, json\nfor line in sys.stdin:\n    items = json.loads(line)['items']\n    \
                  print(json.dumps({'results': [{'id': i['id'], 'output': 1} for i in items]}), flush=True)\n";
    let pipeline = one_stage("kind = \"command\"\ncommand = [\"python3\", \"handler.py\"]");
    let place = Place::with(&pipeline, &samples(2));
    place.write("handler.py", script);
    let ran = place.run(&["run", "p.toml", "--results", "handler.py"]).expect(2);
    assert!(ran.stderr.contains("the command of stage work"), "{}", ran.stderr);
    place.run_pipeline(0);
    let ran = place.run(&["results", "r1", "-o", "handler.py"]).expect(2);
    assert!(ran.stderr.contains("the command of stage work"), "{}", ran.stderr);
    assert_eq!(place.read("handler.py"), script);
    // An index is a run over a directory.
    std::fs::create_dir(place.path("texts")).expect("made");
    place.write("texts/one.md", "# One\n\nA walrus.\n");
    place.write("texts/out.jsonl", "");
    place.write("texts/.redriveignore", "out.jsonl\n");
    std::fs::hard_link(place.path("texts/one.md"), place.path("one")).expect("linked");
    place.run(&["index", "texts"]).expect(0);
    for file in ["texts/one.md", "one"] {
        let ran = place.run(&["results", "r1", "-o", file]).expect(2);
        assert!(ran.stderr.contains("a file of the source"), "{}", ran.stderr);
    }
    place.run(&["results", "r1", "-o", "texts/out.jsonl"]).expect(0);
    assert_eq!(
        place.read("texts/out.jsonl").lines().count(),
        2,
        "what is left out of the source may be written"
    );
    assert_eq!(place.read("texts/one.md"), "# One\n\nA walrus.\n");
}

#[test]
fn devices_pipes_and_links_are_written_through_and_stay_what_they_are() {
    let (_server, place) = world();
    let made = |args: &[&str]| {
        let done = Command::new(args[0]).args(&args[1..]).current_dir(place.path(".")).output();
        done.is_ok_and(|done| done.status.success())
    };
    assert!(made(&["mkfifo", "fifo"]));
    let device = if made(&["mknod", "null", "c", "1", "3"]) { "null" } else { "/dev/null" };
    symlink("/dev/stdout", place.path("to-stdout")).expect("linked");
    for option in OPTIONS.iter().filter(|option| option.0 != "export over") {
        let expected = if option.0 == "plot" { "<svg" } else { "\"key\":" };
        for file in ["/dev/stdout", "-", "/dev/fd/1", "/proc/self/fd/1", "to-stdout"] {
            let ran = asked(&place, option, file);
            assert!(ran.stdout.contains(expected), "{} {file}: {}{}", option.0, ran.stdout, ran.stderr);
        }
        let ran = asked(&place, option, "/dev/stderr");
        assert!(ran.stderr.contains(expected), "{}: {}", option.0, ran.stderr);
        let ran = asked(&place, option, device);
        assert!(matches!(ran.code(), Some(0 | 3)), "{} {}", option.0, ran.stderr);
        let there = std::fs::metadata(place.path(device)).expect("it is there");
        assert!(there.file_type().is_char_device(), "{}", option.0);
        let pipe = place.path("fifo");
        let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).expect("read"));
        asked(&place, option, "fifo");
        assert!(reader.join().expect("read").contains(expected), "{}", option.0);
        assert!(std::fs::metadata(place.path("fifo")).expect("there").file_type().is_fifo(), "{}", option.0);
        // A link that leads to nothing yet.
        let (link, file) = (place.path("dangling"), place.path("made-by-link"));
        let _ = std::fs::remove_file(&link);
        let _ = std::fs::remove_file(&file);
        symlink("made-by-link", &link).expect("linked");
        asked(&place, option, "dangling");
        assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink(), "{}", option.0);
        assert!(place.read("made-by-link").contains(expected), "{}", option.0);
    }
    assert!(!place.path("-").exists());
    place.check();
}

#[test]
fn a_full_device_is_an_error_and_the_work_is_kept() {
    let (server, place) = world();
    let ran = place.run(&["run", "p.toml", "--new", "--results", "/dev/full"]).expect(1);
    assert!(ran.stderr.contains("/dev/full") && ran.stderr.contains("redrive results r2"), "{}", ran.stderr);
    assert_eq!(server.count(), 2 * ITEMS);
    for args in [&["results", "r1", "-o", "/dev/full"][..], &["dead", "export", "-o", "/dev/full"]] {
        place.run(args).expect(1);
    }
    assert_eq!(place.run(&["results", "r2"]).expect(0).stdout.lines().count(), ITEMS - 1);
}

#[test]
fn a_regular_file_is_replaced_at_once_with_its_mode_and_owner() {
    let (_server, place) = world();
    symlink("old", place.path("to-old")).expect("linked");
    for option in OPTIONS.iter().filter(|option| option.0 != "export") {
        place.write("old", if option.0 == "plot" { "<svg>old</svg>" } else { "old" });
        std::fs::set_permissions(place.path("old"), PermissionsExt::from_mode(0o640)).expect("changed");
        if is_root() {
            std::os::unix::fs::chown(place.path("old"), Some(12_345), Some(54_321)).expect("given away");
        }
        let before = std::fs::metadata(place.path("old")).expect("there");
        let open = std::fs::File::open(place.path("old")).expect("opened");
        asked(&place, option, "to-old");
        let after = std::fs::metadata(place.path("old")).expect("there");
        assert_ne!(before.ino(), after.ino(), "{}", option.0);
        let owned = |there: &std::fs::Metadata| (there.mode(), there.uid(), there.gid());
        assert_eq!(owned(&before), owned(&after), "{}", option.0);
        assert!(std::io::read_to_string(open).expect("read").contains("old"), "{}", option.0);
        assert!(
            place.read("old").contains(if option.0 == "plot" { "</svg>" } else { "\"id\":" }),
            "{}",
            option.0
        );
        assert!(std::fs::symlink_metadata(place.path("to-old")).expect("there").is_symlink());
    }
    let left = std::fs::read_dir(place.path(".")).expect("listed");
    assert!(
        !left
            .map(|entry| entry.expect("listed").file_name())
            .any(|name| name.to_string_lossy().contains("part"))
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_told_before_the_work() {
    let (server, place) = world();
    std::fs::create_dir(place.path("shut")).expect("made");
    place.write("shut/readable", "old");
    place.write("shut.txt", "old");
    let mode = |name: &str, mode| {
        std::fs::set_permissions(place.path(name), PermissionsExt::from_mode(mode)).expect("changed");
    };
    mode("shut", 0o555);
    mode("shut.txt", 0o444);
    let calls = server.count();
    for file in ["shut/new", "shut/readable", "shut.txt"] {
        let ran = as_somebody(&place, &["run", "p.toml", "--new", "--results", file]);
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(told.contains(file) && told.contains("ermission denied") && told.contains("hint:"), "{told}");
    }
    assert_eq!((server.count(), array_len(&place)), (calls, 1), "no run was begun");
    assert_eq!((place.read("shut/readable"), place.read("shut.txt")), ("old".to_owned(), "old".to_owned()));
    mode("shut", 0o755);
}

/// Runs the binary as somebody whom permissions hold for, and who owns the place.
fn as_somebody(place: &Place, args: &[&str]) -> std::process::Output {
    if is_root() {
        give_away(&place.path("."));
    }
    guest(place, args).env("REDRIVE_STORE", "sqlite:s.db").output().expect("it runs")
}

fn give_away(folder: &Path) {
    std::os::unix::fs::chown(folder, Some(65_534), Some(65_534)).expect("given away");
    for entry in std::fs::read_dir(folder).expect("listed") {
        let path = entry.expect("listed").path();
        std::os::unix::fs::lchown(&path, Some(65_534), Some(65_534)).expect("given away");
        if path.is_dir() {
            give_away(&path);
        }
    }
}

#[test]
fn an_export_that_was_edited_is_not_overwritten_unasked_and_never_with_nothing() {
    let (server, place) = world();
    place.run(&["dead", "export", "-o", "dead.jsonl"]).expect(0);
    let edited = place.read("dead.jsonl").replace("\"n\":1", "\"n\":100");
    assert_ne!(edited, place.read("dead.jsonl"));
    place.write("dead.jsonl", &edited);
    let ran = place.run(&["dead", "export", "-o", "dead.jsonl"]).expect(2);
    assert!(ran.stderr.contains("dead.jsonl") && ran.stderr.contains("--overwrite"), "{}", ran.stderr);
    assert_eq!(place.read("dead.jsonl"), edited);
    let told = place.json(&["dead", "export", "--text", "no such thing", "--overwrite", "-o", "dead.jsonl"]);
    assert_eq!((count(&told["written"]), place.read("dead.jsonl")), (0, edited.clone()));
    let ran = place
        .run(&["dead", "export", "--text", "no such thing", "--overwrite", "-o", "dead.jsonl"])
        .expect(0);
    assert!(ran.stderr.contains("is as it was"), "{}", ran.stderr);
    place.run(&["dead", "import", "dead.jsonl"]).expect(0);
    place.run(&["dead", "export", "--overwrite", "-o", "dead.jsonl"]).expect(0);
    assert_eq!(
        place.read("dead.jsonl"),
        edited,
        "what was sent back is not dead, and its file is still there"
    );
    place.run(&["resume", "r1"]).expect(3);
    assert_eq!(place.dead_keys(), names([key(1)]));
    place.run(&["dead", "export", "--overwrite", "-o", "dead.jsonl"]).expect(0);
    assert!(place.read("dead.jsonl").contains("\"n\":100"));
    assert_eq!(server.times_called()[&key(1)], 2);
    // What is empty holds no edits.
    place.write("empty.jsonl", "");
    place.run(&["dead", "export", "-o", "empty.jsonl"]).expect(0);
    assert_eq!(place.read("empty.jsonl").lines().count(), 1);
}

#[test]
fn a_pipe_that_nobody_reads_can_be_left() {
    let (_server, place) = world();
    assert!(Command::new("mkfifo").arg(place.path("fifo")).status().expect("made").success());
    let started = place.start(&["results", "r1", "-o", "fifo"]);
    started.until_said("waiting until somebody reads fifo");
    started.signal("INT");
    started.finish().expect(130);
    // A reader that comes late gets all of it.
    let started = place.start(&["resume", "r1", "--results", "fifo"]);
    started.until_said("waiting until somebody reads fifo");
    let read = std::fs::read_to_string(place.path("fifo")).expect("read");
    started.finish().expect(3);
    assert_eq!(crate::support::results(&read).len(), ITEMS - 1);
    wait::until("the pipe is free", || place.run(&["check"]).code() == Some(0));
    assert_eq!(keys(ITEMS).len(), ITEMS);
}
