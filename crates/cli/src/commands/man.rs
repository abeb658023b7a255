//! `redrive man`: the manual page, made from the command line itself.

use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory};

use super::Answer;
use crate::args::Args;
use crate::help::grouped;
use crate::output::lines;

/// What the environment says, and what it is for.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("REDRIVE_STORE", "Where the state is kept, where --store does not say it."),
    ("REDRIVE_LOG", "What is logged on standard error: error, warn, info, debug, or redrive_engine=trace."),
    ("COLUMNS", "Columns of the output, whatever is written to."),
    ("NO_COLOR", "Words have no colours, where it is set to anything."),
    ("CLICOLOR_FORCE", "Words have colours in files and pipes too, where it is set to anything but 0."),
];
/// Exit codes, and what they say.
const CODES: [(&str, &str); 7] = [
    ("0", "It went well; a run is completed."),
    ("1", "Something broke that should not, or a law does not hold."),
    ("2", "Wrong usage or configuration."),
    ("3", "A run is finished with dead items above the threshold, or only a part went well."),
    ("4", "A run failed, or was cancelled."),
    ("5", "A run is paused."),
    ("130", "It was told to stop; the state is kept."),
];

/// Prints the manual page.
pub fn man() -> Answer {
    lines(&page(Args::command()))?;
    Ok(ExitCode::SUCCESS)
}

fn page(mut whole: Command) -> String {
    whole.build();
    let about = whole.get_about().map(ToString::to_string).unwrap_or_default();
    let mut page = vec![
        format!(".TH REDRIVE 1 \"\" \"redrive {}\" \"User Commands\"", env!("CARGO_PKG_VERSION")),
        ".SH NAME".to_owned(),
        format!("redrive \\- {}", said(&about)),
        ".SH SYNOPSIS".to_owned(),
        ".B redrive".to_owned(),
        "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR".to_owned(),
    ];
    for (group, commands) in grouped(&whole) {
        let commands: Vec<&Command> = commands.into_iter().filter(|command| !is_help(command)).collect();
        if commands.is_empty() {
            continue;
        }
        page.push(format!(".SH \"COMMANDS: {}\"", group.to_uppercase()));
        commands.into_iter().for_each(|command| describe(command, "redrive", &mut page));
    }
    page.push(".SH \"GLOBAL OPTIONS\"".to_owned());
    whole.get_opts().filter(|option| option.is_global_set()).for_each(|option| page.extend(told(option)));
    for (heading, rows) in [("ENVIRONMENT", &ENVIRONMENT[..]), ("EXIT STATUS", &CODES[..])] {
        page.push(format!(".SH \"{heading}\""));
        for (name, words) in rows {
            page.extend([".TP".to_owned(), format!("\\fB{}\\fR", said(name)), said(words)]);
        }
    }
    page.join("\n")
}

/// Whether a command only repeats what this page says of the others.
fn is_help(command: &Command) -> bool {
    command.get_name() == "help"
}

/// A command, and those below it.
fn describe(command: &Command, above: &str, page: &mut Vec<String>) {
    let name = format!("{above} {}", command.get_name());
    let places = command.get_positionals().filter(|place| !place.is_hide_set());
    let places: Vec<String> = places.map(|place| format!(" \\fI{}\\fR", said(&value(place)))).collect();
    page.push(format!(".SS \"{}\"", said(&name)));
    page.push(format!("\\fB{}\\fR{}", said(&name), places.concat()));
    if let Some(about) = command.get_about() {
        page.extend([".PP".to_owned(), said(&about.to_string()) + "."]);
    }
    let own = command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_global_set());
    own.filter(|arg| arg.get_id() != "help").for_each(|arg| page.extend(told(arg)));
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && !is_help(below));
    below.for_each(|below| describe(below, &name, page));
}

/// An option or a place, with what it is for.
fn told(arg: &Arg) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    names.extend(arg.get_short().map(|short| format!("\\fB\\-{short}\\fR")));
    names.extend(arg.get_long().map(|long| format!("\\fB{}\\fR", said(&format!("--{long}")))));
    let mut name = names.join(", ");
    if arg.get_action().takes_values() {
        name.push_str(&format!("{}\\fI{}\\fR", if name.is_empty() { "" } else { " " }, said(&value(arg))));
    }
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let usual: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let usual = match usual.is_empty() || !arg.get_action().takes_values() {
        true => String::new(),
        false => format!(" [default: {}]", usual.join(", ")),
    };
    vec![".TP".to_owned(), name, said(&format!("{help}{usual}"))]
}

fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let name = if names.is_empty() { arg.get_id().to_string().to_uppercase() } else { names.join(" ") };
    if arg.is_positional() && !arg.is_required_set() { format!("[{name}]") } else { name }
}

/// A text as the formatter of manual pages takes it for itself.
fn said(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\n', " ");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_does_not_tell_of_the_help_of_every_command() {
        let page = page(Args::command());
        let sections: Vec<&str> = page.lines().filter(|line| line.starts_with(".SS ")).collect();
        let of_help = sections.iter().filter(|line| line.contains("redrive help")).count();
        assert_eq!((of_help, sections.len() > 40), (0, true), "{sections:?}");
    }

    #[test]
    fn the_page_has_every_command_and_no_line_that_is_taken_for_a_request() {
        let page = page(Args::command());
        for part in [
            ".SS \"redrive run\"",
            ".SS \"redrive dead redrive\"",
            "\\fB\\-\\-store\\fR",
            ".SH \"EXIT STATUS\"",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("worker\""), "what is hidden is not told");
        let requests = page.lines().filter(|line| line.starts_with('.'));
        let known = [".TH ", ".SH ", ".SS ", ".TP", ".PP", ".B "];
        assert!(requests.clone().all(|line| known.iter().any(|known| line.starts_with(known))));
        assert_eq!(said(".a-b\\"), "\\&.a\\-b\\e");
    }
}
