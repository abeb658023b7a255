//! Expressions of filters that would take any time or any memory: they hold up nobody, and end as the policy says.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Daemon, Place, array, one_stage, quick_retry, samples, text, wait};

/// Looks at every pair of numbers of a list.
const PAIRS: &str = "!payload.xs.exists(x, payload.xs.exists(y, x + y == -1))";
/// Longest that a daemon may take to say that it lives, on a machine that has other work.
const AT_ONCE: Duration = Duration::from_secs(1);

fn filter(keep: &str, more: &str) -> String {
    let keep = Value::from(keep);
    one_stage(&format!("kind = \"filter\"\nkeep = {keep}\n{more}\n{}", quick_retry(2)))
}

/// Something that doubles a text as often as it is written.
fn doubling() -> String {
    format!("size(['a']{}) > 0", ".map(a, a + a)".repeat(42))
}

/// Something that goes through a list of nine numbers nine times over, and keeps all it finds.
fn nested() -> String {
    let list = "[1,2,3,4,5,6,7,8,9]";
    let inner = (0..9).fold("1".to_owned(), |inner, n| format!("{list}.map(x{n}, {inner})"));
    format!("size({inner}) > 0")
}

/// The processes that this one has started to evaluate.
fn evaluators(daemon: &Daemon) -> usize {
    let children = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("Linux");
    let children =
        children.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let ids: Vec<String> =
        children.flat_map(|list| list.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    let is_one = |id: &&String| {
        std::fs::read_to_string(format!("/proc/{id}/cmdline"))
            .is_ok_and(|line| line.contains("filter-worker"))
    };
    ids.iter().filter(is_one).count()
}

/// Most memory that a process ever had, in MiB.
fn peak(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is told");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes >> 10
}

/// Asks whether it lives until it has an item in this state, and never waits long for the answer.
fn alive_until(daemon: &Daemon, key: &str, state: &str) -> Value {
    daemon.until(&format!("/v1/items/{key}"), |item| {
        let begun = wait::now();
        daemon.get("/healthz").expect(200);
        assert!(begun.elapsed() < AT_ONCE, "it took {:?} to say that it lives", begun.elapsed());
        item["state"] == state
    })
}

fn begin(daemon: &Daemon, pipeline: &str, items: &Value) {
    daemon.post("/v1/runs", &json!({"pipeline": pipeline, "items": items})).expect(201);
}

#[test]
fn an_expression_that_takes_for_ever_times_out_and_holds_up_nobody() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let many: Vec<u32> = (0..20_000).collect();
    let mut items: Vec<Value> =
        (0..4).map(|n| json!({"key": format!("slow{n}"), "payload": {"xs": many}})).collect();
    items.push(json!({"key": "quick", "payload": {"xs": [1, 2]}}));
    begin(&daemon, &filter(PAIRS, "timeout = \"2s\"\nconcurrency = 8"), &json!(items));
    alive_until(&daemon, "quick", "succeeded");
    for n in 0..4 {
        let dead = alive_until(&daemon, &format!("slow{n}"), "dead");
        assert_eq!((&dead["class"], &dead["attempts"]), (&json!("timeout"), &json!(2)), "{dead:#}");
    }
    wait::until("no child is left that still evaluates", || {
        evaluators(&daemon) <= 1 && daemon.get("/healthz").status == 200
    });
    assert!(daemon.stop().code() == Some(0), "it heard the signal");
}

#[test]
fn a_daemon_stops_while_an_expression_is_evaluated() {
    let place = Place::new();
    let mut daemon = Daemon::start(&place, &[]);
    let many: Vec<u32> = (0..20_000).collect();
    let items = json!([{"key": "slow", "payload": {"xs": many}}]);
    begin(&daemon, &filter(PAIRS, "timeout = \"1h\""), &items);
    wait::until("a child evaluates", || evaluators(&daemon) == 1);
    let begun = wait::now();
    daemon.process().signal("TERM");
    daemon.process().until_said("once more breaks it off");
    let ran = daemon.stop();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!(ran.killed_by().is_none(), "{ran:#?}");
}

#[test]
fn an_expression_that_takes_all_memory_takes_that_of_a_child_only() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    for (key, keep) in [("doubled", doubling()), ("nested", nested())] {
        let items = json!([{"key": key, "payload": {"n": 1}}]);
        begin(&daemon, &filter(&keep, "timeout = \"60s\""), &items);
        let dead = alive_until(&daemon, key, "dead");
        assert_eq!((&dead["class"], &dead["reason"]), (&json!("crash"), &json!("quarantined")), "{dead:#}");
        let message = text(&dead["message"]);
        assert!(
            message.contains("evaluating the expression broke off") && message.contains("memory"),
            "{message}"
        );
    }
    assert!(peak(&daemon) < 300, "the daemon took {} MiB", peak(&daemon));
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn a_plain_expression_costs_no_process_and_a_loop_one_for_all_items() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let items = |of: &str| {
        let item = |n: usize| json!({"key": format!("{of}{n}"), "payload": {"n": n, "xs": [n]}});
        json!((0..50).map(item).collect::<Vec<_>>())
    };
    begin(&daemon, &filter("payload.n >= 0 && payload.n in payload.xs", ""), &items("plain"));
    daemon.until("/v1/items/plain49", |item| item["state"] == "succeeded");
    assert_eq!(evaluators(&daemon), 0);
    begin(&daemon, &filter("payload.xs.all(x, x == payload.n)", "concurrency = 1"), &items("loop"));
    for n in 0..50 {
        daemon.until(&format!("/v1/items/loop{n}"), |item| item["state"] == "succeeded");
        assert!(evaluators(&daemon) <= 1);
    }
}

#[test]
fn a_run_and_a_trial_are_bounded_as_a_daemon_is() {
    let samples: String = samples(3).replace("}\n", ",\"xs\":[1,2]}\n");
    let place = Place::with(&filter(PAIRS, "timeout = \"1s\""), &samples);
    place.run_pipeline(0);
    let many: Vec<u32> = (0..20_000).collect();
    place.write("many.json", json!({"xs": many}).to_string());
    let tried = place.run(&["try", "p.toml", "work", "--payload", "@many.json", "--json"]).expect(3).json();
    assert!(tried.to_string().contains("timeout"), "{tried:#}");
    place.write("p.toml", filter(&doubling(), "timeout = \"60s\""));
    let tried = place.run(&["try", "p.toml", "work", "--payload", "{}", "--json"]).expect(3).json();
    assert!(tried.to_string().contains("crash"), "{tried:#}");
    assert_eq!(array(&place.json(&["items"])["items"]).len(), 3);
}

#[test]
fn a_large_payload_is_filtered_too() {
    let zeros = vec!["0"; 6 << 20].join(",");
    let place =
        Place::with(&filter("payload.n == 1", ""), &format!("{{\"id\":\"a\",\"n\":1,\"xs\":[{zeros}]}}\n"));
    place.run_pipeline(0);
}

#[test]
fn a_function_that_is_not_there_is_told_before_anything_is_done() {
    let place = Place::with(&filter("nosuch(payload.t)", ""), &samples(2));
    for command in
        [&["run", "p.toml"][..], &["doctor", "p.toml"], &["try", "p.toml", "work", "--payload", "{}"]]
    {
        let ran = place.run(command);
        assert!(ran.code() == Some(2) || command[0] == "doctor", "{ran:#?}");
        assert!(
            format!("{}{}", ran.stdout, ran.stderr).contains("there is no function 'nosuch()'"),
            "{ran:#?}"
        );
    }
    let daemon = Daemon::start(&place, &[]);
    let asked =
        json!({"pipeline": filter("payload.t.startswith('a')", ""), "items": [{"key": "a", "payload": {}}]});
    let told = daemon.post("/v1/runs", &asked);
    assert!((400..500).contains(&told.status), "{told:#?}");
    assert!(told.body.contains("did you mean 'startsWith'?"), "{told:#?}");
}
