//! Commands that a page only names, in its sentences and in blocks that are not run.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use regex_lite::Regex;

use super::page;

/// What `redrive VERB --help` prints, by the verb; `None` where there is no such verb.
#[derive(Default)]
pub struct Helps(BTreeMap<String, Option<String>>);

impl Helps {
    fn of(&mut self, verb: &str) -> Option<String> {
        let ask = |verb: &str| {
            let ran =
                Command::new(env!("CARGO_BIN_EXE_redrive")).args(verb.split(' ')).arg("--help").output();
            let ran = ran.expect("it starts");
            ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).into_owned())
        };
        self.0.entry(verb.to_owned()).or_insert_with(|| ask(verb)).clone()
    }

    /// What is wrong with a command, if anything: its verb and its options have to be there.
    pub fn wrong(&mut self, command: &str) -> Option<String> {
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        let is_verb =
            |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
        let first = words.first().filter(|word| is_verb(word))?;
        let nested = ["dead", "gates", "pipelines", "policy", "queues", "token"].contains(first);
        let second = words.get(1).filter(|word| nested && is_verb(word));
        let verb = second.map_or((*first).to_owned(), |second| format!("{first} {second}"));
        let Some(help) = self.of(&verb) else { return Some(format!("`{command}`: there is no `{verb}`")) };
        let pattern = Regex::new(r"^-{1,2}[a-z][a-z-]*").expect("a pattern");
        let options = words
            .iter()
            .filter_map(|word| pattern.find(word.trim_start_matches('[')))
            .map(|found| found.as_str().to_owned());
        let known = Regex::new(r"-{1,2}[a-zA-Z][a-z-]*").expect("a pattern");
        let known: Vec<&str> = known.find_iter(&help).map(|found| found.as_str()).collect();
        let missing: Vec<String> = options.filter(|option| !known.contains(&option.as_str())).collect();
        (!missing.is_empty()).then(|| format!("`{command}`: `{verb}` has no {}", missing.join(", ")))
    }
}

/// Every verb and every option of the binary, as it tells them to a shell.
pub struct Surface {
    /// Verbs, and verbs of verbs: `run`, `dead list`.
    pub verbs: BTreeSet<String>,
    /// Options, with their two dashes.
    pub options: BTreeSet<String>,
}

impl Surface {
    /// Asks the binary.
    pub fn of_the_binary() -> Self {
        let ran = Command::new(env!("CARGO_BIN_EXE_redrive")).args(["completions", "fish"]).output();
        let text = String::from_utf8_lossy(&ran.expect("it starts").stdout).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("complete -c redrive ")).collect();
        let option = Regex::new(r" -l ([a-z-]+)").expect("a pattern");
        let options =
            lines.iter().filter_map(|line| option.captures(line)).map(|found| format!("--{}", &found[1]));
        let first = Regex::new("needs_command\" -f -a \"([a-z-]+)\"").expect("a pattern");
        let second =
            Regex::new("using_subcommand ([a-z]+); and not .* -f -a \"([a-z-]+)\"").expect("a pattern");
        let firsts = lines.iter().filter_map(|line| first.captures(line)).map(|found| found[1].to_owned());
        let seconds = lines
            .iter()
            .filter_map(|line| second.captures(line))
            .map(|found| format!("{} {}", &found[1], &found[2]));
        let hidden = |verb: &String| verb.ends_with("-worker") || verb.split(' ').any(|word| word == "help");
        Self {
            verbs: firsts.chain(seconds).filter(|verb| !hidden(verb)).collect(),
            options: options.collect(),
        }
    }
}

/// The commands that a page names without running them.
pub fn commands(text: &str) -> Vec<String> {
    let prose = page::prose(text);
    let inline = Regex::new(r"`(redrive [^`]+)`").expect("a pattern");
    let mut found: Vec<String> = inline.captures_iter(&prose).map(|found| found[1].to_owned()).collect();
    for block in page::blocks(text).iter().filter(|block| block.marks.has("not-run")) {
        let lines =
            block.text.lines().map(|line| line.trim_start_matches("$ ").split(" # ").next().unwrap_or(""));
        found.extend(lines.filter(|line| line.starts_with("redrive ")).map(str::to_owned));
    }
    found
}

#[test]
fn a_command_that_is_not_there_is_found() {
    let mut helps = Helps::default();
    assert_eq!(helps.wrong("redrive dead list --group G"), None);
    assert_eq!(helps.wrong("redrive --version"), None);
    assert!(helps.wrong("redrive dead burn").is_some_and(|why| why.contains("no `dead burn`")));
    assert!(helps.wrong("redrive run p.toml --hurry").is_some_and(|why| why.contains("no --hurry")));
}
