//! Files that cannot be indexed, or only with care: each is told by name and reason, once, and costs no other file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::index::{DOCS, Library};
use crate::support::{Names, array, names, text, wait};
use serde_json::Value;

/// A PDF of the given objects (number 1 is the catalogue), with extra entries for its trailer.
fn pdf_of(objects: &[String], trailer: &str) -> Vec<u8> {
    let mut out = "%PDF-1.4\n".to_owned();
    let mut table = String::new();
    for (at, object) in objects.iter().enumerate() {
        table.push_str(&format!("{:010} 00000 n \n", out.len()));
        out.push_str(&format!("{} 0 obj\n{object}\nendobj\n", at + 1));
    }
    let (start, size) = (out.len(), objects.len() + 1);
    out.push_str(&format!("xref\n0 {size}\n0000000000 65535 f \n{table}"));
    out.push_str(&format!("trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n"));
    out.into_bytes()
}

/// The objects of a PDF with so many pages that show the same line.
fn pdf_objects(pages: usize) -> Vec<String> {
    let kids: String = (0..pages).map(|at| format!("{} 0 R ", 5 + at)).collect();
    let line = "BT /F1 24 Tf 72 720 Td (walrus) Tj ET";
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{kids}] /Count {pages} >>"),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
        format!("<< /Length {} >>\nstream\n{line}\nendstream", line.len()),
    ];
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 3 0 R >> >> >>";
    objects.extend(std::iter::repeat_n(page.to_owned(), pages));
    objects
}

/// A PDF that needs a password.
fn locked_pdf() -> Vec<u8> {
    let (id, key) = ("00112233445566778899aabbccddeeff", "ab".repeat(32));
    let mut objects = pdf_objects(1);
    objects.push(format!("<< /Filter /Standard /V 1 /R 2 /O <{key}> /U <{key}> /P -4 >>"));
    let encrypt = objects.len();
    pdf_of(&objects, &format!("/Encrypt {encrypt} 0 R /ID [<{id}> <{id}>]"))
}

/// The files that are in the index, by the path it shows.
fn published(library: &Library) -> Names {
    let store = library.store();
    let mut rows = store.prepare("SELECT path FROM doc WHERE published IS NOT NULL").expect("it is SQL");
    let found = rows.query_map([], |row| row.get::<_, String>(0)).expect("asked");
    found.map(|path| path.expect("read")).collect()
}

/// What the walk left out: path to reason.
fn left_out(report: &Value) -> BTreeMap<String, String> {
    let examples = array(&report["index"]["walk"]["examples"]);
    examples.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// The paths and messages of what is dead.
fn dead(library: &Library) -> BTreeMap<String, String> {
    library.place.dead().iter().map(|item| (text(&item["key"]), text(&item["message"]))).collect()
}

const GOOD: &[(&[u8], &[u8])] = &[
    (b"good.md", b"# Good\n\nThe otter swims.\n"),
    (b"empty.txt", b""),
    (b"blank.txt", b" \n\n\t\n"),
    (b"latin.txt", b"gr\xfcn is green"),
    (b"mixed.txt", b"gr\xc3\xbcn, and once more gr\xfcn"),
    (b"wide.txt", b"\xff\xfeg\0r\0\xfc\0n\0"),
    (b"two\nlines.txt", b"a name of two lines"),
    (b"caf\xe9.txt", b"a name that is not UTF-8"),
    (b"-k.txt", b"a name like an option"),
];

fn shown(name: &[u8]) -> String {
    match name {
        b"two\nlines.txt" => "two\\x0alines.txt".to_owned(),
        b"caf\xe9.txt" => "caf\\xe9.txt".to_owned(),
        plain => String::from_utf8(plain.to_vec()).expect("plain"),
    }
}

/// A directory in which everything is wrong that can be, among good files.
fn zoo() -> Library {
    let library = Library::builtin();
    for (name, content) in GOOD {
        std::fs::write(library.place.path(DOCS).join(OsStr::from_bytes(name)), content).expect("written");
    }
    library.write("data.txt", b"GIF89a\x00\x01\x02 by another name");
    library.write("broken.pdf", b"%PDF-1.4\nno objects at all\n%%EOF\n");
    library.write("locked.pdf", locked_pdf());
    library.write("many.pdf", pdf_of(&pdf_objects(10_000), ""));
    let huge = std::fs::File::create(library.place.path(DOCS).join("huge.txt")).expect("made");
    huge.set_len(2 << 30).expect("a sparse file");
    library
}

#[test]
fn what_cannot_be_indexed_is_told_once_and_costs_nothing_else() {
    let library = zoo();
    let report = library.index(&[], 3);
    assert_eq!(report["status"], "partial_success");
    let good: Names = GOOD.iter().map(|(name, _)| shown(name)).collect();
    assert_eq!(published(&library), good);

    let why = dead(&library);
    assert_eq!(names(why.keys()), names(["broken.pdf", "locked.pdf", "many.pdf"]));
    for (path, fragment) in
        [("broken.pdf", "broken pdf"), ("locked.pdf", "needs a password"), ("many.pdf", "10000 pages")]
    {
        assert!(why[path].contains(fragment), "{path}: {}", why[path]);
    }
    let told = library.place.run(&["explain", "data.txt"]).expect(0).stdout;
    assert!(told.contains("not a text"), "{told}");
    let out = left_out(&report);
    assert_eq!(names(out.keys()), names(["huge.txt"]));
    assert!(out["huge.txt"].contains("2147.5 MB") && out["huge.txt"].contains("8.4 MB"), "{out:?}");

    // Encodings are read as what they are.
    for path in ["latin.txt", "mixed.txt", "wide.txt"] {
        let found = library.place.json(&["search", "grün", "--mode", "words", "--path", path]);
        assert_eq!(crate::support::column(&found["hits"], "path"), names([path]));
    }

    // Nothing changed: nothing is tried, nothing fails, and everything is still there.
    let again = library.index(&[], 0);
    assert_eq!((&again["counts"]["admitted"], &again["attempts"]["total"]), (&0.into(), &0.into()));
    assert_eq!(again["index"]["walk"]["refused_before"], 4);
    assert_eq!(names(dead(&library).keys()), names(["broken.pdf", "locked.pdf", "many.pdf"]));
    assert_eq!(published(&library), good);

    // One that is mended is indexed; the others stay as they are.
    library.write("broken.pdf", pdf_of(&pdf_objects(2), ""));
    let mended = library.index(&[], 0);
    assert_eq!((&mended["counts"]["admitted"], &mended["counts"]["succeeded"]), (&1.into(), &1.into()));
    assert_eq!(published(&library), &good | &names(["broken.pdf"]));

    // Asked to, it tries the refused ones again.
    let asked = library.index(&["--retry-refused"], 4);
    assert_eq!((&asked["counts"]["admitted"], &asked["counts"]["dead"]), (&3.into(), &2.into()));
    assert_eq!(published(&library), &good | &names(["broken.pdf"]));
    library.place.check();
}

#[test]
fn the_summary_or_what_it_points_at_names_every_file_that_is_not_in_the_index() {
    let library = zoo();
    let ran = library.place.run(&["index", DOCS, "--processes", "2"]).expect(3);
    assert!(ran.stderr.contains("`redrive failures r1`"), "{}", ran.stderr);
    let told = ran.stdout + &library.place.run(&["failures", "r1"]).expect(0).stdout;
    let wanted = names(["broken.pdf", "locked.pdf", "many.pdf", "huge.txt", "data.txt"]);
    let named: Names = wanted.iter().filter(|path| told.contains(*path)).cloned().collect();
    assert_eq!(named, wanted, "{told}");
}

#[test]
fn after_a_calm_run_the_failures_of_the_one_before_can_still_be_found() {
    let library = zoo();
    library.index(&[], 3);
    let ran = library.place.run(&["index", DOCS, "--processes", "2"]).expect(0);
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(told.contains("failures r1") || told.contains("dead list"), "how to see them is not in\n{told}");
}

#[test]
fn directories_that_cannot_be_indexed_are_refused() {
    let library = Library::builtin();
    library.write("a.txt", "a file");
    for (dir, fragments) in [
        ("nowhere", &["there is no directory 'nowhere'", "hint:"][..]),
        ("docs/a.txt", &["'docs/a.txt' is not a directory", "hint:"]),
        ("", &["[DIR]"]),
    ] {
        let ran = library.place.run(&["index", dir]).expect(2);
        for fragment in fragments {
            assert!(ran.stderr.contains(fragment), "{dir:?}: no {fragment:?} in\n{}", ran.stderr);
        }
        assert_eq!(ran.stdout, "");
    }
    assert!(!library.place.path(".redrive").exists(), "no store was made");
}

#[test]
fn an_empty_directory_is_an_empty_index() {
    let library = Library::builtin();
    let report = library.index(&[], 0);
    assert_eq!((&report["status"], &report["index"]["size"]["documents"]), (&"completed".into(), &0.into()));
    let ran = library.place.run(&["index", DOCS]).expect(0);
    assert!(ran.stderr.contains("hint: nothing in this directory can be searched"), "{}", ran.stderr);
    assert_eq!(library.place.json(&["search", "anything"])["hits"], serde_json::json!([]));
    library.place.check();
}

#[test]
fn files_that_grow_and_vanish_while_they_are_read_are_right_in_the_end() {
    let library = Library::builtin();
    library.write_all(&crate::support::index::mixed(40));
    let still: Names = crate::support::index::mixed(40).into_iter().map(|(name, _)| name).collect();
    let path = |name: &str| library.place.path(DOCS).join(name);
    library.write("grows.log", "line\n");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let restless = scope.spawn(|| {
            let mut rounds = 0_usize;
            while !stop.load(Ordering::Relaxed) {
                let mut grown =
                    std::fs::OpenOptions::new().append(true).open(path("grows.log")).expect("there");
                std::io::Write::write_all(&mut grown, format!("line {rounds}\n").as_bytes())
                    .expect("written");
                std::fs::write(path("comes.txt"), format!("round {rounds}")).expect("written");
                wait::pause();
                std::fs::remove_file(path("comes.txt")).expect("removed");
                rounds += 1;
            }
            rounds
        });
        let ran = library.run_with(&[], &[]);
        stop.store(true, Ordering::Relaxed);
        assert!(restless.join().expect("it ran") > 3, "something changed meanwhile");
        ran.expect(0);
    });
    assert_eq!(&published(&library) & &still, still);
    std::fs::write(path("grows.log"), "it has ended\n").expect("written");
    let report = library.index(&[], 0);
    assert_eq!(report["status"], "completed");
    assert_eq!(published(&library), &still | &names(["grows.log"]));
    let found = library.place.json(&["search", "ended", "--mode", "words"]);
    assert_eq!(crate::support::column(&found["hits"], "path"), names(["grows.log"]));
    assert_eq!(library.place.dead_keys(), names::<&str>([]));
    library.place.check();
}
