//! A run report for people.

use redrive_core::status::{Counts, RunStatus};
use redrive_engine::admit::News;
use redrive_engine::report::{GateReport, PauseView, ReadReport, RunReport, StageReport, VerdictCounts};

use super::screen::Screen;
use super::table::{Cell, Column, Table};
use super::text::{count, safe, span, things};
use super::tone::Tone;
use super::usage;

/// Puts a run report into words and a table. `shut` are the gates of its stages that are not open.
pub fn run(report: &RunReport, shut: &[GateReport], screen: &Screen) -> String {
    let counts = &report.counts;
    let mut text = format!(
        "run {} of {} over {}: {}\n",
        report.run,
        report.pipeline,
        safe(&screen.place(&report.source)),
        screen.state(report.status.name())
    );
    if let Some(reason) = &report.reason {
        text.push_str(&format!("  because {}\n", safe(reason)));
    }
    for pause in report.paused.iter().filter(|_| counts.live() > 0) {
        text.push_str(&format!("  {}\n", safe(&paused(pause, screen))));
    }
    for gate in shut.iter().filter(|_| counts.live() > 0) {
        text.push_str(&format!(
            "  gate {} is {}: {}\n",
            gate.name,
            screen.state(gate.state),
            safe(&why(gate, screen))
        ));
    }
    let ranks = [
        report.category.as_ref().map(|category| format!("category {category}")),
        (report.priority != 0).then(|| format!("priority {}", report.priority)),
    ];
    let ranks: Vec<String> = ranks.into_iter().flatten().collect();
    if !ranks.is_empty() {
        text.push_str(&format!("  {}\n", ranks.join(", ")));
    }
    let named = named(counts);
    let always = ["admitted", "succeeded", "dead"];
    let shown = named.iter().filter(|(name, n)| *n > 0 || always.contains(name));
    let words: Vec<String> = shown.map(|(name, n)| in_state(name, *n, screen)).collect();
    text.push_str(&format!("  {}\n", words.join(", ")));
    if report.awaited > 0 {
        text.push_str(&format!("  {}\n", awaited(report, screen)));
    }
    if report.verdicts.any() {
        text.push_str(&format!("  verdicts: {}\n", verdicts(&report.verdicts, screen)));
    }
    let attempts = &report.attempts;
    let open = match report.awaited {
        0 => String::new(),
        open => format!(" that ended and {} whose answer is awaited", count(open)),
    };
    text.push_str(&format!(
        "  {}{open}: {} failed, {} throttled, {} crashed; {}\n",
        things(attempts.total, "attempt"),
        count(attempts.failures),
        count(attempts.throttles),
        count(attempts.crashes),
        match took(report).as_str() {
            "-" if attempts.total == 0 => "nobody has been at it",
            "-" => "for how long is not known",
            took => took,
        }
    ));
    if let Some(used) = &report.usage {
        text.push_str(&format!("  {}\n", usage::line(used)));
    }
    if let Some(read) = report.read.as_ref().filter(|read| has_news(read)) {
        text.push_str(&format!("  {}\n", found(read)));
    }
    if is_part(report) {
        text.push_str(&part(report));
    }
    if report.duplicates > 0 {
        text.push_str(&format!(
            "  {} repeated an earlier one; each is admitted once\n",
            things(report.duplicates, "source line")
        ));
    }
    if let Some(due) = &report.next_retry {
        text.push_str(&format!("  next retry due {}\n", screen.when(due)));
    }
    if report.stages.len() > 1 || attempts.failures + attempts.crashes + attempts.throttles > 0 {
        text.push('\n');
        text.push_str(&stages(report, screen));
    }
    text.trim_end().to_owned()
}

/// How many answers are awaited, and until when.
fn awaited(report: &RunReport, screen: &Screen) -> String {
    let are = if report.awaited == 1 { "is" } else { "are" };
    let until = report.awaited_until.as_ref();
    let until = until.map(|until| format!(", until {} at the latest", screen.date(until)));
    format!("{} {are} awaited{}", things(report.awaited, "answer"), until.unwrap_or_default())
}

/// Whether it is done with what it was asked for, and that was a part of its source.
fn is_part(report: &RunReport) -> bool {
    let done = matches!(report.status, RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed);
    done && !report.admitted_all
}

/// How the rest of a source gets in, where only a part of it is.
pub fn rest(report: &RunReport) -> Option<&'static str> {
    is_part(report).then_some("`redrive run FILE` without --limit and --only admits the rest of the source")
}

/// That there is more in the source than was admitted.
fn part(report: &RunReport) -> String {
    let new = report.read.as_ref().map(|read| read.news.new + read.news.changed + read.news.back);
    let new = new.map_or_else(String::new, |new| format!(", {} of it now", things(new, "item")));
    format!("  only a part of the source is admitted so far{new}\n")
}

/// How long somebody was at a run; unknown where nobody has been.
pub fn took(report: &RunReport) -> String {
    match report.elapsed_ms {
        0 => "-".to_owned(),
        ms => span(ms),
    }
}

/// A source by its name; several files are kept one a line.
pub fn over(source: &str) -> String {
    source.replace('\n', ", ")
}

/// A run in one line, for a worker that has many.
pub fn one_line(report: &RunReport) -> String {
    let parts = named(&report.counts).into_iter().filter(|(_, n)| *n > 0);
    let parts: Vec<String> = parts.map(|(name, n)| format!("{} {name}", count(n))).collect();
    let parts = if parts.is_empty() { "no items".to_owned() } else { parts.join(", ") };
    format!("run {} of {}: {} ({parts})", report.run, report.pipeline, report.status)
}

/// Counts with their names, in the order people read them.
pub fn named(counts: &Counts) -> [(&'static str, u64); 10] {
    [
        ("admitted", counts.admitted),
        ("succeeded", counts.succeeded),
        ("filtered", counts.filtered),
        ("dead", counts.dead),
        ("waiting", counts.waiting),
        ("running", counts.running),
        ("joining", counts.joining),
        ("superseded", counts.superseded),
        ("cancelled", counts.cancelled),
        ("purged", counts.purged),
    ]
}

/// What was found of the items that succeeded.
pub fn verdicts(counts: &VerdictCounts, screen: &Screen) -> String {
    let given = counts.named().map(|(name, n)| in_state(name, n, screen));
    let none = (counts.none > 0).then(|| format!("{} without", count(counts.none)));
    given.into_iter().chain(none).collect::<Vec<_>>().join(", ")
}

/// Whether there is more to tell of a source than that it was read.
fn has_news(read: &ReadReport) -> bool {
    let News { changed, back, removed, left_out, kept_back, .. } = read.news;
    read.left_alone + changed + back + removed + left_out + kept_back > 0
}

/// What was found in a source that was worked on before.
fn found(read: &ReadReport) -> String {
    let News { new, changed, back, removed, left_out, kept_back, .. } = read.news;
    let named = [
        ("new", new),
        ("changed", changed),
        ("back again", back),
        ("removed", removed),
        ("left alone", read.left_alone),
    ];
    let mut words: Vec<String> =
        named.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{} {name}", count(*n))).collect();
    if left_out > 0 {
        words.push(format!("{} left out", count(left_out)));
    }
    if kept_back > 0 {
        let stay = if kept_back == 1 { "stays as it is" } else { "stay as they are" };
        return format!("the source is empty: {} {stay}", things(kept_back, "item"));
    }
    format!("in the source: {}", words.join(", "))
}

fn stages(report: &RunReport, screen: &Screen) -> String {
    let mut columns = vec![
        Column::text("stage"),
        Column::number("attempts"),
        Column::number("failed").rank(1),
        Column::number("throttled").rank(4),
        Column::number("crashed").rank(5),
        Column::number("here").rank(2),
        Column::number("dead").rank(1),
        Column::number("filtered").rank(6),
    ];
    let used = report.usage.is_some();
    columns.extend(
        used.then_some([Column::number("tokens").rank(7), Column::number("cost").rank(3)])
            .into_iter()
            .flatten(),
    );
    let mut table = Table::new(columns);
    for stage in &report.stages {
        let mut cells = cells(stage);
        if used {
            let [tokens, cost] = stage.usage.as_ref().map_or_else(
                || ["-".to_owned(), "-".to_owned()],
                |used| [count(used.tokens_in.saturating_add(used.tokens_out)), usage::cost(used)],
            );
            cells.extend([tokens.into(), cost.into()]);
        }
        table.row(cells);
    }
    table.on(screen)
}

fn cells(stage: &StageReport) -> Vec<Cell> {
    let indent = if stage.below.is_some() { "  " } else { "" };
    vec![
        format!("{indent}{}", stage.name).into(),
        count(stage.attempts.total).into(),
        counted("failed", stage.attempts.failures),
        counted("throttled", stage.attempts.throttles),
        counted("crashed", stage.attempts.crashes),
        count(stage.counts.live()).into(),
        counted("dead", stage.counts.dead),
        counted("filtered", stage.counts.filtered),
    ]
}

/// A number of items or attempts, in the colour of what became of them where there are any.
pub fn counted(state: &str, n: u64) -> Cell {
    let text = count(n);
    match (n, Tone::of(state)) {
        (1.., Some(tone)) => Cell::toned(text, tone),
        _ => text.into(),
    }
}

/// The same in a sentence.
fn in_state(state: &str, n: u64, screen: &Screen) -> String {
    let text = format!("{} {state}", count(n));
    match (n, Tone::of(state)) {
        (1.., Some(tone @ (Tone::Bad | Tone::Wait))) => screen.paint(tone, &text),
        _ => text,
    }
}

/// What somebody paused, since when, by whom and why, and what lets it go on.
pub fn paused(pause: &PauseView, screen: &Screen) -> String {
    let since = screen.when(&pause.since);
    format!("{} (began {since}); `{}` lets it go on", pause.said(), pause.resume)
}

/// Why a gate is not open, since when and until when.
pub fn why(gate: &GateReport, screen: &Screen) -> String {
    // What should have ended goes on until somebody has tried.
    let until = gate.until.as_ref().filter(|until| !screen.is_past(until));
    let moments = [("began", gate.since.as_ref()), ("ends", until)];
    let told = moments.iter().filter_map(|(name, at)| Some(format!("{name} {}", screen.when(at.as_ref()?))));
    match told.collect::<Vec<_>>() {
        told if told.is_empty() => gate.why.clone(),
        told => format!("{} ({})", gate.why, told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::status::RunStatus;

    use super::*;
    use crate::output::sample::{self, at_widths};

    #[test]
    fn a_run_fits_its_screen() {
        at_widths("show", |screen| run(&sample::run(), &sample::gates()[..1], screen));
        let mut paused = sample::run();
        paused.status = RunStatus::PausedBudget;
        paused.reason = Some(
            "41 of the last 50 items of stage parse are dead; the budget lets half of them fail, and asks somebody to look"
                .to_owned(),
        );
        paused.usage = None;
        at_widths("show-paused", |screen| run(&paused, &[], screen));
    }
}
