//! A policy by itself, as somebody gives it to items that they send back: what the key `retry` of a stage takes, or a preset's name.

use redrive_core::policy::Policy;
use serde_json::Value;
use toml::de::DeTable;

use crate::problem::{Problem, Report};
use crate::reader::Table;
use crate::retry;

/// What a policy by itself is called in problems.
const NAME: &str = "retry";
/// Most bytes of one: it is kept with every item that goes under it.
const MOST: usize = 4_096;

/// Reads what was said on a command line: a preset's name, or a table as TOML or JSON.
///
/// # Errors
/// What is wrong with it, where it is neither.
pub fn said_policy(text: &str) -> Result<Value, Vec<Problem>> {
    let text = text.trim();
    if !text.starts_with('{') {
        return Ok(Value::String(text.to_owned()));
    }
    if let Ok(table) = serde_json::from_str(text) {
        return Ok(table);
    }
    let written = format!("{NAME} = {text}");
    let mut top: toml::Table = toml::from_str(&written).map_err(|error| {
        vec![problem(error.message(), "say a preset's name, or { max_attempts = 2 }, or the same as JSON")]
    })?;
    match (top.len(), top.remove(NAME)) {
        (1, Some(table)) => {
            serde_json::to_value(table).map_err(|error| vec![problem(&error.to_string(), "")])
        }
        _ => Err(vec![problem("more than one value", "say one table in braces")]),
    }
}

/// Makes the policy of a preset's name, or of an object with the keys of `retry`: by the same reader, and with the same checks, as
/// for a pipeline file.
///
/// # Errors
/// Everything that is wrong with it.
pub fn own_policy(said: &Value) -> Result<Policy, Vec<Problem>> {
    let table = match said {
        Value::String(preset) => serde_json::json!({ "preset": preset }),
        Value::Object(_) => said.clone(),
        _ => {
            return Err(vec![problem(
                "expected a preset's name or a table",
                "for example { max_attempts = 2 }",
            )]);
        }
    };
    let Some(table) = as_toml(&table) else {
        return Err(vec![problem("null means nothing to a policy", "leave the key out")]);
    };
    let text = format!("{NAME} = {table}");
    let mut report = Report::new(NAME, &text);
    if text.len() > MOST {
        report.problem(0, NAME, format!("longer than {MOST} bytes"), None);
        return Err(report.problems);
    }
    let (tree, errors) = DeTable::parse_recoverable(&text);
    for error in errors {
        report.problem(0, NAME, error.message().trim().replace('\n', ", "), None);
    }
    let mut top = Table::new(String::new(), 0, tree.get_ref());
    let policy = match top.take(NAME) {
        Some(node) if report.problems.is_empty() => retry::read(&node, &mut report),
        _ => Policy::default(),
    };
    if report.problems.is_empty() { Ok(policy) } else { Err(report.problems) }
}

fn problem(message: &str, hint: &str) -> Problem {
    let mut report = Report::new(NAME, "");
    let hint = (!hint.is_empty()).then(|| hint.to_owned());
    report.problem(0, NAME, message.trim().replace('\n', ", "), hint);
    report.problems.remove(0)
}

/// A value as it is written in TOML; `None` for `null`, which it does not have.
fn as_toml(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(as_toml).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(key, value)| Some(format!("{} = {}", quoted(key), as_toml(value)?)));
            format!("{{ {} }}", fields.collect::<Option<Vec<String>>>()?.join(", "))
        }
    })
}

/// A text in quotes. TOML escapes as JSON does, and one sign more.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redrive_core::policy::preset;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Policy, String> {
        let told = |problems: Vec<Problem>| {
            let told = problems.iter().map(|it| format!("{}: {} ({:?})", it.key, it.message, it.hint));
            told.collect::<Vec<_>>().join("; ")
        };
        own_policy(&said_policy(text).map_err(told)?).map_err(told)
    }

    #[test]
    fn a_name_a_toml_table_and_json_say_the_same_as_a_pipeline_file() {
        assert_eq!(read("llm"), Ok(preset("llm").unwrap().policy.clone()));
        let toml = read(r#"{ max_attempts = 2, backoff = { kind = "fixed", delay = "10s" } }"#);
        let json = read(r#"{"max_attempts": 2, "backoff": {"kind": "fixed", "delay": "10s"}}"#);
        assert_eq!(toml, json);
        let policy = toml.expect("a policy");
        assert_eq!(policy.max_attempts().map(u32::from), Some(2));
        assert_eq!(policy.tiers()[0].backoff.delay(1), Duration::from_secs(10));
        let file = "name = \"p\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n\
                    retry = { max_attempts = 2, backoff = { kind = \"fixed\", delay = \"10s\" } }\n";
        assert_eq!(crate::parse(file, "p.toml").expect("a pipeline").stages[0].retry, policy);
    }

    #[test]
    fn what_a_pipeline_file_refuses_is_refused_in_its_words() {
        let refused = |text: &str, words: &str| {
            let told = read(text).expect_err(text);
            assert!(told.contains(words), "{text}: {told}");
        };
        refused("gentel", "unknown preset \"gentel\"; known are");
        refused("{ max_attempts = 0 }", "retry.max_attempts: 0 is too low");
        refused("{ max_atempts = 2 }", "did you mean \\\"max_attempts\\\"?");
        refused(r#"{"max_attempts": null}"#, "null means nothing");
        refused("{ max_attempts = 2", "retry: ");
        refused("{}\nname = \"x\"", "more than one value");
        refused(r#"{"backoff": {"kind": "fixd"}}"#, "unknown backoff");
        assert!(own_policy(&json!(3)).is_err() && own_policy(&json!(["llm"])).is_err());
        let long = json!({ "final_on": [{ "text": "x".repeat(5_000) }] });
        assert!(own_policy(&long).unwrap_err()[0].message.contains("longer than 4096 bytes"));
    }

    #[test]
    fn any_text_goes_over_as_it_is() {
        for text in ["a \"b\" \\ c", "tab\tand\u{7f}\u{1}", "Groß 🙂", "}\nname = 1"] {
            let policy = own_policy(&json!({ "final_on": [{ "text": text }] })).expect("a policy");
            let kept = serde_json::to_value(&policy).unwrap();
            assert_eq!(kept["final_on"], json!([{ "text": text }]));
        }
    }
}
