//! What lies over everything else: the keys, and a question.

use ratatui_core::layout::Rect;

use super::super::model::Question;
use super::pen::{Ink, Pen};
use crate::output::text::things;

const KEYS: [(&str, &str); 13] = [
    ("up down, j k", "move the cursor"),
    ("Tab", "go to the next panel: runs, gates, dead groups"),
    ("Enter", "show the run under the cursor alone"),
    ("Esc", "show all runs again"),
    ("p", "pause the run or gate under the cursor"),
    ("u", "let it go on"),
    ("r", "have the waiting items of the run under the cursor go now"),
    ("d", "send the dead group under the cursor back; asks first"),
    ("Ctrl-L", "draw the screen again"),
    ("?", "this"),
    ("q", "quit"),
    ("in bars", "█ done  = filtered  - taken out  X dead"),
    ("", "+ joining  > running  ░ waiting"),
];

/// Explains the keys.
pub fn help(pen: &mut Pen<'_>, area: Rect) {
    let rows: Vec<String> = KEYS.iter().map(|(key, what)| format!("{key:<14}{what}")).collect();
    boxed(pen, area, " keys ", &rows);
}

/// Asks before a group is sent back.
pub fn ask(pen: &mut Pen<'_>, area: Rect, question: &Question) {
    let of = question.run.map(|run| format!(" of {run}")).unwrap_or_default();
    let mut rows = vec![format!("Send {}{of} back?", things(question.items, "dead item"))];
    if question.skipped > 0 {
        rows.push(format!("{} cannot be sent back and stay dead.", things(question.skipped, "item")));
    }
    rows.push(String::new());
    rows.extend(question.first.iter().map(|key| format!("  {key}")));
    let shown = question.first.len() as u64;
    if question.items > shown {
        rows.push(format!("  and {} more", things(question.items - shown, "item")));
    }
    rows.extend([String::new(), "y: send them back   any other key: leave them".to_owned()]);
    boxed(pen, area, &format!(" group {} ", question.group), &rows);
}

/// Draws rows in a box in the middle.
fn boxed(pen: &mut Pen<'_>, area: Rect, title: &str, rows: &[String]) {
    let widest = rows.iter().map(|row| row.chars().count()).max().unwrap_or(0).max(title.chars().count());
    let width = u16::try_from(widest + 4).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(rows.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    pen.frame(place, title);
    for (y, row) in (place.y + 1..place.bottom().saturating_sub(1)).zip(rows) {
        pen.write(place.x + 2, y, width.saturating_sub(4), row, Ink::Plain);
    }
}
