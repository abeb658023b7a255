//! The pipeline that makes an index, as the file it could have been.

use std::fmt::Write;

use redrive_operate::Error;
use redrive_pipeline::{Definition, Problem};

use super::{Embedder, IndexArgs};

/// The pipeline's name.
pub const NAME: &str = "index";

/// The text of the pipeline.
pub fn text(args: &IndexArgs, root: &str) -> Result<String, Error> {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let processes = args.processes.unwrap_or_else(|| u32::try_from(cores).unwrap_or(2));
    let embed = embed(args, processes)?;
    let quoted = |text: &str| toml_string(text);
    Ok(format!(
        r#"name = "{NAME}"
order = "fresh-first"
retry_share = 0.2
deadline = "none"

[source]
kind = "files"
path = {root}
hidden = {hidden}
follow_symlinks = {follow}
ignore_rules = {rules}
max_bytes = {max_bytes}

[run]
failure_budget = false

[[stage]]
name = "parse"
kind = "parse"
chunk_tokens = {tokens}
overlap = {overlap}
concurrency = {processes}
timeout = "60s"
retry = {{ preset = "index", crash_limit = 3, worker_limit = 50 }}

[[stage.children]]
name = "embed"
kind = "embed"
{embed}index = true
retry = {{ preset = "index", crash_limit = 3, worker_limit = 50 }}

[[stage.children]]
name = "upsert"
kind = "upsert"
batch = 512
retry = {{ preset = "index", worker_limit = 50 }}

[[stage]]
name = "publish"
kind = "publish"
retry = {{ preset = "index", worker_limit = 50 }}
"#,
        root = quoted(root),
        hidden = args.hidden,
        follow = args.follow_symlinks,
        rules = !args.no_ignore,
        max_bytes = quoted(&args.max_bytes),
        tokens = args.chunk_tokens,
        overlap = args.overlap,
    ))
}

fn embed(args: &IndexArgs, processes: u32) -> Result<String, Error> {
    let of_service = [
        ("--base-url", args.base_url.is_some()),
        ("--model", args.model.is_some()),
        ("--api-key-env", args.api_key_env.is_some()),
        ("--dimensions", args.dimensions.is_some()),
    ];
    if args.embedder == Embedder::Builtin {
        if let Some((option, _)) = of_service.iter().find(|(_, given)| *given) {
            return Err(Error::wrong(format!("{option} has no meaning for the built-in model"))
                .hint("say --embedder openai as well"));
        }
        // A child gets enough at a time that asking costs little beside the answer.
        return Ok(format!("provider = \"builtin\"\nbatch = 128\nconcurrency = {processes}\n"));
    }
    let missing = |option: &str, example: &str| {
        Error::wrong(format!("--embedder openai needs {option}"))
            .hint(format!("for example {option} {example}"))
    };
    let base_url =
        args.base_url.as_deref().ok_or_else(|| missing("--base-url", "http://127.0.0.1:11434/v1"))?;
    let model = args.model.as_deref().ok_or_else(|| missing("--model", "nomic-embed-text"))?;
    let mut text = format!(
        "provider = \"openai\"\nbase_url = {}\nmodel = {}\n",
        toml_string(base_url),
        toml_string(model)
    );
    if let Some(variable) = &args.api_key_env {
        let _ = writeln!(text, "api_key_env = {}", toml_string(variable));
    }
    if let Some(dimensions) = args.dimensions {
        let _ = writeln!(text, "dimensions = {dimensions}");
    }
    Ok(text)
}

/// A text as TOML writes it; what JSON escapes TOML reads alike, but for what is left here.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// The pipeline. What can be wrong in it came from the command line, and is told in its words.
pub fn definition(text: &str) -> Result<Definition, Error> {
    redrive_pipeline::parse(text, "redrive index").map_err(|problems| {
        let told = |problem: &Problem| {
            let key = problem.key.rsplit('.').next().unwrap_or_default();
            let option = match key {
                "concurrency" => "--processes".to_owned(),
                "path" => "DIR".to_owned(),
                key => format!("--{}", key.replace('_', "-")),
            };
            let hint = match (key, &problem.hint) {
                ("base_url", Some(_)) => {
                    " (a key is read from the variable that --api-key-env names)".to_owned()
                }
                (_, Some(hint)) => format!(" ({hint})"),
                (_, None) => String::new(),
            };
            format!("{option}: {}{hint}", problem.message)
        };
        let told: Vec<String> = problems.iter().map(told).collect();
        Error::wrong(told.join("\n       ")).hint("`redrive index --help` explains the options")
    })
}
