//! A fault: what goes wrong, how often, and when.

use std::time::Duration;

use super::Hint;

/// Something that goes wrong.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// What.
    pub kind: FaultKind,
    /// The share of calls (or items) that it hits.
    pub rate: f64,
    /// Whether the share is one of items instead of calls: the same item is hit every time.
    pub by_item: bool,
    /// An item is hit at most so often; only with `by_item`.
    pub times: Option<u32>,
    /// From then on, since the first call.
    pub from: Duration,
    /// Until then.
    pub until: Option<Duration>,
    /// Only in the first part of every period: its length and the part's.
    pub bursts: Option<(Duration, Duration)>,
    /// Only for paths that begin so.
    pub path: Option<String>,
    /// The wait that goes with a status.
    pub retry_after: Option<RetryAfter>,
    /// How that is written.
    pub hint: Hint,
    /// Whether the status is answered at once, without the latency.
    pub quick: bool,
}

/// The wait that goes with a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryAfter {
    /// Always that.
    Span(Duration),
    /// Until the fault ends.
    End,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// An error status.
    Status {
        /// The status.
        status: u16,
        /// The error code in the body.
        code: String,
    },
    /// The provider is down; nothing else is looked at.
    Outage(How),
    /// The connection is closed instead of an answer.
    Cut,
    /// The connection is closed in the middle of the answer.
    CutInside,
    /// No answer for as long as the caller waits.
    Hang,
    /// The answer comes byte by byte.
    Slowloris(Duration),
    /// An answer comes byte by byte, and never ends.
    Endless(Duration),
    /// HTML with status 200.
    Garbage,
    /// An answer of so many bytes.
    Huge(u64),
    /// One result is missing.
    TooFew,
    /// One result is there twice.
    TooMany,
    /// The results are in another order, each with its right number; a good answer.
    Shuffled,
    /// A vector is one number short.
    WrongDimension,
    /// The word NaN where a number belongs.
    Nan,
    /// `null` where a value belongs.
    Null,
    /// Nothing where a value belongs.
    Empty,
}

/// How an outage shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By an error status.
    Status(u16),
    /// Connections are closed instead of an answer.
    Cut,
    /// Nobody listens.
    Refuse,
}

impl FaultKind {
    /// Its name in plans and reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Status { .. } => "status",
            Self::Outage(_) => "outage",
            Self::Cut => "cut",
            Self::CutInside => "cut-inside",
            Self::Hang => "hang",
            Self::Slowloris(_) => "slowloris",
            Self::Endless(_) => "endless",
            Self::Garbage => "garbage",
            Self::Huge(_) => "huge",
            Self::TooFew => "too-few",
            Self::TooMany => "too-many",
            Self::Shuffled => "shuffled",
            Self::WrongDimension => "wrong-dimension",
            Self::Nan => "nan",
            Self::Null => "null",
            Self::Empty => "empty",
        }
    }
}

impl Fault {
    /// Whether it may hit at this time since the first call.
    pub(crate) fn active(&self, at: Duration) -> bool {
        self.ends(at).is_some()
    }

    /// When it stops being active, if it is; `Duration::MAX` is never.
    pub(crate) fn ends(&self, at: Duration) -> Option<Duration> {
        let until = self.until.unwrap_or(Duration::MAX);
        if at < self.from || at >= until {
            return None;
        }
        let Some((every, lasts)) = self.bursts else { return Some(until) };
        let begun = self.period(at, every);
        (at < begun + lasts).then(|| until.min(begun + lasts))
    }

    /// How long a caller is asked to stay away at this time.
    pub(crate) fn wait(&self, at: Duration) -> Option<Duration> {
        match self.retry_after? {
            RetryAfter::Span(span) => Some(span),
            RetryAfter::End => self.ends(at).map(|end| end - at),
        }
    }

    /// When it becomes active next, if it is not.
    pub(crate) fn begins(&self, at: Duration) -> Option<Duration> {
        let next = match self.bursts {
            _ if at < self.from => self.from,
            Some((every, _)) => self.period(at, every) + every,
            None => return None,
        };
        (self.until.is_none_or(|until| next < until)).then_some(next)
    }

    /// The beginning of the period that a time is in.
    fn period(&self, at: Duration, every: Duration) -> Duration {
        let into = (at - self.from).as_nanos() % every.as_nanos();
        at - Duration::from_nanos(u64::try_from(into).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault() -> Fault {
        Fault {
            kind: FaultKind::Cut,
            rate: 1.0,
            by_item: false,
            times: None,
            from: Duration::from_secs(5),
            until: Some(Duration::from_secs(30)),
            bursts: Some((Duration::from_secs(10), Duration::from_secs(2))),
            path: None,
            retry_after: None,
            hint: Hint::Seconds,
            quick: false,
        }
    }

    #[test]
    fn bursts_begin_and_end_to_the_millisecond() {
        let at = |ms: u64| fault().active(Duration::from_millis(ms));
        let active: Vec<bool> =
            [0, 4_999, 5_000, 6_999, 7_000, 14_999, 15_000, 17_000, 25_000, 30_000, 35_000].map(at).to_vec();
        assert_eq!(active, [false, false, true, true, false, false, true, false, true, false, false]);
    }

    #[test]
    fn a_wait_is_always_the_same_or_until_the_end() {
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        let waits = |retry_after| Fault { retry_after, ..fault() }.wait(ms(6_500));
        assert_eq!(waits(None), None);
        assert_eq!(waits(Some(RetryAfter::Span(s(3)))), Some(s(3)));
        assert_eq!(waits(Some(RetryAfter::End)), Some(ms(500)));
    }

    #[test]
    fn the_next_beginning_and_end_are_known() {
        let s = Duration::from_secs;
        assert_eq!(fault().begins(s(0)), Some(s(5)));
        assert_eq!(fault().ends(s(6)), Some(s(7)));
        assert_eq!(fault().begins(s(8)), Some(s(15)));
        assert_eq!(fault().begins(s(27)), None, "it is over before the next one");
        assert_eq!(Fault { bursts: None, until: None, ..fault() }.ends(s(6)), Some(Duration::MAX));
    }
}
