//! `redrive policy`, driven as a person would: the real binary, its output and its exit codes.

mod gates;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const PIPELINE: &str = r#"name = "classify"

[[stage]]
name = "llm_call"
kind = "http"
url = "http://127.0.0.1:9000/work"
retry = { preset = "llm", retry_on = [429, "5xx", "timeout"] }

[[stage]]
name = "heal"
kind = "pass"
retry = { preset = "self-healing" }
"#;

/// A folder of its own for one test, empty.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policy").join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn run(&self, args: &[&str]) -> Done {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command.current_dir(&self.0).arg("policy").args(args);
        command.env_remove("REDRIVE_STORE").env_remove("REDRIVE_LOG");
        Done::of(command.output().unwrap())
    }
}

struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Done {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        self.out
    }

    fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    fn refused(self) -> String {
        assert_eq!(self.code, 2, "{}{}", self.out, self.err);
        assert_eq!(self.out, "", "wrong usage prints no data");
        self.err
    }
}

/// Spaces between columns do not matter.
fn rows(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn list_has_every_preset_with_the_figures_of_the_seeds() {
    let minutes = |all: &[i64]| all.iter().map(|m| m * 60_000).collect::<Vec<_>>();
    let healing = minutes(&[1, 5, 10, 20, 40, 60, 60, 60, 60, 60, 60, 60]);
    let index = [vec![0, 0, 0], minutes(&[1, 5, 10, 20, 40, 60, 60, 60, 60])].concat();
    let table = [
        ("sample", Some(3), vec![1_000, 2_000], Some(3_000)),
        ("llm", Some(3), vec![1_000, 2_000], Some(3_000)),
        ("none", Some(1), vec![], Some(0)),
        ("daemon", Some(8), minutes(&[1, 2, 4, 8, 16, 32, 60]), Some(123 * 60_000)),
        ("interactive", Some(4), vec![0, 0, 0], Some(0)),
        ("interactive-backoff", Some(4), vec![1_000, 2_000, 4_000], Some(7_000)),
        ("document", Some(3), minutes(&[5, 10]), Some(15 * 60_000)),
        ("document-archive", Some(3), minutes(&[5, 10]), Some(15 * 60_000)),
        ("document-message", Some(3), minutes(&[5, 10]), Some(15 * 60_000)),
        ("document-chunk", Some(5), minutes(&[5, 10, 20, 40]), Some(75 * 60_000)),
        ("document-thread", Some(5), minutes(&[5, 10, 20, 40]), Some(75 * 60_000)),
        ("self-healing", None, healing, None),
        ("index", None, index, None),
    ];
    let listed = Folder::new("list").run(&["list", "--json"]).json();
    let presets = listed["presets"].as_array().unwrap();
    assert_eq!(presets.len(), table.len());
    for (preset, (name, attempts, waits, span)) in presets.iter().zip(table) {
        assert_eq!(preset["name"], name);
        assert_eq!(preset["max_attempts"], json!(attempts), "{name}");
        assert_eq!(preset["waits_ms"], json!(waits), "{name}");
        assert_eq!(preset["span_ms"], json!(span), "{name}");
    }
    let caps = |name: &str| presets.iter().find(|preset| preset["name"] == name).unwrap()["policy"].clone();
    assert_eq!(caps("sample")["tiers"][0]["backoff"]["max_ms"], 60_000);
    assert_eq!(caps("sample")["tiers"][0]["jitter"], json!({"proportional": 0.25}));
    assert_eq!(caps("llm")["tiers"][0]["backoff"]["max_ms"], 30_000);
    assert_eq!(caps("interactive-backoff")["tiers"][0]["backoff"]["max_ms"], 30_000);
    assert_eq!(caps("daemon")["tiers"][0]["backoff"]["max_ms"], 3_600_000);
    assert_eq!(caps("document")["tiers"][0]["backoff"]["max_ms"], 3_600_000);
    assert_eq!(caps("self-healing")["flag_after"], 24);
}

#[test]
fn list_is_a_table_for_people() {
    let folder = Folder::new("list_table");
    let table = rows(&folder.run(&["list"]).ok());
    assert_eq!(table.len(), 14);
    assert_eq!(table[0], "PRESET ATTEMPTS WAITS UNTIL DEAD SUMMARY");
    assert!(table[4].starts_with("daemon 8 1m, 2m, 4m, 8m, 16m, 32m, 1h 2h 3m"), "{}", table[4]);
    assert!(table[12].starts_with("self-healing ∞ 1m, 5m, 10m, 20m, 40m, 1h … never"), "{}", table[12]);
    assert!(table[13].starts_with("index ∞ 0s ×3, 1m, 5m, 10m, 20m, 40m, 1h … never"), "{}", table[13]);
    assert_eq!(folder.names(), [""; 0], "looking at policies makes no store");
}

#[test]
fn show_prints_a_timeline_with_its_jitter_and_limits() {
    let shown = rows(&Folder::new("show").run(&["show", "sample"]).ok());
    assert_eq!(
        shown,
        [
            "sample: 3 attempts, 1 s doubling to 60 s, ±25 %: the default",
            "",
            "ATTEMPT WAIT STARTS AT TIER",
            "1 0s 0s 1",
            "2 750ms – 1s – 1.25s 1s 1",
            "3 1.5s – 2s – 2.5s 3s 1",
            "then dead (exhausted)",
            "",
            "attempts 3",
            "waits 1s, each ×2 the one before, at most 1m, ±25 %",
            "retry on as classified",
            "crash limit 5 crashes, then dead (quarantined)",
            "unknown limit none: failures of unknown kind count like others",
            "hint cap 1h; a longer hint parks the item",
            "timeout growth ×1.5 after each timeout, at most ×4",
            "deadline the pipeline's (24h unless the file says otherwise)",
        ]
    );
}

#[test]
fn show_tells_tiers_apart_and_does_not_end_what_is_endless() {
    let folder = Folder::new("show_tiers");
    let shown = rows(&folder.run(&["show", "index", "--attempts", "7"]).ok());
    assert_eq!(
        &shown[3..11],
        [
            "1 0s 0s 1",
            "2 0s 0s 1",
            "3 0s 0s 1",
            "4 0s 0s 1",
            "5 1m 1m 2",
            "6 5m 6m 2",
            "7 10m 16m 2",
            "… and so on without end, the next after 20m",
        ]
    );
    let document = folder.run(&["show", "index", "--attempts", "7", "--json"]).json();
    assert_eq!(document["source"], "index");
    let policy = &document["policies"][0];
    assert_eq!((&policy["timeline_is_whole"], &policy["stage"]), (&json!(false), &json!(null)));
    assert_eq!(
        policy["timeline"][4],
        json!({"attempt": 5, "wait_min_ms": 60_000, "wait_nominal_ms": 60_000, "wait_max_ms": 60_000,
               "starts_at_nominal_ms": 60_000, "tier": 2})
    );
}

#[test]
fn show_of_a_file_has_every_stage_or_the_chosen_one() {
    let folder = Folder::new("show_file");
    folder.write("p.toml", PIPELINE);
    let document = folder.run(&["show", "p.toml", "--json"]).json();
    let stages: Vec<&Value> =
        document["policies"].as_array().unwrap().iter().map(|policy| &policy["stage"]).collect();
    assert_eq!(stages, ["llm_call", "heal"]);
    assert_eq!(document["policies"][0]["deadline_ms"], 86_400_000);
    let text = folder.run(&["show", "p.toml", "--stage", "llm_call"]).ok();
    assert!(text.starts_with("p.toml, stage llm_call\n") && !text.contains("heal"));
    let shown = rows(&text);
    assert!(shown.contains(&"retry on 429, 5xx, timeout".to_owned()), "{text}");
    assert!(shown.contains(&"deadline 24h".to_owned()), "{text}");
    let cap = "hint cap 1h, of gate 127.0.0.1:9000; a longer hint parks it";
    assert!(shown.contains(&cap.to_owned()), "the gate waits, not the item: {text}");
}

#[test]
fn rules_for_some_failures_are_shown() {
    let folder = Folder::new("show_rules");
    let rules = "final_on = [{ text = \"bad key\" }]\n\
                 on.database = { max_attempts = 2, backoff = { kind = \"none\" } }\n\
                 on.timeout = { backoff = { kind = \"schedule\", delays = [\"1s\", \"2m\"] } }\n";
    folder.write(
        "p.toml",
        &format!("name = \"p\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\n[stage.retry]\n{rules}"),
    );
    let shown = rows(&folder.run(&["show", "p.toml"]).ok());
    for line in
        ["final on text \"bad key\"", "on database: 2 attempts, no wait", "on timeout: schedule waits 1s, 2m"]
    {
        assert!(shown.contains(&line.to_owned()), "{line} is not in {shown:#?}");
    }
}

#[test]
fn a_preset_wins_over_a_file_of_its_name() {
    let folder = Folder::new("preset_wins");
    folder.write("daemon", "this is no pipeline");
    assert!(folder.run(&["show", "daemon"]).ok().starts_with("daemon: 8 attempts"));
    assert!(folder.run(&["show", "./daemon"]).refused().contains("./daemon:1: "));
}

#[test]
fn simulate_says_how_many_calls_and_dead_items_to_expect() {
    let folder = Folder::new("simulate");
    let outlook = |args: &[&str]| {
        let args = [&["simulate", "--json"], args].concat();
        folder.run(&args).json()["policies"][0]["outlook"].clone()
    };
    assert_eq!(
        outlook(&["sample", "--failure-rate", "0.5"]),
        json!({"failure_rate": 0.5, "items": 1_000, "expected_calls_per_item": 1.75, "expected_calls": 1_750.0,
               "p_dead": 0.125, "expected_dead": 125.0, "time_to_dead_ms": 3_000, "dead_reason": "exhausted",
               "paused_after": 56, "pause_reason": "7 of its last 56 items died, more than 10.0 %"})
    );
    let daemon = outlook(&["daemon", "--failure-rate", "1", "--items", "10"]);
    assert_eq!((&daemon["expected_calls"], &daemon["expected_dead"]), (&json!(80.0), &json!(10.0)));
    assert_eq!(daemon["time_to_dead_ms"], 7_380_000);
    let endless = outlook(&["self-healing", "--failure-rate", "1"]);
    assert_eq!((&endless["expected_calls"], &endless["p_dead"]), (&json!(null), &json!(0.0)));
    assert_eq!((&endless["time_to_dead_ms"], &endless["dead_reason"]), (&json!(null), &json!(null)));
    let none = outlook(&["none", "--failure-rate", "0"]);
    assert_eq!((&none["expected_calls"], &none["expected_dead"]), (&json!(1_000.0), &json!(0.0)));
}

#[test]
fn simulate_says_when_the_failure_budget_would_be_spent() {
    let folder = Folder::new("simulate_budget");
    let pipeline = |budget: &str| {
        format!(
            "name = \"t\"\n[source]\npath = \"in.jsonl\"\n[run]\nfailure_budget = {budget}\n\
             [[stage]]\nname = \"work\"\nkind = \"command\"\ncommand = [\"cat\"]\nretry.preset = \"none\"\n"
        )
    };
    let cases = [
        ("{ }", "0.05", "is not spent"),
        ("{ }", "0.12", "after about 50 items of the stage: 6 of its last 50 items died, more than 10.0 %"),
        ("{ }", "1", "after about 25 items of the stage: 25 of its items died in a row"),
        ("{ rate = 0.2, consecutive = false }", "0.12", "is not spent"),
        ("{ rate = 1.0, cumulative = 0.04 }", "0.05", "more than 4.0 % of the whole run"),
        ("false", "1", "is not spent"),
    ];
    for (budget, rate, expected) in cases {
        folder.write("p.toml", &pipeline(budget));
        let text = folder.run(&["simulate", "p.toml", "--failure-rate", rate]).ok();
        let line = rows(&text).into_iter().find(|row| row.starts_with("failure budget")).expect("it is told");
        assert!(line.contains(expected), "{budget}, {rate}: {line}");
    }
}

#[test]
fn simulate_ends_with_the_outlook() {
    let text = Folder::new("simulate_text").run(&["simulate", "sample"]).ok();
    let shown = rows(&text);
    assert_eq!(
        &shown[shown.len() - 5..],
        [
            "when 1,000 items come and each attempt fails with a chance of 10 %:",
            "expected calls 1.11 per item, 1,110 in all",
            "expected dead 0.1 % of items, 1 of 1,000",
            "time until dead 3s (exhausted)",
            "failure budget is not spent",
        ]
    );
    let endless = Folder::new("simulate_endless").run(&["simulate", "self-healing"]).ok();
    assert!(rows(&endless).contains(&"time until dead never".to_owned()), "{endless}");
}

#[test]
fn the_deadline_of_a_file_ends_an_endless_policy() {
    let folder = Folder::new("deadline");
    folder.write("p.toml", PIPELINE);
    let args = ["simulate", "p.toml", "--stage", "heal", "--failure-rate", "1", "--items", "10"];
    let text = folder.run(&args).ok();
    assert!(text.contains("… up to attempt 28 at 23h 16m"), "{text}");
    assert!(rows(&text).contains(&"time until dead 23h 16m (expired)".to_owned()), "{text}");
    let whole = folder.run(&[&args[..], &["--attempts", "100", "--json"]].concat()).json();
    let policy = &whole["policies"][0];
    assert_eq!(policy["timeline"].as_array().unwrap().len(), 28);
    assert_eq!(policy["timeline_is_whole"], true);
    assert_eq!(
        (&policy["outlook"]["expected_calls"], &policy["outlook"]["p_dead"]),
        (&json!(280.0), &json!(1.0))
    );
}

#[test]
fn plot_is_one_whole_file_with_every_attempt_in_it() {
    let folder = Folder::new("plot");
    folder.write("out.svg", "what somebody wrote");
    let error = folder.run(&["simulate", "sample", "--plot", "out.svg"]).refused();
    assert!(error.contains("out.svg") && error.contains("no picture"), "{error}");
    folder.write("out.svg", "<svg>what was drawn before</svg>");
    let done = folder.run(&["simulate", "sample", "--failure-rate", "0.5", "--plot", "out.svg", "--json"]);
    assert!(done.err.contains("wrote out.svg"));
    assert_eq!(done.json()["policies"][0]["timeline"].as_array().unwrap().len(), 3);
    assert_eq!(folder.names(), ["out.svg"], "nothing unfinished is left");
    let svg = std::fs::read_to_string(folder.0.join("out.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    for text in
        ["Retry policy sample", "time since the first attempt", "1s (750ms–1.25s)", "then dead", "12.5 %"]
    {
        assert!(svg.contains(text), "{text}");
    }
    assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("class=\"page\""));
    let quiet = folder.run(&["simulate", "daemon", "--plot", "out.svg", "--quiet"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
}

#[test]
fn a_plot_escapes_what_a_file_is_called() {
    let folder = Folder::new("plot_escapes");
    folder.write("<b>&.toml", PIPELINE);
    folder.run(&["simulate", "<b>&.toml", "--stage", "heal", "--plot", "out.svg"]).ok();
    let svg = std::fs::read_to_string(folder.0.join("out.svg")).unwrap();
    assert!(svg.contains("&lt;b&gt;&amp;.toml") && !svg.contains("<b>"));
}

#[test]
fn a_plot_of_several_stages_asks_which() {
    let folder = Folder::new("plot_stages");
    folder.write("p.toml", PIPELINE);
    let error = folder.run(&["simulate", "p.toml", "--plot", "out.svg"]).refused();
    assert!(error.contains("choose with --stage: llm_call, heal"), "{error}");
    assert_eq!(folder.names(), ["p.toml"]);
}

#[test]
fn an_unwritable_plot_is_refused_and_leaves_nothing() {
    let folder = Folder::new("plot_unwritable");
    let error = folder.run(&["simulate", "sample", "--plot", "missing/out.svg"]).refused();
    assert!(
        error.contains("--plot missing/out.svg cannot be written: there is no folder missing"),
        "{error}"
    );
    std::fs::create_dir(folder.0.join("folder.svg")).unwrap();
    folder.run(&["simulate", "sample", "--plot", "folder.svg"]).refused();
    assert_eq!(folder.names(), ["folder.svg"]);
}

#[test]
fn lint_finds_presets_clean() {
    let folder = Folder::new("lint_presets");
    let done = folder.run(&["lint"]);
    assert_eq!((done.code, done.err.as_str()), (0, "checked 13 sources, 0 warnings\n"));
    let document = folder.run(&["lint", "--json", "sample", "daemon"]).json();
    assert_eq!(
        document,
        json!({"clean": true, "checked": ["sample", "daemon"], "warnings": [], "notes": []})
    );
}

#[test]
fn lint_tells_after_how_many_attempts_a_deadline_ends_an_endless_policy() {
    let folder = Folder::new("lint_endless");
    let out = folder.run(&["lint"]).ok();
    let told: Vec<&str> = out.lines().collect();
    assert_eq!(told.len(), 2, "{out}");
    let end =
        "deadline of 24 h that a file has by default: an item that fails every time is dead (expired) after";
    assert!(told[0].starts_with("self-healing: note: max_attempts: endless"), "{out}");
    assert!(told[0].ends_with(&format!("{end} 28 attempts")), "{out}");
    assert!(
        told[1].starts_with("index: note: ") && told[1].ends_with(&format!("{end} 31 attempts")),
        "{out}"
    );
    let stages = "[[stage]]\nname = \"a\"\nkind = \"pass\"\nretry.preset = \"self-healing\"\n\
                  [[stage]]\nname = \"b\"\nkind = \"pass\"\nretry.preset = \"daemon\"\n";
    folder.write("p.toml", &format!("name = \"p\"\n{stages}"));
    let found = folder.run(&["lint", "--json", "p.toml"]).json();
    assert_eq!((&found["clean"], &found["warnings"]), (&json!(true), &json!([])));
    assert_eq!(found["notes"].as_array().map(Vec::len), Some(1), "{found}");
    let note = &found["notes"][0];
    assert_eq!((&note["key"], &note["line"]), (&json!("stage.a.retry.max_attempts"), &json!(5)));
    assert!(note["message"].as_str().is_some_and(|text| text.contains("after 28 attempts")), "{note}");
    folder.write("p.toml", &format!("name = \"p\"\ndeadline = \"1h\"\n{stages}"));
    let out = folder.run(&["lint", "p.toml"]).ok();
    assert!(
        out.contains("deadline of 1 h: an item that fails every time is dead (expired) after 5 attempts"),
        "{out}"
    );
}

#[test]
fn lint_warns_with_file_line_and_key_and_exits_with_0() {
    let folder = Folder::new("lint_warns");
    let text = PIPELINE.replace("name = \"classify\"", "name = \"classify\"\ndeadline = \"1h\"");
    folder.write("p.toml", &text.replace("\"llm\", retry_on", "\"daemon\", retry_on"));
    let expected = "stage.llm_call.retry.max_attempts: the waits alone take 7380 s, the deadline is 3600 s";
    let done = folder.run(&["lint", "p.toml", "sample"]);
    assert!(done.err.ends_with("checked 2 sources, 1 warning\n"), "{}", done.err);
    let out = done.ok();
    let warned = out.lines().filter(|line| !line.contains(": note: "));
    assert!(out.starts_with(&format!("p.toml:8: {expected}")) && warned.count() == 1, "{out}");
    let document = folder.run(&["lint", "--json", "p.toml"]).json();
    assert_eq!((&document["clean"], &document["warnings"][0]["line"]), (&json!(false), &json!(8)));
    assert_eq!(document["warnings"][0]["key"], "stage.llm_call.retry.max_attempts");
}

#[test]
fn the_timeout_of_a_stage_counts_against_the_deadline() {
    let folder = Folder::new("lint_timeout");
    let stage = "[[stage]]\nname = \"s\"\nkind = \"pass\"\ntimeout = \"1h\"\n";
    folder.write("p.toml", &format!("name = \"p\"\ndeadline = \"2h\"\n{stage}"));
    let out = folder.run(&["lint", "p.toml"]).ok();
    assert!(out.contains("waits and timeouts take 10803 s, the deadline is 7200 s"), "{out}");
}

#[test]
fn every_problem_of_every_wrong_file_is_listed() {
    let folder = Folder::new("lint_wrong");
    folder.write(
        "one.toml",
        "name = \"one\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\ncolour = 4\nbatch = 0\n",
    );
    folder.write(
        "two.toml",
        "name = \"two\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\nretry = { preset = \"x\" }\n",
    );
    let error = folder.run(&["lint", "one.toml", "two.toml"]).refused();
    for problem in [
        "one.toml:5: stage.s.colour: unknown key",
        "one.toml:6: stage.s.batch: ",
        "two.toml:5: stage.s.retry.preset: unknown preset",
    ] {
        assert!(error.lines().any(|line| line.starts_with(problem)), "{problem} is not in\n{error}");
    }
    assert!(error.contains("error: 3 problems in one.toml, two.toml"), "{error}");
    for verb in ["show", "simulate"] {
        assert!(
            folder.run(&[verb, "one.toml"]).refused().contains("one.toml:5: stage.s.colour: unknown key")
        );
    }
}

#[test]
fn wrong_usage_is_exit_code_2_and_says_what_would_be_right() {
    let folder = Folder::new("usage");
    folder.write("p.toml", PIPELINE);
    let binary = [0xff, 0xfe, 0x00];
    std::fs::write(folder.0.join("binary.toml"), binary).unwrap();
    let table: &[(&[&str], &str)] = &[
        (&["show", "demon"], "\"demon\" is neither a preset nor a file"),
        (&["show", "demon"], "hint: presets are sample, llm, none, daemon, interactive"),
        (&["simulate", "missing.toml"], "\"missing.toml\" is neither a preset nor a file"),
        (&["lint", "sample", "missing.toml"], "neither a preset nor a file"),
        (&["show", "."], "cannot read ."),
        (&["show", "binary.toml"], "UTF-8"),
        (&["simulate", "sample", "--failure-rate", "2"], "--failure-rate 2 is not a share between 0 and 1"),
        (&["simulate", "sample", "--failure-rate=-0.1"], "is not a share between 0 and 1"),
        (&["simulate", "sample", "--failure-rate", "NaN"], "is not a share between 0 and 1"),
        (&["simulate", "sample", "--failure-rate", "some"], "invalid value 'some'"),
        (&["simulate", "sample", "--items=-1"], "invalid value '-1'"),
        (&["show", "sample", "--attempts", "0"], "--attempts 0 is not between 1 and 10000"),
        (&["show", "index", "--attempts", "99999999999"], "is not between 1 and 10000"),
        (&["show", "sample", "--stage", "s"], "sample is a preset"),
        (&["show", "p.toml", "--stage", "no"], "p.toml has no stage \"no\""),
        (&["show", "p.toml", "--stage", "no"], "hint: its stages are llm_call, heal"),
        (&["show"], "required arguments"),
        (&["simulate", "sample", "--requests-per-minute", "0"], "invalid value '0'"),
        (&["simulate", "sample", "--batch", "0"], "invalid value '0'"),
        (&["simulate", "sample", "--latency", "2"], "durations look like"),
    ];
    for (args, message) in table {
        let error = folder.run(args).refused();
        assert!(error.contains(message), "{args:?}: {message} is not in\n{error}");
    }
}

/// The repository's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_preset_has_its_place_in_the_documentation() {
    let folder = Folder::new("documentation");
    let text = std::fs::read_to_string(root().join("docs/policies.md")).unwrap();
    let shows = |name: &Value| {
        text.contains(&format!("### {}", name.as_str().unwrap()))
            || text.contains(&format!(", {}", name.as_str().unwrap()))
    };
    let presets = folder.run(&["list", "--json"]).json();
    assert!(presets["presets"].as_array().unwrap().iter().all(|preset| shows(&preset["name"])));
}

#[test]
fn the_tiers_in_the_documentation_are_the_preset_index() {
    let folder = Folder::new("documentation_tiers");
    let text = std::fs::read_to_string(root().join("docs/policies.md")).unwrap();
    let tiers = text.split_once("[stage.retry]\ntiers").unwrap().1.split_once("```").unwrap().0;
    let head = "name = \"p\"\ndeadline = \"none\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\n";
    folder.write("tiers.toml", &format!("{head}[stage.retry]\ntiers{tiers}"));
    let timeline = |source| folder.run(&["show", source, "--json"]).json()["policies"][0]["timeline"].clone();
    assert_eq!(timeline("tiers.toml"), timeline("index"));
}
