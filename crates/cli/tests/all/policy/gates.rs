//! What `redrive policy` says of gates.

use std::fmt::Write as _;

use redrive_core::gate::{Gate, GateSpec, GateState, Lesson, Limits, Permit, Sign};
use redrive_core::time::Timestamp;
use serde_json::json;

use super::{Folder, root, rows};

/// A pipeline with a gate that two stages share, and a stage with a gate of its own.
const GATED: &str = r#"name = "p"
deadline = "1h"

[[stage]]
name = "embed"
kind = "embed"
base_url = "http://127.0.0.1:9000/v1"
model = "m"
batch = 25
gate = "llm"

[[stage]]
name = "sum"
kind = "chat"
base_url = "http://127.0.0.1:9000/v1"
model = "m"
prompt = "{/text}"
gate = "llm"

[[stage]]
name = "post"
kind = "http"
url = "http://127.0.0.1:9001/work"

[[stage]]
name = "end"
kind = "pass"

[gate.llm]
requests_per_minute = 3
tokens_per_minute = 10000
"#;

#[test]
fn simulate_says_how_long_items_take_through_gates() {
    let folder = Folder::new("gates");
    folder.write("p.toml", GATED);
    let args = ["simulate", "p.toml", "--items", "47", "--failure-rate", "0", "--tokens-per-item", "400"];
    let gates = folder.run(&[&args[..], &["--json"]].concat()).json()["through_gates"].clone();
    let embed = &gates["stages"][0];
    assert_eq!((&embed["gate"], &embed["stages"]), (&json!("llm"), &json!(["embed"])));
    assert_eq!((&embed["requests"], &embed["tokens"]), (&json!(2.0), &json!(18_800.0)));
    assert_eq!((&embed["by_requests_ms"], &embed["by_tokens_ms"]), (&json!(20_000), &json!(60_000)));
    assert_eq!((&embed["held_by"], &embed["time_ms"]), (&json!("tokens"), &json!(60_000)));
    assert_eq!(embed["unknown"], json!(["latency"]));
    let (sum, post) = (&gates["stages"][1], &gates["stages"][2]);
    assert_eq!((&sum["held_by"], &sum["time_ms"]), (&json!("requests"), &json!(920_000)));
    assert_eq!((&post["gate"], &post["time_ms"]), (&json!("127.0.0.1:9001"), &json!(null)));
    assert_eq!(post["unknown"], json!(["limits", "latency"]), "what is learnt at run time is not made up");
    assert_eq!(gates["stages"].as_array().unwrap().len(), 3, "a stage that calls nobody has no gate");
    let shared = &gates["shared"];
    assert_eq!((&shared[0]["stages"], &shared[0]["requests"]), (&json!(["embed", "sum"]), &json!(49.0)));
    assert_eq!((&gates["time_ms"], &gates["slowest"]), (&json!(960_000), &json!("llm")));
    assert_eq!(gates["at_least"], true);

    let text = rows(&folder.run(&args).ok());
    for line in [
        "through gates:",
        "GATE STAGE ITEMS/CALL CALLS RETRIES TOKENS AT ONCE HELD BY TIME",
        "llm embed 25 2 0 % 18,800 16 tokens at least 1m",
        "127.0.0.1:9001 post 1 47 0 % 18,800 16 - unknown",
        "llm embed + sum - 49 0 % 37,600 32 requests at least 16m",
        "in all at least 16m: stages overlap, and gate llm takes longest",
        "not known: limits of 127.0.0.1:9001, which are learnt at run time; how long a call takes (--latency)",
    ] {
        assert!(text.contains(&line.to_owned()), "{line} is not in {text:#?}");
    }
}

#[test]
fn retries_and_latency_take_their_part_of_the_time() {
    let folder = Folder::new("gates_latency");
    folder.write("p.toml", GATED);
    let args = ["simulate", "p.toml", "--stage", "post", "--items", "1600", "--latency", "2s", "--json"];
    let post =
        |more: &[&str]| folder.run(&[&args[..], more].concat()).json()["through_gates"]["stages"][0].clone();
    let calm = post(&["--failure-rate", "0"]);
    assert_eq!((&calm["held_by"], &calm["time_ms"]), (&json!("concurrency"), &json!(200_000)));
    assert_eq!(calm["unknown"], json!(["limits"]));
    let failing = post(&["--failure-rate", "0.5"]);
    assert_eq!((&failing["requests"], &failing["time_ms"]), (&json!(2_800.0), &json!(350_000)));
    assert!((failing["retried"].as_f64().unwrap() - 3.0 / 7.0).abs() < 1e-9);
    let given =
        post(&["--failure-rate", "0", "--requests-per-minute", "60", "--batch", "8", "--concurrency", "100"]);
    assert_eq!((&given["requests"], &given["held_by"]), (&json!(200.0), &json!("requests")));
    assert_eq!((&given["time_ms"], &given["at_once"]), (&json!(201_000), &json!(100)));
    assert_eq!(given["unknown"], json!([]));
}

#[test]
fn a_preset_goes_through_a_gate_only_where_one_is_described() {
    let folder = Folder::new("gates_preset");
    let without = folder.run(&["simulate", "sample", "--json"]).json();
    assert_eq!(without["through_gates"], json!(null));
    let text =
        rows(&folder.run(&["simulate", "sample", "--items", "100", "--requests-per-minute", "60"]).ok());
    assert_eq!(
        &text[text.len() - 4..],
        [
            "GATE STAGE ITEMS/CALL CALLS RETRIES TOKENS AT ONCE HELD BY TIME",
            "as given sample 1 111 9.91 % - - requests at least 1m 50s",
            "in all at least 1m 50s",
            "not known: how long a call takes (--latency)",
        ]
    );
    let all = ["--requests-per-minute", "60", "--latency", "1s", "--concurrency", "4"];
    let text =
        folder.run(&[&["simulate", "none", "--items", "60", "--failure-rate", "0"], &all[..]].concat()).ok();
    assert!(text.ends_with("in all about 1m\n"), "{text}");
    let endless =
        ["simulate", "self-healing", "--failure-rate", "1", "--requests-per-minute", "60", "--json"];
    let gates = folder.run(&endless).json()["through_gates"].clone();
    assert_eq!((&gates["stages"][0]["requests"], &gates["time_ms"]), (&json!(null), &json!(null)));
}

#[test]
fn simulate_tells_what_a_gate_would_never_let_through_in_time() {
    let folder = Folder::new("gates_expire");
    folder.write("p.toml", GATED);
    let args = ["simulate", "p.toml", "--failure-rate", "0", "--items", "1000", "--tokens-per-item"];
    let text = folder.run(&[&args[..], &["400"]].concat()).ok();
    assert!(text.contains("sum: 819 items would expire before it is their turn"), "{text}");
    assert!(!text.contains("embed: "), "{text}");
    let text = folder.run(&[&args[..], &["20001"]].concat()).ok();
    assert!(
        text.contains("sum: items of 20,001 tokens are refused as oversized, 10,000 pass in a minute"),
        "{text}"
    );
}

#[test]
fn lint_warns_where_a_gate_and_its_stages_contradict_each_other() {
    let folder = Folder::new("lint_gates");
    folder.write("clean.toml", GATED);
    assert_eq!(folder.run(&["lint", "clean.toml"]).ok(), "");
    let text = GATED
        .replace("batch = 25", "batch = 25\nconcurrency = 32\nbatch_tokens = 20000")
        .replace("prompt = \"{/text}\"", "max_item_tokens = 30000\nmax_tokens = 30000\nprompt = \"{/text}\"")
        .replace("[[stage]]\nname = \"end\"", "retry = { preset = \"none\", hint_cap = \"2h\" }\ngate = \"post\"\n\n[[stage]]\nname = \"end\"")
        .replace("requests_per_minute = 3", "max_concurrency = 20\nhint_cap = \"2h\"\nbreaker = { pause_after = \"3h\" }\nrequests_per_minute = 60")
        + "[gate.post]\nrequests_per_minute = 60\nbreaker = { min_calls = 30, open_for = \"1h\", pause_after = \"2h\" }\n";
    folder.write("p.toml", &text);
    let out = folder.run(&["lint", "p.toml"]).ok();
    let expected = [
        ("p.toml:10: stage.embed.concurrency: 32 calls at once are never reached", "concurrency = 20"),
        ("p.toml:11: stage.embed.batch_tokens: 20000 tokens never go into one call", "10000 or less"),
        ("p.toml:19: stage.sum.max_item_tokens: items above 20000 tokens are refused", "20000 or less"),
        ("p.toml:20: stage.sum.max_tokens: every item is refused as oversized", "raise tokens_per_minute"),
        ("p.toml:29: stage.post.retry.hint_cap: never used", "hint_cap in [gate.post]"),
        ("p.toml:38: gate.llm.hint_cap: 7200 s is longer than the deadline of 3600 s", "less than 3600 s"),
        (
            "p.toml:39: gate.llm.breaker.pause_after: 10800 s is not shorter than the deadline",
            "less than 3600 s",
        ),
        (
            "p.toml:44: gate.post.breaker.open_for: 3600 s is not shorter than the deadline",
            "less than 3600 s",
        ),
        ("p.toml:44: gate.post.breaker.min_calls: an outage spends the failure budget", "min_calls = 25"),
    ];
    for (start, remedy) in expected {
        let line = out.lines().find(|line| line.starts_with(start));
        assert!(line.is_some_and(|line| line.contains(remedy)), "{start} … {remedy} is not in\n{out}");
    }
    assert_eq!(out.lines().count(), expected.len(), "{out}");
    let document = folder.run(&["lint", "--json", "p.toml"]).json();
    assert_eq!((&document["clean"], &document["warnings"][0]["line"]), (&json!(false), &json!(10)));
}

#[test]
fn lint_warns_of_a_gate_too_slow_for_the_deadline_and_of_a_breaker_that_never_counts() {
    let folder = Folder::new("lint_slow_gate");
    let head = GATED.replace("deadline = \"1h\"", "deadline = \"20m\"");
    let slow = head.replace(
        "requests_per_minute = 3",
        "breaker = { window = \"30s\", min_calls = 20 }\nrequests_per_minute = 1",
    );
    folder.write("p.toml", &slow);
    let out = folder.run(&["lint", "p.toml"]).ok();
    assert!(out.starts_with("p.toml:30: gate.llm.breaker.min_calls: failure_rate never counts"), "{out}");
    assert_eq!(out.lines().count(), 1, "{out}");
    folder.write("p.toml", &slow.replace("20m", "30s"));
    let out = folder.run(&["lint", "p.toml"]).ok();
    let slow =
        "p.toml:31: gate.llm.requests_per_minute: lets one call through in 60 s, and items expire after 30 s";
    assert!(out.lines().any(|line| line.starts_with(slow)), "{out}");
}

/// A service's limit over the picture's time: calls per second.
fn limit_at(ms: i64) -> f64 {
    if (14_000..27_000).contains(&ms) { 25.0 } else { 50.0 }
}

/// The rate that a gate asks at, every 50 ms, and when it was turned away, against a service that says nothing of its limit.
fn played() -> (Vec<(i64, f64)>, Vec<i64>) {
    let mut gate = Gate::new(GateSpec::default(), GateState::default(), "w", Timestamp(0));
    let mut under_way: Vec<(i64, Permit, bool)> = Vec::new();
    let (mut bucket, mut rates, mut away) = (10.0_f64, Vec::new(), Vec::new());
    for now in (0..40_000_i64).step_by(5) {
        bucket = (bucket + limit_at(now) * 0.005).min(10.0);
        let (ended, rest): (Vec<_>, Vec<_>) = under_way.into_iter().partition(|(end, ..)| *end <= now);
        under_way = rest;
        for (_, permit, passed) in ended {
            let sign = if passed { Sign::Answered } else { Sign::Throttled { hint: None } };
            gate.ended(permit, &Lesson { sign, tokens: None, limits: Limits::default() }, Timestamp(now));
        }
        while let Ok(permit) = gate.admit(0, Timestamp(now)) {
            let passes = bucket >= 1.0;
            bucket -= f64::from(u8::from(passes));
            if !passes {
                away.push(now);
            }
            under_way.push((now + 50, permit, passes));
        }
        if now % 50 == 0 {
            rates.push((now, gate.shared().rate.allowed(Timestamp(now))));
        }
    }
    (rates, away)
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a minute")]
fn drawn() -> String {
    let (rates, away) = played();
    let place = |ms: i64, rate: f64| (60.0 + ms as f64 * 0.018, 250.0 - rate.min(80.0) * 2.5);
    let path = |points: &mut dyn Iterator<Item = (i64, f64)>| {
        let mut path = String::new();
        for (ms, rate) in points {
            let (x, y) = place(ms, rate);
            let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        }
        path
    };
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"820\" height=\"310\" viewBox=\"0 0 820 310\" role=\"img\">\n\
         <title>The rate of a gate around a limit that nobody tells</title>\n\
         <style>text{font:13px sans-serif;fill:#24292f}.page{fill:#fff;stroke:#d0d7de}.grid{stroke:#d8dee4}\
         .limit{fill:none;stroke:#8c959f;stroke-width:2;stroke-dasharray:6 4}.rate{fill:none;stroke:#0969da;stroke-width:2}\
         .away{stroke:#cf222e;stroke-width:1.5}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117;\
         stroke:#30363d}.grid{stroke:#30363d}.rate{stroke:#58a6ff}.away{stroke:#ff7b72}}</style>\n\
         <rect class=\"page\" x=\".5\" y=\".5\" width=\"819\" height=\"309\" rx=\"8\"/>\n",
    );
    for rate in [0.0, 25.0, 50.0, 75.0] {
        let (x, y) = place(0, rate);
        let _ = writeln!(svg, "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"780\" y2=\"{y:.1}\"/>");
        let _ = writeln!(svg, "<text x=\"50\" y=\"{:.1}\" text-anchor=\"end\">{rate}</text>", y + 4.0);
    }
    for second in (0..=40).step_by(10) {
        let (x, y) = place(second * 1_000, 0.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{second} s</text>",
            y + 34.0
        );
    }
    for ms in away {
        let (x, y) = place(ms, 0.0);
        let _ = writeln!(
            svg,
            "<line class=\"away\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>",
            y + 14.0
        );
    }
    let limit = path(&mut (0..=40_000).step_by(50).map(|ms| (ms, limit_at(ms))));
    let rate = path(&mut rates.into_iter().filter(|(_, rate)| rate.is_finite()));
    let _ = writeln!(svg, "<path class=\"limit\" d=\"{limit}\"/>\n<path class=\"rate\" d=\"{rate}\"/>");
    svg + "<text x=\"60\" y=\"30\">requests a second: what the gate lets through (line), what the service takes (dashed), \
           calls turned away (red)</text>\n</svg>\n"
}

/// Drawn anew with `REDRIVE_DRAW=1`.
#[test]
fn the_picture_of_a_gate_is_what_its_code_does() {
    let (path, drawn) = (root().join("docs/img/gate-rate.svg"), drawn());
    if std::env::var_os("REDRIVE_DRAW").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), drawn, "REDRIVE_DRAW=1 draws it anew");
}
