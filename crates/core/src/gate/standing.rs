//! How a gate stands, in words.

use serde::Serialize;

use super::evidence::LimitKind;
use super::state::{GateState, PausedBy};
use crate::time::Timestamp;

/// What a gate is doing, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// `open`, `closed`, `parked`, `away` or `paused`.
    pub state: &'static str,
    /// Why, in a sentence; empty when it is open and nothing is known against it.
    pub why: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Until when.
    pub until: Option<Timestamp>,
}

impl GateState {
    /// How it stands.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        if let Some(pause) = &self.pause {
            let why = match pause.by {
                PausedBy::Quota => {
                    format!("credit is exhausted or the service does not let us in: {}", pause.why)
                }
                PausedBy::Operator => format!("an operator paused it: {}", pause.why),
            };
            return Standing { state: "paused", why, since: Some(pause.since), until: None };
        }
        if let Some(since) = self.breaker.away_since {
            let spec = self.given.as_ref().and_then(|given| given.breaker.as_ref());
            let outage = self.breaker.is_outage(spec, now);
            let then = if outage { "; runs that need it are paused" } else { "" };
            // Nobody tries it out where nobody is left who would call it: all runs that need it are paused, or ended.
            let nobody = self.breaker.probe_at <= now && self.live_members(now).next().is_none();
            let tried = if nobody { "the next call" } else { "one call at a time" };
            let why = format!("calls fail; {tried} tries it out{then}");
            let until = Some(self.breaker.probe_at).filter(|_| !nobody);
            return Standing { state: "away", why, since: Some(since), until };
        }
        if let Some(parked) = &self.parked {
            let asked = spoken(parked.asked_ms.unwrap_or_default());
            let why = format!(
                "the service asked for {asked}, more than hint_cap grants; it is tried out with one call then"
            );
            return Standing { state: "parked", why, since: Some(parked.since), until: Some(parked.until) };
        }
        if let Some(closed) = self.closed.as_ref().filter(|closed| closed.until > now) {
            let why = match closed.asked_ms {
                Some(asked) => format!("the service asked to be left alone for {}", spoken(asked)),
                None => "the service turns every call away; it is left alone ever longer".to_owned(),
            };
            return Standing { state: "closed", why, since: Some(closed.since), until: Some(closed.until) };
        }
        let why = self.limit_in_words(now).or_else(|| self.told_in_words(now)).unwrap_or_default();
        Standing { state: "open", why, since: None, until: None }
    }
}

impl GateState {
    /// When it was last opened again: a pause that the service asked for was over, a call passed that tried it out, or somebody let
    /// it go on. `None` while something keeps it, and where nothing ever did.
    #[must_use]
    pub fn opened_at(&self, now: Timestamp) -> Option<Timestamp> {
        if self.pause.is_some() || self.parked.is_some() || self.breaker.away_since.is_some() {
            return None;
        }
        let until = self.closed.as_ref().map_or(Timestamp(0), |closed| closed.until);
        let ended = [until, self.tried_out, self.breaker.changed_at, self.resumed_at];
        let last = ended.into_iter().fold(Timestamp(0), Timestamp::max);
        (last > Timestamp(0) && last <= now).then_some(last)
    }

    /// What kind of limit holds calls back, as far as that is known and still so.
    #[must_use]
    pub fn kind(&self, now: Timestamp) -> Option<LimitKind> {
        let rate = self.rate.ceiling.is_some() && self.rate.allowed(now).is_finite();
        let closed = self.closed.as_ref().is_some_and(|closed| closed.until > now);
        let holds = match self.evidence.kind? {
            LimitKind::Rate | LimitKind::Tokens => rate,
            LimitKind::Window => self.told.requests.is_some(),
            LimitKind::AtOnce | LimitKind::Overload => self.holds_places_back(),
            LimitKind::Chance => self.evidence.background > 0.0,
            LimitKind::Shut => closed,
        };
        self.evidence.kind.filter(|_| holds).or_else(|| rate.then_some(LimitKind::Rate))
    }

    /// What kind of limit was found, and by what.
    fn limit_in_words(&self, now: Timestamp) -> Option<String> {
        let share = self.evidence.share * 100.0;
        match self.kind(now)? {
            kind @ (LimitKind::Rate | LimitKind::Tokens) => {
                let rate = self.rate.ceiling? * 60.0;
                let of =
                    if kind == LimitKind::Tokens { ", for want of tokens as its answers say" } else { "" };
                Some(format!("the service turned calls away at about {rate:.0} requests/min{of}"))
            }
            LimitKind::AtOnce => {
                let most = self.window.limit.floor();
                Some(format!(
                    "the service takes {most:.0} calls at once: those with more beside them were turned away"
                ))
            }
            LimitKind::Chance => Some(format!(
                "the service turns about {share:.0} % of calls away whatever their rate: as many as when it went slower; only \
                 the items it turns away wait"
            )),
            LimitKind::Overload => {
                let most = self.window.limit.floor();
                Some(format!(
                    "the service does no more with more than {most:.0} calls at once: they took longer for it"
                ))
            }
            LimitKind::Window if self.told.requests.is_none_or(|pace| pace.per_second(now).is_infinite()) => {
                Some("the service takes so many calls until a time that its answers tell".to_owned())
            }
            LimitKind::Window | LimitKind::Shut => None,
        }
    }

    /// Whether fewer calls at once pass than were asked for.
    fn holds_places_back(&self) -> bool {
        let most = self.given.as_ref().map(|given| f64::from(given.max_concurrency));
        most.is_none_or(|most| self.window.limit.floor() < most)
    }

    /// What its answers say about its limits, where that makes it slow.
    fn told_in_words(&self, now: Timestamp) -> Option<String> {
        let paces = [(self.told.requests, "requests"), (self.told.tokens, "tokens")];
        let (pace, what) = paces.into_iter().find_map(|(pace, what)| {
            pace.filter(|pace| pace.per_second(now).is_finite()).map(|pace| (pace, what))
        })?;
        let left = format!("its answers say that {:.0} {what} are left", pace.remaining);
        let again =
            (pace.reset_ms > 0).then(|| format!(", and all of them again in {}", spoken(pace.reset_ms)));
        Some(left + &again.unwrap_or_default())
    }
}

/// A span in the unit that suits it.
#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn spoken(ms: i64) -> String {
    const UNITS: [(&str, i64); 5] =
        [("years", 31_536_000_000), ("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)];
    match UNITS.into_iter().find(|(_, unit)| ms >= 2 * unit) {
        Some((name, unit)) => format!("{:.1} {name}", ms as f64 / unit as f64),
        None => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Totals;
    use super::super::state::{Closed, Member};
    use super::*;

    #[test]
    fn the_kind_of_limit_and_what_shows_it_are_told() {
        let mut state = GateState::default();
        assert_eq!(state.standing(Timestamp(1)).why, "");
        state.evidence.find_background(0.05, 0.03, Timestamp(1));
        let why = state.standing(Timestamp(1)).why;
        assert!(why.starts_with("the service turns about 3 % of calls away whatever their rate"), "{why}");
        state.evidence.find(LimitKind::AtOnce, Timestamp(2));
        state.window.hold_at(8.0, Timestamp(2));
        let why = state.standing(Timestamp(2)).why;
        assert!(why.starts_with("the service takes 8 calls at once"), "{why}");
        state.evidence.find(LimitKind::Overload, Timestamp(3));
        let why = state.standing(Timestamp(3)).why;
        assert!(why.starts_with("the service does no more with more than 8 calls at once"), "{why}");
    }

    #[test]
    fn a_gate_that_is_away_and_that_nobody_calls_has_no_end_that_is_over() {
        let mut state = GateState::default();
        state.breaker.open(std::time::Duration::from_secs(1), Timestamp(0));
        let probe = state.breaker.probe_at;
        let after = probe.after(std::time::Duration::from_secs(60));
        let told = |state: &GateState, now| {
            let Standing { why, until, .. } = state.standing(now);
            (why, until)
        };
        let tries = ("calls fail; one call at a time tries it out".to_owned(), Some(probe));
        assert_eq!(told(&state, Timestamp(1)), tries);
        assert_eq!(told(&state, after), ("calls fail; the next call tries it out".to_owned(), None));
        state.members.insert("me".to_owned(), Member { at: after, ..Member::default() });
        assert_eq!(told(&state, after), tries, "somebody is there who does");
    }

    #[test]
    fn a_gate_is_opened_again_when_the_last_thing_that_kept_it_is_over() {
        let mut state = GateState::default();
        assert_eq!(state.opened_at(Timestamp(9)), None, "nothing ever kept it");
        state.closed = Some(Closed {
            since: Timestamp(10),
            until: Timestamp(20),
            decided_at: Timestamp(10),
            asked_ms: None,
        });
        assert_eq!(
            (state.opened_at(Timestamp(19)), state.opened_at(Timestamp(25))),
            (None, Some(Timestamp(20)))
        );
        state.breaker.open(std::time::Duration::from_secs(1), Timestamp(30));
        assert_eq!(state.opened_at(Timestamp(35)), None, "it is away");
        state.breaker.close(Timestamp(40));
        assert_eq!(state.opened_at(Timestamp(45)), Some(Timestamp(40)));
        state.stop("for the test".to_owned(), Timestamp(50));
        assert_eq!(state.opened_at(Timestamp(55)), None, "somebody paused it");
        state.resume(Timestamp(60));
        assert_eq!(state.opened_at(Timestamp(65)), Some(Timestamp(60)));
        let mut other = GateState { epoch: state.epoch, ..GateState::default() };
        other.merge(&state, Totals::default(), Timestamp(70));
        assert_eq!(other.opened_at(Timestamp(70)), Some(Timestamp(60)), "whoever merges knows it, too");
    }

    #[test]
    fn spans_are_told_in_the_unit_that_suits_them() {
        let told = [20, 1_500, 30_000, 600_000, 7_200_000, 315_360_000_000].map(spoken);
        assert_eq!(told, ["20 ms", "1500 ms", "30.0 s", "10.0 min", "2.0 h", "10.0 years"]);
    }
}
