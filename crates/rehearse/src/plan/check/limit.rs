//! Limits: rates, windows, steps, neighbours.

use std::time::Duration;

use super::Checker;
use crate::meter::{Kind, Rate};
use crate::plan::file::{KindWord, LimitFile, NeighboursFile, StepFile};
use crate::plan::{Hint, Limit, Neighbours, Step};

/// The most that a limit can be set to, per minute.
const MOST: f64 = 1e12;
/// The longest window.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// Checks `[limit]`.
pub(super) fn limit(checker: &mut Checker<'_>, file: &LimitFile) -> Limit {
    let requests = requests(checker, file, file.requests_per_second, file.requests_per_minute, "limit");
    let tokens = tokens(checker, file, file.tokens_per_minute, "limit");
    checker.positive(file.burst, "limit.burst");
    checker.positive(file.token_burst, "limit.token_burst");
    window(checker, file);
    let windows = matches!(file.kind, Some(KindWord::Window | KindWord::Sliding));
    checker.ensure(!(windows && file.burst.is_some()), "limit.burst", "is for kind = \"bucket\" only");
    checker.ensure(
        !(windows && file.token_burst.is_some()),
        "limit.token_burst",
        "is for kind = \"bucket\" only",
    );
    checker.ensure(file.burst.is_none() || requests.is_some(), "limit.burst", "needs a limit of requests");
    checker.ensure(
        file.token_burst.is_none() || tokens.is_some(),
        "limit.token_burst",
        "needs tokens_per_minute",
    );
    let consumes = file.rejected_calls_consume;
    checker.ensure(
        !consumes || requests.is_some(),
        "limit.rejected_calls_consume",
        "needs a limit of requests",
    );
    let too_large_status = file.too_large_status.unwrap_or(429);
    checker.ensure(
        [400, 413, 429].contains(&too_large_status),
        "limit.too_large_status",
        "must be 400, 413 or 429",
    );
    let mut steps: Vec<Step> = Vec::new();
    for (index, entry) in file.steps.iter().enumerate() {
        let key = format!("limit.steps[{index}]");
        let step = step(checker, file, entry, &key);
        checker.ensure(
            step.requests.is_none() || requests.is_some(),
            &key,
            "the plan has no limit of requests to change",
        );
        checker.ensure(
            step.tokens.is_none() || tokens.is_some(),
            &key,
            "the plan has no limit of tokens to change",
        );
        let later = steps.last().is_none_or(|last| last.after < step.after);
        checker.ensure(later, &format!("{key}.after"), "must be later than the step before");
        steps.push(step);
    }
    Limit {
        neighbours: file.neighbours.as_ref().map(|entry| neighbours(checker, file, entry)),
        requests,
        tokens,
        steps,
        rejected_calls_consume: consumes,
        debt: file.debt.map_or(Duration::from_secs(5), |span| span.0),
        headers: file.headers,
        hint: file.hint.unwrap_or(Hint::Seconds),
        too_large_status,
    }
}

/// A window's length goes with windows only.
fn window(checker: &mut Checker<'_>, file: &LimitFile) {
    let Some(window) = file.window else { return };
    let kind = matches!(file.kind, Some(KindWord::Window | KindWord::Sliding));
    checker.ensure(kind, "limit.window", "is for kind = \"window\" and \"sliding\" only");
    let whole = window.0.subsec_nanos().is_multiple_of(1_000_000);
    let fits = !window.0.is_zero() && window.0 <= LONGEST && whole;
    checker.ensure(fits, "limit.window", "must be whole milliseconds, above zero and at most a day");
}

fn neighbours(checker: &mut Checker<'_>, file: &LimitFile, entry: &NeighboursFile) -> Neighbours {
    let key = |name: &str| format!("limit.neighbours.{name}");
    let share = entry.share > 0.0 && entry.share < 1.0;
    checker.ensure(share, &key("share"), "must be above 0 and below 1");
    checker.ensure(!entry.every.0.is_zero(), &key("every"), "must be above zero");
    let limited = file.requests_per_second.is_some() || file.requests_per_minute.is_some();
    checker.ensure(limited, "limit.neighbours", "need a limit of requests to share");
    let buckets = matches!(file.kind, None | Some(KindWord::Bucket));
    checker.ensure(buckets, "limit.neighbours", "are for kind = \"bucket\" only");
    checker.ensure(file.steps.is_empty(), "limit.neighbours", "do not go with `steps`");
    Neighbours { share: entry.share, every: entry.every.0 }
}

fn step(checker: &mut Checker<'_>, file: &LimitFile, entry: &StepFile, key: &str) -> Step {
    let requests = requests(checker, file, entry.requests_per_second, entry.requests_per_minute, key);
    let tokens = tokens(checker, file, entry.tokens_per_minute, key);
    checker.ensure(requests.is_some() || tokens.is_some(), key, "changes nothing");
    Step { after: entry.after.0, requests, tokens }
}

fn requests(
    checker: &mut Checker<'_>,
    file: &LimitFile,
    per_second: Option<f64>,
    per_minute: Option<f64>,
    key: &str,
) -> Option<Rate> {
    let (value, window, word) = match (per_second, per_minute) {
        (Some(_), Some(_)) => {
            checker.bad(&format!("{key}.requests_per_minute"), "say either this or requests_per_second");
            return None;
        }
        (Some(value), None) => (value * 60.0, 1_000, "requests_per_second"),
        (None, Some(value)) => (value, 60_000, "requests_per_minute"),
        (None, None) => return None,
    };
    let given = file.window.map(|span| u64::try_from(span.0.as_millis()).unwrap_or(window).max(1));
    let window = given.unwrap_or(window);
    // The default burst of calls is what a second brings.
    rate(checker, file, value, window, file.burst, 60, &format!("{key}.{word}"))
}

fn tokens(checker: &mut Checker<'_>, file: &LimitFile, per_minute: Option<f64>, key: &str) -> Option<Rate> {
    // The default burst of tokens is what a minute brings: a call may well need more than a second's.
    rate(checker, file, per_minute?, 60_000, file.token_burst, 1, &format!("{key}.tokens_per_minute"))
}

fn rate(
    checker: &mut Checker<'_>,
    file: &LimitFile,
    per_minute: f64,
    window: u64,
    burst: Option<u64>,
    burst_share: u64,
    key: &str,
) -> Option<Rate> {
    if !(1.0..=MOST).contains(&per_minute) {
        checker.bad(key, "must be at least one a minute, and at most 1e12");
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked above")]
    let per_minute = per_minute.round() as u64;
    let kind = match file.kind {
        Some(KindWord::Window) => Kind::Window,
        Some(KindWord::Sliding) => Kind::Sliding,
        Some(KindWord::Bucket) | None => Kind::Bucket,
    };
    if kind != Kind::Bucket && !(per_minute * window).is_multiple_of(60_000) {
        checker.bad(key, "a window needs a whole number");
        return None;
    }
    let burst = burst.unwrap_or_else(|| (per_minute / burst_share).max(1));
    Some(Rate { per_minute, kind, burst, window })
}
