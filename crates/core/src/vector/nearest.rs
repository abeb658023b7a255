//! The nearest of many rows, by looking at each: exact, without an index to keep, and fast enough for a million.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{Code, Quantised, dot_codes};

/// A row that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Its id.
    pub id: i64,
    /// The dot product with the query: of vectors of length 1, the cosine.
    pub score: f32,
}

/// Ordered by rank: the better hit is the smaller, so that a heap has the worst on top. Equal scores go by id.
#[derive(Debug, PartialEq)]
struct Ranked(Hit);

impl Eq for Ranked {}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.score.total_cmp(&self.0.score).then(self.0.id.cmp(&other.0.id))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Collects the rows nearest to a query, as they pass by in any order.
#[derive(Debug)]
pub struct Nearest<'a> {
    query: &'a Quantised,
    count: usize,
    best: BinaryHeap<Ranked>,
}

impl<'a> Nearest<'a> {
    /// Looks for the `count` rows nearest to `query`.
    #[must_use]
    pub fn new(query: &'a Quantised, count: usize) -> Self {
        Self { query, count, best: BinaryHeap::with_capacity(count.min(4_096) + 1) }
    }

    /// Looks at a row: its codes and what a step of them is worth. Rows of other dimensions are passed over.
    pub fn look(&mut self, id: i64, codes: &[impl Code], scale: f32) {
        if codes.len() != self.query.codes.len() {
            return;
        }
        let score = dot_codes(codes, &self.query.codes) as f32 * (scale * self.query.scale);
        self.add(Hit { id, score });
    }

    fn add(&mut self, hit: Hit) {
        let ranked = Ranked(hit);
        if self.best.len() < self.count {
            self.best.push(ranked);
        } else if let Some(mut worst) = self.best.peek_mut()
            && ranked < *worst
        {
            *worst = ranked;
        }
    }

    /// Takes in what another collector found.
    pub fn merge(&mut self, other: Vec<Hit>) {
        other.into_iter().for_each(|hit| self.add(hit));
    }

    /// What was found, best first; equal ones by id.
    #[must_use]
    pub fn found(self) -> Vec<Hit> {
        self.best.into_sorted_vec().into_iter().map(|ranked| ranked.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_nearest_are_those_of_a_full_sort(
            rows in prop::collection::vec((prop::collection::vec(-3_i8..=3, 4), 0_i64..1000), 0..60),
            query in prop::collection::vec(-3_i8..=3, 4),
            count in 0_usize..12,
            parts in 1_usize..5,
        ) {
            let query = Quantised { codes: query, scale: 0.25 };
            let mut expected: Vec<(i32, i64)> =
                rows.iter().map(|(codes, id)| (-dot_codes(codes, &query.codes), *id)).collect();
            expected.sort_unstable();
            expected.truncate(count);
            let mut all = Nearest::new(&query, count);
            for part in rows.chunks(rows.len().div_ceil(parts).max(1)) {
                let mut nearest = Nearest::new(&query, count);
                part.iter().for_each(|(codes, id)| nearest.look(*id, codes, 0.5));
                all.merge(nearest.found());
            }
            let found: Vec<(i32, i64)> =
                all.found().iter().map(|hit| ((hit.score * -8.0) as i32, hit.id)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_row_of_other_dimensions_is_passed_over() {
        let query = Quantised { codes: vec![1, 2], scale: 1.0 };
        let mut nearest = Nearest::new(&query, 5);
        nearest.look(1, &[1_i8, 2, 3], 1.0);
        nearest.look(2, &[1_i8, 2], 1.0);
        assert_eq!(nearest.found(), [Hit { id: 2, score: 5.0 }]);
    }
}
