//! What is told of failures: over all runs of a project, in any order, with what looks permanent, and why parts fail.

use crate::support::server::{failed, passed};
use crate::support::{
    Answer, Call, Place, Server, array, count, key, keys, one_stage, quick_retry, samples, text, wait,
};
use serde_json::{Value, json};

/// Fails four times at once, and is then due in an hour.
const SLOW: &str = "retry = { preset = \"self-healing\", flag_after = 3, backoff = { kind = \"schedule\", delays = [\"10ms\", \"10ms\", \"10ms\", \"1h\"] } }\n";

/// Every page of a list, put together, each of at most two.
fn in_pages(place: &Place, args: &[&str]) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut args: Vec<&str> = args.iter().copied().chain(["-n", "2"]).collect();
        args.extend(after.iter().flat_map(|after| ["--after", after]));
        let page = place.json(&args);
        let rows = array(&page["items"]);
        assert!(rows.len() <= 2);
        all.extend(rows.iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => return all,
        }
    }
}

/// Of five items the first is refused, the second fails on and on, the third passes at its third try, the others at once.
fn mixed(call: &Call) -> Answer {
    let item = call.item();
    match (item.payload["n"].as_u64(), item.before) {
        (Some(0), _) => Answer::status(422, "not like this"),
        (Some(1), _) | (Some(2), 0 | 1) => Answer::status(500, "not now"),
        _ => Answer::all(call),
    }
}

fn mixed_run() -> (Server, Place) {
    let server = Server::start(mixed);
    let stage = format!("{}\ngate = \"plain\"\n{SLOW}", server.stage());
    let place = Place::with(&format!("{}[gate.plain]\nbreaker = false\n", one_stage(&stage)), &samples(5));
    place.run(&["run", "p.toml", "--max-wait", "5s"]).expect(3);
    (server, place)
}

#[test]
fn failures_of_a_project_are_told_over_all_its_runs() {
    let (server, place) = mixed_run();
    place.run(&["run", "p.toml", "--new", "--max-wait", "5s"]).expect(3);
    let other = one_stage(&server.stage()).replace("\"test\"", "\"other\"").replace("in.jsonl", "more.jsonl");
    place.write("other.toml", other);
    place.write("more.jsonl", samples(1));
    place.run(&["run", "other.toml"]).expect(4);

    let newest = place.json(&["failures"]);
    assert_eq!(
        (&newest["run"], &newest["pipeline"], &newest["total"]),
        (&json!("r3"), &json!("other"), &json!(1))
    );
    let project = place.json(&["failures", "--pipeline", "test"]);
    assert_eq!(
        (&project["run"], &project["pipeline"], &project["runs"]),
        (&json!(null), &json!("test"), &json!(2))
    );
    let totals = json!({ "failed": 4, "waiting": 2, "running": 0, "dead": 2, "permanent": 2, "own": 4 });
    assert_eq!((&project["total"], &project["totals"]), (&json!(4), &totals));
    assert_eq!(project["failed"], json!([key(0), key(1)]));
    assert_eq!(project["projects"][0]["stages"][0]["stage"], "work");
    // A source is named by its path or the end of it.
    for source in ["in.jsonl", "./in.jsonl", &place.path("in.jsonl").display().to_string()] {
        assert_eq!(place.json(&["failures", "--source", source])["totals"], totals, "{source}");
    }
    let all = place.json(&["failures", "--all"]);
    assert_eq!((&all["pipeline"], count(&all["total"])), (&json!(null), 5));
    let names: Vec<String> = array(&all["projects"]).iter().map(|one| text(&one["pipeline"])).collect();
    assert_eq!(names, ["test", "other"], "those with the most failures first");
    assert_eq!((&all["projects"][0]["failed"], &all["projects"][0]["runs"]), (&json!(4), &json!(2)));
    let told = place.run(&["failures", "--all"]).expect(0).stdout;
    for part in
        ["3 runs: 5 items failed", "2 tried again later, 3 dead, 2 look permanent", "PIPELINE", "k0001 in r2"]
    {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    assert!(told.lines().all(|line| line.chars().count() <= 80 || line.contains(".jsonl")), "{told}");
    assert_eq!(count(&place.json(&["failures", "--all", "--stage", "work"])["total"]), 5);
    for wrong in [
        ["failures", "--pipeline", "nope"],
        ["failures", "--source", "nope"],
        ["failures", "--stage", "nope"],
    ] {
        let refused = place.run(&wrong).expect(2).stderr;
        assert!(refused.contains("nope") && refused.contains("hint"), "{refused}");
    }
    place.run(&["failures", "r1", "--all"]).expect(2);
}

#[test]
fn those_that_look_permanent_are_listed_and_counted() {
    let (_server, place) = mixed_run();
    let found = place.json(&["failures", "--permanent"]);
    assert_eq!((count(&found["total"]), count(&found["totals"]["permanent"])), (1, 1));
    let one = &found["items"][0];
    assert_eq!((&one["item"]["key"], &one["item"]["looks_permanent"]), (&json!(key(1)), &json!(true)));
    // Four tries: three of them are retries, and each has its error.
    assert_eq!((count(&one["retries"]), array(&one["errors"]).len()), (3, 4));
    assert!(one["next_at"].is_string());
    assert_eq!(place.json(&["stats"])["stages"][0]["looks_permanent"], 1);
    let told = place.run(&["failures"]).expect(0);
    assert!(
        told.stdout.contains("2 items failed") && told.stdout.contains("1 looks permanent"),
        "{}",
        told.stdout
    );
    assert!(told.stderr.contains("--permanent"), "{}", told.stderr);
    let told = place.run(&["stats"]).expect(0).stdout;
    assert!(told.contains("`redrive failures r1 --permanent`"), "{told}");
}

#[test]
fn failures_are_in_every_order_sorted_over_the_whole() {
    let server = Server::start(|call| {
        let item = call.item();
        match item.payload["n"].as_u64() {
            // Later items fail more often before they are refused.
            Some(n @ 0..=6) if item.before as u64 >= n => Answer::status(422, "not like this"),
            _ => Answer::status(500, "not now"),
        }
    });
    let stage = format!("{}\ngate = \"plain\"\nconcurrency = 1\n{}", server.stage(), quick_retry(9));
    let place = Place::with(&format!("{}[gate.plain]\nbreaker = false\n", one_stage(&stage)), &samples(7));
    place.run(&["run", "p.toml"]).expect(4);
    let sorted = |sort: &str| in_pages(&place, &["failures", "r1", "--sort", sort]);
    let all = sorted("key");
    assert_eq!(
        all.iter().map(|row| text(&row["of"])).collect::<Vec<_>>(),
        (0..7).map(key).collect::<Vec<_>>()
    );
    let retries: Vec<u64> = sorted("retries").iter().map(|row| count(&row["retries"])).collect();
    assert_eq!(retries, [6, 5, 4, 3, 2, 1, 0]);
    let last: Vec<String> = sorted("last").iter().map(|row| text(&row["item"]["updated_at"])).collect();
    assert!(last.len() == 7 && last.is_sorted_by(|a, b| a >= b), "{last:?}");
    assert_eq!(sorted("next").len(), 7, "the dead are tried no more, and told");
    let refused = place.run(&["failures", "--sort", "last", "--after", &key(3)]).expect(2).stderr;
    assert!(refused.contains("cursor"), "{refused}");
}

#[test]
fn the_next_to_be_tried_comes_first_and_the_dead_last() {
    let (_server, place) = mixed_run();
    let order: Vec<String> = in_pages(&place, &["failures", "--sort", "next"])
        .iter()
        .map(|row| text(&row["item"]["key"]))
        .collect();
    assert_eq!(order, [key(1), key(0)]);
}

#[test]
fn a_document_tells_why_its_parts_fail() {
    let server = Server::start(|call| {
        let item = call.item();
        Answer::results(&[match call.stage.as_str() {
            "pages" => {
                let child = |n: u64| json!({ "key": format!("{}/p{n}", item.key), "payload": { "n": n } });
                json!({ "id": item.id, "children": (0..9).map(child).collect::<Vec<_>>() })
            }
            _ => match item.payload["n"].as_u64() {
                Some(0..=3) => failed(item, "final", &format!("page {} is unreadable", item.key)),
                Some(4 | 5) => failed(item, "retryable", "the model is away"),
                _ => passed(item),
            },
        }])
    });
    let pipeline = format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
         [[stage]]\nname = \"pages\"\n{0}\n[[stage.children]]\nname = \"page\"\n{0}\ngate = \"plain\"\n{SLOW}\
         [gate.plain]\nbreaker = false\n",
        server.stage()
    );
    let place = Place::with(&pipeline, &samples(1));
    place.run(&["run", "p.toml", "--max-wait", "5s"]).expect(3);
    let life = place.json(&["explain", &key(0)]);
    let parts = &life["parts"];
    assert_eq!((&parts["total"], &parts["done"], &parts["dead"]), (&json!(9), &json!(3), &json!(4)));
    let failing = array(&parts["failing"]);
    assert_eq!(failing.len(), 2, "{parts:#}");
    let (dead, waiting) = (&failing[0], &failing[1]);
    assert_eq!((&dead["items"], &dead["dead"], &dead["class"]), (&json!(4), &json!(4), &json!("final")));
    assert_eq!((&waiting["items"], &waiting["waiting"]), (&json!(2), &json!(2)));
    assert!(text(&waiting["message"]).contains("the model is away") && waiting["next_at"].is_string());
    assert!(text(&dead["example"]["key"]).starts_with("k0000/p") && dead["stage"] == "page", "{dead}");
    assert!(text(&life["now"]).contains("2 of 9 are not finished; 6 failed, 4 of them at page"), "{life:#}");
    // What is to be done can be done.
    let group = text(&dead["group"]);
    assert!(text(&dead["todo"]).contains(&format!("dead redrive --run r1 --group {group}")), "{dead}");
    assert_eq!(
        count(&place.json(&["dead", "redrive", "--run", "r1", "--group", &group, "--dry-run"])["items"]),
        4
    );
    let told = place.run(&["explain", &key(0)]).expect(0).stdout;
    for part in
        ["9 parts: 3 passed, 2 not finished, 4 dead", "4× at page (final)", "2× at page (retryable)", "TOOK"]
    {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    let below = &place.json(&["failures"])["projects"][0]["stages"][0];
    assert_eq!(
        (&below["stage"], &below["below"], &below["failed"]),
        (&json!("page"), &json!("pages"), &json!(6))
    );
    assert_eq!(place.json(&["explain", "k0000/p8"])["parts"], json!(null));
}

#[test]
fn a_traceback_stays_apart_and_attempts_have_a_duration() {
    let trace =
        "Traceback (most recent call last):\n  File \"w.py\", line 3, in work\n    unit[x]\nKeyError: 'x'";
    let server = Server::start(move |call| Answer::results(&[failed(call.item(), "final", trace)]));
    let place = Place::with(&one_stage(&server.stage()), &samples(1));
    place.run(&["run", "p.toml"]).expect(4);
    let life = place.json(&["explain", &key(0)]);
    assert!(life["attempts"][0]["duration_ms"].is_u64(), "{life:#}");
    assert_eq!(life["item"]["message"], trace, "the whole of it is kept");
    let now = text(&life["now"]);
    assert!(!now.contains('\n') && now.contains("KeyError: 'x'. `redrive dead redrive --item"), "{now}");
    for args in [&["dead", "list"][..], &["dead", "groups"], &["failures"]] {
        let told = place.run(args).expect(0).stdout;
        assert!(told.contains("KeyError: 'x'") && !told.contains("Traceback"), "{told}");
    }
    let told = place.run(&["explain", &key(0)]).expect(0).stdout;
    assert!(told.contains("\n    Traceback (most recent call last):\n      File \"w.py\", line 3"), "{told}");
}

#[test]
fn an_error_of_a_class_of_its_own_has_all_attempts_of_its_policy() {
    let server = Server::start(|call| Answer::results(&[failed(call.item(), "weird", "never seen")]));
    for (policy, attempts) in
        [("preset = \"interactive\"", 4), ("max_attempts = 6, backoff = { kind = \"none\" }", 6)]
    {
        let stage = format!("{}\nretry = {{ {policy} }}\ngate = \"plain\"\n", server.stage());
        let place =
            Place::with(&format!("{}[gate.plain]\nbreaker = false\n", one_stage(&stage)), &samples(1));
        place.run(&["run", "p.toml"]).expect(4);
        assert_eq!(count(&place.dead()[0]["attempts"]), attempts, "{policy}");
        assert_eq!(place.dead()[0]["reason"], "exhausted");
    }
    let stage = format!("{}\nretry = {{ preset = \"interactive\", unknown_limit = 2 }}\n", server.stage());
    let place = Place::with(&one_stage(&stage), &samples(1));
    place.run(&["run", "p.toml"]).expect(4);
    assert_eq!(count(&place.dead()[0]["attempts"]), 2, "who asks for fewer gets fewer");
}

#[test]
fn one_attempt_is_no_backoff_that_is_never_used() {
    let place =
        Place::with(&one_stage(&format!("{}\nretry = {{ max_attempts = 1 }}\n", Server::good().stage())), "");
    let ran = place.run(&["run", "p.toml", "--input", "-"]);
    assert!(!ran.stderr.contains("never used"), "{}", ran.stderr);
}

#[test]
fn dead_letters_are_listed_newest_first_and_in_any_order_asked_for() {
    let server = Server::start(|call| {
        let known = if call.stage == "late" { 422 } else { 200 };
        match (known, call.item().payload["n"].as_u64(), call.item().payload["twice"].as_u64()) {
            (200, Some(n), _) if n % 2 == 0 => Answer::status(422, "no, \"never\""),
            (422, _, _) => Answer::status(422, "=too late"),
            _ => Answer::all(call),
        }
    });
    let stage = |name: &str| format!("[[stage]]\nname = \"{name}\"\n{}\nconcurrency = 1\n", server.stage());
    let pipeline = format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n{}{}",
        stage("work"),
        stage("late")
    );
    let place = Place::with(&pipeline, &samples(7));
    place.run(&["run", "p.toml"]).expect(4);
    let listed = |sort: &[&str]| {
        let args: Vec<&str> = ["dead", "list"].into_iter().chain(sort.iter().copied()).collect();
        in_pages(&place, &args)
    };
    let column = |rows: &[Value], name: &str| rows.iter().map(|row| text(&row[name])).collect::<Vec<_>>();
    let newest = listed(&[]);
    assert_eq!(newest.len(), 7);
    assert!(column(&newest, "failed_at").is_sorted_by(|a, b| a >= b), "{newest:?}");
    let mut oldest = listed(&["--sort", "oldest"]);
    assert!(column(&oldest, "failed_at").is_sorted(), "{oldest:?}");
    oldest.reverse();
    assert_eq!(oldest, newest, "the one is the other from behind");
    assert_eq!(column(&listed(&["--sort", "key"]), "key"), keys(7).into_iter().collect::<Vec<_>>());
    assert_eq!(
        column(&listed(&["--sort", "stage"]), "stage").join(" "),
        "late late late work work work work"
    );
    assert_eq!(listed(&["--sort", "stage", "--stage", "late", "--pipeline", "test"]).len(), 3);
    let refused = place.run(&["dead", "list", "--sort", "stage", "--after", "1.2"]).expect(2).stderr;
    assert!(refused.contains("cursor"), "{refused}");

    let csv = place
        .run(&["dead", "list", "--sort", "key", "--csv", "--columns", "key,stage,message"])
        .expect(0)
        .stdout;
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows[0], "key,stage,message");
    assert!(rows[1].starts_with("k0000,work,\"HTTP 422: no, \"\"never\"\"\""), "{csv}");
    assert_eq!(rows.len(), 8);
    let table = place.run(&["dead", "list", "--columns", "key,group"]).expect(0).stdout;
    assert!(table.lines().next().is_some_and(|line| line.split_whitespace().eq(["KEY", "GROUP"])), "{table}");
    place.run(&["dead", "list", "--csv", "--json"]).expect(2);
}

#[test]
fn hexadecimal_ids_in_messages_make_one_group() {
    let server = Server::start(|call| {
        let n = call.item().payload["n"].as_u64().unwrap_or(0);
        Answer::results(&[failed(call.item(), "final", &format!("request {:08x} was refused", n * 211))])
    });
    let place = Place::with(&one_stage(&server.stage()), &samples(23));
    place.run(&["run", "p.toml"]).expect(4);
    let groups = place.json(&["dead", "groups"]);
    assert_eq!(array(&groups["groups"]).len(), 1, "{groups:#}");
    assert_eq!(count(&groups["groups"][0]["items"]), 23);
}

#[test]
fn an_item_that_is_sent_back_and_passes_counts_from_its_first_failure() {
    let server = Server::start(|call| match call.item().before {
        0 => Answer::status(500, "not now"),
        _ => Answer::all(call),
    });
    let stage = format!("{}\n{}", server.stage(), quick_retry(1));
    let place = Place::with(&one_stage(&stage), &samples(1));
    place.run(&["run", "p.toml"]).expect(4);
    assert_eq!(place.json(&["stats"])["stages"][0]["time_to_successful_retry"], Value::Null);
    place.run(&["dead", "redrive", "--all"]).expect(0);
    place.run(&["run", "p.toml"]).expect(0);
    let stats = place.json(&["stats"]);
    let stage = &stats["stages"][0];
    assert_eq!((&stage["retries"], &stage["retry_success_rate"]), (&json!(1), &json!(1.0)));
    assert_eq!(stage["time_to_successful_retry"]["items"], 1, "{stage:#}");
    place.check();
}

#[test]
fn stats_tell_how_often_items_are_tried_again_and_with_what_success() {
    let server = Server::start(|call| {
        let item = call.item();
        match (item.payload["n"].as_u64(), item.before) {
            // One is turned away first, two pass at the second try, one never.
            (Some(0), 0) => Answer::Http(429, vec![("Retry-After", "0".to_owned())], "slow down".to_owned()),
            (Some(1 | 2), 0) | (Some(3), _) => Answer::status(500, "not now"),
            _ => Answer::all(call),
        }
    });
    let stage = format!("{}\ngate = \"plain\"\n{}", server.stage(), quick_retry(3));
    let place = Place::with(&format!("{}[gate.plain]\nbreaker = false\n", one_stage(&stage)), &samples(10));
    place.run(&["run", "p.toml"]).expect(3);
    let stats = place.json(&["stats"]);
    let stage = &stats["stages"][0];
    // Three of ten had to be tried again: four retries, two of which passed. Being turned away is none.
    assert_eq!((&stage["retried"], &stage["retry_rate"]), (&json!(3), &json!(0.3)));
    assert_eq!((&stage["retries"], &stage["retry_success_rate"]), (&json!(4), &json!(0.5)));
    assert_eq!((&stage["exhausted"], &stage["exhausted_rate"]), (&json!(1), &json!(0.1)));
    assert_eq!(stage["attempts"]["throttles"], 1);
    assert_eq!(stage["throttle_rate"], json!(1.0 / 15.0));
    let healing = &stage["time_to_successful_retry"];
    assert!(count(&healing["p50_ms"]) <= count(&healing["p95_ms"]), "{healing}");
    assert!(count(&healing["p95_ms"]) < count(&healing["p95_below_ms"]), "{healing}");
    assert_eq!(array(&stats["alerts"]).len(), 1, "{stats:#}");
    let took = &stage["time_of_try"];
    assert_eq!(count(&took["tries"]), 14, "what is turned away is no try: {took}");
    assert!(count(&took["p50_ms"]) <= count(&took["p95_ms"]), "{took}");
    let told = place.run(&["stats"]).expect(0).stdout;
    for part in [
        "ALERT work: 30.0 % of the items had to be tried again, more than 10 %",
        "3 items had to be tried again (30.0 %); 50.0 % of 4 retries passed",
        "1 item is dead with all its attempts spent (10.0 %)",
        "1 attempt turned away",
        "within about",
        "a try took: mean",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    // `failures` counts retries alike.
    assert_eq!(count(&place.json(&["failures"])["items"][0]["retries"]), 2);
    place.check();
}

#[test]
fn stats_of_a_pipeline_compare_its_runs_days_and_configurations() {
    let server = Server::start(|call| match call.item().payload["n"].as_u64() {
        Some(0) => Answer::status(422, "not like this"),
        _ => Answer::all(call),
    });
    let good = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(4));
    place.run(&["run", "p.toml"]).expect(3);
    assert_eq!(place.json(&["stats"])["over_runs"], json!(null));
    let alone = place.json(&["stats", "--pipeline", "test"]);
    assert_eq!(alone["over_runs"]["compared"], json!(null));
    place.write("p.toml", one_stage(&format!("{}\ntimeout = \"45s\"", good.stage())));
    place.run(&["run", "p.toml", "--new"]).expect(0);
    let stats = place.json(&["stats", "--pipeline", "test", "--since", "7d"]);
    assert_eq!(stats["run"], "r2", "the rest is of the newest");
    let over = &stats["over_runs"];
    let runs = array(&over["runs"]);
    assert_eq!((runs.len(), &runs[0]["run"], &runs[1]["run"]), (2, &json!("r2"), &json!("r1")));
    assert_eq!((&runs[0]["dead_rate"], &runs[1]["dead_rate"]), (&json!(0.0), &json!(0.25)));
    assert_eq!((&runs[1]["first_try_rate"], &runs[1]["counts"]["admitted"]), (&json!(0.75), &json!(4)));
    assert_eq!((&over["compared"]["run"], &over["compared"]["dead_rate"]), (&json!("r2"), &json!(-0.25)));
    let days = array(&over["days"]);
    assert_eq!(days.iter().map(|day| count(&day["runs"])).sum::<u64>(), 2);
    assert_eq!(days.iter().map(|day| count(&day["counts"]["admitted"])).sum::<u64>(), 8);
    let configs = array(&over["stages"][0]["configs"]);
    assert_eq!(configs.len(), 2);
    assert_eq!((&configs[0]["failed"], &configs[0]["present"]), (&json!(1), &json!(false)));
    assert_eq!((&configs[1]["passed"], &configs[1]["last_run"]), (&json!(4), &json!("r2")));
    let told = place.run(&["stats", "--pipeline", "test"]).expect(0).stdout;
    for part in [
        "2 runs of test",
        "r2 against r1: dead -25.0 points",
        "stage work, as it was configured",
        "(present)",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    let refused = place.run(&["stats", "--pipeline", "nope"]).expect(2).stderr;
    assert!(refused.contains("nope"), "{refused}");
    wait::until("a run is old", || {
        place.run(&["stats", "--pipeline", "test", "--since", "1ms"]).code() == Some(2)
    });
}

#[test]
fn stages_that_cannot_fail_do_not_hide_one_that_does() {
    let server = Server::start(|call| match (call.item().payload["n"].as_u64(), call.item().before) {
        (Some(n), 0) if n % 2 == 0 => Answer::status(500, "not now"),
        _ => Answer::all(call),
    });
    let pass = |name: &str| format!("[[stage]]\nname = \"{name}\"\nkind = \"pass\"\n");
    let call = format!("{}\ngate = \"plain\"\n{}", server.stage(), quick_retry(3));
    let gate = "[gate.plain]\nbreaker = false\n";
    let file = format!("{}{}{}{gate}", one_stage(&call), pass("second"), pass("third"));
    let place = Place::with(&file, &samples(20));
    place.run(&["run", "p.toml"]).expect(0);
    let run = &place.json(&["stats", "--pipeline", "test"])["over_runs"]["runs"][0];
    assert_eq!((&run["first_try_rate"], &run["retry_rate"]), (&json!(0.5), &json!(0.5)), "{run}");
    assert_eq!(run["worst_stage"], "work");
    let told = place.run(&["stats", "--pipeline", "test"]).expect(0).stdout;
    assert!(told.contains("those of the worst stage of each: work"), "{told}");
}

#[test]
fn what_a_filter_takes_out_is_told_beside_what_was_tried() {
    let filter = "kind = \"filter\"\nkeep = \"payload.n > 2\"";
    let place = Place::with(&one_stage(filter), &samples(10));
    place.run(&["run", "p.toml"]).expect(0);
    let stage = &place.json(&["stats"])["stages"][0];
    assert_eq!((count(&stage["tried"]), count(&stage["filtered"])), (7, 3), "{stage}");
    let told = place.run(&["stats"]).expect(0).stdout;
    assert!(told.contains("10 attempts in all") && told.contains("3 items filtered out"), "{told}");
}
