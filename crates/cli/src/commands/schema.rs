//! `redrive schema`: what commands print with `--json`, as JSON Schema.

use std::collections::BTreeSet;
use std::process::ExitCode;

use redrive_operate::{Code, Error, schemas};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Answer, Context};
use crate::args::SchemaArgs;
use crate::output::text::safe;
use crate::output::{json, lines};

/// Prints the schema of one command, or the names of all.
pub fn schema(context: &Context, args: &SchemaArgs) -> Answer {
    let all = schemas::all()?;
    let name = args.command.join(" ");
    if name.is_empty() {
        match context.global.json {
            true => json(&all)?,
            false => lines(&names(&all).join("\n"))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let found = of_command(&all, &name).ok_or_else(|| {
        Error::not_found(format!("no schema is called {:?}", safe(&name)))
            .code(Code::NotFound)
            .hint("`redrive schema` lists them; that of every error is `redrive schema error`")
    })?;
    json(&found)?;
    Ok(ExitCode::SUCCESS)
}

fn names(all: &Value) -> Vec<&str> {
    all["commands"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// The schema of one command with everything it refers to.
#[derive(Serialize)]
struct Schema<'a> {
    #[serde(rename = "$schema")]
    dialect: &'a Value,
    title: String,
    #[serde(flatten)]
    own: &'a Value,
    #[serde(rename = "$defs")]
    parts: Map<String, Value>,
}

fn of_command<'a>(all: &'a Value, name: &str) -> Option<Schema<'a>> {
    let own = all["commands"].get(name)?;
    let mut used = BTreeSet::new();
    refer(own, &all["$defs"], &mut used);
    let parts = used.into_iter().map(|name| (name.to_owned(), all["$defs"][name].clone())).collect();
    Some(Schema { dialect: &all["$schema"], title: format!("redrive {name} --json"), own, parts })
}

/// Takes in the names of everything that a part of a schema refers to.
fn refer<'a>(part: &'a Value, all: &'a Value, used: &mut BTreeSet<&'a str>) {
    match part {
        Value::Object(keys) => {
            let name = keys.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix("#/$defs/"));
            if let Some(name) = name.filter(|name| used.insert(name)) {
                refer(&all[name], all, used);
            }
            keys.values().for_each(|below| refer(below, all, used));
        }
        Value::Array(list) => list.iter().for_each(|below| refer(below, all, used)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn all() -> Value {
        schemas::all().expect("JSON")
    }

    /// The names of commands that have none below them, hidden ones left out.
    fn leaves(command: &clap::Command, above: &str, found: &mut Vec<String>) {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let name = format!("{above}{}", below.get_name());
            if !below.is_subcommand_required_set() && !below.has_subcommands() {
                found.push(name.clone());
            }
            leaves(below, &format!("{name} "), found);
        }
    }

    #[test]
    fn every_command_has_a_schema() {
        let mut commands = Vec::new();
        leaves(&crate::args::Args::command(), "", &mut commands);
        assert!(commands.contains(&"dead list".to_owned()), "{commands:?}");
        let all = all();
        let known = names(&all);
        let without: Vec<&String> = commands
            .iter()
            // They print no data of a store, or by a protocol of its own.
            .filter(|name| !["completions", "man", "mcp", "schema", "skill"].contains(&name.as_str()))
            .filter(|name| !known.contains(&name.as_str()))
            .collect();
        assert!(without.is_empty(), "write down in schemas.json what these print with --json: {without:?}");
    }

    #[test]
    fn the_codes_of_errors_are_all_written_down() {
        let written = &all()["$defs"]["code"]["enum"];
        let codes: Vec<Value> = Code::ALL.iter().filter_map(|code| serde_json::to_value(code).ok()).collect();
        assert_eq!(written, &Value::Array(codes));
    }

    #[test]
    fn a_schema_is_whole_and_has_nothing_that_it_does_not_need() {
        let all = all();
        let run = of_command(&all, "run").expect("there");
        assert!(
            run.parts.contains_key("counts") && !run.parts.contains_key("gate"),
            "{:?}",
            run.parts.keys()
        );
        assert_eq!(run.own["$ref"], "#/$defs/run_report");
        assert!(of_command(&all, "nothing").is_none());
    }
}
