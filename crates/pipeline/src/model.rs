//! The keys of stages that ask a model: `embed` and `chat`.

use crate::definition::{ModelDef, StageKind};
use crate::problem::Report;
use crate::reader::{Node, Table};
use crate::{document, kind, scalar, suggest};

const OPENAI_URL: &str = "https://api.openai.com/v1";
const OPENAI_HOST: &str = "api.openai.com";
/// Most inputs that OpenAI takes in one request.
const OPENAI_INPUTS: u32 = 2_048;
const MAX_ANSWER: u64 = 64 << 20;
const TOKENS_MAX: i64 = 1_000_000_000;
const DIMENSIONS_MAX: u32 = 65_536;
const HOTTEST: f64 = 2.0;
const INPUT: &str = "/text";
const EMBEDDING: &str = "/embedding";

/// Reads the keys of `embed`.
pub(crate) fn embed(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> StageKind {
    let provider = table.take("provider");
    if provider.as_ref().and_then(Node::as_str) == Some("builtin") {
        return document::builtin(table, report);
    }
    if let Some(node) = provider {
        check_provider(&node, &["openai", "builtin"], report);
    }
    let model = model(table, report);
    let dimensions = table.take("dimensions").and_then(|node| node.count(report, DIMENSIONS_MAX));
    let Ends { input, output, index } = ends(table, report);
    StageKind::Embed { model, input, output, dimensions, index }
}

/// Where texts come from and vectors go to.
pub(crate) struct Ends {
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) index: bool,
}

/// Reads what is embedded, and where the vector is kept.
pub(crate) fn ends(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> Ends {
    let index = table.take("index").and_then(|node| node.boolean(report)).unwrap_or(false);
    if index {
        let message = "with index = true a chunk is embedded, and its vector is kept in the index";
        table.refuse(&["input", "output"], message, "leave it out", report);
        return Ends { input: INPUT.to_owned(), output: EMBEDDING.to_owned(), index };
    }
    let input = table.take("input").and_then(|node| node.parsed(report, scalar::pointer));
    let input = input.unwrap_or_else(|| INPUT.to_owned());
    Ends { input, output: output(table, EMBEDDING, report), index }
}

/// Reads the keys of `chat`.
pub(crate) fn chat(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> StageKind {
    if let Some(node) = table.take("provider") {
        check_provider(&node, &["openai"], report);
    }
    let model = model(table, report);
    let prompt = table.require("prompt", report).and_then(|node| template(&node, report));
    let system = table.take("system").and_then(|node| template(&node, report));
    let temperature = table.take("temperature").and_then(|node| {
        let number = node.float(report)?;
        if !(0.0..=HOTTEST).contains(&number) {
            node.fail(report, format!("{number} is not between 0 and {HOTTEST}"));
        }
        Some(number)
    });
    let max_tokens = table.take("max_tokens").and_then(|node| tokens(&node, report));
    let seed = table.take("seed").and_then(|node| node.integer(report, i64::MIN, i64::MAX));
    let json = table.take("json").and_then(|node| node.boolean(report));
    let allow_truncated = table.take("allow_truncated").and_then(|node| node.boolean(report));
    StageKind::Chat {
        model,
        prompt: prompt.unwrap_or_default(),
        system,
        temperature,
        max_tokens,
        seed,
        json: json.unwrap_or(false),
        allow_truncated: allow_truncated.unwrap_or(false),
        output: output(table, "/answer", report),
    }
}

/// Checks how many items go into one call.
pub(crate) fn check_batch(kind: &StageKind, batch: u32, node: &Node<'_, '_>, report: &mut Report<'_>) {
    match kind {
        StageKind::Chat { .. } if batch > 1 => node.fail_with(
            report,
            "a chat stage takes one item a call",
            "leave batch out; concurrency says how many calls run at once",
        ),
        StageKind::Embed { model, .. }
            if batch > OPENAI_INPUTS && scalar::authority(&model.base_url) == OPENAI_HOST =>
        {
            let message = format!("OpenAI takes at most {OPENAI_INPUTS} texts a call");
            node.fail_with(report, message, format!("use batch = {OPENAI_INPUTS} or less"));
        }
        _ => {}
    }
}

/// Reads a number of tokens.
pub(crate) fn tokens(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<u64> {
    node.integer(report, 1, TOKENS_MAX).and_then(|number| u64::try_from(number).ok())
}

fn model(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> ModelDef {
    let base_url = table.take("base_url").and_then(|node| base_url(&node, report));
    let model = table.require("model", report).and_then(|node| node.parsed(report, scalar::model));
    let key = table.take("api_key_env");
    let api_key_env = key.as_ref().and_then(|node| node.parsed(report, scalar::variable));
    let (headers, header_env) = kind::headers(table, report);
    let mut named = headers.keys().chain(header_env.keys());
    let authorised = named.any(|name| name.eq_ignore_ascii_case("authorization"));
    if let (Some(node), true) = (&key, authorised) {
        node.fail(report, "the header Authorization is given as well");
    }
    let base_url = base_url.unwrap_or_else(|| OPENAI_URL.to_owned());
    if key.is_none() && !authorised && scalar::authority(&base_url) == OPENAI_HOST {
        let message = "api.openai.com needs a key: name the variable that holds it in api_key_env";
        report.warn(table.at, &table.path, message);
    }
    ModelDef {
        base_url,
        model: model.unwrap_or_default(),
        api_key_env,
        headers,
        header_env,
        max_answer: kind::max_answer(table, MAX_ANSWER, report),
        max_item_tokens: table.take("max_item_tokens").and_then(|node| tokens(&node, report)),
        price: None,
    }
}

fn check_provider(node: &Node<'_, '_>, known: &[&str], report: &mut Report<'_>) {
    match node.string(report) {
        None | Some("openai") => {}
        Some("builtin") => {
            let hint = "use \"openai\" with the base_url of a service, a local one too";
            node.fail_with(report, "the built-in model can only embed", hint);
        }
        Some(word) => {
            let message = format!("unknown provider {word:?}");
            node.fail_with(report, message, suggest::hint(word, known));
        }
    }
}

fn base_url(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<String> {
    let url = kind::url(node, report)?;
    let url = url.trim_end_matches('/');
    if let Some(operation) =
        ["/embeddings", "/chat/completions"].into_iter().find(|operation| url.ends_with(operation))
    {
        node.fail_with(
            report,
            "the base address ends before the operation",
            format!("leave out {operation}"),
        );
    }
    Some(url.to_owned())
}

fn template(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<String> {
    match scalar::template(node.string(report)?) {
        Ok(text) => Some(text),
        Err(message) => {
            let hint = "write a JSON pointer in braces, as in \"Summarise: {/text}\"; {{ and }} are braces";
            node.fail_with(report, message, hint);
            None
        }
    }
}

fn output(table: &mut Table<'_, '_>, usual: &str, report: &mut Report<'_>) -> String {
    let output = table.take("output").and_then(|node| node.parsed(report, scalar::pointer));
    output.unwrap_or_else(|| usual.to_owned())
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
