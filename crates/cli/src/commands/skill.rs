//! `redrive skill`: a file that tells an agent how to use the command line.

use std::process::ExitCode;

use super::Answer;
use crate::output::lines;

/// The file, as it is printed.
const SKILL: &str = include_str!("../../skill.md");

/// Prints the file.
pub fn skill() -> Answer {
    lines(SKILL.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Args;

    /// The commands in the file's blocks.
    fn commands() -> Vec<&'static str> {
        let mut inside = false;
        let mut found = Vec::new();
        for line in SKILL.lines() {
            if line.starts_with("```") {
                inside = !inside;
            } else if inside && line.starts_with("redrive ") {
                found.push(line);
            }
        }
        found
    }

    /// The words of a command as a shell would take them apart.
    fn words(line: &str) -> Vec<String> {
        let quoted = line.split('"').enumerate();
        let apart = quoted.flat_map(|(at, part)| match at % 2 {
            1 => vec![part.to_owned()],
            _ => part.split_whitespace().map(str::to_owned).collect(),
        });
        apart.collect()
    }

    #[test]
    fn every_command_in_it_can_be_typed() {
        let all = commands();
        assert!(all.len() >= 10, "{all:?}");
        for line in all {
            let parsed = Args::try_parse_from(words(line));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn it_has_a_name_and_teaches_nothing_that_destroys() {
        assert!(SKILL.starts_with("---\nname: redrive\ndescription: "), "front matter");
        for line in commands() {
            assert!(!line.contains("--yes") && !line.contains("purge"), "{line}");
        }
        assert!(SKILL.contains("`redrive dead purge`") && SKILL.contains("`--yes`"), "what never to do");
    }
}
