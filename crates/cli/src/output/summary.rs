//! A run report for people.

use redrive_core::status::{Counts, RunStatus};
use redrive_engine::admit::News;
use redrive_engine::report::{ReadReport, RunReport, StageReport, UsageReport};

use super::table::{Side, table};
use super::text::{count, span, things};

/// Puts a run report into words and a table.
pub fn run(report: &RunReport) -> String {
    let counts = &report.counts;
    let mut text = format!(
        "run {} of {} over {}: {}\n",
        report.run,
        report.pipeline,
        over(&report.source),
        report.status
    );
    if let Some(reason) = &report.reason {
        text.push_str(&format!("  because {reason}\n"));
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
    let words: Vec<String> = shown.map(|(name, n)| format!("{} {name}", count(*n))).collect();
    text.push_str(&format!("  {}\n", words.join(", ")));
    let attempts = &report.attempts;
    text.push_str(&format!(
        "  {}: {} failed, {} throttled, {} crashed; {}\n",
        things(attempts.total, "attempt"),
        count(attempts.failures),
        count(attempts.throttles),
        count(attempts.crashes),
        span(report.elapsed_ms)
    ));
    if let Some(used) = &report.usage {
        text.push_str(&format!("  {}\n", usage(used)));
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
        text.push_str(&format!("  next retry due {due}\n"));
    }
    if report.stages.len() > 1 || attempts.failures + attempts.crashes + attempts.throttles > 0 {
        text.push('\n');
        text.push_str(&stages(report));
    }
    text.trim_end().to_owned()
}

/// Whether it is done with what it was asked for, and that was a part of its source.
fn is_part(report: &RunReport) -> bool {
    let done = matches!(report.status, RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed);
    done && !report.admitted_all
}

/// How the rest of a source gets in, where only a part of it is.
pub fn rest(report: &RunReport) -> Option<&'static str> {
    is_part(report)
        .then_some("the same `redrive run` without --limit and --only admits the rest of the source")
}

/// That there is more in the source than was admitted.
fn part(report: &RunReport) -> String {
    let new = report.read.as_ref().map(|read| read.news.new + read.news.changed + read.news.back);
    let new = new.map_or_else(String::new, |new| format!(", {} of it now", things(new, "item")));
    format!("  only a part of the source is admitted so far{new}\n")
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

fn stages(report: &RunReport) -> String {
    let right = |name| (name, Side::Right);
    let headings = [
        ("stage", Side::Left),
        right("attempts"),
        right("failed"),
        right("throttled"),
        right("crashed"),
        right("here"),
        right("dead"),
        right("filtered"),
    ];
    if report.usage.is_none() {
        return table(headings, report.stages.iter().map(cells));
    }
    let wider = |stage: &StageReport| {
        let [tokens, cost] = stage.usage.as_ref().map_or_else(
            || ["–".to_owned(), "–".to_owned()],
            |usage| [count(usage.tokens_in.saturating_add(usage.tokens_out)), cost(usage)],
        );
        wide(cells(stage), [tokens, cost])
    };
    table(wide(headings, [right("tokens"), right("cost")]), report.stages.iter().map(wider))
}

fn cells(stage: &StageReport) -> [String; 8] {
    let indent = if stage.below.is_some() { "  " } else { "" };
    [
        format!("{indent}{}", stage.name),
        count(stage.attempts.total),
        count(stage.attempts.failures),
        count(stage.attempts.throttles),
        count(stage.attempts.crashes),
        count(stage.counts.live()),
        count(stage.counts.dead),
        count(stage.counts.filtered),
    ]
}

fn wide<T>([a, b, c, d, e, f, g, h]: [T; 8], [i, j]: [T; 2]) -> [T; 10] {
    [a, b, c, d, e, f, g, h, i, j]
}

/// What was consumed, in a line.
pub fn usage(usage: &UsageReport) -> String {
    let tokens = format!("tokens {} in, {} out", count(usage.tokens_in), count(usage.tokens_out));
    match usage.usd {
        None => format!("{tokens} · price unknown"),
        Some(usd) if usage.unpriced_tokens == 0 => format!("{tokens} · {}", money(usd)),
        Some(usd) => {
            let unpriced = count(usage.unpriced_tokens);
            format!("{tokens} · {}, and {unpriced} tokens of unknown price", money(usd))
        }
    }
}

/// What it cost, short enough for a column; a sum that is not all of it is marked.
fn cost(usage: &UsageReport) -> String {
    match usage.usd {
        None => "unknown".to_owned(),
        Some(usd) if usage.unpriced_tokens == 0 => money(usd),
        Some(usd) => format!("≥ {}", money(usd)),
    }
}

/// Dollars with as many digits as it takes to see two that matter, and never fewer than cents.
fn money(usd: f64) -> String {
    let enough = |places: &u8| usd * 10_f64.powi(i32::from(*places)) >= 9.95;
    let decimals = usize::from((2..9).find(enough).unwrap_or(9));
    let text = format!("{usd:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, "00"));
    let kept = fraction.trim_end_matches('0').len().max(2);
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
    format!("${whole}.{}", &fraction[..kept])
}

/// What can be done next, if anything.
pub fn hint(report: &RunReport) -> Option<String> {
    let run = report.run;
    match report.status {
        RunStatus::Open => Some(match report.counts.live() {
            0 => format!("it takes items by `redrive submit`; `redrive close {run}` ends it"),
            _ => format!(
                "`redrive work` or `redrive resume {run}` works on what waits; it takes items meanwhile"
            ),
        }),
        RunStatus::PausedBudget => Some(format!(
            "`redrive dead groups --run {run}` shows what went wrong; `redrive resume {run}` goes on"
        )),
        RunStatus::Paused => Some(format!("`redrive resume {run}` goes on")),
        RunStatus::PausedQuota => Some(format!(
            "the reason above says what it waits for (credit, a key, another setting), and so does `redrive gates` of what has a gate; once that is settled, `redrive resume {run}` goes on"
        )),
        RunStatus::PausedOutage => Some(format!(
            "`redrive gates` shows who is away; once it is back, `redrive resume {run}` goes on"
        )),
        RunStatus::Queued => Some("`redrive work` works on it".to_owned()),
        RunStatus::Interrupted => Some(format!("`redrive resume {run}` goes on where it stopped")),
        RunStatus::Running => {
            let at_work = at_work(&report.workers);
            Some(format!("{at_work}; `redrive results {run} --follow` shows what comes of it"))
        }
        RunStatus::PartiallyCompleted => Some(format!(
            "retries are due, or gates open, later: `redrive failures {run}` and `redrive gates` list them, `redrive resume {run}` waits for them"
        )),
        RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed if only_refused(report) => {
            Some(format!(
                "`redrive dead list --run {run}` shows what the source could not give; mend it there and run again"
            ))
        }
        RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed if report.counts.dead > 0 => {
            Some(format!(
                "`redrive dead list --run {run}` shows the dead items; `redrive dead redrive --run {run} --all --work` sends them back"
            ))
        }
        RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed | RunStatus::Cancelled => None,
    }
}

fn at_work(workers: &[String]) -> String {
    format!("{} {} at work", workers.join(", "), if workers.len() > 1 { "are" } else { "is" })
}

/// Whether nothing is dead but lines that no stage has seen: they cannot be sent back, only mended in the source.
fn only_refused(report: &RunReport) -> bool {
    let tried = report.attempts.failures + report.attempts.throttles + report.attempts.crashes;
    let final_only = report.dead.by_reason.keys().all(|reason| *reason == "final");
    report.counts.dead > 0 && tried == 0 && final_only
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_at_work_and_several_are() {
        assert_eq!(at_work(&["pid 1".to_owned()]), "pid 1 is at work");
        assert_eq!(at_work(&["pid 1".to_owned(), "pid 2".to_owned()]), "pid 1, pid 2 are at work");
    }

    #[test]
    fn money_shows_the_digits_that_matter() {
        for (usd, text) in [
            (0.0, "$0.00"),
            (0.000_000_001, "$0.000000001"),
            (0.000_246_9, "$0.00025"),
            (0.0003, "$0.0003"),
            (0.0125, "$0.013"),
            (0.1, "$0.10"),
            (0.999_9, "$1.00"),
            (12.345, "$12.35"),
            (1_234_567.5, "$1,234,567.50"),
            (1e12, "$1,000,000,000,000.00"),
        ] {
            assert_eq!(money(usd), text);
        }
    }

    #[test]
    fn a_price_that_is_not_known_is_said_to_be_unknown() {
        let known = UsageReport { tokens_in: 12_345, tokens_out: 0, usd: Some(0.0003), unpriced_tokens: 0 };
        assert_eq!(usage(&known), "tokens 12,345 in, 0 out · $0.0003");
        let unknown = UsageReport { usd: None, unpriced_tokens: 12_345, ..known };
        assert_eq!(usage(&unknown), "tokens 12,345 in, 0 out · price unknown");
        let part = UsageReport { unpriced_tokens: 1_000, ..known };
        assert_eq!(usage(&part), "tokens 12,345 in, 0 out · $0.0003, and 1,000 tokens of unknown price");
        assert_eq!([cost(&known), cost(&unknown), cost(&part)], ["$0.0003", "unknown", "≥ $0.0003"]);
    }
}
