//! Commands that are named in hints: they work as they are printed.

/// Commands that open no store.
const WITHOUT_STORE: [&str; 4] = ["policy", "rehearse", "completions", "man"];

/// Adds the store that was named on the command line to every command within backticks.
pub fn with_store(text: &str, store: Option<&str>) -> String {
    let Some(store) = store else { return text.to_owned() };
    let parts = text.split('`').enumerate();
    let part = |(at, part): (usize, &str)| match at % 2 == 1 && opens_a_store(part) {
        true => format!("{part} --store {}", quoted(store)),
        false => part.to_owned(),
    };
    parts.map(part).collect::<Vec<_>>().join("`")
}

fn opens_a_store(command: &str) -> bool {
    let mut words = command.split_whitespace();
    words.next() == Some("redrive")
        && words.next().is_some_and(|verb| !WITHOUT_STORE.contains(&verb))
        && !command.split_whitespace().any(|word| ["--help", "--store", "--version"].contains(&word))
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::Parser;
    use clap::error::ErrorKind;
    use redrive_operate::dead::{Selection, Which};

    use super::*;
    use crate::args::{Args, Command, DeadCommand};

    /// Every file of source below a folder.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("it is there") {
            let path = entry.expect("read").path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }

    /// The commands that a file names in backticks, outside of its comments and its tests.
    fn named(text: &str) -> Vec<String> {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.join("\n").replace("\\\n", "");
        let parts = code.split('`').skip(1).step_by(2);
        parts.filter(|part| part.starts_with("redrive ")).map(str::to_owned).collect()
    }

    /// Puts something in the place of what is filled in, and takes the command apart as a shell does.
    fn words(command: &str) -> Vec<String> {
        let mut filled = String::new();
        for (at, part) in command.split('{').enumerate() {
            let (name, rest) = part.split_once('}').filter(|_| at > 0).unwrap_or(("", part));
            let before = filled.chars().next_back();
            filled.push_str(match (at, name, before) {
                (0, ..) => "",
                // Filters that were given.
                (_, "by", _) => "--all",
                _ if ["start ", "outcomes ", "--stop "].iter().any(|before| filled.ends_with(before)) => {
                    "op4"
                }
                (_, _, Some(' ')) => "r1",
                // What was asked for, said again: it begins with a blank.
                _ if filled.ends_with("dead redrive") => " --all",
                _ => " r1",
            });
            filled.push_str(rest);
        }
        let filled =
            filled.replace("\\\"", "\"").replace('…', "FILE").replace("RUN", "r1").replace("COMMAND", "run");
        let parts = filled.split('"').enumerate();
        let quoted = |(at, part): (usize, &str)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        };
        parts.flat_map(quoted).collect()
    }

    /// What is wrong with a command, as somebody would be told who types it.
    fn refused(command: &str) -> Option<String> {
        let read = match Args::try_parse_from(words(command)) {
            Err(error) if [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind()) => {
                return None;
            }
            Err(error) => return error.to_string().lines().next().map(str::to_owned),
            Ok(read) => read,
        };
        let which = match read.command {
            Command::Dead(DeadCommand::Redrive(args)) => (args.send.which(), args.send.all),
            Command::Dead(DeadCommand::Purge { filter, all, .. }) => (Which::from(filter), all),
            _ => return None,
        };
        Selection::said_which(&which.0, which.1, "meant").err().map(|error| error.message)
    }

    #[test]
    fn every_command_that_is_named_in_words_can_be_typed() {
        let mut files = Vec::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for name in ["cli", "operate", "engine", "pipeline", "stages", "index", "sqlite", "store"] {
            sources(&crates.join(name).join("src"), &mut files);
        }
        let (mut wrong, mut looked_at) = (Vec::new(), 0);
        for file in files {
            for command in named(&std::fs::read_to_string(&file).expect("read")) {
                looked_at += 1;
                wrong.extend(refused(&command).map(|why| format!("{}: `{command}`: {why}", file.display())));
            }
        }
        assert!(looked_at > 80, "{looked_at} commands were found");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(refused("redrive dead redrive").is_some() && refused("redrive close").is_some());
    }

    #[test]
    fn a_command_names_the_store_that_was_given() {
        let hint = "`redrive show r1` shows it, `redrive policy list` does not; `reuse = true` keeps it";
        assert_eq!(with_store(hint, None), hint);
        assert_eq!(
            with_store(hint, Some("sqlite:s.db")),
            "`redrive show r1 --store sqlite:s.db` shows it, `redrive policy list` does not; `reuse = true` keeps it"
        );
        assert_eq!(with_store("`redrive index --help`", Some("x")), "`redrive index --help`");
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_apart() {
        assert_eq!(quoted("sqlite:/a/b.db"), "sqlite:/a/b.db");
        assert_eq!(quoted("sqlite:my file"), "'sqlite:my file'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
