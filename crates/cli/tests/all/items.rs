//! Lists of items: `redrive items`, `redrive stuck`, and notes about groups.

use serde_json::{Value, json};

use crate::support::server::{Answer, Item, Server, failed, passed};
use crate::support::shifted::Shifted;
use crate::support::{Place, array, column, count, key, keys, names, one_stage, quick_retry, samples, text};

const ITEMS: usize = 9;

/// A third is filtered, a third is dead, a third succeeds.
fn mixed() -> (Server, Place) {
    let server = Server::start(|call| {
        let one = |item: &Item| match item.payload["n"].as_u64().unwrap_or(0) % 3 {
            0 => json!({ "id": item.id, "filtered": "dull, \"very\"" }),
            1 => failed(item, "final", "=no(1)"),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    place.run(&["run", "p.toml"]).expect(3);
    (server, place)
}

#[test]
fn items_are_listed_in_any_state_with_why() {
    let (_server, place) = mixed();
    let all = place.json(&["items"]);
    assert_eq!(column(&all["items"], "key"), keys(ITEMS));
    let filtered = place.json(&["items", "--state", "filtered"]);
    assert_eq!(column(&filtered["items"], "key"), names([key(0), key(3), key(6)]));
    assert_eq!(filtered["items"][0]["reason"], "dull, \"very\"");
    let dead =
        place.json(&["items", "--state", "dead", "--run", "r1", "--stage", "work", "--class", "final"]);
    assert_eq!(column(&dead["items"], "key"), names([key(1), key(4), key(7)]));
    assert_eq!((&dead["items"][0]["reason"], &dead["items"][0]["attempts"]), (&json!("final"), &json!(1)));
    place.run(&["items", "--state", "sad"]).expect(2);
    place.run(&["items", "--run", "r9"]).expect(2);
    let shown = place.run(&["items", "--state", "filtered"]).expect(0).stdout;
    assert!(shown.contains("k0003") && !shown.contains("k0001"), "{shown}");
}

#[test]
fn what_was_filtered_says_why_where_others_have_a_message() {
    let (_server, place) = mixed();
    let shown = place.run(&["items", "--state", "filtered"]).expect(0).stdout;
    assert_eq!(shown.matches("dull, \"very\"").count(), 3, "{shown}");
    let csv = place.run(&["items", "--state", "filtered", "--csv", "-n", "1"]).expect(0).stdout;
    assert!(csv.trim_end().ends_with("filtered,1,\"dull, \"\"very\"\"\""), "{csv}");
}

#[test]
fn what_waits_is_listed_with_the_time_of_its_next_try() {
    let server = Server::start(|call| {
        let one = |item: &Item| match item.payload["n"].as_u64().unwrap_or(0) {
            0 => failed(item, "retryable", "not now"),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(one).collect::<Vec<_>>())
    });
    let backoff = "retry.backoff = { kind = \"fixed\", delay = \"90m\" }\nretry.jitter = 0";
    let place = Place::with(&one_stage(&format!("{}\n{backoff}", server.stage())), &samples(2));
    place.run(&["run", "p.toml", "--max-wait", "0s"]).expect(3);
    for args in [&["items"][..], &["items", "--state", "waiting"]] {
        let shown = place.run_with(args, &[("COLUMNS", "80")]).expect(0).stdout;
        assert!(shown.contains(" DUE ") && shown.contains(" in 90 min "), "{shown}");
    }
    let done = place.run(&["items", "--state", "succeeded"]).expect(0).stdout;
    assert!(!done.contains("DUE"), "{done}");
    let heading = |args: &[&str]| place.run(args).expect(0).stdout.lines().next().map(str::to_owned);
    let usual = Some("id,run,key,stage,state,attempts,message".to_owned());
    assert_eq!(heading(&["items", "--csv"]), usual, "columns do not depend on what is found");
    let waiting = Some("id,run,key,stage,state,due,attempts,message".to_owned());
    assert_eq!(heading(&["items", "--csv", "--state", "waiting"]), waiting);
}

#[test]
fn pages_of_items_have_every_item_once() {
    let (_server, place) = mixed();
    let (mut found, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let mut args = vec!["items", "-n", "4"];
        args.extend(after.iter().flat_map(|after| ["--after", after.as_str()]));
        let page = place.json(&args);
        found.extend(array(&page["items"]).iter().map(|item| text(&item["key"])));
        after = page["next"].as_str().map(ToOwned::to_owned);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, keys(ITEMS).into_iter().collect::<Vec<_>>());
    place.run(&["items", "--after", "nonsense"]).expect(2);
}

#[test]
fn columns_and_separated_values_are_as_asked() {
    let (_server, place) = mixed();
    let csv =
        place.run(&["items", "--csv", "--columns", "key,state,reason,message", "-n", "2"]).expect(0).stdout;
    assert_eq!(
        csv,
        "key,state,reason,message\nk0000,filtered,\"dull, \"\"very\"\"\",\nk0001,dead,final,'=no(1)\n"
    );
    let wrong = place.run(&["items", "--columns", "key,colour"]).expect(2).stderr;
    assert!(wrong.contains("colour") && wrong.contains("updated_at"), "{wrong}");
}

#[test]
fn what_stands_still_is_listed_with_why_and_a_way_out() {
    let server = Server::good();
    server.hold();
    let stage = format!("{}\nconcurrency = 1\n{}", server.stage(), quick_retry(3));
    let place = Place::with(&one_stage(&stage), &samples(3));
    assert_eq!(place.run(&["stuck"]).code(), Some(2), "there is no store yet");
    let started = place.start(&["run", "p.toml", "--lease", "60s"]);
    server.until_open(1);
    place.until_json(&["show"], |run| run["admitted_all"] == true);
    assert_eq!(place.json(&["stuck"])["items"], json!([]), "ten minutes are not over");
    let found = place.json(&["stuck", "--older-than", "0s"]);
    let whats: Vec<(Value, Value)> =
        array(&found["items"]).iter().map(|item| (item["what"].clone(), item["key"].clone())).collect();
    assert!(whats.contains(&(json!("slow"), json!("k0000"))), "{found}");
    started.kill();
    place.run(&["pause", "r1"]).expect(0);
    let found = place.json(&["stuck", "r1", "--older-than", "0s"]);
    let starved: Vec<&Value> =
        array(&found["items"]).iter().filter(|item| item["what"] == "starved").collect();
    assert_eq!(starved.len(), 2, "{found}");
    assert!(starved.iter().all(|item| item["way_out"] == "redrive resume r1"), "{found}");
    let said = place.run(&["stuck", "--older-than", "0s"]).expect(0);
    assert!(said.stdout.contains("starved") && said.stderr.contains("redrive resume r1"), "{said:?}");
}

#[test]
fn a_group_is_a_ticket_that_opens_again_when_it_grows() {
    let (_server, place) = mixed();
    let group = text(&place.json(&["dead", "groups"])["groups"][0]["group"]);
    let open = |place: &Place| array(&place.json(&["dead", "groups", "--open"])["groups"]).len();
    assert_eq!(open(&place), 1);
    let noted = place.json(&["dead", "note", &group, "ticket 7", "--ack"]);
    assert_eq!((&noted["note"], noted["acknowledged_at"].is_string()), (&json!("ticket 7"), true));
    assert_eq!(open(&place), 0);
    let known = &place.json(&["dead", "groups"])["groups"][0];
    assert_eq!(
        (&known["note"], &known["open"], count(&known["items"])),
        (&json!("ticket 7"), &json!(false), 3)
    );
    assert!(place.run(&["dead", "groups"]).expect(0).stdout.contains("ticket 7"));
    place.json(&["dead", "note", &group, "--unack"]);
    assert_eq!(open(&place), 1, "its words stay");
    place.json(&["dead", "note", &group, "--ack"]);
    place.run(&["dead", "redrive", "--all", "--work"]).expect(3);
    assert_eq!(open(&place), 1, "they died again since");
    place.run(&["dead", "note", "nothing-like-it", "x"]).expect(2);
}

#[test]
fn what_a_killed_worker_had_is_told_at_once_and_its_absence_is_no_time_that_the_run_took() {
    let server = Server::good();
    server.hold();
    let mut place = Place::with(&one_stage(&format!("{}\nconcurrency = 1", server.stage())), &samples(3));
    let clock = Shifted::in_place(&mut place);
    let started = place.start(&["run", "p.toml", "--lease", "600s"]);
    server.until_open(1);
    place.until_json(&["show"], |run| run["admitted_all"] == true);
    started.kill();
    let told = place.run(&["explain", "k0000"]).expect(0).stdout;
    assert!(told.contains("which vanished with it: nobody works on run r1"), "{told}");
    let told = place.run(&["explain", "k0001"]).expect(0).stdout;
    assert!(told.contains("nobody works on run r1: `redrive resume r1` goes on"), "{told}");
    let found = place.json(&["stuck", "--older-than", "0s"]);
    for item in array(&found["items"]) {
        let what = if item["key"] == "k0000" { "stuck" } else { "starved" };
        assert_eq!((&item["what"], &item["way_out"]), (&json!(what), &json!("redrive resume r1")), "{item}");
    }
    clock.put(3_600_000);
    server.release();
    place.run(&["run", "p.toml"]).expect(0);
    let took = place.json(&["show"])["elapsed_ms"].as_i64().expect("a number");
    assert!(took < 1_800_000, "an hour long nobody was there: {took} ms");
    place.check();
}

#[test]
fn as_many_are_listed_as_are_asked_for() {
    let server = Server::start(|call| {
        let of = |item: &Item| match count(&item.payload["n"]) {
            n if n < 700 => failed(item, "final", "no"),
            _ => passed(item),
        };
        Answer::results(&call.items.iter().map(of).collect::<Vec<_>>())
    });
    let place = Place::with(&one_stage(&format!("{}\nbatch = 500", server.stage())), &samples(10_100));
    place.run(&["run", "p.toml"]).expect(3);
    let all = place.json(&["items", "-n", "20000", "-q"]);
    assert_eq!((array(&all["items"]).len(), &all["next"]), (10_100, &Value::Null));
    let some = place.json(&["items", "-n", "10050"]);
    assert_eq!((array(&some["items"]).len(), some["next"].is_string()), (10_050, true));
    for sort in ["newest", "oldest", "key", "stage"] {
        let dead = |n: &str| place.json(&["dead", "list", "-q", "--sort", sort, "-n", n]);
        let (all, most) = (dead("1000"), dead("650"));
        assert_eq!((array(&all["items"]).len(), &all["next"]), (700, &Value::Null), "{sort}");
        assert_eq!(array(&most["items"])[..], array(&all["items"])[..650], "{sort}");
        let rest = place.json(&["dead", "list", "--sort", sort, "--after", &text(&most["next"])]);
        assert_eq!(array(&rest["items"])[..], array(&all["items"])[650..], "{sort}");
    }
}

#[test]
fn text_from_outside_drives_no_terminal_wherever_it_is_shown() {
    let server = Server::start(|_| Answer::status(422, "no"));
    let wild = r"k\u001b]0;x\u0007\u0000\u009b\u202e\u2066\u200f\u200b\ufeff\u2028\udb40\udc41z";
    let place = Place::with(&one_stage(&server.stage()), &format!("{{\"id\":\"{wild}\",\"n\":1}}\n"));
    place.run(&["run", "p.toml"]).expect(4);
    let item = place.dead().remove(0);
    let (id, group) = (text(&item["id"]), text(&item["group"]));
    let note: String = text(&item["key"]).replace('\0', "");
    for args in [
        &["items"][..],
        &["items", "--csv"],
        &["dead", "list"],
        &["dead", "list", "--csv"],
        &["dead", "note", &group, &note],
        &["dead", "groups"],
        &["failures"],
        &["explain", &id],
    ] {
        let shown = place.run(args).expect(0).stdout;
        let wild = |c: char| {
            c.is_control() && c != '\n'
                || "\u{202e}\u{2066}\u{200f}\u{200b}\u{feff}\u{2028}\u{e0041}".contains(c)
        };
        assert!(!shown.contains(wild), "{args:?}: {shown:?}");
        assert!(shown.contains('\u{fffd}'), "{args:?} shows that something was there: {shown:?}");
    }
}
