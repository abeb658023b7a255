//! What work consumed, in words.

use redrive_engine::report::UsageReport;

use super::text::{count, things};

/// What was consumed, in a line.
pub fn line(usage: &UsageReport) -> String {
    let tokens = format!("tokens {} in, {} out", count(usage.tokens_in), count(usage.tokens_out));
    match usage.usd {
        None => format!("{tokens} · price unknown"),
        Some(usd) if usage.unpriced_tokens == 0 => format!("{tokens} · {}", money(usd)),
        Some(usd) => {
            let unpriced = things(usage.unpriced_tokens, "token");
            format!("{tokens} · {}, and {unpriced} of unknown price", money(usd))
        }
    }
}

/// What it cost, short enough for a column; a sum that is not all of it is marked.
pub fn cost(usage: &UsageReport) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(line(&known), "tokens 12,345 in, 0 out · $0.0003");
        let unknown = UsageReport { usd: None, unpriced_tokens: 12_345, ..known };
        assert_eq!(line(&unknown), "tokens 12,345 in, 0 out · price unknown");
        let part = UsageReport { unpriced_tokens: 1_000, ..known };
        assert_eq!(line(&part), "tokens 12,345 in, 0 out · $0.0003, and 1,000 tokens of unknown price");
        assert_eq!([cost(&known), cost(&unknown), cost(&part)], ["$0.0003", "unknown", "≥ $0.0003"]);
    }
}
