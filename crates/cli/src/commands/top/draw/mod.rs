//! From the model and an area to cells. Nothing here knows a terminal or a clock.

mod bar;
mod dead;
mod gates;
mod over;
mod pen;
mod runs;
mod stages;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::model::{Model, Word};
use crate::output::text::{count, span, things, when};
use pen::{Ink, Pen, Place};

/// Below this nothing can be read.
const LEAST: (u16, u16) = (60, 14);

/// Draws everything.
pub fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    let mut pen = Pen::new(buffer, model.colour);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        pen.write(0, 0, area.width, "a larger window is needed", Ink::Plain);
        return;
    }
    head(&mut pen, model, area);
    let mut y = area.y + 2;
    let only = model.only.and(model.chosen_run());
    let mut details = only.map(|run| runs::details(run, &model.times())).unwrap_or_default();
    details.truncate(usize::from(area.height - LEAST.1));
    let wanted = [
        model.runs().len(),
        model.chosen_run().map_or(0, |run| run.stages.len()),
        gates::lines(model),
        model.groups().len(),
    ];
    let taken = u16::try_from(details.len()).unwrap_or(u16::MAX);
    let heights = heights(wanted, area.height.saturating_sub(3 + taken));
    let panels = [runs::draw, stages::draw, gates::draw, dead::draw];
    for (at, (panel, height)) in panels.into_iter().zip(heights).enumerate() {
        panel(&mut pen, model, Rect { y, height, ..area });
        y += height;
        if at == 0 {
            for line in &details {
                pen.write(area.x + 4, y, area.width.saturating_sub(4), line, Ink::Soft);
                y += 1;
            }
        }
    }
    foot(&mut pen, model, area);
    if model.help {
        over::help(&mut pen, area);
    } else if let Some(question) = &model.asked {
        over::ask(&mut pen, area, question);
    }
}

/// The store, who is at it, and everything added up, with the signs of the bars.
fn head(pen: &mut Pen<'_>, model: &Model, area: Rect) {
    let Some(seen) = &model.seen else { return };
    let totals = &seen.totals;
    let runs = things(totals.going_on as u64, "run");
    let right = format!("{runs} on, {}  {}", things(totals.workers as u64, "worker"), when(&seen.at));
    let x = area.width.saturating_sub(u16::try_from(right.chars().count()).unwrap_or(u16::MAX));
    pen.write(area.x, area.y, x.saturating_sub(1), &format!("redrive top  {}", model.store), Ink::Heading);
    pen.write(x, area.y, area.width - x, &right, Ink::Soft);
    let mut x = area.x;
    if area.width >= pen::WIDE {
        x += pen.write(
            x,
            area.y + 1,
            area.width,
            &format!("{}  ", things(totals.counts.admitted, "item")),
            Ink::Plain,
        );
    }
    for part in bar::parts(&totals.counts).into_iter().filter(|part| part.items > 0) {
        let text = format!("{} {} {}  ", part.sign, part.name, count(part.items));
        x += pen.write(x, area.y + 1, area.width.saturating_sub(x), &text, part.ink);
    }
}

/// What was told last, else what is wrong, else the keys.
fn foot(pen: &mut Pen<'_>, model: &Model, area: Rect) {
    let y = area.bottom().saturating_sub(1);
    let reason = model.chosen_run().and_then(|run| run.reason.as_ref().map(|why| (run.run, why)));
    let (text, ink) = match (&model.trouble, &model.word, reason) {
        (Some(trouble), ..) => (format!("the store: {trouble}; trying on"), Ink::Bad),
        (None, Some(Word::Trouble(word)), _) => (word.clone(), Ink::Bad),
        (None, Some(Word::Done(word)), _) => (word.clone(), Ink::Good),
        (None, None, Some((run, why))) if model.only.is_none() => (format!("{run}: {why}"), Ink::Waits),
        (None, None, _) => {
            let back = if model.only.is_some() { "Esc all runs" } else { "Enter one run" };
            (format!("q quit  ? help  Tab  j/k  {back}  p pause  u go on  r retry  d redrive"), Ink::Soft)
        }
    };
    pen.write(area.x, y, area.width, &text, ink);
}

/// The heights of the panels with their headings: each gets what it wants, in turns, as long as there is room.
fn heights(wanted: [usize; 4], room: u16) -> [u16; 4] {
    let mut heights = [2_u16; 4];
    let wants = |heights: &[u16; 4], at: usize| usize::from(heights[at]) < wanted[at].saturating_add(1);
    while heights.iter().sum::<u16>() < room {
        let next = (0..4).filter(|at| wants(&heights, *at)).min_by_key(|at| heights[*at]);
        match next {
            Some(at) => heights[at] += 1,
            None => break,
        }
    }
    heights
}

/// The rows of a list that are shown, each with its place: those around the chosen one.
fn scrolled(len: usize, chosen: usize, rows: u16, top: u16) -> impl Iterator<Item = (u16, usize)> {
    let rows = usize::from(rows);
    let first = chosen.saturating_add(1).saturating_sub(rows);
    (top..).zip(first..len.min(first.saturating_add(rows)))
}

/// A number that fits: in thousands, millions and so on where it would not.
fn number(n: u64, place: Place) -> String {
    let whole = count(n);
    if whole.len() <= usize::from(place.width) {
        return whole;
    }
    let (unit, sign) = match n {
        0..1_000_000 => (1_000, 'k'),
        1_000_000..1_000_000_000 => (1_000_000, 'M'),
        _ => (1_000_000_000, 'G'),
    };
    format!("{}.{}{sign}", n / unit, n % unit * 10 / unit)
}

/// So many a second.
fn rate(per_second: Option<f64>) -> String {
    match per_second {
        None => "–".to_owned(),
        Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}/s"),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturated by the cast")]
        Some(rate) => format!("{}/s", count(rate.round() as u64)),
    }
}

/// How something bad grows: nothing is said while it does not.
fn growth(per_second: Option<f64>) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturated by the cast")]
    let per_minute = per_second.map_or(0, |rate| (rate * 60.0).round() as u64);
    if per_minute == 0 { String::new() } else { format!("+{}/m", count(per_minute)) }
}

/// How long something still takes.
fn time_left(ms: Option<u64>) -> String {
    ms.map_or_else(|| "–".to_owned(), |ms| span(i64::try_from(ms).unwrap_or(i64::MAX)))
}
