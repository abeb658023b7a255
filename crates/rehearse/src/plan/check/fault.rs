//! Faults: what goes wrong, how often, and when.

use std::time::Duration;

use super::{Checker, default_code};
use crate::plan::Hint;
use crate::plan::fault::{Fault, FaultKind, How, RetryAfter};
use crate::plan::file::{ByWord, FaultFile, FaultWord, HowWord, RetryAfterWord};

/// Checks one `[[fault]]`.
pub(super) fn fault(checker: &mut Checker<'_>, index: usize, entry: &FaultFile) -> Fault {
    let key = |name: &str| format!("fault[{index}].{name}");
    let rate = entry.rate.unwrap_or(1.0);
    checker.ensure((0.0..=1.0).contains(&rate), &key("rate"), "must be from 0 to 1");
    let by_item = entry.by == Some(ByWord::Item);
    checker.ensure(entry.times.is_none() || by_item, &key("times"), "needs by = \"item\"");
    let from = entry.from.map_or(Duration::ZERO, |span| span.0);
    let until = entry.until.map(|span| span.0);
    checker.ensure(until.is_none_or(|until| from < until), &key("until"), "must be later than `from`");
    let bursts = match (entry.every, entry.lasts) {
        (Some(every), Some(lasts)) => {
            checker.ensure(
                !lasts.0.is_zero() && lasts.0 < every.0,
                &key("lasts"),
                "must be above zero and shorter than `every`",
            );
            Some((every.0, lasts.0))
        }
        (None, None) => None,
        _ => {
            checker.bad(&key("every"), "`every` and `lasts` go together");
            None
        }
    };
    let kind = fault_kind(checker, index, entry);
    let status_like = matches!(kind, FaultKind::Status { .. } | FaultKind::Outage(How::Status(_)));
    checker.ensure(
        entry.retry_after.is_none() || status_like,
        &key("retry_after"),
        "needs a status to go with",
    );
    checker.ensure(
        entry.hint.is_none() || entry.retry_after.is_some(),
        &key("hint"),
        "needs retry_after, which it writes",
    );
    checker.ensure(
        !entry.quick || matches!(kind, FaultKind::Status { .. }),
        &key("quick"),
        "needs kind = \"status\"",
    );
    if entry.retry_after == Some(RetryAfterWord::End) {
        let ends = until.is_some() || bursts.is_some();
        checker.ensure(ends, &key("retry_after"), "there is no end: needs `until`, or `every` and `lasts`");
    }
    if matches!(kind, FaultKind::Outage(_)) {
        checker.ensure(
            entry.rate.is_none() && entry.by.is_none(),
            &key("rate"),
            "an outage hits every call; use kind = \"status\"",
        );
        checker.ensure(
            entry.path.is_none(),
            &key("path"),
            "an outage hits every path; use kind = \"status\"",
        );
    }
    // A period of no length would be one for ever.
    let bursts = bursts.filter(|(every, _)| !every.is_zero());
    Fault {
        kind,
        rate,
        by_item,
        times: entry.times,
        from,
        until,
        bursts,
        path: entry.path.clone(),
        retry_after: entry.retry_after.map(|wait| match wait {
            RetryAfterWord::End => RetryAfter::End,
            RetryAfterWord::Span(span) => RetryAfter::Span(span),
        }),
        hint: entry.hint.unwrap_or(Hint::Seconds),
        quick: entry.quick,
    }
}

fn fault_kind(checker: &mut Checker<'_>, index: usize, entry: &FaultFile) -> FaultKind {
    let key = |name: &str| format!("fault[{index}].{name}");
    let word = entry.kind;
    let outage = word == FaultWord::Outage;
    let by_status = outage && matches!(entry.how, None | Some(HowWord::Status));
    let only = [
        (entry.status.is_some(), "status", word == FaultWord::Status || by_status),
        (entry.code.is_some(), "code", word == FaultWord::Status),
        (entry.how.is_some(), "how", outage),
        (entry.pace.is_some(), "pace", matches!(word, FaultWord::Slowloris | FaultWord::Endless)),
        (entry.bytes.is_some(), "bytes", word == FaultWord::Huge),
    ];
    for (given, name, fits) in only {
        checker.ensure(!given || fits, &key(name), "does not go with this kind");
    }
    let pace = entry.pace.map_or(Duration::from_millis(100), |span| span.0);
    match word {
        FaultWord::Status => {
            let status = checker.error_status(entry.status, &key("status"), 500);
            let code = entry.code.clone().unwrap_or_else(|| default_code(status).to_owned());
            FaultKind::Status { status, code }
        }
        FaultWord::Outage => FaultKind::Outage(match entry.how {
            Some(HowWord::Cut) => How::Cut,
            Some(HowWord::Refuse) => How::Refuse,
            Some(HowWord::Status) | None => {
                How::Status(checker.error_status(entry.status, &key("status"), 503))
            }
        }),
        FaultWord::Cut => FaultKind::Cut,
        FaultWord::CutInside => FaultKind::CutInside,
        FaultWord::Hang => FaultKind::Hang,
        FaultWord::Slowloris => FaultKind::Slowloris(pace),
        FaultWord::Endless => FaultKind::Endless(pace),
        FaultWord::Garbage => FaultKind::Garbage,
        FaultWord::Huge => FaultKind::Huge(entry.bytes.unwrap_or(256 << 20)),
        FaultWord::TooFew => FaultKind::TooFew,
        FaultWord::TooMany => FaultKind::TooMany,
        FaultWord::Shuffled => FaultKind::Shuffled,
        FaultWord::WrongDimension => FaultKind::WrongDimension,
        FaultWord::Nan => FaultKind::Nan,
        FaultWord::Null => FaultKind::Null,
        FaultWord::Empty => FaultKind::Empty,
    }
}
