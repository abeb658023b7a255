use proptest::prelude::*;
use redrive_core::classify::Matcher;
use redrive_core::failure::Class;
use redrive_core::plan::ChildFailure;
use redrive_core::policy::{Backoff, Jitter, RetryOn, preset};

use super::*;
use crate::definition::{Body, SourceKind, StageKind};

const CONTRACT: &str = r#"
name = "classify"
category = "nightly"              # optional; workers can be limited to categories
order = "oldest"                  # oldest | fresh-first | retry-first
deadline = "24h"                  # of one item; default 24h; "none"

[source]
kind = "jsonl"                    # jsonl | files | mbox
path = "samples.jsonl"            # or --input on the command line; "-" is stdin
key  = "/id"                      # JSON pointer; default: hash of the line

[run]
completed_at = 0.95
partial_at   = 0.50
failure_budget = { rate = 0.10, window = 1000, min_samples = 50, consecutive = 25 }

[[stage]]
name = "llm_call"
kind = "http"                     # http | command | embed | chat | filter | event | …
url  = "http://127.0.0.1:9000/work"
batch = 1
concurrency = 16
timeout = "60s"
gate = "llm"                      # stages naming the same gate share it; default: one gate per host
retry = { preset = "sample" }     # or the fields below

[gate.llm]
max_concurrency = 64
requests_per_minute = 3000
tokens_per_minute = 1000000
breaker = { failure_rate = 0.5, min_calls = 20, window = "30s", open_for = "10s", pause_after = "5m" }   # or false
"#;

const HEAD: &str = "name = \"p\"\n[[stage]]\nname = \"s\"\n";

/// A file whose only stage passes; what is added to it starts on line 5.
fn pass(rest: &str) -> Result<Definition, Vec<Problem>> {
    parse(&format!("{HEAD}kind = \"pass\"\n{rest}"), "p.toml")
}

fn told(result: Result<Definition, Vec<Problem>>) -> Vec<String> {
    let told = |problem: &Problem| match &problem.hint {
        Some(hint) => format!("{problem} ({hint})"),
        None => problem.to_string(),
    };
    result.unwrap_err().iter().map(told).collect()
}

fn warned(result: Result<Definition, Vec<Problem>>) -> Vec<String> {
    result.unwrap().warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn the_example_of_the_contract_is_read() {
    let definition = parse(CONTRACT, "classify.toml").unwrap();
    assert_eq!(definition.warnings, []);
    assert_eq!((definition.name.as_str(), definition.category.as_deref()), ("classify", Some("nightly")));
    assert_eq!(definition.deadline, Some(DEADLINE));
    assert_eq!(definition.source.paths, ["samples.jsonl"]);
    assert_eq!(definition.source.key.as_deref(), Some("/id"));
    assert_eq!(definition.budget.as_ref().and_then(|budget| budget.consecutive), Some(25));
    let stage = &definition.stages[0];
    assert_eq!((stage.batch, stage.concurrency, stage.timeout), (1, 16, Duration::from_secs(60)));
    assert_eq!(stage.retry, preset("sample").unwrap().policy);
    let StageKind::Http { url, body, max_answer, .. } = &stage.kind else { panic!("{:?}", stage.kind) };
    assert_eq!((url.as_str(), *body, *max_answer), ("http://127.0.0.1:9000/work", Body::Protocol, 16 << 20));
    let gate = &definition.gates["llm"];
    assert_eq!((gate.max_concurrency, gate.tokens_per_minute), (64, Some(1_000_000)));
    assert_eq!(gate.breaker, Some(redrive_core::gate::BreakerSpec::default()));
}

#[test]
fn the_retry_fields_of_the_contract_are_read() {
    let text = r#"
retry.max_attempts = 3
retry.backoff = { kind = "exponential", base = "1s", factor = 2.0, max = "30s", jitter = 0.25 }
retry.retry_on = [429, "5xx", "timeout", "connection", "answer", "crash", { text = "try later" }]
"#;
    let policy = pass(text).unwrap().stages[0].retry.clone();
    let seconds = Duration::from_secs;
    assert_eq!(
        policy.tiers()[0].backoff,
        Backoff::Exponential { base: seconds(1), factor: 2.0, max: seconds(30) }
    );
    assert_eq!(policy.tiers()[0].jitter, Jitter::Proportional(0.25));
    let Some(RetryOn::List(matchers)) = policy.retry_on() else { panic!("{policy:?}") };
    assert_eq!((matchers.len(), &matchers[0]), (7, &Matcher::Status(429)));
    let text = r#"
[stage.retry]
tiers = [{ attempts = 4, backoff = { kind = "none" } }, { backoff = { kind = "schedule", delays = ["1m", "5m"] } }]
unknown_limit = "endless"
[stage.retry.on.timeout]
max_attempts = 2
"#;
    let policy = pass(text).unwrap().stages[0].retry.clone();
    assert_eq!((policy.max_attempts(), policy.tiers().len(), policy.unknown_limit()), (None, 2, None));
}

#[test]
fn stages_nest() {
    let text = r#"
on_child_failure = "dead"
[[stage.children]]
name = "embed"
kind = "command"
command = ["python3", "embed.py"]
env = ["HOME"]
[[stage.children.children]]
name = "keep"
kind = "filter"
keep = "payload.score > 0.5"
[[stage]]
name = "last"
kind = "pass"
"#;
    let definition = pass(text).unwrap();
    let names: Vec<_> = definition.all_stages().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["s", "embed", "keep", "last"]);
    assert_eq!(definition.stages[0].on_child_failure, ChildFailure::Dead);
    assert_eq!(definition.stages[0].children[0].concurrency, 4);
}

#[test]
fn an_inbox_has_a_key_and_nothing_to_read() {
    let source = |keys: &str| {
        let text = format!(
            "name = \"p\"\n[source]\nkind = \"inbox\"\n{keys}\n[[stage]]\nname = \"s\"\nkind = \"pass\"\n"
        );
        parse(&text, "p.toml").expect("valid").source
    };
    assert_eq!(source(""), SourceDef { kind: SourceKind::Inbox, ..SourceDef::default() });
    assert_eq!(source("key = \"/id\"").key.as_deref(), Some("/id"));
    assert_eq!(source("queue = \"in.orders\"").queue.as_deref(), Some("in.orders"));
}

#[test]
fn mistakes_at_the_top_are_told_with_line_and_key() {
    let table = [
        ("", "p.toml:1: name: missing"),
        ("", "p.toml:1: stage: missing: a pipeline has at least one [[stage]]"),
        ("name = 3", "p.toml:1: name: expected a string, found an integer"),
        ("name = \"a b\"", "p.toml:1: name: \"a b\" is no name"),
        ("\nnmae = \"x\"", "p.toml:2: nmae: unknown key (did you mean \"name\"?)"),
        ("order = \"newest\"", "p.toml:1: order: unknown order \"newest\"; known are oldest, fresh-first"),
        ("deadline = 30", "p.toml:1: deadline: expected a duration, found an integer (write a string"),
        ("deadline = \"30\"", "p.toml:1: deadline: \"30\" has no unit"),
        ("priority = 99999999999", "p.toml:1: priority: 99999999999 is not between"),
        ("commands = \"none\"", "p.toml:1: commands: unknown word \"none\"; known are any, allowed"),
        (
            "commands = \"alowed\"",
            "p.toml:1: commands: unknown word \"alowed\"; known are any, allowed (did you",
        ),
        ("retry_share = nan", "p.toml:1: retry_share: NaN is not between 0 and 1"),
        ("[stage]", "p.toml:1: stage: expected an array, found a table (write [[stage]]"),
        ("stage = []", "p.toml:1: stage: needs at least one stage"),
        (
            "[source]\nkind = \"threads\"\npath = \"a.mbox\"",
            "p.toml:3: source.path: threads are those of the mail in the store (leave it out; `redrive mail ARCHIVE` puts mail there)",
        ),
        (
            "[source]\nkind = \"inbox\"\npath = \"a.jsonl\"",
            "p.toml:3: source.path: an inbox reads nothing (leave it out; `redrive submit FILE --item JSON` hands items in)",
        ),
        (
            "[source]\nkind = \"inbox\"\nqueue = \"redrive.answers\"",
            "p.toml:3: source.queue: \"redrive.answers\" cannot be used: names that begin with amq. and redrive. are taken",
        ),
        (
            "[source]\nkind = \"inbox\"\nqueue = \"\"",
            "p.toml:3: source.queue: expected the name of a queue: 1 to 200 bytes without control characters",
        ),
        (
            "[source]\nkind = \"jsonl\"\nqueue = \"q\"",
            "p.toml:3: source.queue: unknown key (it belongs to kind = \"inbox\")",
        ),
        (
            "[source]\nkind = \"inbox\"\ndelimiter = \";\"",
            "p.toml:3: source.delimiter: unknown key (it belongs to kind = \"csv\")",
        ),
        (
            "[source]\npath = [\"a.csv\", \"b.jsonl\"]\ndelimiter = \";\"",
            "p.toml:3: source.delimiter: unknown key (it belongs to kind = \"csv\")",
        ),
        (
            "[source]\nkind = \"inbox\"\nhidden = true",
            "p.toml:3: source.hidden: unknown key (it belongs to kind = \"files\")",
        ),
        ("[source]\n\nkey = \"id\"", "p.toml:3: source.key: \"id\" is no JSON pointer"),
        ("[run]\ncompleted_at = 95", "p.toml:2: run.completed_at: 95 is not between 0 and 1"),
        ("[run]\npartial_at = 0.99", "p.toml:2: run.partial_at: 0.99 is above completed_at, 0.95"),
        (
            "[run]\nfailure_budget = true",
            "p.toml:2: run.failure_budget: expected a table or false, found a boolean",
        ),
        (
            "[run.failure_budget]\nwindow = 10\nmin_samples = 20",
            "p.toml:3: run.failure_budget.min_samples: 20 is more than the window, 10",
        ),
        ("[gate.A]", "p.toml:1: gate.A: \"A\" is no name"),
        ("[gate.a]\nbreaker = 1", "p.toml:2: gate.a.breaker: expected a table or false, found an integer"),
        ("[gate.a.breaker]\nfailure_rate = 0", "p.toml:2: gate.a.breaker.failure_rate: must be above 0"),
        ("[gate.a]\nrpm = 3", "p.toml:2: gate.a.rpm: unknown key"),
        ("a = ", "p.toml:1: "),
        ("name = \"p\"\nname = \"q\"", "p.toml:2: duplicate key"),
    ];
    for (text, expected) in table {
        let found = told(parse(text, "p.toml"));
        assert!(found.iter().any(|told| told.starts_with(expected)), "{text:?} {expected}: {found:#?}");
    }
}

#[test]
fn mistakes_in_a_stage_are_told_with_line_and_key() {
    let table = [
        (
            "kind = \"htpp\"",
            "p.toml:4: stage.s.kind: unknown kind \"htpp\"; available are http, command, external, event, embed, chat, filter, pass",
        ),
        (
            "kind = \"pass\"\nevent = \"a.b\"",
            "p.toml:5: stage.s.event: a stage of kind \"pass\" is not handed over as an event",
        ),
        (
            "kind = \"command\"\ncommand = [\"x\"]\nevent = \"A\"",
            "p.toml:6: stage.s.event: \"A\" is no name of an event",
        ),
        ("kind = \"event\"", "p.toml:2: stage.s.event: missing"),
        (
            "kind = \"event\"\nevent = \"item.dead\"",
            "p.toml:5: stage.s.event: \"item.dead\" is what is told of items and runs by itself",
        ),
        (
            "kind = \"event\"\nevent = \"archive.complete\"",
            "p.toml:5: stage.s.event: \"archive.complete\" is what is told of items and runs by itself",
        ),
        ("", "p.toml:2: stage.s.kind: missing"),
        ("kin = \"pass\"", "p.toml:4: stage.s.kin: unknown key (did you mean \"kind\"?)"),
        ("kind = \"http\"", "p.toml:2: stage.s.url: missing"),
        (
            "kind = \"http\"\nurl = \"ftp://x\"",
            "p.toml:5: stage.s.url: expected an address that starts with http://",
        ),
        (
            "kind = \"http\"\nurl = \"http://u:p@h\"",
            "p.toml:5: stage.s.url: the address holds a user name, password or key (send it as a header",
        ),
        (
            "kind = \"http\"\nurl = \"http://h\"\nbody = \"payload\"\nbatch = 2",
            "p.toml:7: stage.s.batch: body = \"payload\" carries one item",
        ),
        (
            "kind = \"http\"\nurl = \"http://h\"\nheaders = { \"Idempotency-Key\" = \"1\" }",
            "p.toml:6: stage.s.headers.Idempotency-Key: Idempotency-Key is set by redrive itself",
        ),
        (
            "kind = \"http\"\nurl = \"http://h\"\nheaders = { X-Team = \"a\", Authorization = \"Bearer canary\" }",
            "p.toml:6: stage.s.headers.Authorization: the header holds a key or password (have its value read from a \
             variable: header_env = { Authorization = \"MY_VARIABLE\" })",
        ),
        (
            "kind = \"http\"\nurl = \"http://h\"\nheaders = { My-Api-Key = \"x\" }",
            "p.toml:6: stage.s.headers.My-Api-Key: the header holds a key or password",
        ),
        (
            "kind = \"http\"\nurl = \"http://h\"\nheaders = { X-Note = \"sk-proj-0123456789abcdef\" }",
            "p.toml:6: stage.s.headers.X-Note: the header holds a key or password",
        ),
        (
            "kind = \"http\"\nurl = \"http://h\"\nheader_env = { Authorization = \"Bearer x\" }",
            "p.toml:6: stage.s.header_env.Authorization: expected the name of an environment variable",
        ),
        ("kind = \"http\"\nurl = \"http://h\"\nmax_answer = 0", "p.toml:6: stage.s.max_answer: not between"),
        (
            "kind = \"http\"\nurl = \"http://h\"\nmax_answer = \"1TB\"",
            "p.toml:6: stage.s.max_answer: \"1TB\" is no size",
        ),
        (
            "kind = \"command\"\ncommand = \"ls -l\"",
            "p.toml:5: stage.s.command: expected an array, found a string (write",
        ),
        ("kind = \"command\"\ncommand = []", "p.toml:5: stage.s.command: expected a program"),
        (
            "kind = \"command\"\ncommand = [\"a\",\n 3]",
            "p.toml:6: stage.s.command[1]: expected a string, found an integer",
        ),
        ("kind = \"filter\"\nkeep = \" \"", "p.toml:5: stage.s.keep: expected an expression"),
        ("kind = \"pass\"\nbatch = 0", "p.toml:5: stage.s.batch: 0 is not between 1 and 10000"),
        (
            "kind = \"pass\"\nconcurrency = 2000",
            "p.toml:5: stage.s.concurrency: 2000 is not between 1 and 1024",
        ),
        ("kind = \"pass\"\ntimeout = 60", "p.toml:5: stage.s.timeout: expected a duration, found an integer"),
        ("kind = \"pass\"\ntimeout = \"0s\"", "p.toml:5: stage.s.timeout: must be above zero"),
        ("kind = \"pass\"\nurl = \"http://h\"", "p.toml:5: stage.s.url: unknown key"),
        ("kind = \"pass\"\ngate = \"A B\"", "p.toml:5: stage.s.gate: \"A B\" is no name"),
        (
            "kind = \"pass\"\n[[stage]]\nname = \"s\"",
            "p.toml:6: stage[1].name: \"s\" is taken by the stage on line 3",
        ),
        ("kind = \"pass\"\n[[stage]]\nkind = \"pass\"", "p.toml:5: stage[1].name: missing"),
        (
            "kind = \"pass\"\n[[stage.children]]\nname = \"c\"\nkind = \"pass\"\nbatch = -1",
            "p.toml:8: stage.s.children.c.batch: -1 is not between",
        ),
        (
            "kind = \"pass\"\non_child_failure = \"die\"",
            "p.toml:5: stage.s.on_child_failure: expected \"continue\"",
        ),
    ];
    for (text, expected) in table {
        let found = told(parse(&format!("{HEAD}{text}"), "p.toml"));
        assert!(found.iter().any(|told| told.starts_with(expected)), "{text:?} {expected}: {found:#?}");
    }
}

#[test]
fn mistakes_in_a_policy_are_told_with_line_and_key() {
    let table = [
        (
            "retry = \"llm\"",
            "p.toml:5: stage.s.retry: expected a table, found a string (write retry = { preset",
        ),
        (
            "retry = { preset = \"smaple\" }",
            "p.toml:5: stage.s.retry.preset: unknown preset \"smaple\"; known are sample",
        ),
        ("\nretry.max_attempts = 0", "p.toml:6: stage.s.retry.max_attempts: 0 is too low"),
        ("retry.max_attempts = -1", "p.toml:5: stage.s.retry.max_attempts: -1 is not between 0"),
        (
            "retry.max_attempts = \"many\"",
            "p.toml:5: stage.s.retry.max_attempts: expected an integer or \"endless\"",
        ),
        (
            "[stage.retry.backoff]\nkind = \"exponential\"\njitter = 2",
            "p.toml:7: stage.s.retry.backoff.jitter: 2 is not a fraction",
        ),
        ("[stage.retry]\njitter = 2", "p.toml:6: stage.s.retry.jitter: 2 is not a fraction"),
        (
            "[stage.retry.backoff]\nkind = \"exponential\"\nmax = \"1s\"\nbase = \"2s\"",
            "p.toml:8: stage.s.retry.backoff.base: 2s is longer than max, 1s",
        ),
        (
            "retry.backoff = { kind = \"expo\" }",
            "p.toml:5: stage.s.retry.backoff.kind: unknown backoff \"expo\"",
        ),
        ("retry.backoff = { kind = \"fixed\" }", "p.toml:5: stage.s.retry.backoff.delay: missing"),
        (
            "retry.backoff = { kind = \"fixed\", delay = \"1s\", base = \"1s\" }",
            "p.toml:5: stage.s.retry.backoff.base: unknown key",
        ),
        (
            "[stage.retry.backoff]\nkind = \"schedule\"\ndelays = [\n\"1m\",\n5]",
            "p.toml:9: stage.s.retry.backoff.delays[1]: expected a duration, found an integer",
        ),
        ("retry.tiers = []", "p.toml:5: stage.s.retry.tiers: give 1 to 16 tiers"),
        (
            "retry.tiers = [\n{ attempts = 0, backoff = { kind = \"none\" } },\n]",
            "p.toml:6: stage.s.retry.tiers[0].attempts: 0 is too low",
        ),
        (
            "retry.retry_on = \"5xx\"",
            "p.toml:5: stage.s.retry.retry_on: expected \"all\", \"none\" or a list",
        ),
        (
            "retry.retry_on = [\n\"tiemout\"]",
            "p.toml:6: stage.s.retry.retry_on[0]: unknown matcher \"tiemout\"",
        ),
        ("retry.final_on = [99]", "p.toml:5: stage.s.retry.final_on[0]: unknown matcher \"99\""),
        (
            "[stage.retry.on.timeout]\nmax_attempts = 0",
            "p.toml:6: stage.s.retry.on.timeout.max_attempts: 0 is too low",
        ),
        ("retry.timeout_growth = 0.5", "p.toml:5: stage.s.retry.timeout_growth: 0.5 is not between 1"),
        ("retry.retries = 3", "p.toml:5: stage.s.retry.retries: unknown key"),
    ];
    for (text, expected) in table {
        let found = told(pass(text));
        assert!(found.iter().any(|told| told.starts_with(expected)), "{text:?} {expected}: {found:#?}");
        assert_eq!(found.len(), 1, "{text:?}: {found:#?}");
    }
}

#[test]
fn every_problem_is_reported_in_the_order_of_lines() {
    let text = "order = 1\n[[stage]]\nname = \"A\"\nkind = \"http\"\nbatch = 0\nretry = { max_attempts = 0, x = 1 }\n";
    let lines: Vec<_> = parse(text, "f").unwrap_err().iter().map(|p| (p.line, p.key.clone())).collect();
    let keys =
        ["name", "order", "stage[0].url", "stage[0].name", "stage[0].batch", "stage[0].retry.max_attempts"];
    let expected: Vec<_> = [1, 1, 2, 3, 5, 6].into_iter().zip(keys.map(str::to_owned)).collect();
    assert_eq!(lines[..6], expected);
    assert_eq!(lines[6], (6, "stage[0].retry.x".to_owned()));
}

#[test]
fn a_policy_that_cannot_be_read_is_still_checked() {
    let text = "[stage.retry]\nmax_attempts = 0\njitter = \"some\"\nretry_on = [\"nope\"]\n";
    let keys: Vec<_> = pass(text).unwrap_err().into_iter().map(|problem| problem.key).collect();
    assert_eq!(keys, ["stage.s.retry.max_attempts", "stage.s.retry.jitter", "stage.s.retry.retry_on[0]"]);
}

#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let table = [
        (
            "[run]\ncompleted_at = 0.5",
            "p.toml:5: run.completed_at: rate = 0.1 stops runs that completed_at = 0.5",
        ),
        ("[run]\nfailure_budget = { rate = 0.01 }", "p.toml:6: run.failure_budget: rate = 0.01 stops runs"),
        (
            "[run]\nfailure_budget = { rate = 1, consecutive = false }",
            "p.toml:6: run.failure_budget: never stops",
        ),
        ("[gate.x]", "p.toml:5: gate.x: no stage names this gate"),
        (
            "retry = { preset = \"daemon\", max_attempts = 100 }",
            "p.toml:5: stage.s.retry.max_attempts: the waits alone",
        ),
        (
            "retry = { max_attempts = 1, backoff = { kind = \"fixed\", delay = \"1s\" } }",
            "p.toml:5: stage.s.retry.backoff: never used",
        ),
        ("on_child_failure = \"dead\"", "p.toml:5: stage.s.on_child_failure: never used"),
    ];
    for (text, expected) in table {
        let found = warned(pass(text));
        assert!(found.len() == 1 && found[0].starts_with(expected), "{text:?} {expected}: {found:#?}");
    }
    let endless = "name = \"p\"\ndeadline = \"none\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\nretry.preset = \"index\"\n";
    assert_eq!(warned(parse(endless, "p.toml")).len(), 1);
}

#[test]
fn a_backoff_that_nobody_wrote_is_not_told_to_be_never_used() {
    for text in ["retry = { max_attempts = 1 }", "retry = { preset = \"interactive\", max_attempts = 1 }"] {
        assert_eq!(warned(pass(text)), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn the_hash_follows_what_a_stage_does_and_not_how_often() {
    let hash = |rest: &str| {
        let text = format!("{HEAD}kind = \"http\"\nurl = \"http://h/a\"\n{rest}");
        parse(&text, "p").unwrap().stages[0].config_hash()
    };
    let base = hash("");
    assert_eq!(base.len(), 64);
    assert_eq!(base, hash("batch = 7\nconcurrency = 3\ntimeout = \"1s\"\nretry.preset = \"llm\""));
    assert_ne!(base, hash("body = \"payload\""));
    assert_ne!(base, hash("headers = { A = \"1\" }"));
    assert_ne!(base, hash("output = \"/x\""));
}

#[test]
fn any_text_is_survived() {
    let deep = format!("name = \"p\"\na = {}", "[".repeat(10_000));
    let nested: String = (0..200).map(|n| format!("[[stage{}]]\n", ".children".repeat(n))).collect();
    for text in ["\u{0}", "=", "[[", "\"", "name = \"\\uD800\"", "[stage.s]\n", &deep, &nested] {
        assert!(parse(text, "p").is_err());
    }
}

#[test]
fn a_worker_crash_is_final_only_when_named() {
    let policy = pass("retry.final_on = [\"crash\"]").unwrap().stages[0].retry.clone();
    let crash =
        redrive_core::failure::Failure::new(Class::Crash, redrive_core::failure::Kind::Worker, "gone");
    assert_eq!(policy.reclassify(crash).class, Class::Final);
}

proptest! {
    #[test]
    fn a_damaged_file_is_read_or_refused_with_lines_that_exist(
        from in 0..CONTRACT.len(), length in 0_usize..60, put in "[\\PC\n\"=\\[\\]{}#.]{0,12}",
    ) {
        let kept = CONTRACT.chars().take(from).collect::<String>();
        let rest = CONTRACT.chars().skip(from + length).collect::<String>();
        let text = format!("{kept}{put}{rest}");
        if let Err(problems) = parse(&text, "p") {
            prop_assert!(!problems.is_empty());
            let lines = text.lines().count() + 1;
            prop_assert!(problems.iter().all(|problem| (1..=lines).contains(&problem.line)));
        }
    }
}
