//! What is written on: its width, its colours, and how moments and places are told there.
//!
//! A terminal has a width, and what is written keeps to it: long cells are cut, sentences are wrapped. A file or a pipe has
//! none: nothing is cut or wrapped there, a row is a line. `COLUMNS` gives a width to both.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use redrive_core::time::Timestamp;
use terminal_size::{Width, terminal_size_of};

use super::command::with_store;
use super::times::Times;
use super::tone::Tone;
use super::wrap;
use crate::args::{Colour, DEFAULT_STORE, Global};

/// Lines that are longer are hard to follow.
const MOST: usize = 200;
/// What is narrower than this is taken for it.
const LEAST: usize = 40;

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// What the command line says of output.
#[derive(Debug, Clone, Default)]
struct Settings {
    colour: Colour,
    utc: bool,
    /// The store that was named on the command line, where a command without it would not find it.
    store: Option<String>,
}

/// Takes in what the command line says of output. Before that, it is as without options.
pub fn begin(global: &Global) {
    let from_env = std::env::var("REDRIVE_STORE").ok();
    let known = global.store == DEFAULT_STORE || from_env.as_deref() == Some(&global.store);
    let store = (!known).then(|| global.store.clone());
    // The command line is read once.
    let _ = SETTINGS.set(Settings { colour: global.color, utc: global.utc, store });
}

/// What is written on.
#[derive(Debug, Clone)]
pub struct Screen {
    /// Columns; `None` where a line may have any length.
    pub width: Option<usize>,
    /// Whether words have colours.
    pub colour: bool,
    /// How moments are told.
    pub times: Times,
    /// The store that commands have to name.
    pub store: Option<String>,
    /// The folder that places are told from.
    pub folder: PathBuf,
}

impl Screen {
    /// Standard output.
    pub fn out(now: Timestamp) -> Self {
        let out = std::io::stdout();
        Self::of(out.is_terminal(), terminal_size_of(&out), now)
    }

    /// Standard error.
    pub fn err(now: Timestamp) -> Self {
        let err = std::io::stderr();
        Self::of(err.is_terminal(), terminal_size_of(&err), now)
    }

    fn of(is_terminal: bool, size: Option<(Width, terminal_size::Height)>, now: Timestamp) -> Self {
        let settings = SETTINGS.get().cloned().unwrap_or_default();
        let said = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let columns = said("COLUMNS").and_then(|columns| columns.parse::<usize>().ok()).filter(|n| *n > 0);
        let real = size.filter(|_| is_terminal).map(|(Width(columns), _)| columns.into());
        let usual = is_terminal.then_some(80);
        Self {
            width: columns.or(real).or(usual).map(|columns| columns.clamp(LEAST, MOST)),
            colour: has_colour(settings.colour, is_terminal, said),
            times: Times::here(now, settings.utc),
            store: settings.store,
            folder: std::env::current_dir().unwrap_or_default(),
        }
    }

    /// A text in lines of the width, and its commands with the store. Lines that fit, such as those of a table, stay as they
    /// are.
    pub fn prose(&self, text: &str) -> String {
        let text = with_store(text, self.store.as_deref());
        self.width.map_or_else(|| text.clone(), |width| wrap::wrap(&text, width))
    }

    /// One line in lines of the width, with all but the first set in by so much.
    pub fn hung(&self, line: &str, indent: usize) -> String {
        let line = with_store(line, self.store.as_deref());
        self.width.map_or_else(|| line.clone(), |width| wrap::wrap_at(&line, width, indent))
    }

    /// A text in the colour of what it means.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if self.colour { tone.paint(text) } else { text.to_owned() }
    }

    /// A state, a status or a verdict in its colour.
    pub fn state(&self, word: &str) -> String {
        Tone::of(word).map_or_else(|| word.to_owned(), |tone| self.paint(tone, word))
    }

    /// A moment, as a report writes it, in words.
    pub fn when(&self, written: &str) -> String {
        self.times.say(written)
    }

    /// A moment at which something will happen, as a report writes it, as a sentence has it: "in 40 s", or "at" and its date.
    pub fn at(&self, written: &str) -> String {
        let told = self.when(written);
        if told == "now" || told.starts_with("in ") { told } else { format!("at {told}") }
    }

    /// Whether a moment, as a report writes it, is over.
    pub fn is_past(&self, written: &str) -> bool {
        self.times.is_past(written)
    }

    /// The date and time of a moment, as a report writes it.
    pub fn date(&self, written: &str) -> String {
        self.times.say_date(written)
    }

    /// A moment at which something happened, as a report writes it, in words.
    pub fn happened(&self, written: &str) -> String {
        self.times.say_happened(written)
    }

    /// A path, from the working folder where it is below it. Several are one a line.
    pub fn place(&self, paths: &str) -> String {
        paths.lines().map(|path| self.one_place(path)).collect::<Vec<_>>().join(", ")
    }

    fn one_place(&self, path: &str) -> String {
        match Path::new(path).strip_prefix(&self.folder) {
            Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Ok(rest) if self.folder.parent().is_some() => rest.display().to_string(),
            _ => path.to_owned(),
        }
    }
}

/// Whether words have colours, by what was said on the command line, then by what the environment says.
fn has_colour(asked: Colour, is_terminal: bool, said: impl Fn(&'static str) -> Option<String>) -> bool {
    match asked {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto if said("NO_COLOR").is_some() => false,
        Colour::Auto if said("CLICOLOR_FORCE").is_some_and(|force| force != "0") => true,
        Colour::Auto => is_terminal && said("TERM").is_none_or(|term| term != "dumb"),
    }
}

#[cfg(test)]
impl Screen {
    /// A terminal of a width, without colours, in a zone two hours east, at a fixed moment.
    pub fn sample(width: Option<usize>) -> Self {
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(2));
        let now = Timestamp(1_700_000_000_000);
        let times = Times { now, utc: false, zone };
        Self { width, colour: false, times, store: None, folder: PathBuf::from("/home/ann/work") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_from_the_working_folder() {
        let screen = Screen::sample(None);
        assert_eq!(
            screen.place("/home/ann/work/a/in.jsonl\n/home/ann/in.jsonl"),
            "a/in.jsonl, /home/ann/in.jsonl"
        );
        assert_eq!(screen.place("/home/ann/work"), ".");
        assert_eq!(screen.place("/home/ann/worker"), "/home/ann/worker");
        assert_eq!(screen.place("stdin"), "stdin");
    }

    #[test]
    fn what_will_happen_is_told_by_its_distance_or_at_its_date() {
        let screen = Screen::sample(None);
        assert_eq!(screen.at("2023-11-14T22:23:20.000Z"), "in 10 min");
        assert_eq!(screen.at("2023-11-24T22:13:20.000Z"), "at 2023-11-25 00:13");
    }

    #[test]
    fn colours_follow_the_command_line_then_the_environment_then_the_terminal() {
        let none = |_: &str| None;
        assert!(has_colour(Colour::Auto, true, none) && !has_colour(Colour::Auto, false, none));
        assert!(has_colour(Colour::Always, false, |_| Some("1".to_owned())));
        assert!(!has_colour(Colour::Never, true, none));
        let only = |wanted: &'static str, value: &'static str| {
            move |name: &str| (name == wanted).then(|| value.to_owned())
        };
        assert!(!has_colour(Colour::Auto, true, only("NO_COLOR", "1")));
        assert!(has_colour(Colour::Auto, false, only("CLICOLOR_FORCE", "1")));
        assert!(!has_colour(Colour::Auto, false, only("CLICOLOR_FORCE", "0")));
        assert!(!has_colour(Colour::Auto, true, only("TERM", "dumb")));
    }

    #[test]
    fn a_pipe_gets_whole_lines_and_no_colour() {
        let screen = Screen::sample(None);
        let long = "word ".repeat(100);
        assert_eq!(screen.prose(&long), long);
        assert_eq!(screen.state("dead"), "dead");
        assert!(Screen::sample(Some(80)).prose(&long).lines().all(|line| line.len() <= 80));
    }
}
