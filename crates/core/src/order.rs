//! Who goes first: new items or due retries.

use serde::{Deserialize, Serialize};

use crate::id::ItemSeq;
use crate::time::Timestamp;

/// How new items and due retries share a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// They compete by submission time.
    #[default]
    Oldest,
    /// New items first; due retries get what is left, and a reserved share.
    FreshFirst,
    /// Due retries first; new items get what is left, and a reserved share.
    RetryFirst,
}

impl Order {
    /// The share that is kept for the lane that goes second, unless the pipeline says otherwise.
    pub const DEFAULT_SHARE: f64 = 0.2;

    /// The name used in pipeline files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Oldest => "oldest",
            Self::FreshFirst => "fresh-first",
            Self::RetryFirst => "retry-first",
        }
    }

    /// The order of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Oldest, Self::FreshFirst, Self::RetryFirst].into_iter().find(|order| order.name() == name)
    }
}

/// How many of the next `limit` places are reserved for the lane that goes second.
///
/// A function of how many were given before, so that a share of 0.2 means every fifth place even when places are
/// given one by one.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts far below 2^52"
)]
pub fn reserved(share: f64, given_before: u64, limit: usize) -> usize {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let upto = |n: u64| (n as f64 * share + 1e-9).floor() as u64;
    let places = upto(given_before.saturating_add(limit as u64)) - upto(given_before);
    usize::try_from(places).unwrap_or(limit).min(limit)
}

/// A waiting item that could be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Which item.
    pub seq: ItemSeq,
    /// When it was submitted.
    pub created_at: Timestamp,
}

/// Says how many to take from the head of each lane.
///
/// Both lists hold due items only, in the order of their due times, and are cut at `limit`.
#[must_use]
pub fn pick(
    order: Order,
    reserved: usize,
    limit: usize,
    fresh: &[Candidate],
    retry: &[Candidate],
) -> (usize, usize) {
    let second = |first: usize, second: usize| {
        let kept = reserved.min(second).min(limit);
        let taken = first.min(limit - kept);
        (taken, second.min(limit - taken))
    };
    match order {
        Order::Oldest => oldest(limit, fresh, retry),
        Order::FreshFirst => second(fresh.len(), retry.len()),
        Order::RetryFirst => {
            let (retries, fresh) = second(retry.len(), fresh.len());
            (fresh, retries)
        }
    }
}

fn oldest(limit: usize, fresh: &[Candidate], retry: &[Candidate]) -> (usize, usize) {
    let (mut f, mut r) = (0, 0);
    while f + r < limit {
        match (fresh.get(f), retry.get(r)) {
            (Some(new), Some(due)) if (due.created_at, due.seq) < (new.created_at, new.seq) => r += 1,
            (Some(_), _) => f += 1,
            (None, Some(_)) => r += 1,
            (None, None) => break,
        }
    }
    (f, r)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(times: &[i64]) -> Vec<Candidate> {
        times.iter().map(|&t| Candidate { seq: ItemSeq(t), created_at: Timestamp(t) }).collect()
    }

    #[test]
    fn oldest_lets_new_and_due_compete_by_submission() {
        assert_eq!(pick(Order::Oldest, 0, 3, &at(&[3, 4]), &at(&[1, 9])), (2, 1));
        assert_eq!(pick(Order::Oldest, 0, 2, &at(&[5]), &at(&[])), (1, 0));
    }

    #[test]
    fn second_lane_gets_its_reserve_and_what_is_left() {
        assert_eq!(pick(Order::FreshFirst, 2, 10, &at(&[0; 20]), &at(&[0; 20])), (8, 2));
        assert_eq!(pick(Order::FreshFirst, 2, 10, &at(&[0; 3]), &at(&[0; 20])), (3, 7));
        assert_eq!(pick(Order::FreshFirst, 2, 10, &at(&[0; 20]), &at(&[0; 1])), (9, 1));
        assert_eq!(pick(Order::FreshFirst, 0, 10, &at(&[0; 20]), &at(&[0; 20])), (10, 0));
        assert_eq!(pick(Order::RetryFirst, 2, 10, &at(&[0; 20]), &at(&[0; 20])), (2, 8));
    }

    #[test]
    fn a_share_holds_even_when_places_are_given_singly() {
        let given: usize = (0..100).map(|before| reserved(0.2, before, 1)).sum();
        assert_eq!(given, 20);
        assert_eq!(reserved(0.0, 5, 10), 0);
        assert_eq!(reserved(f64::NAN, 5, 10), 0);
        assert_eq!(reserved(7.0, 5, 10), 10);
    }
}
