//! `[schedule]`: when a daemon begins a run by itself.

use redrive_core::schedule::{Cron, Missed, Overlap, Rule};

use crate::definition::{SourceDef, SourceKind};
use crate::problem::Report;
use crate::reader::{Node, Table};
use crate::suggest;

const OVERLAPS: [(&str, Overlap); 3] =
    [("skip", Overlap::Skip), ("queue", Overlap::Queue), ("allow", Overlap::Allow)];
const MISSED: [(&str, Missed); 3] = [("once", Missed::Once), ("skip", Missed::Skip), ("all", Missed::All)];
const UTC: &str = "UTC";
/// Longest name of a time zone.
const ZONE_MAX: usize = 64;

/// Reads the table. Whether its time zone is known is not asked here: a run keeps its file, and another machine may know
/// others.
pub(crate) fn read(node: &Node<'_, '_>, source: Option<&SourceDef>, report: &mut Report<'_>) -> Option<Rule> {
    if let Some(source) = source {
        check_source(node, source, report);
    }
    let mut table = node.table(report)?;
    let cron = table.require("cron", report);
    let cron = cron.and_then(|node| {
        node.parsed(report, |text| {
            Cron::parse(text).map(|_| text.split_whitespace().collect::<Vec<_>>().join(" "))
        })
    });
    let time_zone = table.take("time_zone").map_or(Some(UTC.to_owned()), |node| node.parsed(report, zone));
    let overlap = one_of(&mut table, "overlap", &OVERLAPS, report);
    let missed = one_of(&mut table, "missed", &MISSED, report);
    table.finish(report);
    Some(Rule {
        cron: cron?,
        time_zone: time_zone?,
        overlap: overlap.unwrap_or_default(),
        missed: missed.unwrap_or_default(),
    })
}

/// A run that begins by itself reads a source that is there.
fn check_source(node: &Node<'_, '_>, source: &SourceDef, report: &mut Report<'_>) {
    if source.kind == SourceKind::Inbox {
        let hint = "leave it out; items of an inbox are worked on as they come";
        node.fail_with(report, "an inbox has nothing that could be read at a time", hint);
    } else if source.paths.is_empty() {
        let hint = "say what is read: path = \"samples.jsonl\" in [source]";
        node.fail_with(report, "needs a source that is named in the file", hint);
    } else if source.paths.iter().any(|path| path == "-") {
        let hint = "name a file: path = \"samples.jsonl\" in [source]";
        node.fail_with(report, "standard input cannot be read at a time", hint);
    }
}

fn zone(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'+');
    if (1..=ZONE_MAX).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no time zone; write one such as \"Europe/Berlin\" or \"UTC\""))
}

/// One of some words.
fn one_of<T: Copy>(
    table: &mut Table<'_, '_>,
    key: &'static str,
    words: &[(&'static str, T)],
    report: &mut Report<'_>,
) -> Option<T> {
    let node = table.take(key)?;
    let word = node.string(report)?;
    let found = words.iter().find(|(known, _)| *known == word);
    if found.is_none() {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = format!("unknown rule {word:?}; known are {}", known.join(", "));
        node.fail_with(report, message, suggest::hint(word, &known));
    }
    found.map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use redrive_core::schedule::{Missed, Overlap, Rule};

    const HEAD: &str = "name = \"p\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\n";
    const FILE: &str = "[source]\npath = \"in.jsonl\"\n";

    fn read(rest: &str) -> Result<Option<Rule>, Vec<String>> {
        let parsed = crate::parse(&format!("{HEAD}{rest}"), "p.toml");
        let told = |problem: &crate::Problem| match &problem.hint {
            Some(hint) => format!("{problem} ({hint})"),
            None => problem.to_string(),
        };
        parsed.map(|definition| definition.schedule).map_err(|problems| problems.iter().map(told).collect())
    }

    #[test]
    fn a_schedule_is_read_with_what_is_usual() {
        assert_eq!(read(FILE), Ok(None));
        let usual = Rule {
            cron: "0 3 * * *".to_owned(),
            time_zone: "UTC".to_owned(),
            overlap: Overlap::Skip,
            missed: Missed::Once,
        };
        assert_eq!(read(&format!("{FILE}[schedule]\ncron = \" 0 3  * * *\"\n")), Ok(Some(usual)));
        let all = "[schedule]\ncron = \"@daily\"\ntime_zone = \"Europe/Berlin\"\noverlap = \"queue\"\nmissed = \"all\"\n";
        let rule = read(&format!("{FILE}{all}")).expect("a file").expect("a schedule");
        assert_eq!((&*rule.cron, &*rule.time_zone), ("@daily", "Europe/Berlin"));
        assert_eq!((rule.overlap, rule.missed), (Overlap::Queue, Missed::All));
    }

    #[test]
    fn what_is_wrong_with_a_schedule_is_told_with_its_line_and_key() {
        for (rest, problem) in [
            ("[source]\npath = \"a\"\n[schedule]\n", "p.toml:7: schedule.cron: missing"),
            (
                "[source]\npath = \"a\"\n[schedule]\ncron = \"61 * * * *\"\n",
                "p.toml:8: schedule.cron: in the minute, \"61\" is no value; write 0 to 59",
            ),
            (
                "[source]\npath = \"a\"\n[schedule]\ncron = \"@daily\"\noverlap = \"que\"\n",
                "p.toml:9: schedule.overlap: unknown rule \"que\"; known are skip, queue, allow (did you mean \"queue\"?)",
            ),
            (
                "[source]\npath = \"a\"\n[schedule]\ncron = \"@daily\"\ntime_zone = \"Europe Berlin\"\n",
                "p.toml:9: schedule.time_zone: \"Europe Berlin\" is no time zone; write one such as \"Europe/Berlin\" or \"UTC\"",
            ),
            (
                "[source]\npath = \"a\"\n[schedule]\ncron = \"@daily\"\ntimezone = \"UTC\"\n",
                "p.toml:9: schedule.timezone: unknown key (did you mean \"time_zone\"?)",
            ),
            (
                "[source]\nkind = \"inbox\"\n[schedule]\ncron = \"@daily\"\n",
                "p.toml:7: schedule: an inbox has nothing that could be read at a time (leave it out; items of an inbox are worked on as they come)",
            ),
            (
                "[schedule]\ncron = \"@daily\"\n",
                "p.toml:5: schedule: needs a source that is named in the file (say what is read: path = \"samples.jsonl\" in [source])",
            ),
            (
                "[source]\npath = \"-\"\n[schedule]\ncron = \"@daily\"\n",
                "p.toml:7: schedule: standard input cannot be read at a time (name a file: path = \"samples.jsonl\" in [source])",
            ),
        ] {
            assert_eq!(read(rest), Err(vec![problem.to_owned()]), "{rest}");
        }
    }
}
