//! `[[notify]]`: who is told when something happens.

use std::time::Duration;

use crate::definition::{NotifyDef, NotifyOn, NotifyTarget};
use crate::kind;
use crate::problem::Report;
use crate::reader::{Node, Table};
use crate::{scalar, suggest};

/// Most entries of a file.
const ENTRIES_MAX: usize = 20;
const COUNT_MAX: u32 = 1_000_000;
const DEAD_COUNT: u32 = 10;
const DEAD_WITHIN: Duration = Duration::from_secs(3_600);
const STARVED_AFTER: Duration = Duration::from_secs(600);

/// Reads the list.
pub(crate) fn read(node: &Node<'_, '_>, report: &mut Report<'_>) -> Vec<NotifyDef> {
    let Some(entries) = node.array(report) else { return Vec::new() };
    if entries.len() > ENTRIES_MAX {
        node.fail(report, format!("more than {ENTRIES_MAX} entries"));
    }
    let read: Vec<NotifyDef> = entries.iter().filter_map(|entry| one(entry, report)).collect();
    for (at, entry) in entries.iter().enumerate().skip(1) {
        let Some(this) = read.get(at).filter(|_| read.len() == entries.len()) else { continue };
        if read[..at].iter().any(|before| before.target == this.target) {
            let hint = "name all that it is told in one entry's `on`";
            entry.fail_with(report, "the same is told by another entry", hint);
        }
    }
    read
}

fn one(entry: &Node<'_, '_>, report: &mut Report<'_>) -> Option<NotifyDef> {
    let mut table = entry.table(report)?;
    let on = table.require("on", report).map(|node| kinds(&node, report)).unwrap_or_default();
    let target = target(entry, &mut table, report);
    let (mut dead_count, mut dead_within, mut starved_after) = (DEAD_COUNT, DEAD_WITHIN, STARVED_AFTER);
    if on.contains(&NotifyOn::DeadGrowth) {
        if let Some(mut growth) = table.take("dead_growth").and_then(|node| node.table(report)) {
            let count = growth.take("count").and_then(|node| node.count(report, COUNT_MAX));
            let within = growth.take("within").and_then(|node| node.duration(report));
            (dead_count, dead_within) = (count.unwrap_or(DEAD_COUNT), within.unwrap_or(DEAD_WITHIN));
            growth.finish(report);
        }
    } else {
        table.refuse(&["dead_growth"], "never used", "add \"dead.growth\" to `on`, or leave it out", report);
    }
    if on.contains(&NotifyOn::Starved) {
        let after = table.take("starved_after").and_then(|node| node.duration(report));
        starved_after = after.unwrap_or(STARVED_AFTER);
    } else {
        table.refuse(
            &["starved_after"],
            "never used",
            "add \"items.starved\" to `on`, or leave it out",
            report,
        );
    }
    table.finish(report);
    Some(NotifyDef { on, target: target?, dead_count, dead_within, starved_after })
}

fn kinds(node: &Node<'_, '_>, report: &mut Report<'_>) -> Vec<NotifyOn> {
    let mut on = Vec::new();
    let Some(words) = node.strings(report) else { return on };
    if words.is_empty() {
        node.fail(report, "expected at least one thing to be told");
    }
    let known = NotifyOn::ALL.map(NotifyOn::name);
    for (node, word) in words {
        match NotifyOn::ALL.into_iter().find(|kind| kind.name() == word) {
            Some(kind) if on.contains(&kind) => node.fail(report, "named twice"),
            Some(kind) => on.push(kind),
            None => {
                let message = format!("nothing is called {word:?}; known are {}", known.join(", "));
                node.fail_with(report, message, suggest::hint(word, &known));
            }
        }
    }
    on
}

fn target(entry: &Node<'_, '_>, table: &mut Table<'_, '_>, report: &mut Report<'_>) -> Option<NotifyTarget> {
    let (url, command) = (table.take("url"), table.take("command"));
    match (url, command) {
        (Some(url), None) => {
            let secret = table.take("secret_env").and_then(|node| node.parsed(report, scalar::variable));
            Some(NotifyTarget::Url { url: kind::url(&url, report)?, secret_env: secret })
        }
        (None, Some(command)) => {
            table.refuse(&["secret_env"], "a command gets no signature", "it belongs to `url`", report);
            Some(NotifyTarget::Command { command: kind::arguments(&command, report)? })
        }
        (Some(_), Some(command)) => {
            command.fail_with(report, "there is a url as well", "make two entries of it");
            None
        }
        (None, None) => {
            entry.fail_with(report, "nobody is told", "give it a url, or a command = [\"program\", …]");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = \"p\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\n";

    fn read(rest: &str) -> Result<Vec<NotifyDef>, Vec<String>> {
        let parsed = crate::parse(&format!("{HEAD}{rest}"), "p.toml");
        let told = |problems: Vec<crate::Problem>| problems.iter().map(ToString::to_string).collect();
        parsed.map(|definition| definition.notify).map_err(told)
    }

    #[test]
    fn entries_are_read_with_what_is_usual() {
        assert_eq!(read(""), Ok(Vec::new()));
        let two = "[[notify]]\non = [\"run.ended\", \"dead.growth\"]\nurl = \"https://a.example/x\"\nsecret_env = \"HOOK\"\n\
                   dead_growth = { count = 3, within = \"5m\" }\n[[notify]]\non = [\"items.starved\"]\ncommand = [\"tell\"]\n";
        let read = read(two).expect("entries");
        assert_eq!(read[0].on, [NotifyOn::RunEnded, NotifyOn::DeadGrowth]);
        assert_eq!((read[0].dead_count, read[0].dead_within), (3, Duration::from_secs(300)));
        let url =
            NotifyTarget::Url { url: "https://a.example/x".to_owned(), secret_env: Some("HOOK".to_owned()) };
        assert_eq!(read[0].target, url);
        assert_eq!(read[1].target, NotifyTarget::Command { command: vec!["tell".to_owned()] });
        assert_eq!(read[1].starved_after, STARVED_AFTER);
    }

    #[test]
    fn what_is_wrong_with_an_entry_is_told_with_its_line_and_key() {
        for (rest, problem) in [
            ("[[notify]]\nurl = \"http://a\"\n", "p.toml:5: notify[0].on: missing"),
            (
                "[[notify]]\non = []\nurl = \"http://a\"\n",
                "p.toml:6: notify[0].on: expected at least one thing to be told",
            ),
            (
                "[[notify]]\non = [\"run.end\"]\nurl = \"http://a\"\n",
                "p.toml:6: notify[0].on[0]: nothing is called \"run.end\"; known are run.ended, run.paused, dead.growth, items.starved, gate.paused",
            ),
            ("[[notify]]\non = [\"run.ended\"]\n", "p.toml:5: notify[0]: nobody is told"),
            (
                "[[notify]]\non = [\"run.ended\"]\nurl = \"http://a\"\ncommand = [\"b\"]\n",
                "p.toml:8: notify[0].command: there is a url as well",
            ),
            (
                "[[notify]]\non = [\"run.ended\"]\nurl = \"http://a\"\nstarved_after = \"5m\"\n",
                "p.toml:8: notify[0].starved_after: never used",
            ),
            (
                "[[notify]]\non = [\"run.ended\"]\nurl = \"http://a\"\n[[notify]]\non = [\"run.paused\"]\nurl = \"http://a\"\n",
                "p.toml:8: notify[1]: the same is told by another entry",
            ),
        ] {
            assert_eq!(read(rest), Err(vec![problem.to_owned()]), "{rest}");
        }
    }
}
