//! An index that is made anew, and one whose making is broken off.

use std::time::Duration;

use crate::support::index::{Library, Provider};
use crate::support::{Names, column, names};

fn found(library: &Library, mode: &str) -> Names {
    column(&library.place.json(&["search", "the walrus sleeps", "--mode", mode, "-k", "9"])["hits"], "path")
}

#[test]
fn a_rebuild_leaves_no_moment_in_which_nothing_is_found() {
    let library = Library::builtin();
    for n in 0..3 {
        library.write(&format!("{n}.md"), format!("The walrus sleeps at number {n}."));
    }
    library.index(&[], 0);
    let all = names(["0.md", "1.md", "2.md"]);
    // Dead before a single file was taken apart again, and in the middle.
    for point in ["run.created:1", "record.after_commit:1", "join.after_commit:1"] {
        let died = library.run_with(&["--rebuild"], &[("REDRIVE_CRASH_AT", point)]);
        assert!(died.killed_by().is_some(), "{point}");
        for mode in ["hybrid", "meaning", "words"] {
            assert_eq!(found(&library, mode), all, "{point}: {mode}");
        }
    }
    let report = library.index(&["--rebuild"], 0);
    assert_eq!((&report["index"]["indexed"], &report["index"]["embedded"]), (&3.into(), &0.into()));
    assert_eq!(found(&library, "hybrid"), all);
    // Of an empty directory nothing is left.
    for n in 0..3 {
        std::fs::remove_file(library.place.path(&format!("docs/{n}.md"))).expect("removed");
    }
    assert_eq!(library.index(&["--rebuild"], 0)["index"]["size"]["chunks"], 0);
    library.place.check();
}

#[test]
fn while_another_model_takes_over_everything_is_found_by_words() {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::builtin();
    library.write("a.md", "The walrus sleeps.");
    library.index(&[], 0);
    let url = provider.base_url();
    provider.server.hold();
    let other =
        ["index", "docs", "--rebuild", "--embedder", "openai", "--model", "m", "--base-url", url.as_str()];
    let working = library.place.start(&other);
    provider.server.until_called(1);
    for mode in ["hybrid", "words"] {
        assert_eq!(found(&library, mode), names(["a.md"]), "{mode}");
    }
    provider.server.release();
    working.finish().expect(0);
    assert_eq!(found(&library, "meaning"), names(["a.md"]));
}

#[test]
fn what_nobody_got_to_is_not_waiting_for_a_retry() {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::builtin();
    library.write("a.md", "The walrus sleeps.");
    let url = provider.base_url();
    provider.server.hold();
    let args = ["index", "docs", "--embedder", "openai", "--model", "m", "--base-url", url.as_str()];
    let working = library.place.start(&args);
    provider.server.until_called(1);
    working.signal("INT");
    working.until_said("stopping");
    provider.server.release();
    let told = working.finish().expect(130).stdout;
    assert!(told.contains("1 not done yet") && !told.contains("retry"), "{told}");
    library.place.run(&args).expect(0);
    assert_eq!(provider.sent_again(), Names::new());
}
