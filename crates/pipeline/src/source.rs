//! `[source]`: where items come from.

use crate::definition::{FilesDef, LineFormat, SourceDef, SourceKind};
use crate::problem::Report;
use crate::reader::{Node, Table};
use crate::{scalar, suggest};

const KINDS: [&str; 6] = ["jsonl", "csv", "files", "mbox", "threads", "inbox"];
/// The keys that only `files` has.
const FILES_KEYS: [&str; 6] =
    ["hidden", "follow_symlinks", "ignore_rules", "max_bytes", "max_container_bytes", "text"];
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Longest name of a queue.
const QUEUE_BYTES: usize = 200;

/// Reads the source; none where its kind is not known.
pub(crate) fn read(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<SourceDef> {
    let mut table = node.table(report)?;
    let word = match table.take("kind") {
        Some(node) => Some(known(&node, report)?),
        None => None,
    };
    let paths = if word == Some("threads") {
        let hint = "leave it out; `redrive mail ARCHIVE` puts mail there";
        table.refuse(&["path"], "threads are those of the mail in the store", hint, report);
        Vec::new()
    } else if word == Some("inbox") {
        let hint = "leave it out; `redrive submit FILE --item JSON` hands items in";
        table.refuse(&["path"], "an inbox reads nothing", hint, report);
        Vec::new()
    } else {
        table.take("path").map(|node| paths(&node, word, report)).unwrap_or_default()
    };
    let (kind, key) = if word == Some("files") {
        table.refuse(&["key"], "a file is known by its path", "leave it out", report);
        table.refuse(&["delimiter"], "unknown key", "it belongs to kind = \"csv\"", report);
        (SourceKind::Files(files(&mut table, report)), None)
    } else if let Some("mbox" | "threads") = word {
        table.refuse(&["key"], "a message is known by its name", "leave it out", report);
        table.refuse(&["delimiter"], "unknown key", "it belongs to kind = \"csv\"", report);
        table.refuse(&FILES_KEYS, "unknown key", "it belongs to kind = \"files\"", report);
        (if word == Some("mbox") { SourceKind::Mbox } else { SourceKind::Threads }, None)
    } else {
        table.refuse(&FILES_KEYS, "unknown key", "it belongs to kind = \"files\"", report);
        let format = format(word, &paths, &mut table, report);
        let kind = if word == Some("inbox") { SourceKind::Inbox } else { SourceKind::Lines(format) };
        (kind, table.take("key").and_then(|node| node.parsed(report, scalar::pointer)))
    };
    let queue = if word == Some("inbox") {
        table.take("queue").and_then(|node| node.parsed(report, queue))
    } else {
        table.refuse(&["queue"], "unknown key", "it belongs to kind = \"inbox\"", report);
        None
    };
    table.finish(report);
    Some(SourceDef { kind, paths, key, queue })
}

/// The name of a queue; that of its failed messages is a little longer.
fn queue(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > QUEUE_BYTES || text.chars().any(char::is_control) {
        return Err(format!(
            "expected the name of a queue: 1 to {QUEUE_BYTES} bytes without control characters"
        ));
    }
    if text.starts_with("amq.") || text.starts_with("redrive.") {
        return Err(format!("{text:?} cannot be used: names that begin with amq. and redrive. are taken"));
    }
    Ok(text.to_owned())
}

fn format(
    word: Option<&str>,
    paths: &[String],
    table: &mut Table<'_, '_>,
    report: &mut Report<'_>,
) -> LineFormat {
    let named_csv = !paths.is_empty() && paths.iter().all(|path| is_csv(path));
    match word {
        Some("csv") => {
            LineFormat::Csv { delimiter: table.take("delimiter").and_then(|node| delimiter(&node, report)) }
        }
        // A name that says CSV says it for a delimiter, too.
        None if named_csv && table.has("delimiter") => {
            LineFormat::Csv { delimiter: table.take("delimiter").and_then(|node| delimiter(&node, report)) }
        }
        _ => {
            table.refuse(&["delimiter"], "unknown key", "it belongs to kind = \"csv\"", report);
            if word.is_some() { LineFormat::Jsonl } else { LineFormat::ByName }
        }
    }
}

fn is_csv(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let path = path.strip_suffix(".gz").unwrap_or(&path);
    path.ends_with(".csv") || path.ends_with(".tsv")
}

fn delimiter(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<u8> {
    match node.string(report)?.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Some(*byte),
        _ => {
            node.fail(report, "expected one character, such as \";\" or \"\\t\"");
            None
        }
    }
}

fn known<'a>(node: &Node<'a, '_>, report: &mut Report<'_>) -> Option<&'a str> {
    let word = node.string(report)?;
    if KINDS.contains(&word) {
        return Some(word);
    }
    let message = format!("unknown source {word:?}; available are {}", KINDS.join(", "));
    node.fail_with(report, message, suggest::hint(word, &KINDS));
    None
}

/// One path, or a list of them.
fn paths(node: &Node<'_, '_>, kind: Option<&str>, report: &mut Report<'_>) -> Vec<String> {
    if let Some(path) = node.as_str() {
        check_path(node, path, false, kind, report);
        return vec![path.to_owned()];
    }
    if kind == Some("files") {
        node.mistyped(report, "a string");
        return Vec::new();
    }
    let Some(list) = node.strings(report) else { return Vec::new() };
    if list.is_empty() {
        node.fail(report, "expected at least one file");
    }
    for (node, path) in &list {
        check_path(node, path, true, kind, report);
    }
    list.into_iter().map(|(_, path)| path.to_owned()).collect()
}

fn check_path(node: &Node<'_, '_>, path: &str, listed: bool, kind: Option<&str>, report: &mut Report<'_>) {
    let wrong = path.is_empty() || path.contains('\0');
    if kind == Some("files") {
        if wrong || path == "-" {
            node.fail_with(report, "expected a directory", "name it, or leave path out: path = \"docs\"");
        }
    } else if wrong || (listed && path == "-") {
        node.fail(
            report,
            "expected a file, a pattern such as \"data/*.jsonl\", or \"-\" alone for standard input",
        );
    }
}

fn files(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> FilesDef {
    let usual = FilesDef::default();
    let mut flag = |key, usual, report: &mut Report<'_>| {
        table.take(key).and_then(|node| node.boolean(report)).unwrap_or(usual)
    };
    let hidden = flag("hidden", usual.hidden, report);
    let follow_symlinks = flag("follow_symlinks", usual.follow_symlinks, report);
    let ignore_rules = flag("ignore_rules", usual.ignore_rules, report);
    let text = flag("text", usual.text, report);
    let mut size =
        |key, usual| table.take(key).and_then(|node| node.size(report, 1, FILE_BYTES_MAX)).unwrap_or(usual);
    FilesDef {
        hidden,
        follow_symlinks,
        ignore_rules,
        text,
        max_bytes: size("max_bytes", usual.max_bytes),
        max_container_bytes: size("max_container_bytes", usual.max_container_bytes),
    }
}
