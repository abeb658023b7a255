//! What is shown: the last look, what followed from those before it, and where the cursor is.

use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use redrive_engine::report::GateReport;
use redrive_operate::Error;
use redrive_operate::dead::DeadGroup;
use redrive_operate::overview::{Look, Overview, RunView, Trend};

use crate::output::text::{count, things};
use crate::output::times::Times;

/// A part of the screen that the cursor can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panel {
    /// Runs.
    Runs,
    /// Gates.
    Gates,
    /// Groups of dead items.
    Dead,
}

/// What was asked before something is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The group that would be sent back.
    pub group: String,
    /// Only items of this run.
    pub run: Option<RunId>,
    /// How many items would be sent back.
    pub items: u64,
    /// How many would be left alone.
    pub skipped: u64,
    /// The keys of the first of them.
    pub first: Vec<String>,
}

/// Something that is told in the last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Something was done.
    Done(String),
    /// Something went wrong.
    Trouble(String),
}

/// Everything that is shown.
#[derive(Debug, Clone)]
pub struct Model {
    /// The store, by the name it was given.
    pub store: String,
    /// The last look; `None` before the first.
    pub seen: Option<Overview>,
    /// What follows from the looks so far.
    pub trend: Trend,
    /// The one run that is shown; `None`: all of them.
    pub only: Option<RunId>,
    /// Where the cursor is.
    pub panel: Panel,
    /// The run under the cursor.
    run: Option<RunId>,
    /// The gate under the cursor.
    gate: Option<String>,
    /// The group under the cursor.
    group: Option<String>,
    /// What is asked now.
    pub asked: Option<Question>,
    /// Whether the keys are explained.
    pub help: bool,
    /// What was told last.
    pub word: Option<Word>,
    /// Why the last look failed.
    pub trouble: Option<String>,
    /// Whether colours are used.
    pub colour: bool,
    /// Whether times are told exactly.
    pub utc: bool,
}

impl Model {
    /// Nothing was seen yet.
    pub fn new(store: String, only: Option<RunId>, colour: bool) -> Self {
        Self {
            store,
            seen: None,
            trend: Trend::default(),
            only,
            panel: Panel::Runs,
            run: only,
            gate: None,
            group: None,
            asked: None,
            help: false,
            word: None,
            trouble: None,
            colour,
            utc: false,
        }
    }

    /// How times are told, as seen from the last look.
    pub fn times(&self) -> Times {
        Times::here(self.seen.as_ref().map_or(Timestamp(0), |seen| seen.now), self.utc)
    }

    /// What to look at next.
    pub fn look(&self) -> Look {
        Look { run: self.only, ..Look::default() }
    }

    /// Takes a look in; one that failed leaves the last one on the screen.
    pub fn saw(&mut self, look: Result<Overview, Error>) {
        match look {
            Ok(overview) => {
                self.trend.look(&overview);
                self.seen = Some(overview);
                self.trouble = None;
            }
            Err(error) => self.trouble = Some(error.message),
        }
    }

    /// Takes in what would be sent back.
    pub fn previewed(&mut self, preview: Result<Question, Error>) {
        match preview {
            Ok(question) if question.items == 0 => {
                let why = match question.skipped {
                    0 => "it has no dead items any more".to_owned(),
                    skipped => format!("{} cannot be sent back", things(skipped, "item")),
                };
                self.word = Some(Word::Done(format!("group {}: {why}", question.group)));
            }
            Ok(question) => self.asked = Some(question),
            Err(error) => self.word = Some(Word::Trouble(told(&error))),
        }
    }

    /// Takes in how something went.
    pub fn did(&mut self, outcome: Result<String, Error>) {
        self.word = Some(match outcome {
            Ok(text) => Word::Done(text),
            Err(error) => Word::Trouble(told(&error)),
        });
    }

    /// The runs.
    pub fn runs(&self) -> &[RunView] {
        self.seen.as_ref().map_or(&[], |seen| &seen.runs)
    }

    /// The gates.
    pub fn gates(&self) -> &[GateReport] {
        self.seen.as_ref().map_or(&[], |seen| &seen.gates)
    }

    /// The groups of dead items.
    pub fn groups(&self) -> &[DeadGroup] {
        self.seen.as_ref().map_or(&[], |seen| &seen.dead)
    }

    /// Where the cursor of a panel is: where what was under it is now, else at the top.
    pub fn at(&self, panel: Panel) -> usize {
        let found = match panel {
            Panel::Runs => self.runs().iter().position(|run| Some(run.run) == self.run),
            Panel::Gates => self.gates().iter().position(|gate| Some(&gate.name) == self.gate.as_ref()),
            Panel::Dead => self.groups().iter().position(|group| Some(&group.group) == self.group.as_ref()),
        };
        found.unwrap_or(0)
    }

    /// The run under the cursor.
    pub fn chosen_run(&self) -> Option<&RunView> {
        self.runs().get(self.at(Panel::Runs))
    }

    /// The gate under the cursor.
    pub fn chosen_gate(&self) -> Option<&GateReport> {
        self.gates().get(self.at(Panel::Gates))
    }

    /// The group under the cursor.
    pub fn chosen_group(&self) -> Option<&DeadGroup> {
        self.groups().get(self.at(Panel::Dead))
    }

    /// How many rows a panel has.
    fn rows(&self, panel: Panel) -> usize {
        match panel {
            Panel::Runs => self.runs().len(),
            Panel::Gates => self.gates().len(),
            Panel::Dead => self.groups().len(),
        }
    }

    /// Moves the cursor by so many rows.
    pub fn step(&mut self, by: isize) {
        let last = self.rows(self.panel).saturating_sub(1);
        let to = self.at(self.panel).saturating_add_signed(by).min(last);
        match self.panel {
            Panel::Runs => self.run = self.runs().get(to).map(|run| run.run),
            Panel::Gates => self.gate = self.gates().get(to).map(|gate| gate.name.clone()),
            Panel::Dead => self.group = self.groups().get(to).map(|group| group.group.clone()),
        }
    }

    /// Goes to the next panel, or the one before.
    pub fn turn(&mut self, back: bool) {
        self.panel = match (self.panel, back) {
            (Panel::Runs, false) | (Panel::Dead, true) => Panel::Gates,
            (Panel::Gates, false) | (Panel::Runs, true) => Panel::Dead,
            (Panel::Dead, false) | (Panel::Gates, true) => Panel::Runs,
        };
    }

    /// Shows one run, or all of them again.
    pub fn show(&mut self, only: Option<RunId>) {
        self.only = only;
        self.run = only.or(self.run);
        self.panel = Panel::Runs;
    }
}

/// An error in one line, with what can be done.
fn told(error: &Error) -> String {
    match &error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message.clone(),
    }
}

/// That items were sent back, and which run nobody is at.
pub fn sent_back(items: u64, left_alone: u64, nobody_at: Option<RunId>) -> String {
    let left = if left_alone > 0 { format!(", {} left alone", count(left_alone)) } else { String::new() };
    let next = nobody_at.map(|run| format!("; nobody is at it: redrive resume {run}")).unwrap_or_default();
    format!("sent {} back{left}{next}", things(items, "item"))
}

/// That waiting items of a run go now.
pub fn going(items: u64, run: RunId) -> String {
    format!("{} of {run} {} now", things(items, "waiting item"), if items == 1 { "goes" } else { "go" })
}
