//! `[source]`: where items come from.

use crate::definition::{FilesDef, SourceDef, SourceKind};
use crate::problem::Report;
use crate::reader::{Node, Table};
use crate::{scalar, suggest};

const KINDS: [&str; 2] = ["jsonl", "files"];
/// The keys that only `files` has.
const FILES_KEYS: [&str; 5] =
    ["hidden", "follow_symlinks", "ignore_rules", "max_bytes", "max_container_bytes"];
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Reads the source; none where its kind is not known.
pub(crate) fn read(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<SourceDef> {
    let mut table = node.table(report)?;
    let word = match table.take("kind") {
        Some(node) => known(&node, report),
        None => Some("jsonl"),
    };
    let path = table.take("path").and_then(|node| path(&node, word, report));
    let Some(word) = word else {
        // Without a kind it is not known which of the other keys belong to it.
        return None;
    };
    let (kind, key) = if word == "files" {
        table.refuse(&["key"], "a file is known by its path", "leave it out", report);
        (SourceKind::Files(files(&mut table, report)), None)
    } else {
        table.refuse(&FILES_KEYS, "unknown key", "it belongs to kind = \"files\"", report);
        (SourceKind::Jsonl, table.take("key").and_then(|node| node.parsed(report, scalar::pointer)))
    };
    table.finish(report);
    Some(SourceDef { kind, path, key })
}

fn known<'a>(node: &Node<'a, '_>, report: &mut Report<'_>) -> Option<&'a str> {
    let word = node.string(report)?;
    if KINDS.contains(&word) {
        return Some(word);
    }
    if word == "mbox" {
        let message = format!("{word:?} is not available in this version");
        node.fail_with(report, message, "use \"jsonl\" or \"files\"");
    } else {
        let message = format!("unknown source {word:?}; available are {}", KINDS.join(", "));
        node.fail_with(report, message, suggest::hint(word, &KINDS));
    }
    None
}

fn path(node: &Node<'_, '_>, kind: Option<&str>, report: &mut Report<'_>) -> Option<String> {
    let path = node.string(report)?;
    let wrong = path.is_empty() || path.contains('\0');
    if kind == Some("files") {
        if wrong || path == "-" {
            node.fail_with(report, "expected a directory", "name it, or leave path out: path = \"docs\"");
        }
    } else if wrong {
        node.fail(report, "expected a file, or \"-\" for standard input");
    }
    Some(path.to_owned())
}

fn files(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> FilesDef {
    let usual = FilesDef::default();
    let mut flag = |key, usual, report: &mut Report<'_>| {
        table.take(key).and_then(|node| node.boolean(report)).unwrap_or(usual)
    };
    let hidden = flag("hidden", usual.hidden, report);
    let follow_symlinks = flag("follow_symlinks", usual.follow_symlinks, report);
    let ignore_rules = flag("ignore_rules", usual.ignore_rules, report);
    let mut size =
        |key, usual| table.take(key).and_then(|node| node.size(report, 1, FILE_BYTES_MAX)).unwrap_or(usual);
    FilesDef {
        hidden,
        follow_symlinks,
        ignore_rules,
        max_bytes: size("max_bytes", usual.max_bytes),
        max_container_bytes: size("max_container_bytes", usual.max_container_bytes),
    }
}
