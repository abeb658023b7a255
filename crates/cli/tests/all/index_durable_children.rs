//! Children that die while a directory is indexed: embedders that somebody kills, and a file that kills its parser.

use std::process::Command;
use std::time::Duration;

use crate::support::index::{DOCS, Library, mixed, signal, tell};
use crate::support::{Started, array, column, count, names, wait};

/// Stops the embedders of a process that runs, lets half a second pass, and kills them with what they hold. Returns how
/// many died, and how many texts were with them.
fn kill_embedders(library: &Library, started: &mut Started) -> (usize, usize) {
    let mut stopped = Vec::new();
    wait::until("there are embedders", || {
        stopped =
            library.children("embed-worker").into_iter().filter(|child| signal(*child, "STOP")).collect();
        started.has_ended() || !stopped.is_empty()
    });
    let begun = wait::now();
    wait::until("half a second", || started.has_ended() || begun.elapsed() >= Duration::from_millis(500));
    let held = library.in_flight().len();
    (stopped.into_iter().filter(|child| signal(*child, "KILL")).count(), held)
}

#[test]
fn embedders_killed_every_half_second_cost_nothing_but_time() {
    const FILES: usize = 600;
    // Not until the end: the last texts would be alone with the killer, and be taken for what kills.
    const ROUNDS: usize = 6;
    let calm = Library::builtin();
    calm.write_all(&mixed(FILES));
    calm.index(&[], 0);
    let library = Library::builtin();
    library.write_all(&mixed(FILES));
    let mut started = library.start(&[]);
    let rounds: Vec<_> = (0..ROUNDS).map(|_| kill_embedders(&library, &mut started)).collect();
    let report = started.finish().expect(0).json();
    let crashes = &report["attempts"]["crashes"];
    tell(&format!("(embedders killed, texts they held): {rounds:?}; {crashes} attempts crashed"));
    let met = rounds.iter().filter(|(killed, held)| *killed > 0 && *held > 0).count();
    assert!(met >= ROUNDS / 2, "{met} rounds met work");
    assert!(library.place.dead().is_empty(), "nothing is quarantined");
    assert_eq!((&report["status"], count(&report["counts"]["dead"])), (&"completed".into(), 0), "{report:#}");
    assert_eq!(count(&report["counts"]["succeeded"]), FILES as u64);
    library.rows().assert_same(&calm.rows());
    library.place.check();
}

#[test]
fn embedders_that_died_with_their_work_are_told_of() {
    let library = Library::builtin();
    library.write_all(&mixed(60));
    let mut started = library.start(&[]);
    let (killed, held) = kill_embedders(&library, &mut started);
    assert!(killed > 0 && held > 0, "{killed} killed, {held} held");
    let ran = started.finish().expect(0);
    assert!(library.place.dead().is_empty(), "nothing is quarantined");
    let crashes = count(&ran.json()["attempts"]["crashes"]);
    let said = ran.stderr.contains("signal 9");
    assert!(
        crashes > 0 || said,
        "{killed} embedders died with {held} texts, and nobody can know: {}",
        ran.stderr
    );
}

/// Writes a PDF whose only page unpacks to more memory than a parser may have.
const BOMB: &str = r#"
import sys, zlib
pack = zlib.compressobj(1)
inner = b"".join(pack.compress(b" " * (16 << 20)) for _ in range(96)) + pack.flush()
bomb = zlib.compress(inner)
objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>",
    b"<< /Length %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n" % len(bomb) + bomb + b"\nendstream"]
out, offsets = b"%PDF-1.4\n", []
for number, content in enumerate(objects, 1):
    offsets.append(len(out))
    out += b"%d 0 obj\n" % number + content + b"\nendobj\n"
xref = len(out)
out += b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % at for at in offsets)
out += b"trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % xref
open(sys.argv[1], "wb").write(out)
"#;

#[test]
fn a_file_that_kills_its_parser_dies_alone() {
    // Few enough that one that died is more than a run calls completed.
    const FILES: usize = 12;
    let library = Library::builtin();
    library.write_all(&mixed(FILES));
    let bomb = library.place.path(DOCS).join("bomb.pdf");
    let made = Command::new("python3").args(["-c", BOMB]).arg(&bomb).status();
    assert!(made.expect("python3 is there").success());
    let report = library.index(&[], 3);
    assert_eq!(count(&report["counts"]["succeeded"]), FILES as u64, "all others are indexed: {report:#}");
    let dead = library.place.dead();
    assert_eq!(column(&dead.clone().into(), "key"), names(["bomb.pdf"]));
    tell(&format!(
        "the bomb: {} ({}), {} crashes: {}",
        dead[0]["reason"], dead[0]["class"], report["attempts"]["crashes"], dead[0]["message"]
    ));
    assert_eq!(
        (&dead[0]["class"], &dead[0]["reason"]),
        (&"crash".into(), &"quarantined".into()),
        "{:#}",
        dead[0]
    );
    assert_eq!(count(&report["attempts"]["crashes"]), 3, "as often as its crash limit, and nobody else");
    let failed = library.place.json(&["failures"]);
    assert_eq!(array(&failed["failed"]), ["bomb.pdf"], "{failed:#}");
    let expected = Library::builtin();
    expected.write_all(&mixed(FILES));
    expected.index(&[], 0);
    assert_eq!(library.rows().chunks, expected.rows().chunks);
    library.place.check();

    let again = library.index(&[], 0);
    assert_eq!(
        (count(&again["index"]["walk"]["refused_before"]), count(&again["attempts"]["total"])),
        (1, 0)
    );
}
