//! What a rejection says about when to come back, honest or not.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redrive_core::time::Timestamp;

use crate::plan::Hint;

/// The headers of a hint, and when the caller may come back if it is an honest one.
pub(crate) fn headers(
    hint: Hint,
    now: Timestamp,
    wait: Duration,
) -> (Vec<(&'static str, String)>, Option<Timestamp>) {
    let seconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).div_ceil(1_000).max(1);
    let whole = now.after(Duration::from_secs(seconds));
    match hint {
        Hint::None => (Vec::new(), None),
        Hint::Text => (Vec::new(), Some(now.after(wait))),
        Hint::Exact => {
            let exact = format!("{}.{:03}", wait.as_secs(), wait.subsec_millis());
            (vec![("retry-after", exact)], Some(now.after(wait)))
        }
        Hint::Seconds => (vec![("retry-after", seconds.to_string())], Some(whole)),
        Hint::Ms => (vec![("retry-after-ms", wait.as_millis().to_string())], Some(now.after(wait))),
        Hint::Both => {
            let both =
                vec![("retry-after", seconds.to_string()), ("retry-after-ms", wait.as_millis().to_string())];
            (both, Some(now.after(wait)))
        }
        Hint::Date => {
            // A date has no milliseconds: the next whole second that is late enough.
            let end = now.after(wait).0;
            let end = Timestamp(end.saturating_add(999).div_euclid(1_000).saturating_mul(1_000));
            (vec![("retry-after", date(end))], Some(end))
        }
        Hint::Negative => (vec![("retry-after", "-5".to_owned())], None),
        Hint::TenYears => (vec![("retry-after", "315360000".to_owned())], None),
        Hint::Past => (vec![("retry-after", date(Timestamp(now.0.saturating_sub(3_600_000))))], None),
        Hint::Garbage => (vec![("retry-after", "soon, maybe".to_owned())], None),
    }
}

/// What a message says of the wait, where that is what the plan wants.
pub(crate) fn words(hint: Hint, wait: Duration) -> String {
    if hint != Hint::Text {
        return String::new();
    }
    format!(". Please try again in {}", span(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
}

fn date(at: Timestamp) -> String {
    // Years that HTTP cannot write are cut off.
    let ms = u64::try_from(at.0).unwrap_or(0).min(253_402_300_799_000);
    let at: SystemTime = UNIX_EPOCH + Duration::from_millis(ms);
    httpdate::fmt_http_date(at)
}

/// A span as OpenAI writes it: "20ms", "1.5s", "6m0s", "1h0m0s".
pub(crate) fn span(ms: u64) -> String {
    if ms < 1_000 {
        return format!("{ms}ms");
    }
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    let (seconds, rest) = (ms / 1_000 % 60, ms % 1_000);
    let fraction =
        if rest == 0 { String::new() } else { format!(".{rest:03}").trim_end_matches('0').to_owned() };
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_400);

    #[test]
    fn spans_are_written_as_openai_does() {
        let spans = [0, 20, 999, 1_000, 1_500, 59_001, 360_000, 360_500, 3_600_000].map(span);
        assert_eq!(spans, ["0ms", "20ms", "999ms", "1s", "1.5s", "59.001s", "6m0s", "6m0.5s", "1h0m0s"]);
    }

    #[test]
    fn honest_hints_are_never_too_early() {
        for (wait, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2")] {
            let wait = Duration::from_millis(wait);
            assert_eq!(headers(Hint::Seconds, NOW, wait).0, [("retry-after", seconds.to_owned())]);
            for hint in [Hint::Exact, Hint::Text, Hint::Seconds, Hint::Ms, Hint::Both, Hint::Date] {
                let (_, end) = headers(hint, NOW, wait);
                assert!(end.is_some_and(|end| end >= NOW.after(wait)), "{hint:?}");
            }
        }
        let (date, end) = headers(Hint::Date, NOW, Duration::from_millis(700));
        assert_eq!(date, [("retry-after", "Tue, 14 Nov 2023 22:13:22 GMT".to_owned())]);
        assert_eq!(end, Some(Timestamp(1_700_000_002_000)));
    }

    #[test]
    fn lies_bind_nobody() {
        for (hint, value) in [
            (Hint::Negative, "-5"),
            (Hint::TenYears, "315360000"),
            (Hint::Past, "Tue, 14 Nov 2023 21:13:20 GMT"),
            (Hint::Garbage, "soon, maybe"),
        ] {
            let (headers, end) = headers(hint, NOW, Duration::from_secs(1));
            assert_eq!((headers, end), (vec![("retry-after", value.to_owned())], None));
        }
        assert_eq!(headers(Hint::None, NOW, Duration::from_secs(1)), (Vec::new(), None));
    }
}
