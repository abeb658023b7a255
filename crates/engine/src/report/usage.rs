//! What attempts consumed.

use redrive_core::id::StageNo;
use redrive_core::tally::{Counter, Metric};
use serde::Serialize;

/// Tokens and money, added up, as JSON shows them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UsageReport {
    /// Tokens sent.
    pub tokens_in: u64,
    /// Tokens received.
    pub tokens_out: u64,
    /// What those tokens cost whose price is known; `null` when no price is.
    pub usd: Option<f64>,
    /// Tokens, sent or received, whose price is not known.
    pub unpriced_tokens: u64,
}

/// Adds up what the stages that are wanted consumed; `None` when none of them reported anything.
pub(super) fn usage(counters: &[Counter], wanted: impl Fn(StageNo) -> bool) -> Option<UsageReport> {
    let sum = |of: Metric| {
        let some = counters.iter().filter(|counter| counter.metric == of && wanted(counter.stage));
        some.map(|counter| u64::try_from(counter.n).unwrap_or(0)).fold(0, u64::saturating_add)
    };
    let (tokens_in, tokens_out) = (sum(Metric::TokensIn), sum(Metric::TokensOut));
    let (nano, unpriced_tokens) = (sum(Metric::NanoUsd), sum(Metric::UnpricedTokens));
    let tokens = tokens_in.saturating_add(tokens_out);
    if tokens == 0 && nano == 0 {
        return None;
    }
    // Tokens can be free: it is not the sum that says whether a price is known.
    let priced = nano > 0 || unpriced_tokens < tokens;
    Some(UsageReport { tokens_in, tokens_out, usd: priced.then(|| usd(nano)), unpriced_tokens })
}

/// Billionths of a US dollar as dollars, for people and JSON; sums are made before.
#[expect(clippy::cast_precision_loss, reason = "exact up to nine million dollars, and near enough above")]
pub(super) fn usd(nano: u64) -> f64 {
    nano as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: StageNo = StageNo(0);
    const TWO: StageNo = StageNo(1);

    fn counter(stage: StageNo, metric: Metric, n: i64) -> Counter {
        Counter { stage, metric, n }
    }

    fn all(counters: &[Counter]) -> Option<UsageReport> {
        usage(counters, |_| true)
    }

    #[test]
    fn nothing_reported_is_not_nothing_consumed() {
        assert_eq!(all(&[]), None);
        assert_eq!(all(&[counter(ONE, Metric::Admitted, 5), counter(ONE, Metric::TokensIn, 0)]), None);
        let one = all(&[counter(ONE, Metric::TokensIn, 5)]).expect("usage");
        assert_eq!((one.tokens_in, one.tokens_out, one.unpriced_tokens), (5, 0, 0));
    }

    #[test]
    fn a_price_is_unknown_free_partly_known_or_known() {
        let tokens = [counter(ONE, Metric::TokensIn, 10), counter(ONE, Metric::TokensOut, 5)];
        let priced = |nano, unpriced| {
            let prices =
                [counter(ONE, Metric::NanoUsd, nano), counter(ONE, Metric::UnpricedTokens, unpriced)];
            let usage = all(&[tokens.as_slice(), &prices].concat()).expect("usage");
            (usage.usd, usage.unpriced_tokens)
        };
        assert_eq!(priced(0, 15), (None, 15));
        assert_eq!(priced(0, 0), (Some(0.0), 0), "free is a price");
        assert_eq!(priced(0, 4), (Some(0.0), 4), "the rest was free");
        assert_eq!(priced(300_000, 4), (Some(0.0003), 4));
        assert_eq!(priced(2_500_000_000, 0), (Some(2.5), 0));
    }

    #[test]
    fn stages_are_added_up_or_told_apart() {
        let counters = [
            counter(ONE, Metric::TokensIn, 10),
            counter(ONE, Metric::UnpricedTokens, 10),
            counter(TWO, Metric::TokensIn, i64::MAX),
            counter(TWO, Metric::TokensOut, i64::MAX),
            counter(TWO, Metric::NanoUsd, i64::MAX),
        ];
        let of = |stage| usage(&counters, |at| at == stage);
        assert_eq!(of(ONE).expect("usage").usd, None);
        assert_eq!(of(TWO).expect("usage").unpriced_tokens, 0);
        assert_eq!(of(StageNo(2)), None);
        let both = all(&counters).expect("usage");
        assert_eq!(both.tokens_in, i64::MAX.cast_unsigned() + 10);
        assert!(both.usd.is_some() && both.unpriced_tokens == 10);
    }

    #[test]
    fn json_says_null_where_no_price_is_known() {
        let usage = UsageReport { tokens_in: 1, tokens_out: 2, usd: None, unpriced_tokens: 3 };
        let text = serde_json::to_string(&usage).expect("json");
        assert_eq!(text, r#"{"tokens_in":1,"tokens_out":2,"usd":null,"unpriced_tokens":3}"#);
        let text = serde_json::to_string(&UsageReport { usd: Some(usd(300_000)), ..usage }).expect("json");
        assert!(text.contains("\"usd\":0.0003,"), "{text}");
    }
}
