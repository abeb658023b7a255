//! What a command line asks for that cannot be read as a whole.

use std::ffi::OsString;

use clap::error::ErrorKind;
use redrive_operate::{Code, Error};

use super::LogFormat;

/// In which form an error is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Whether a JSON document is wanted.
    pub json: bool,
    /// The form of what goes to standard error.
    pub log_format: LogFormat,
}

impl Asked {
    /// Looks for the options among the words of a command line.
    pub fn of(words: impl IntoIterator<Item = OsString>) -> Self {
        let mut asked = Self { json: false, log_format: LogFormat::Text };
        let mut before = String::new();
        for word in words.into_iter().map(|word| word.to_string_lossy().into_owned()) {
            if word == "--" {
                break;
            }
            asked.json |= word == "--json";
            if word == "--log-format=json" || (before == "--log-format" && word == "json") {
                asked.log_format = LogFormat::Json;
            }
            before = word;
        }
        asked
    }
}

/// What is wrong with a command line, in a sentence, and where to look.
pub fn usage_error(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let hint = "`redrive help` and `redrive COMMAND --help` tell what can be said";
    let missing = [ErrorKind::MissingSubcommand, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    if missing.contains(&error.kind()) {
        return Error::wrong("a command is missing").code(Code::Usage).hint(hint);
    }
    let mut parts = text.split("\n\n").map(str::trim);
    let first = parts.next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    let tip = parts.find_map(|part| part.strip_prefix("tip: "));
    Error::wrong(message).code(Code::Usage).hint(tip.unwrap_or(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_wherever_they_stand_before_two_dashes() {
        let of = |words: &str| Asked::of(words.split(' ').map(OsString::from));
        let text = Asked { json: false, log_format: LogFormat::Text };
        assert_eq!(of("redrive runs"), text);
        assert_eq!(of("redrive search -- --json"), text);
        assert_eq!(of("redrive runs --nonsense --json"), Asked { json: true, ..text });
        let both = Asked { json: true, log_format: LogFormat::Json };
        assert_eq!(of("redrive --log-format json runs --json"), both);
        assert_eq!(of("redrive --log-format=json runs --json"), both);
    }
}
