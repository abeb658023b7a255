//! What a key does: to the model, and to the store.

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use redrive_core::id::RunId;

use super::model::{Model, Panel, Word};

/// Rows that a page key goes.
const PAGE: isize = 10;

/// What is to be done to the store, or to the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// End.
    Quit,
    /// Look again at once: something else is shown.
    Look,
    /// Draw all of it again.
    Redraw,
    /// Stop a run for now.
    PauseRun(RunId),
    /// Let a run go on.
    ResumeRun(RunId),
    /// Have the waiting items of a run go now.
    RetryRun(RunId),
    /// Stop a gate for now.
    PauseGate(String),
    /// Let a gate go on.
    ResumeGate(String),
    /// See what would be sent back.
    Preview {
        /// The group.
        group: String,
        /// Only items of this run.
        run: Option<RunId>,
    },
    /// Send it back.
    Redrive {
        /// The group.
        group: String,
        /// Only items of this run.
        run: Option<RunId>,
    },
}

/// Takes a key: changes what is shown, and says what else is to be done.
pub fn press(model: &mut Model, key: KeyEvent) -> Option<Act> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control {
        return match key.code {
            KeyCode::Char('c') => Some(Act::Quit),
            KeyCode::Char('l') => Some(Act::Redraw),
            _ => None,
        };
    }
    if model.help {
        model.help = false;
        return (key.code == KeyCode::Char('q')).then_some(Act::Quit);
    }
    if let Some(question) = model.asked.take() {
        return match key.code {
            KeyCode::Char('y' | 'Y') => Some(Act::Redrive { group: question.group, run: question.run }),
            _ => {
                model.word = Some(Word::Done("nothing was sent back".to_owned()));
                None
            }
        };
    }
    model.word = None;
    match key.code {
        KeyCode::Char('q') => return Some(Act::Quit),
        KeyCode::Char('?' | 'h') => model.help = true,
        KeyCode::Up | KeyCode::Char('k') => model.step(-1),
        KeyCode::Down | KeyCode::Char('j') => model.step(1),
        KeyCode::PageUp => model.step(-PAGE),
        KeyCode::PageDown => model.step(PAGE),
        KeyCode::Home | KeyCode::Char('g') => model.step(isize::MIN),
        KeyCode::End | KeyCode::Char('G') => model.step(isize::MAX),
        KeyCode::Tab | KeyCode::Right => model.turn(false),
        KeyCode::BackTab | KeyCode::Left => model.turn(true),
        KeyCode::Enter => return open(model),
        KeyCode::Esc | KeyCode::Backspace if model.only.is_some() => {
            model.show(None);
            return Some(Act::Look);
        }
        KeyCode::Char('p') => return pause(model),
        KeyCode::Char('u') => return resume(model),
        KeyCode::Char('r') => return retry(model),
        KeyCode::Char('d') => return preview(model),
        _ => {}
    }
    None
}

fn open(model: &mut Model) -> Option<Act> {
    let run = model.chosen_run().filter(|_| model.panel == Panel::Runs)?.run;
    model.show(Some(run));
    Some(Act::Look)
}

fn pause(model: &mut Model) -> Option<Act> {
    match model.panel {
        Panel::Runs => model.chosen_run().map(|run| Act::PauseRun(run.run)),
        Panel::Gates => model.chosen_gate().map(|gate| Act::PauseGate(gate.name.clone())),
        Panel::Dead => say(model, "p pauses a run or a gate: Tab goes to them"),
    }
}

fn resume(model: &mut Model) -> Option<Act> {
    match model.panel {
        Panel::Runs => model.chosen_run().map(|run| Act::ResumeRun(run.run)),
        Panel::Gates => model.chosen_gate().map(|gate| Act::ResumeGate(gate.name.clone())),
        Panel::Dead => say(model, "u lets a run or a gate go on: Tab goes to them"),
    }
}

fn retry(model: &mut Model) -> Option<Act> {
    match model.panel {
        Panel::Runs => model.chosen_run().map(|run| Act::RetryRun(run.run)),
        Panel::Gates | Panel::Dead => say(model, "r has waiting items of a run go now: Tab goes to the runs"),
    }
}

fn preview(model: &mut Model) -> Option<Act> {
    if model.panel != Panel::Dead {
        return say(model, "d sends a group of dead items back: Tab goes to them");
    }
    let group = model.chosen_group()?.group.clone();
    if group.is_empty() {
        return say(model, "these died without an error that could be grouped: see `redrive dead list`");
    }
    Some(Act::Preview { group, run: model.only })
}

fn say(model: &mut Model, word: &str) -> Option<Act> {
    model.word = Some(Word::Done(word.to_owned()));
    None
}
