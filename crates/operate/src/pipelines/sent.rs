//! Pipelines that somebody sent as text: what they may not do, which their text says from then on.

use std::path::PathBuf;

use redrive_pipeline::{Commands, Definition, Outbound, Problem, RetentionDef, StageDef, StageKind};

use super::{Pipeline, parse, problems_in, refuse_own_name};
use crate::error::{Error, Result};
use crate::lines::Lines;
use crate::wiring::Wiring;

impl Pipeline {
    /// Takes a text that somebody sent for a pipeline whose relative paths start from `folder`. Its stages call public
    /// addresses only, and start programs of allowed folders only: the text says so from then on, so that it holds in every
    /// process that works on its runs.
    ///
    /// # Errors
    /// With every problem in it, or when a stage names an address that it may not call or a program that it may not start.
    pub fn sent(wiring: &dyn Wiring, text: &str, folder: PathBuf) -> Result<Self> {
        let file = "the pipeline".to_owned();
        let said = text.trim_start_matches('\u{feff}');
        let text = guarded(&parse(said, &file)?, said)?;
        let definition = parse(&text, &file)?;
        // Lines are counted in what was sent.
        refuse_own_name(said, &definition, &file)?;
        refuse_standing_orders(said, &definition, &file)?;
        for stage in definition.all_stages() {
            wiring.check_outbound(stage).map_err(|why| {
                Error::forbidden(format!("stage {} names {why}", stage.name))
                    .hint("put the pipeline into the folder of --pipelines, or start the server with --allow-outbound")
            })?;
            wiring.check_command(stage).map_err(|why| {
                Error::forbidden(format!("stage {} may not start its `command`: {why}", stage.name)).hint(
                    "name a program of a folder of --allow-commands, or put the pipeline into the folder of --pipelines",
                )
            })?;
        }
        Ok(Self { text, definition, folder, file })
    }
}

/// What was sent, with the words before it that hold its stages to what such a pipeline may do.
fn guarded(definition: &Definition, said: &str) -> Result<String> {
    let refused = |what: &str, key: &str| {
        Error::forbidden(format!("a pipeline that is sent may not {what}"))
            .hint(format!("leave `{key}` out, or put the pipeline into the folder of --pipelines"))
    };
    let outbound = match definition.outbound {
        Some(Outbound::Any) => return Err(refused("call any address", "outbound")),
        Some(Outbound::Public) => "",
        None => "outbound = \"public\"\n",
    };
    let starts = |stage: &StageDef| matches!(stage.kind, StageKind::Command { .. });
    let commands = match definition.commands {
        Some(Commands::Any) => return Err(refused("start any program", "commands")),
        None if definition.all_stages().any(starts) => "commands = \"allowed\"\n",
        Some(Commands::Allowed) | None => "",
    };
    Ok(format!("{outbound}{commands}{said}"))
}

/// Refuses what a daemon does by itself for pipelines of its folder, and never for one that is sent: nothing would come of it.
fn refuse_standing_orders(text: &str, definition: &Definition, file: &str) -> Result<()> {
    let Definition { notify, schedule, retention, source, .. } = definition;
    let orders = [
        ("notify", !notify.is_empty(), "tells somebody"),
        ("schedule", schedule.is_some(), "begins by itself"),
        ("retention", *retention != RetentionDef::default(), "is forgotten by itself"),
        ("source.queue", source.queue.is_some(), "takes items from a queue"),
    ];
    let problem = |(key, _, what): &(&str, bool, &str)| Problem {
        file: file.to_owned(),
        line: Lines::of(text).line(key).or_else(|| Lines::of(text).first(key)).unwrap_or(1),
        key: (*key).to_owned(),
        message: format!("only a pipeline of the folder {what}, and this one is sent"),
        hint: Some(format!("leave `{key}` out, or put the pipeline into the folder of --pipelines")),
    };
    let problems: Vec<Problem> = orders.iter().filter(|(_, given, _)| *given).map(problem).collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems_in(file, problems)),
    }
}
