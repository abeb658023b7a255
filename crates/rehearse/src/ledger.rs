//! Counts what happens. Everything in it is bounded.

use std::collections::{BTreeMap, HashMap};

use redrive_core::time::Timestamp;

use crate::asked::Early;
use crate::plan::Plan;
use crate::report::{PoisonHit, Report, Second};

/// Different items that are told apart.
const ITEMS: usize = 200_000;
/// Different paths.
const PATHS: usize = 100;
/// Characters of a path.
const PATH: usize = 200;
/// Different pieces of poison.
const POISON: usize = 1_000;
/// Seconds of the series.
const SECONDS: usize = 86_400;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With a good answer.
    Ok,
    /// With an error status.
    Status(u16),
    /// With a closed connection.
    Cut,
    /// With a broken answer of status 200.
    Spoilt,
    /// By the caller.
    Abandoned,
}

/// The counts so far.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    totals: Report,
    served: HashMap<u64, u32>,
    poison: BTreeMap<(String, String), u64>,
    seconds: Vec<Second>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    last_ok: Option<Timestamp>,
}

impl Ledger {
    /// A call came in.
    pub(crate) fn arrived(&mut self, path: &str, now: Timestamp, open: u64, early: Early) {
        let totals = &mut self.totals;
        totals.calls += 1;
        totals.early_calls += u64::from(early.call);
        totals.early_items += u64::from(early.item);
        totals.highest_concurrency = totals.highest_concurrency.max(open);
        match totals.routes.get_mut(path) {
            Some(calls) => *calls += 1,
            None => {
                let path = if totals.routes.len() < PATHS { path } else { "…" };
                *totals.routes.entry(path.chars().take(PATH).collect()).or_default() += 1;
            }
        }
        self.first.get_or_insert(now);
        self.last = self.last.max(Some(now));
    }

    /// A fault hit.
    pub(crate) fn fault(&mut self, name: &str) {
        match self.totals.faults.get_mut(name) {
            Some(hits) => *hits += 1,
            None => drop(self.totals.faults.insert(name.to_owned(), 1)),
        }
    }

    /// A call failed of this poison.
    pub(crate) fn poison(&mut self, marker: &str, item: String) {
        let key = (marker.to_owned(), item);
        if self.poison.len() < POISON || self.poison.contains_key(&key) {
            *self.poison.entry(key).or_default() += 1;
        }
    }

    /// A call ended, with these items and tokens.
    pub(crate) fn ended(&mut self, end: End, now: Timestamp, items: &[u64], tokens: u64) {
        let totals = &mut self.totals;
        match end {
            End::Ok => totals.ok += 1,
            End::Status(429) => totals.rejected += 1,
            End::Status(_) => totals.failed += 1,
            End::Cut => totals.cut += 1,
            End::Spoilt => totals.spoilt += 1,
            End::Abandoned => totals.abandoned += 1,
        }
        let status = match end {
            End::Ok | End::Spoilt => Some(200),
            End::Status(status) => Some(status),
            End::Cut | End::Abandoned => None,
        };
        if let Some(status) = status {
            *totals.statuses.entry(status).or_default() += 1;
        }
        if end == End::Ok {
            self.last_ok = self.last_ok.max(Some(now));
            totals.items_served += items.len() as u64;
            totals.tokens_served += tokens;
            items.iter().for_each(|item| self.serve(*item));
        }
        let Some(second) = self.second(now) else { return };
        match end {
            End::Ok => second.ok += 1,
            End::Status(429) => second.rejected += 1,
            End::Status(_) | End::Cut | End::Spoilt | End::Abandoned => second.failed += 1,
        }
    }

    fn serve(&mut self, item: u64) {
        let full = self.served.len() >= ITEMS;
        match self.served.get_mut(&item) {
            Some(times) => {
                self.totals.served_twice += u64::from(*times == 1);
                self.totals.paid_again += 1;
                *times = times.saturating_add(1);
            }
            None if full => self.totals.not_told_apart += 1,
            None => drop(self.served.insert(item, 1)),
        }
    }

    fn second(&mut self, now: Timestamp) -> Option<&mut Second> {
        let at = now.since(self.first?).as_secs();
        let index = usize::try_from(at).ok().filter(|index| *index < SECONDS)?;
        while self.seconds.len() <= index {
            let second = self.seconds.len() as u64;
            self.seconds.push(Second { second, ..Second::default() });
        }
        self.seconds.get_mut(index)
    }

    /// What happened so far.
    pub(crate) fn report(&self, plan: &Plan, open: u64) -> Report {
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let until = |at: Option<Timestamp>| {
            let span = at.zip(self.first).map_or(0, |(at, first)| at.since(first).as_millis());
            u64::try_from(span).unwrap_or(u64::MAX)
        };
        let hit = |((marker, item), calls): (&(String, String), &u64)| PoisonHit {
            marker: marker.clone(),
            item: item.clone(),
            calls: *calls,
        };
        Report {
            plan: plan.name.clone(),
            seed: plan.seed,
            open,
            distinct_served: self.served.len() as u64,
            poison: self.poison.iter().map(hit).collect(),
            first_call: time(self.first),
            last_call: time(self.last),
            lasted_ms: until(self.last),
            last_ok_ms: until(self.last_ok),
            series: self.seconds.iter().filter(|s| s.ok + s.rejected + s.failed > 0).copied().collect(),
            ..self.totals.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_paid_twice_shows() {
        let mut ledger = Ledger::default();
        for items in [[1, 2], [2, 3], [2, 4]] {
            ledger.arrived("/work", Timestamp(0), 1, Early { call: false, item: false });
            ledger.ended(End::Ok, Timestamp(1_500), &items, 10);
        }
        ledger.arrived("/work", Timestamp(0), 1, Early { call: false, item: false });
        ledger.ended(End::Spoilt, Timestamp(1_500), &[1], 10);
        let report = ledger.report(&Plan::builtin("calm").expect("built in"), 0);
        assert_eq!((report.items_served, report.distinct_served), (6, 4));
        assert_eq!((report.served_twice, report.paid_again), (1, 2));
        assert_eq!((report.tokens_served, report.last_ok_ms), (30, 1_500));
        assert_eq!(report.series, [Second { second: 1, ok: 3, rejected: 0, failed: 1 }]);
    }

    #[test]
    fn counting_is_bounded() {
        let mut ledger = Ledger::default();
        for n in 0..ITEMS as u64 + 5 {
            ledger.serve(n);
        }
        for n in 0..PATHS + 5 {
            ledger.arrived(&format!("/{n}"), Timestamp(0), 1, Early { call: false, item: false });
        }
        for n in 0..POISON + 5 {
            ledger.poison("P", n.to_string());
        }
        let report = ledger.report(&Plan::builtin("calm").expect("built in"), 0);
        assert_eq!((report.distinct_served, report.not_told_apart), (ITEMS as u64, 5));
        assert_eq!((report.routes.len(), report.routes["…"]), (PATHS + 1, 5));
        assert_eq!(report.poison.len(), POISON);
    }
}
