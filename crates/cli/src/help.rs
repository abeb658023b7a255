//! The command line as a whole, with its commands grouped by what one wants.

use clap::{Command, CommandFactory};
use redrive_core::time::Timestamp;

use crate::args::Args;
use crate::output::screen::Screen;
use crate::output::wrap::wrap_at;

/// Commands by what one wants, in the order in which they are told.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Work",
        &["run", "resume", "work", "serve", "relay", "submit", "close", "index", "mail", "try", "rehearse"],
    ),
    (
        "Look",
        &[
            "show",
            "runs",
            "top",
            "items",
            "results",
            "search",
            "threads",
            "thread",
            "failures",
            "stuck",
            "explain",
            "stats",
            "gates",
            "schedules",
            "pipelines",
            "policy",
        ],
    ),
    ("Act", &["retry", "retry-job", "rerun", "dead", "queues", "pause", "cancel", "kill"]),
    (
        "Care",
        &[
            "check",
            "doctor",
            "token",
            "prune",
            "compact",
            "backup",
            "mcp",
            "skill",
            "schema",
            "completions",
            "man",
        ],
    ),
];
/// What is in no group.
const MORE: &str = "More";
/// Lines of help are not longer.
const MOST: usize = 110;

/// The command line, ready to be parsed.
pub fn command() -> Command {
    let whole = Args::command();
    let width = Screen::out(Timestamp(0)).width.map_or(MOST, |width| width.min(MOST));
    let listed = listed(&whole, width);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}\n{{all-args}}{{after-help}}"
    );
    // They are listed above, in groups; the list that clap would make leaves hidden ones out.
    let names: Vec<String> = whole.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let hidden =
        names.into_iter().fold(whole, |all, name| all.mut_subcommand(name, |command| command.hide(true)));
    hidden
        .override_usage("redrive [OPTIONS] <COMMAND>")
        .help_template(template)
        .after_help("`redrive COMMAND --help` says more of a command.")
}

/// The commands that are shown, in groups.
pub fn grouped(whole: &Command) -> Vec<(&'static str, Vec<&Command>)> {
    let shown: Vec<&Command> = whole.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let of = |names: &[&str]| -> Vec<&Command> {
        names
            .iter()
            .filter_map(|name| shown.iter().find(|command| command.get_name() == *name).copied())
            .collect()
    };
    let mut groups: Vec<(&str, Vec<&Command>)> =
        GROUPS.iter().map(|(name, names)| (*name, of(names))).collect();
    let known = |command: &&&Command| !GROUPS.iter().any(|(_, names)| names.contains(&command.get_name()));
    let others: Vec<&Command> = shown.iter().filter(known).copied().collect();
    if !others.is_empty() {
        groups.push((MORE, others));
    }
    groups
}

fn listed(whole: &Command, width: usize) -> String {
    let groups = grouped(whole);
    let names = groups.iter().flat_map(|(_, commands)| commands).map(|command| command.get_name().len());
    let indent = names.max().unwrap_or(0) + 4;
    let mut text = String::new();
    for (name, commands) in groups {
        text.push_str(&format!("{name}:\n"));
        for command in commands {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let line = format!("  {:<1$}{about}", command.get_name(), indent - 2);
            text.push_str(&format!("{}\n", wrap_at(&line, width, indent)));
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sample::at_widths;

    #[test]
    fn every_command_is_in_a_group() {
        let whole = Args::command();
        let groups = grouped(&whole);
        let more: Vec<&str> = groups
            .iter()
            .filter(|(name, _)| *name == MORE)
            .flat_map(|(_, all)| all)
            .map(|c| c.get_name())
            .collect();
        assert!(more.is_empty(), "put them into a group: {more:?}");
    }

    #[test]
    fn help_keeps_to_the_width_and_global_options_stand_apart() {
        at_widths("help", |screen| {
            listed(&Args::command(), screen.width.unwrap_or(MOST)).trim_end().to_owned()
        });
        let help = command().render_help().to_string();
        let place = |what: &str| help.find(what).unwrap_or_else(|| panic!("{what}: {help}"));
        assert!(place("Work:") < place("Care:") && place("Care:") < place("Global options:"), "{help}");
        let run = Args::command().find_subcommand_mut("run").map(|run| run.render_help().to_string());
        assert!(run.is_some(), "there is a command run");
    }
}
