//! README and `docs/` say what is so: every block is played with the real binary, every link leads somewhere, and every
//! command that is named exists.
//!
//! Each page has a folder of its own, in which its blocks are played in their order. What a block is says its
//! language, and words behind it that no reader sees:
//!
//! | block | what is done with it |
//! |---|---|
//! | `sh` | its commands are run; each has to end with 0, or as its comment says (`# … exit code 3`), the last one as `exit=N` says |
//! | `sh background` | its commands are started and stay; `background="text"` waits until that is printed |
//! | `console` | a line `$ …` is run, and the lines below it have to be what it prints |
//! | `text`, `json` | what the last command of the block before printed; with `end`, what a command in the background printed until Ctrl-C |
//! | `toml file=NAME`, and other languages | is written as this file; a pipeline is valid and lint has nothing to say, unless `warns` is there |
//! | `toml part` | a piece of a pipeline: with a name and a stage, where it has none, it is valid; `part=NAME` keeps it as this file |
//! | any, with `not-run="reason"` | nothing; `LEFT_OUT` below lists them |
//! | `<!-- sh … -->` | commands that are run and not shown, with the marks of `sh`; `<!-- sh end` ends what is in the background |
//! | `<!-- with NAME … -->` | folders and files of the repository that the page's folder has |
//!
//! In an output `…` stands for anything, alone on a line for any number of lines. With `times`, moments, spans of time,
//! ids and blanks need not agree; with `numbers`, no number. What listens at 127.0.0.1:9000 in a page listens elsewhere
//! here, so that pages can be played side by side. `cargo run … --` is taken for the binary that was built.
//!
//! `REDRIVE_RENEW=1` writes what commands print into pages that are wrong, `REDRIVE_RENEW=all` into every page.

mod compare;
mod links;
mod page;
mod play;
mod prose;
mod stage;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Blocks that are not run, and why. A new one is named here as well.
const LEFT_OUT: &[&str] = &[
    "README.md: runs everything, this test too",
    "docs/agents.md: the settings of a client, which is another program",
    "docs/bus.md: needs a RabbitMQ broker",
    "docs/bus.md: the shape of a message, with made-up values",
    "docs/bus.md: needs a RabbitMQ broker",
    "docs/bus.md: the shape of a message, with made-up values",
    "docs/bus.md: needs a RabbitMQ broker",
    "docs/external-workers.md: the page plays it in the background, with the port it has here",
    "docs/first-run.md: installs the program, which takes minutes",
    "docs/indexing.md: needs Ollama, and a key of OpenAI",
    "docs/mail.md: needs a RabbitMQ broker",
    "docs/notifications.md: the shape of a message, with made-up figures",
    "docs/serving.md: the settings of nginx, which is another program",
    "docs/state-machine.md: a diagram, which crates/core/tests/state_diagram.rs draws and compares",
];

/// The repository's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

/// README and the pages of `docs/`.
fn pages() -> Vec<String> {
    let files = std::fs::read_dir(root().join("docs")).expect("it is there");
    let names = files.map(|file| format!("docs/{}", file.expect("read").file_name().to_string_lossy()));
    let mut pages: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    pages.push("README.md".to_owned());
    pages.sort();
    pages
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn is_as_it_says(name: &str) {
    let text = read(name);
    let played = play::play(&root(), &text);
    let renew = std::env::var("REDRIVE_RENEW").unwrap_or_default();
    if renew == "all" || (renew == "1" && !played.wrong.is_empty()) {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (range, new) in played.renewed.into_iter().rev() {
            lines.splice(range, new);
        }
        std::fs::write(root().join(name), lines.join("\n") + "\n").expect("written");
    }
    let wrong = played.wrong.join("\n\n");
    assert!(wrong.is_empty(), "{name} is not as it says (REDRIVE_RENEW=1 renews outputs):\n\n{wrong}");
}

/// A test for every page, so that they are played side by side.
macro_rules! played {
    ($($test:ident: $page:literal,)*) => {
        $(#[test]
        fn $test() {
            is_as_it_says($page);
        })*

        #[test]
        fn every_page_is_played() {
            let mut named = vec![$($page.to_owned()),*];
            named.sort();
            assert_eq!(named, pages());
        }
    };
}

played! {
    readme_is_as_it_says: "README.md",
    the_list_of_pages_is_as_it_says: "docs/README.md",
    agents_are_as_they_say: "docs/agents.md",
    answers_are_as_they_say: "docs/answers.md",
    the_bus_is_as_it_says: "docs/bus.md",
    dead_letters_are_as_they_say: "docs/dead-letters.md",
    external_workers_are_as_they_say: "docs/external-workers.md",
    first_run_is_as_it_says: "docs/first-run.md",
    not_running_is_as_it_says: "docs/not-running.md",
    notifications_are_as_they_say: "docs/notifications.md",
    python_stage_is_as_it_says: "docs/python-stage.md",
    rate_limits_are_as_they_say: "docs/rate-limits.md",
    correctness_is_as_it_says: "docs/correctness.md",
    dependencies_are_as_they_say: "docs/dependencies.md",
    gates_are_as_they_say: "docs/gates.md",
    handlers_are_as_they_say: "docs/handlers.md",
    indexing_is_as_it_says: "docs/indexing.md",
    machines_are_as_they_say: "docs/machines.md",
    mail_is_as_it_says: "docs/mail.md",
    model_stages_are_as_they_say: "docs/model-stages.md",
    monitoring_is_as_it_says: "docs/monitoring.md",
    operations_are_as_they_say: "docs/operations.md",
    pipeline_file_is_as_it_says: "docs/pipeline-file.md",
    policies_are_as_they_say: "docs/policies.md",
    rehearse_is_as_it_says: "docs/rehearse.md",
    the_runbook_is_as_it_says: "docs/runbook.md",
    schedules_are_as_they_say: "docs/schedules.md",
    serving_is_as_it_says: "docs/serving.md",
    state_machine_is_as_it_says: "docs/state-machine.md",
}

#[test]
fn what_is_not_run_is_listed_with_its_reason() {
    let mut found = Vec::new();
    for name in pages() {
        for block in page::blocks(&read(&name)) {
            if let Some(reason) = play::left_out(&block) {
                assert!(!reason.is_empty(), "{name}, line {}: say why it is not run", block.line);
                found.push(format!("{name}: {reason}"));
            }
        }
    }
    assert_eq!(found, LEFT_OUT, "{} blocks are not run", found.len());
}

#[test]
fn no_block_hides_behind_four_blanks() {
    for name in pages() {
        let prose = page::prose(&read(&name));
        let hidden = prose.lines().find(|line| line.starts_with("    "));
        assert_eq!(hidden, None, "{name}: fence it, so that it is run");
    }
}

#[test]
fn tables_are_as_wide_as_they_are_printed() {
    let mut wide = Vec::new();
    for name in pages() {
        for block in page::blocks(&read(&name)) {
            let lines: Vec<&str> = block.text.lines().collect();
            wide.extend(compare::too_wide(&lines).map(|line| format!("{name}, line {}: {line}", block.line)));
        }
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

#[test]
fn every_command_that_is_named_exists() {
    let mut helps = prose::Helps::default();
    let mut wrong = Vec::new();
    for name in pages() {
        let named = prose::commands(&read(&name));
        wrong.extend(
            named.iter().filter_map(|command| helps.wrong(command)).map(|why| format!("{name}: {why}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Options that pages name and that are not ours.
const FOREIGN: &[&str] = &["--auto-truncate", "--ubatch-size", "--release", "--runs"];

/// Options that need no page: what they do is said by their names, or by a short form that pages use.
const PLAIN: &[&str] = &["--help", "--version", "--output"];

#[test]
fn every_verb_and_option_is_told_and_every_option_that_is_told_exists() {
    let surface = prose::Surface::of_the_binary();
    assert!(surface.verbs.contains("dead list") && surface.options.contains("--json"));
    let all: String = pages().iter().map(|name| read(name)).collect();
    let pattern = regex_lite::Regex::new(r"(?:^|[^\w-])(--[a-z][a-z-]+)").expect("a pattern");
    let told: BTreeSet<String> = pattern.captures_iter(&all).map(|found| found[1].to_owned()).collect();
    let not_told = |option: &&String| !told.contains(*option) && !PLAIN.contains(&option.as_str());
    let no_page: Vec<&String> = surface.options.iter().filter(not_told).collect();
    let unknown: Vec<&String> =
        told.difference(&surface.options).filter(|option| !FOREIGN.contains(&option.as_str())).collect();
    // `dead list`, `groups`: a verb of a verb may be told beside the first of a list.
    let is_told = |verb: &&String| {
        let last = verb.split(' ').next_back().unwrap_or_default();
        all.contains(&format!("redrive {verb}")) || (verb.contains(' ') && all.contains(&format!("`{last}`")))
    };
    let silent: Vec<&String> = surface.verbs.iter().filter(|verb| !is_told(verb)).collect();
    assert!(
        no_page.is_empty() && unknown.is_empty() && silent.is_empty(),
        "no page tells {no_page:?} and {silent:?}; there is no {unknown:?}"
    );
}

#[test]
fn every_second_name_of_a_schema_is_told() {
    let surface = prose::Surface::of_the_binary();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_redrive")).arg("schema").output();
    let names = String::from_utf8_lossy(&ran.expect("it starts").stdout).into_owned();
    let second = names.lines().filter(|name| *name != "error" && !surface.verbs.contains(*name));
    let second: BTreeSet<String> = second.map(str::to_owned).collect();
    let page = read("docs/machines.md");
    let (_, list) = page.split_once("have a second name for it: ").expect("the list is there");
    let (list, _) = list.split_once(".\n").expect("it ends");
    let told = list.split([',', '\n']).map(|name| name.trim().trim_matches('`').to_owned());
    let told: BTreeSet<String> = told.filter(|name| !name.is_empty()).collect();
    assert_eq!(told, second, "docs/machines.md lists them");
}

#[test]
fn every_code_of_an_error_is_told() {
    let shapes = std::fs::read_to_string(root().join("crates/operate/schemas.json")).expect("it is there");
    let shapes: serde_json::Value = serde_json::from_str(&shapes).expect("JSON");
    let codes = shapes["$defs"]["code"]["enum"].as_array().expect("a list");
    let page = read("docs/machines.md");
    let silent: Vec<_> = codes
        .iter()
        .filter_map(serde_json::Value::as_str)
        .filter(|code| !page.contains(&format!("`{code}`")))
        .collect();
    assert!(!codes.is_empty() && silent.is_empty(), "docs/machines.md does not tell {silent:?}");
}

#[test]
fn every_link_leads_somewhere() {
    let more = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "bench/README.md",
        "deploy/README.md",
    ]
    .map(str::to_owned);
    let records = std::fs::read_dir(root().join("docs/adr")).expect("it is there");
    let records =
        records.map(|file| format!("docs/adr/{}", file.expect("read").file_name().to_string_lossy()));
    let all = pages().into_iter().chain(more).chain(records);
    let wrong: Vec<String> = all.flat_map(|name| links::broken(&root(), &name)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
