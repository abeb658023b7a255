//! `redrive mail`: archives become threads with summaries, whatever happens on the way.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use redrive_mail::corpus::{Corpus, Options, gzip, make};
use serde_json::Value;

use crate::support::index::{dice, tell};
use crate::support::{Place, Rehearsal, array, column, count, names, text, wait};

/// Longer than a test: who waited for the lease of a killed process would hang.
pub(crate) const LEASE: [&str; 2] = ["--lease", "1h"];

pub(crate) fn message(id: &str, answers: &[&str], subject: &str, hour: u32, body: &str) -> String {
    let references: Vec<String> = answers.iter().map(|id| format!("<{id}>")).collect();
    format!(
        "From a@x Tue Nov 17 {hour:02}:00:00 2026\nMessage-ID: <{id}>\nReferences: {}\nFrom: Ann <ann@example.org>\nSubject: {subject}\n\
         Date: Tue, 17 Nov 2026 {hour:02}:00:00 +0000\nList-Id: <dev.example.org>\n\n{body}\n\n",
        references.join(" ")
    )
}

/// Two threads of two messages, and one of one.
pub(crate) fn archive() -> String {
    [
        message(
            "a1",
            &[],
            "The walrus leaks",
            1,
            "The walrus leaks memory in the archive reader. We need to find out why.",
        ),
        message(
            "a2",
            &["a1"],
            "Re: The walrus leaks",
            2,
            "> The walrus leaks memory\nThe cause is the cache of the walrus. We will bound it.",
        ),
        message(
            "b1",
            &[],
            "Pelican release",
            3,
            "The pelican release is planned for Friday. Who writes the notes of the pelican?",
        ),
        message(
            "b2",
            &["b1"],
            "Re: Pelican release",
            4,
            "I will write the notes of the pelican release until Thursday.",
        ),
        message("c1", &[], "Lonely otter", 5, "The otter swims alone in the river at night."),
    ]
    .concat()
}

pub(crate) fn mail(place: &Place, more: &[&str], code: i32) -> Value {
    let args: Vec<&str> = ["mail"].iter().chain(more).copied().chain(["--json"]).collect();
    place.run(&args).expect(code).json()
}

pub(crate) fn threads(place: &Place) -> Value {
    place.json(&["threads", "--limit", "100000"])
}

/// The threads by the name of their first message.
pub(crate) fn by_first(place: &Place) -> BTreeMap<String, Value> {
    let list = threads(place);
    let view = |thread: &Value| place.json(&["thread", &text(&thread["id"])]);
    array(&list["threads"]).iter().map(view).map(|view| (text(&view["tree"][0]["key"]), view)).collect()
}

pub(crate) fn write(place: &Place, corpus: &Corpus) {
    for file in &corpus.files {
        let path = place.path("mail").join(&file.path);
        std::fs::create_dir_all(path.parent().expect("below")).expect("made");
        std::fs::write(path, &file.bytes).expect("written");
    }
}

#[test]
fn archives_become_messages_threads_and_summaries_and_a_second_run_does_nothing() {
    let place = Place::new();
    place.write("list.mbox", archive());
    let first = mail(&place, &["list.mbox"], 0);
    assert_eq!(
        (count(&first["mail"]["taken_in"]), count(&first["mail"]["threads"]["threads"])),
        (5, 3),
        "{first:#}"
    );
    assert_eq!(count(&first["counts"]["succeeded"]), 1, "the archive");
    let all = by_first(&place);
    let walrus = &all["a1"];
    assert_eq!((count(&walrus["messages"]), text(&walrus["summary"]["by"])), (2, "extractive".to_owned()));
    let summary = text(&walrus["summary"]["text"]);
    assert!(summary.contains("The cause is the cache of the walrus. [2]"), "{summary}");
    assert_eq!(walrus["summary"]["cites"], serde_json::json!([1, 2]));
    assert_eq!(array(&walrus["tree"])[1]["text"], "The cause is the cache of the walrus. We will bound it.");
    let attempts = |report: &Value| count(&report["attempts"]["total"]);
    let second = mail(&place, &["list.mbox"], 0);
    assert_eq!((attempts(&second), &second["mail"]["summaries"]), (0, &Value::Null), "{second:#}");
    assert_eq!(count(&second["mail"]["found"]["unchanged"]), 1);
    place.check();
}

#[test]
fn a_thread_that_grows_is_summarised_again_and_no_other_is() {
    let place = Place::new();
    place.write("list.mbox", archive());
    mail(&place, &["list.mbox"], 0);
    let before = by_first(&place);
    let more = message(
        "b3",
        &["b1", "b2"],
        "Re: Pelican release",
        9,
        "The pelican release is moved to Monday because of the notes.",
    );
    place.write("list.mbox", archive() + &more);
    let grown = mail(&place, &["list.mbox"], 0);
    assert_eq!(
        (count(&grown["mail"]["taken_in"]), count(&grown["mail"]["listed"]["known"])),
        (1, 5),
        "{grown:#}"
    );
    assert_eq!(count(&grown["mail"]["summaries"]["counts"]["admitted"]), 1, "only the thread that grew");
    let after = by_first(&place);
    assert_eq!((&after["a1"], &after["c1"]), (&before["a1"], &before["c1"]));
    assert!(text(&after["b1"]["summary"]["text"]).contains("moved to Monday"), "{:#}", after["b1"]);
    // An older message that they all answer joins threads: what was a thread of its own is no more.
    let root = message("c0", &[], "Otters", 0, "Where do otters swim at night in winter?");
    let joined =
        message("c2", &["c0", "c1"], "Re: Lonely otter", 11, "They are one thread with the otter now.");
    place.write("old.mbox", root + &joined);
    mail(&place, &["old.mbox"], 0);
    let list = threads(&place);
    assert_eq!(count(&list["total"]), 3, "{list:#}");
    place.check();
}

#[test]
fn copies_are_one_message_whichever_archive_comes_first() {
    let footer =
        archive().replace("in the archive reader.", "in the archive reader. This list has a footer.");
    let mut told = Vec::new();
    for order in [["one.mbox", "two.mbox.gz"], ["two.mbox.gz", "one.mbox"]] {
        let place = Place::new();
        place.write("one.mbox", archive() + &archive());
        place.write("two.mbox.gz", gzip(footer.as_bytes()));
        for name in order {
            mail(&place, &[name], 0);
        }
        let both = mail(&place, &["one.mbox", "two.mbox.gz"], 0);
        assert_eq!(count(&both["mail"]["threads"]["messages"]), 5, "{both:#}");
        let all = by_first(&place);
        assert!(text(&all["a1"]["tree"][0]["text"]).contains("has a footer"), "the longer copy stays");
        told.push(all.into_iter().map(|(key, view)| (key, view["summary"].clone())).collect::<Vec<_>>());
    }
    assert_eq!(told[0], told[1]);
}

#[test]
fn a_message_that_is_none_is_dead_with_its_reason_and_its_archive_complete_with_failures() {
    let place = Place::new();
    let poison = "From x@x Tue Nov 17 10:00:00 2026\n\nno header, only text\n\n";
    place.write("list.mbox", format!("{}{poison}", archive()));
    let report = mail(&place, &["list.mbox"], 3);
    assert_eq!(
        (count(&report["mail"]["taken_in"]), count(&report["mail"]["failed_messages"])),
        (5, 1),
        "{report:#}"
    );
    let dead = place.dead();
    assert_eq!(
        (dead.len(), text(&dead[0]["stage"]), text(&dead[0]["reason"])),
        (1, "message".into(), "final".into())
    );
    assert!(text(&dead[0]["message"]).contains("no headers"), "{dead:#?}");
    let archive_path = text(&report["mail"]["archives"][0]);
    let life = place.json(&["explain", &archive_path]);
    assert_eq!(
        (&life["item"]["state"], count(&life["parts"]["dead"])),
        (&Value::from("succeeded"), 1),
        "{life:#}"
    );
    assert_eq!(report["mail"]["complete_with_failures"], serde_json::json!([archive_path]));
    // It is not tried again when its archive grows.
    place.write(
        "list.mbox",
        format!("{}{poison}{}", archive(), message("d1", &[], "New", 12, "A new message of the day.")),
    );
    let grown = mail(&place, &["list.mbox"], 0);
    assert_eq!(count(&grown["mail"]["listed"]["refused_before"]), 1, "{grown:#}");
    assert_eq!(place.dead().len(), 1);
    // A packed archive that breaks off brings what can be read of it.
    let many: Vec<String> = dice(9)
        .take(200)
        .map(|luck| message(&format!("z{luck}"), &[], "Many", 13, &format!("Number {luck} of many.")))
        .collect();
    let packed = gzip(many.concat().as_bytes());
    place.write("cut.mbox.gz", &packed[..packed.len() * 2 / 3]);
    let cut = mail(&place, &["cut.mbox.gz"], 3);
    assert!(text(&cut["mail"]["failed"][0][1]).contains("breaks off"), "{cut:#}");
    assert!(count(&cut["mail"]["taken_in"]) > 50, "{cut:#}");
    place.check();
}

#[test]
fn messages_are_found_by_words_sender_list_and_date() {
    let place = Place::new();
    let other = message("x1", &[], "Otter two", 6, "Another otter was seen.")
        .replace("Ann <ann@example.org>", "Bob <BOB@example.net>")
        .replace("dev.example.org", "zoo.example.org")
        .replace("17 Nov 2026", "17 Nov 2025");
    let attached = "From a@x Tue Nov 17 10:00:00 2026\nMessage-ID: <att>\nFrom: Eve <eve@example.ie>\nSubject: table\nMIME-Version: 1.0\n\
        Content-Type: multipart/mixed; boundary=b\n\n--b\n\nSee the table.\n--b\nContent-Type: text/csv; name=t.csv\n\
        Content-Disposition: attachment; filename=t.csv\n\nplatypus,7\n--b--\n\n";
    place.write("list.mbox", archive() + &other + attached);
    mail(&place, &["list.mbox"], 0);
    let found = |more: &[&str]| {
        let args: Vec<&str> =
            ["search", "otter"].iter().chain(more).copied().chain(["--mode", "words"]).collect();
        column(&place.json(&args)["hits"], "path")
    };
    assert_eq!(found(&[]), names(["message/c1", "message/x1"]));
    assert_eq!(found(&["--from", "bob@"]), names(["message/x1"]));
    assert_eq!(found(&["--from", "ANN"]), names(["message/c1"]));
    assert_eq!(found(&["--list", "zoo"]), names(["message/x1"]));
    assert_eq!(found(&["--since", "2026-01-01"]), names(["message/c1"]));
    assert_eq!(found(&["--until", "2026-01-01"]), names(["message/x1"]));
    let table = place.json(&["search", "platypus", "--mode", "words", "--from", "eve"]);
    assert_eq!(column(&table["hits"], "path"), names(["message/att"]));
    let view = place.json(&["thread", "<att>"]);
    assert_eq!(view["tree"][0]["attachments"][0]["name"], "t.csv");
    let recent = place.json(&["threads", "--since", "2026-01-01", "--list", "dev"]);
    assert_eq!(count(&recent["total"]), 3);
    place.run(&["thread", "nothing"]).expect(2);
}

#[test]
fn a_model_is_asked_once_for_each_thread_and_again_only_for_one_that_grew() {
    let rehearsal = Rehearsal::start("dimensions = 8\n");
    let place = Place::new();
    place.write("list.mbox", archive());
    let url = format!("http://{}/v1", rehearsal.address());
    let with = ["list.mbox", "--chat", &url, "--chat-model", "m"];
    let first = mail(&place, &with, 0);
    assert_eq!(count(&first["mail"]["summaries"]["counts"]["succeeded"]), 3, "{first:#}");
    assert_eq!(rehearsal.count("calls"), 3);
    assert!(array(&threads(&place)["threads"]).iter().all(|thread| thread["summary"]["by"] == "m"));
    mail(&place, &with, 0);
    assert_eq!(rehearsal.count("calls"), 3, "nothing is asked twice");
    place.write("list.mbox", archive() + &message("c2", &["c1"], "Re: Lonely otter", 9, "I saw it, too."));
    mail(&place, &with, 0);
    assert_eq!(rehearsal.count("calls"), 4);
}

#[test]
fn archives_and_messages_whose_names_are_not_utf_8_are_taken_in() {
    let place = Place::new();
    let named = |name: &[u8]| place.path("mail").join(OsStr::from_bytes(name));
    std::fs::create_dir_all(named(b"m\xe4d/new")).expect("made");
    let letter = |id: &str| message(id, &[], "Letter", 3, "A letter with an odd name.");
    let bare = |id: &str| letter(id).split_once('\n').expect("a first line").1.to_owned();
    for (name, content) in [
        (&b"m\xe4d/new/bad\xff"[..], bare("m1")),
        (b"m\xe4d/new/good", bare("m2")),
        (b"e\xff.eml", bare("e1")),
        (b"l\xe9tter.mbox", letter("x1") + &letter("x2")),
    ] {
        std::fs::write(named(name), content).expect("written");
    }
    let report = mail(&place, &["mail"], 0);
    assert_eq!((count(&report["mail"]["found"]["archives"]), count(&report["mail"]["taken_in"])), (3, 5));
    let view = place.json(&["thread", "x1"]);
    assert!(text(&view["tree"][0]["archive"]).ends_with("mail/l\\xe9tter.mbox"), "{view:#}");
    // They are known again, and what comes anew is taken in.
    std::fs::write(named(b"m\xe4d/new/worse\xfe"), bare("m3")).expect("written");
    let report = mail(&place, &["mail"], 0);
    assert_eq!((count(&report["mail"]["found"]["unchanged"]), count(&report["mail"]["taken_in"])), (2, 1));
    place.check();
}

#[test]
fn what_lies_too_deep_to_be_looked_for_is_told() {
    let place = Place::new();
    let deep = place.path("mail/1/2/3/4/5/6/7/8/9");
    std::fs::create_dir_all(&deep).expect("made");
    place.write("mail/list.mbox", archive());
    let report = mail(&place, &["mail"], 0);
    let told = array(&report["mail"]["found"]["unreadable"]);
    assert_eq!(told.len(), 1, "{report:#}");
    assert_eq!(told[0][0], deep.canonicalize().expect("there").display().to_string());
}

#[test]
fn threads_whose_model_is_away_are_told_with_their_run() {
    let place = Place::new();
    place.write("list.mbox", archive());
    let url = "http://127.0.0.1:9/v1";
    let with = ["mail", "list.mbox", "--chat", url, "--chat-model", "m", "--max-wait", "1s"];
    let said = place.run(&with).expect(3);
    let told = format!("{}{}", said.stdout, said.stderr);
    for words in
        ["0 summarised, 3 waiting", "run r2 of the threads: partially_completed", "`redrive failures r2`"]
    {
        assert!(told.contains(words), "{words}\n{told}");
    }
}

#[test]
fn a_growing_archive_is_followed() {
    let place = Place::new();
    place.write("list.mbox", archive());
    let mut watching = place.start(&["mail", "list.mbox", "--watch"]);
    watching.until_said("watching");
    place.write(
        "list.mbox",
        archive() + &message("a3", &["a2"], "Re: The walrus leaks", 10, "The walrus is bounded now."),
    );
    place.until_json(&["thread", "a3"], |view| count(&view["messages"]) == 3);
    wait::until("it ends", || {
        if !watching.has_ended() {
            watching.signal("TERM");
            wait::work(Duration::from_millis(200));
        }
        watching.has_ended()
    });
    watching.finish().expect(130);
}

#[test]
fn kills_leave_the_threads_and_summaries_of_an_undisturbed_run() {
    let corpus = make(Options { seed: 3, messages: 400, big: 1, big_bytes: 1 << 20 });
    let calm = Place::new();
    write(&calm, &corpus);
    let begun = wait::now();
    let whole = mail(&calm, &["mail"], if corpus.poison > 0 { 3 } else { 0 });
    let span = begun.elapsed();
    let messages = corpus.ids.len() + corpus.nameless;
    assert_eq!(count(&whole["mail"]["threads"]["messages"]), messages as u64, "{whole:#}");
    assert_eq!(count(&whole["mail"]["failed_messages"]), corpus.poison as u64);

    let place = Place::new();
    write(&place, &corpus);
    let mut kills = 0;
    for luck in dice(5).take(8) {
        let mut started = place.start(&["mail", "mail", LEASE[0], LEASE[1]]);
        let most = span.mul_f64(0.15 + luck * 0.5);
        let begun = wait::now();
        wait::until("its time has come", || begun.elapsed() >= most || started.has_ended());
        kills += u32::from(started.kill().killed_by() == Some(9));
    }
    let last = place.run(&["mail", "mail", LEASE[0], LEASE[1], "--json"]);
    assert!(matches!(last.code(), Some(0 | 3)), "{last:?}");
    tell(&format!("{kills} of 8 kills hit, undisturbed {span:?}"));
    assert!(kills >= 3, "{kills} kills prove little");
    assert_eq!(threads(&place), threads(&calm));
    assert_eq!(place.dead_keys(), calm.dead_keys());
    assert_eq!(mail(&place, &["mail"], 0)["mail"]["summaries"], Value::Null, "nothing is left to do");
    place.check();
}
