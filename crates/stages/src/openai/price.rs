//! What tokens cost.

use redrive_core::usage::Usage;

/// A price of tokens, in billionths of a US dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Of tokens sent.
    pub input: u64,
    /// Of tokens received; `None` when nobody said.
    pub output: Option<u64>,
}

/// Published list prices of OpenAI, in US dollars per million tokens sent and received. Names are exact: a dated
/// version may cost something else, and an unknown price is better than a wrong one.
const PUBLISHED: [(&str, f64, f64); 14] = [
    ("text-embedding-3-small", 0.02, 0.0),
    ("text-embedding-3-large", 0.13, 0.0),
    ("text-embedding-ada-002", 0.10, 0.0),
    ("gpt-4o", 2.50, 10.00),
    ("gpt-4o-mini", 0.15, 0.60),
    ("gpt-4.1", 2.00, 8.00),
    ("gpt-4.1-mini", 0.40, 1.60),
    ("gpt-4.1-nano", 0.10, 0.40),
    ("gpt-5", 1.25, 10.00),
    ("gpt-5-mini", 0.25, 2.00),
    ("gpt-5-nano", 0.05, 0.40),
    ("o3", 2.00, 8.00),
    ("o3-mini", 1.10, 4.40),
    ("o4-mini", 1.10, 4.40),
];

impl Price {
    /// The price in US dollars per million tokens; `None` when it is no price.
    #[must_use]
    pub fn usd_per_million(input: f64, output: Option<f64>) -> Option<Self> {
        Some(Self {
            input: nano(input)?,
            output: output.map(nano).map_or(Some(None), |nano| nano.map(Some))?,
        })
    }

    /// The published price, where it is OpenAI's own service that is asked.
    pub(super) fn published(is_openai: bool, model: &str) -> Option<Self> {
        let (_, input, output) = PUBLISHED.iter().find(|(name, ..)| is_openai && *name == model)?;
        Self::usd_per_million(*input, Some(*output))
    }

    /// What this usage costs in billionths of a US dollar; `None` when the price of a part of it is unknown.
    pub(super) fn of(self, usage: &Usage) -> Option<u64> {
        let output = match (self.output, usage.tokens_out) {
            (Some(price), _) => price,
            (None, 0) => 0,
            (None, _) => return None,
        };
        let part = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let sum = part(usage.tokens_in, self.input) + part(usage.tokens_out, output);
        // Stores keep signed numbers: what does not fit into one is as unknown as what does not fit into a number at all.
        i64::try_from((sum + 500_000) / 1_000_000).ok().map(i64::cast_unsigned)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a price between zero and a million dollars fits"
)]
fn nano(usd: f64) -> Option<u64> {
    (0.0..=1e6).contains(&usd).then(|| (usd * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(tokens_in: u64, tokens_out: u64) -> Usage {
        Usage { tokens_in, tokens_out, nano_usd: None }
    }

    #[test]
    fn published_prices_are_for_openai_alone() {
        let small = Price::published(true, "text-embedding-3-small").unwrap();
        assert_eq!(small.of(&usage(1_000_000, 0)), Some(20_000_000), "two cents");
        assert_eq!(small.of(&usage(1, 0)), Some(20));
        let mini = Price::published(true, "gpt-4o-mini").unwrap();
        assert_eq!(mini.of(&usage(1_000, 500)), Some(150_000 + 300_000));
        assert_eq!(Price::published(false, "gpt-4o-mini"), None);
        assert_eq!(Price::published(true, "gpt-4o-mini-2024-07-18"), None);
    }

    #[test]
    fn an_unknown_part_makes_an_unknown_price() {
        let price = Price::usd_per_million(1.0, None).unwrap();
        assert_eq!(price.of(&usage(7, 0)), Some(7_000));
        assert_eq!(price.of(&usage(7, 1)), None);
        assert_eq!(
            Price::usd_per_million(0.0, Some(0.0)).unwrap().of(&usage(7, 7)),
            Some(0),
            "said to be free"
        );
    }

    #[test]
    fn a_price_that_no_store_can_keep_is_unknown_and_never_negative() {
        let dear = Price::usd_per_million(10_000.0, None).unwrap();
        assert_eq!(dear.of(&usage(900_000_000_000, 0)), Some(9_000_000_000_000_000_000));
        assert_eq!(dear.of(&usage(1_000_000_000_000, 0)), None, "ten billion dollars");
    }

    #[test]
    fn fractions_are_rounded_and_absurd_prices_refused() {
        assert_eq!(Price::usd_per_million(0.0005, None).unwrap().of(&usage(3, 0)), Some(2));
        assert_eq!(Price::usd_per_million(1e6, None).unwrap().of(&usage(u64::MAX, 0)), None);
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e7] {
            assert_eq!(Price::usd_per_million(wrong, None), None);
            assert_eq!(Price::usd_per_million(1.0, Some(wrong)), None);
        }
    }
}
