//! Whether a pipeline could be run here.

use std::path::Path;

use redrive_operate::pipelines;
use redrive_operate::sources::SourceName;
use redrive_pipeline::{Commands, Definition, SourceKind, StageKind};

use super::{Finding, bad, good};
use crate::output::text::things;
use crate::wiring::{self, Handlers};

/// What the file of a script ends with that an interpreter is given.
const SCRIPTS: [&str; 8] = [".py", ".sh", ".js", ".mjs", ".ts", ".rb", ".pl", ".php"];

/// Looks at a pipeline file, its source and its stages.
pub fn look_at(file: &Path) -> Vec<Finding> {
    let name = file.display().to_string();
    let text = match pipelines::read_text(file) {
        Ok(text) => text,
        Err(failure) if failure.problems.is_empty() => return vec![bad("pipeline", &failure.message)],
        Err(failure) => {
            return failure.problems.iter().map(|problem| bad("pipeline", problem.to_string())).collect();
        }
    };
    let definition = match redrive_pipeline::parse(&text, &name) {
        Ok(definition) => definition,
        Err(problems) => {
            return problems.iter().map(|problem| bad("pipeline", problem.to_string())).collect();
        }
    };
    let wrong = pipelines::wrong_expressions(&Handlers::new(), &definition, &text, &name);
    if !wrong.is_empty() {
        return wrong.iter().map(|problem| bad("pipeline", problem.to_string())).collect();
    }
    let stages = things(definition.all_stages().count() as u64, "stage");
    let mut findings = vec![good("pipeline", format!("{name}: {stages}"))];
    findings.extend(definition.warnings.iter().map(|warning| good("warning", warning.to_string())));
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    findings.push(look_at_source(&definition, folder));
    findings.extend(look_at_stages(&definition, folder));
    findings
}

/// Whether the source is there and can be opened. What can be read once only is not touched.
fn look_at_source(definition: &Definition, folder: &Path) -> Finding {
    if !matches!(definition.source.kind, SourceKind::Inbox | SourceKind::Threads)
        && definition.source.paths.is_empty()
    {
        return good("source", "the pipeline names none; --input does");
    }
    let opened = SourceName::find(definition, &[], folder).and_then(|name| {
        if !name.is_inbox() && !name.is_read_once() {
            name.open(&Handlers::new(), definition, None, None)?;
        }
        Ok(name)
    });
    match opened {
        Ok(name) => good("source", name.name().replace('\n', ", ")),
        Err(failure) => bad("source", &failure.message),
    }
}

fn look_at_stages(definition: &Definition, folder: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for stage in definition.all_stages() {
        let what = format!("stage {}", stage.name);
        if let Some(event) = &stage.event {
            let said = format!("whoever hears of {event} does it, as `redrive work --event {event}` does");
            findings.push(good(&what, said));
            continue;
        }
        match &stage.kind {
            StageKind::Http { url, header_env, secret_env, .. } => {
                findings.push(reach(&what, url));
                findings.extend(unset(&what, header_env.values().chain(secret_env)));
            }
            StageKind::Embed { model, .. } | StageKind::Chat { model, .. } => {
                findings.push(reach(&what, &model.base_url));
                findings.extend(unset(&what, model.header_env.values().chain(&model.api_key_env)));
            }
            StageKind::Command { command, .. } if stage.commands == Commands::Allowed => {
                let program = command.first().map(String::as_str).unwrap_or_default();
                findings.push(good(&what, format!("{program}, from a folder of --allow-commands")));
            }
            StageKind::Command { command, cwd, .. } => {
                let place = wiring::command_folder(cwd.as_deref(), folder);
                findings.extend(look_at_command(&what, command, &place));
            }
            StageKind::External { .. } => {
                findings.push(good(&what, "external workers do it; they ask `redrive serve` for it"));
            }
            StageKind::Event { event, .. } => {
                let said = format!("whoever hears of {event} does it, and answers by POST /v1/answers");
                findings.push(good(&what, said));
            }
            StageKind::Filter { keep } => findings.push(good(&what, keep.as_str())),
            StageKind::EmbedBuiltin { .. }
            | StageKind::Parse { .. }
            | StageKind::Mail { .. }
            | StageKind::Upsert
            | StageKind::Publish
            | StageKind::Pass => {}
        }
    }
    findings
}

/// Whether a command can be started, and whether the script is there that its interpreter is given. What an argument means
/// is the program's affair, so a script that is not there is only a warning.
fn look_at_command(what: &str, command: &[String], place: &Path) -> Vec<Finding> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let mut findings = vec![match wiring::find_program(program, place) {
        Ok(_) => good(what, program),
        Err(why) => bad(what, why),
    }];
    let script = command.get(1).filter(|word| SCRIPTS.iter().any(|end| word.ends_with(end)));
    if let Some(script) = script.filter(|script| !place.join(script).exists()) {
        let whole = place.join(script);
        findings.push(good("warning", format!("{what}: there is no script {}", whole.display())));
    }
    findings
}

/// The environment variables among these that are not set.
fn unset<'a>(what: &str, variables: impl Iterator<Item = &'a String>) -> Vec<Finding> {
    let missing = variables.filter(|variable| std::env::var_os(variable).is_none());
    missing.map(|variable| bad(what, format!("the environment variable {variable} is not set"))).collect()
}

/// Whether somebody listens at the address.
fn reach(what: &str, url: &str) -> Finding {
    use std::net::{TcpStream, ToSocketAddrs};
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let usual = if url.starts_with("https") { 443 } else { 80 };
    let address = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:{usual}")
    };
    let found = address
        .to_socket_addrs()
        .map_err(|error| error.to_string())
        .and_then(|mut all| all.next().ok_or_else(|| "no address".to_owned()));
    let reached = found.and_then(|to| {
        TcpStream::connect_timeout(&to, std::time::Duration::from_secs(3)).map_err(|error| error.to_string())
    });
    match reached {
        Ok(_) => good(what, format!("{address} answers")),
        Err(error) => bad(what, format!("{address}: {error}")),
    }
}
