//! What a call consumed.

use serde::{Deserialize, Serialize};

/// Tokens and money that one attempt, or one call, consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent.
    pub tokens_in: u64,
    /// Tokens received.
    pub tokens_out: u64,
    /// Price in billionths of a US dollar; `None` when nobody said what a token costs.
    pub nano_usd: Option<u64>,
}

impl Usage {
    /// All tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }

    /// What two calls consumed together. The price is known when both are.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens_in: self.tokens_in.saturating_add(other.tokens_in),
            tokens_out: self.tokens_out.saturating_add(other.tokens_out),
            nano_usd: self.nano_usd.zip(other.nano_usd).map(|(a, b)| a.saturating_add(b)),
        }
    }

    /// Divides what a call consumed among its items in proportion to `weights`, so that the parts add up to the whole.
    #[must_use]
    pub fn divide(&self, weights: &[u64]) -> Vec<Self> {
        let tokens_in = divide(self.tokens_in, weights);
        let tokens_out = divide(self.tokens_out, weights);
        let nano_usd = self.nano_usd.map(|nano_usd| divide(nano_usd, weights));
        (0..weights.len())
            .map(|at| Self {
                tokens_in: tokens_in[at],
                tokens_out: tokens_out[at],
                nano_usd: nano_usd.as_ref().map(|parts| parts[at]),
            })
            .collect()
    }
}

/// What each part gets is the difference of two rounded running sums, so nothing is lost to rounding.
fn divide(whole: u64, weights: &[u64]) -> Vec<u64> {
    // With nothing to go by all parts are alike. Weights come from outside: none is large enough to overflow.
    let weight = |at: usize| u128::from(weights[at].min(1 << 32)) + 1;
    let total: u128 = (0..weights.len()).map(weight).sum();
    let mut before = 0;
    let mut sum = 0;
    (0..weights.len())
        .map(|at| {
            sum += weight(at);
            let upto = u128::from(whole) * sum / total.max(1);
            let part = upto - before;
            before = upto;
            u64::try_from(part).unwrap_or(u64::MAX)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_follow_the_weights() {
        let whole = Usage { tokens_in: 1_000_003, tokens_out: 7, nano_usd: Some(19) };
        for weights in [vec![1], vec![0, 0, 0], vec![99, 1_000, 0, 5], vec![u64::MAX, 1], vec![u64::MAX; 5]] {
            let parts = whole.divide(&weights);
            assert_eq!(parts.iter().map(|part| part.tokens_in).sum::<u64>(), whole.tokens_in);
            assert_eq!(parts.iter().map(|part| part.tokens_out).sum::<u64>(), whole.tokens_out);
            assert_eq!(parts.iter().filter_map(|part| part.nano_usd).sum::<u64>(), 19);
        }
        let parts = Usage { tokens_in: 400, ..Usage::default() }.divide(&[299, 99]);
        assert_eq!((parts[0].tokens_in, parts[1].tokens_in), (300, 100));
        assert_eq!(parts[0].nano_usd, None, "what is unknown stays unknown");
        assert!(whole.divide(&[]).is_empty());
    }
}
