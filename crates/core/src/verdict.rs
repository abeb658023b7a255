//! What a pipeline finds of an item: its result, apart from how the work on it went.
//!
//! An item that was checked and found wanting has succeeded: nothing has to be tried again. So a verdict changes neither a
//! state nor the status of a run; it is counted and filtered by itself.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::StageNo;

/// What a stage found of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is as it should be.
    Passed,
    /// Somebody has to look at it.
    NeedsReview,
    /// It is not as it should be.
    Failed,
}

impl Verdict {
    /// Every verdict, in the order of their codes.
    pub const ALL: [Self; 3] = [Self::Passed, Self::NeedsReview, Self::Failed];

    /// The number by which stores keep it.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The verdict with that number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The name used in answers of handlers, JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::NeedsReview => "needs_review",
            Self::Failed => "failed",
        }
    }

    /// The verdict of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.name() == name)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the stages that an item has passed found of it, in the order of the stages. The last one is the item's.
///
/// All are kept, because an item that is done again from a stage is found what the stages before it found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdicts(Vec<(StageNo, Verdict)>);

impl Verdicts {
    /// What the last stage that found anything found.
    #[must_use]
    pub fn last(&self) -> Option<Verdict> {
        self.0.last().map(|(_, verdict)| *verdict)
    }

    /// What a stage found.
    #[must_use]
    pub fn of(&self, stage: StageNo) -> Option<Verdict> {
        self.0.iter().find(|(at, _)| *at == stage).map(|(_, verdict)| *verdict)
    }

    /// The stages that found something, in their order.
    pub fn stages(&self) -> impl Iterator<Item = StageNo> + '_ {
        self.0.iter().map(|(stage, _)| *stage)
    }

    /// Takes in what a stage found, and forgets what it and those behind it found before.
    pub fn found(&mut self, stage: StageNo, verdict: Option<Verdict>) {
        self.forget_from(stage);
        self.0.extend(verdict.map(|verdict| (stage, verdict)));
    }

    /// Forgets what a stage and those behind it found: they are to be passed anew.
    pub fn forget_from(&mut self, stage: StageNo) {
        self.0.retain(|(at, _)| *at < stage);
    }

    /// As stores keep it; `None` when nothing was found.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        let each = self.0.iter().map(|(stage, verdict)| format!("{}:{}", stage.0, verdict.code()));
        Some(each.collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
    }

    /// Reads what [`Verdicts::to_text`] wrote; `None` when it is something else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let one = |part: &str| {
            let (stage, code) = part.split_once(':')?;
            Some((StageNo(stage.parse().ok()?), Verdict::from_code(code.parse().ok()?)?))
        };
        let all: Vec<_> = text.split(' ').map(one).collect::<Option<_>>()?;
        all.is_sorted_by(|(one, _), (next, _)| one < next).then_some(Self(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_survives_its_name_and_its_code() {
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::from_name(verdict.name()), Some(verdict));
            assert_eq!(Verdict::from_code(verdict.code()), Some(verdict));
        }
        assert_eq!(Verdict::from_name("Passed"), None);
        assert_eq!(Verdict::from_code(3), None);
    }

    #[test]
    fn the_last_stage_that_finds_something_wins() {
        let mut verdicts = Verdicts::default();
        assert_eq!(verdicts.last(), None);
        verdicts.found(StageNo(0), Some(Verdict::NeedsReview));
        verdicts.found(StageNo(1), None);
        assert_eq!(verdicts.last(), Some(Verdict::NeedsReview));
        verdicts.found(StageNo(3), Some(Verdict::Passed));
        assert_eq!(verdicts.last(), Some(Verdict::Passed));
        verdicts.forget_from(StageNo(3));
        assert_eq!(verdicts.last(), Some(Verdict::NeedsReview));
        verdicts.found(StageNo(0), None);
        assert_eq!((verdicts.last(), verdicts.to_text()), (None, None));
    }

    #[test]
    fn what_was_found_survives_its_text_and_nothing_else_is_taken_for_it() {
        let mut verdicts = Verdicts::default();
        for (stage, verdict) in [(0, Verdict::Failed), (7, Verdict::Passed), (700, Verdict::NeedsReview)] {
            verdicts.found(StageNo(stage), Some(verdict));
            assert_eq!(Verdicts::from_text(&verdicts.to_text().unwrap()), Some(verdicts.clone()));
        }
        for wrong in ["", "1", "1:", ":1", "1:3", "-1:1", "2:1 1:1", "1:1 1:2", "1:1  2:1", "70000:1"] {
            assert_eq!(Verdicts::from_text(wrong), None, "{wrong:?}");
        }
    }
}
