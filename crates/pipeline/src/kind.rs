//! What a stage does: the keys of each kind.

use std::collections::BTreeMap;

use redrive_core::fact;

use crate::definition::{Body, StageKind};
use crate::problem::Report;
use crate::reader::{Node, Table};
use crate::{document, model, scalar, suggest};

const KINDS: [&str; 12] = [
    "http", "command", "external", "event", "embed", "chat", "filter", "pass", "parse", "mail", "upsert",
    "publish",
];
const MAX_ANSWER: u64 = 16 << 20;
const MAX_ANSWER_MAX: u64 = 1 << 30;
const ARGUMENTS_MAX: usize = 1_000;

/// Reads the keys of a kind; none where the kind is not known.
pub(crate) fn read(
    word: &str,
    node: &Node<'_, '_>,
    table: &mut Table<'_, '_>,
    report: &mut Report<'_>,
) -> Option<StageKind> {
    match word {
        "http" => Some(http(table, report)),
        "command" => Some(command(table, report)),
        "external" => Some(external(table, report)),
        "event" => Some(event(table, report)),
        "embed" => Some(model::embed(table, report)),
        "chat" => Some(model::chat(table, report)),
        "filter" => Some(filter(table, report)),
        "pass" => Some(StageKind::Pass),
        "parse" => Some(document::parse(table, report)),
        "mail" => document::mail(table, report),
        "upsert" => Some(StageKind::Upsert),
        "publish" => Some(StageKind::Publish),
        _ => {
            let message = format!("unknown kind {word:?}; available are {}", KINDS.join(", "));
            node.fail_with(report, message, suggest::hint(word, &KINDS));
            None
        }
    }
}

// A value that is wrong or missing is reported and replaced by an empty one: the definition is refused anyway, and
// reading goes on to find the other problems.

fn http(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> StageKind {
    let url = table.require("url", report).and_then(|node| url(&node, report)).unwrap_or_default();
    let body = table.take("body").and_then(|node| body(&node, report)).unwrap_or_default();
    let (headers, header_env) = headers(table, report);
    let max_answer = max_answer(table, MAX_ANSWER, report);
    let (mut secret_env, mut output) = (None, None);
    if body == Body::Webhook {
        table.refuse(&["output"], "a webhook leaves the payload as it is", "leave it out", report);
        secret_env = table.take("secret_env").and_then(|node| node.parsed(report, scalar::variable));
    } else {
        table.refuse(&["secret_env"], "unknown key", "it belongs to body = \"webhook\"", report);
        output = table.take("output").and_then(|node| node.parsed(report, scalar::pointer));
    }
    StageKind::Http { url, body, headers, header_env, secret_env, max_answer, output }
}

/// An event for whoever listens, by the name that is written here.
fn event(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> StageKind {
    let event = table.require("event", report).and_then(|node| {
        let own = report.pipeline.as_deref().is_some_and(|name| fact::OWN_PIPELINES.contains(&name));
        let event = node.parsed(report, scalar::event)?;
        if own || !fact::is_taken(&event) {
            return Some(event);
        }
        let message = format!("{event:?} is what is told of items and runs by itself");
        let remedy = "whoever is bound to that would take one for the other: name it after what is to be done, as in \"text.check\"";
        node.fail_with(report, message, remedy);
        None
    });
    let output = table.take("output").and_then(|node| node.parsed(report, scalar::pointer));
    StageKind::Event { event: event.unwrap_or_default(), output }
}

/// The headers of every request: fixed ones, and those that are read from variables.
pub(crate) fn headers(
    table: &mut Table<'_, '_>,
    report: &mut Report<'_>,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let plain = table.take("headers");
    let headers =
        plain.as_ref().map_or_else(BTreeMap::new, |node| header_table(node, scalar::header_value, report));
    // The text of the file is kept with every run, and so would the key be.
    for (name, node) in
        plain.as_ref().and_then(|node| node.table(report)).iter().flat_map(|table| table.all())
    {
        if headers.get(name).is_some_and(|value| scalar::is_secret_header(name, value)) {
            let hint =
                format!("have its value read from a variable: header_env = {{ {name} = \"MY_VARIABLE\" }}");
            node.fail_with(report, "the header holds a key or password", hint);
        }
    }
    let from_env = table.take("header_env");
    let header_env =
        from_env.as_ref().map_or_else(BTreeMap::new, |node| header_table(node, scalar::variable, report));
    let twice = header_env.keys().find(|name| headers.keys().any(|other| other.eq_ignore_ascii_case(name)));
    if let (Some(name), Some(node)) = (twice, &from_env) {
        node.fail(report, format!("{name} is given in headers as well"));
    }
    (headers, header_env)
}

fn command(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> StageKind {
    let command =
        table.require("command", report).and_then(|node| arguments(&node, report)).unwrap_or_default();
    let env = table.take("env").and_then(|node| {
        let mut names = Vec::new();
        for (node, text) in node.strings(report)? {
            match scalar::variable(text) {
                Ok(name) => names.push(name),
                Err(message) => node.fail(report, message),
            }
        }
        Some(names)
    });
    let cwd = table.take("cwd").and_then(|node| {
        let folder = node.string(report)?;
        if folder.is_empty() || folder.contains('\0') {
            node.fail(report, "expected a folder");
        }
        Some(folder.to_owned())
    });
    let output = table.take("output").and_then(|node| node.parsed(report, scalar::pointer));
    StageKind::Command {
        command,
        env: env.unwrap_or_default(),
        max_answer: max_answer(table, MAX_ANSWER, report),
        cwd,
        output,
    }
}

/// The pipeline's name is added when all of it is read.
fn external(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> StageKind {
    let output = table.take("output").and_then(|node| node.parsed(report, scalar::pointer));
    StageKind::External { pipeline: String::new(), output }
}

fn filter(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> StageKind {
    let keep = table.require("keep", report).and_then(|node| {
        let expression = node.string(report)?.trim();
        if expression.is_empty() {
            node.fail(report, "expected an expression that is true for the items to keep");
        }
        Some(expression.to_owned())
    });
    StageKind::Filter { keep: keep.unwrap_or_default() }
}

/// Reads an address.
pub(crate) fn url(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<String> {
    match scalar::url(node.string(report)?) {
        Ok(url) => Some(url),
        Err(bad) => {
            report.problem(node.at, &node.path, bad.message, bad.hint.map(str::to_owned));
            None
        }
    }
}

fn body(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Body> {
    match node.string(report)? {
        "protocol" => Some(Body::Protocol),
        "payload" => Some(Body::Payload),
        "webhook" => Some(Body::Webhook),
        word => {
            let message = format!("expected \"protocol\", \"payload\" or \"webhook\", found {word:?}");
            node.fail_with(report, message, suggest::hint(word, &["protocol", "payload", "webhook"]));
            None
        }
    }
}

fn header_table(
    node: &Node<'_, '_>,
    read: fn(&str) -> Result<String, String>,
    report: &mut Report<'_>,
) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    let Some(table) = node.table(report) else { return headers };
    for (name, node) in table.all() {
        if let Err(message) = scalar::header_name(name) {
            node.fail(report, message);
        } else if let Some(value) = node.parsed(report, read) {
            headers.insert(name.to_owned(), value);
        }
    }
    headers
}

pub(crate) fn arguments(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Vec<String>> {
    if node.as_str().is_some() {
        let hint = "write program and arguments apart: command = [\"python3\", \"stage.py\"]";
        node.fail_with(report, "expected an array, found a string", hint);
        return None;
    }
    let arguments = node.strings(report)?;
    if arguments.first().is_none_or(|(_, program)| program.is_empty()) {
        node.fail(report, "expected a program and its arguments");
    }
    if arguments.len() > ARGUMENTS_MAX {
        node.fail(report, format!("more than {ARGUMENTS_MAX} arguments"));
    }
    if let Some((node, _)) = arguments.iter().find(|(_, argument)| argument.contains('\0')) {
        node.fail(report, "an argument cannot hold a zero byte");
    }
    Some(arguments.into_iter().map(|(_, argument)| argument.to_owned()).collect())
}

/// Reads the size of the largest answer.
pub(crate) fn max_answer(table: &mut Table<'_, '_>, default: u64, report: &mut Report<'_>) -> u64 {
    table.take("max_answer").and_then(|node| node.size(report, 1, MAX_ANSWER_MAX)).unwrap_or(default)
}
