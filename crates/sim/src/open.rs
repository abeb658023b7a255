//! What was found and is not yet put right elsewhere.
//!
//! A run that comes upon one of these ends there and is counted, and does not fail the campaign. Putting something right
//! means taking it out of this list.

use crate::hub::Broken;

/// Something known to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// The law it breaks.
    pub law: &'static str,
    /// How its complaint can be told.
    pub text: &'static str,
    /// What is wrong, and where.
    pub why: &'static str,
}

/// Everything known to be wrong.
pub const OPEN: &[Open] = &[
    Open {
        law: "control",
        text: "a cancelled run is",
        why: "a pause or resume that was decided before a cancel undoes it: stores have to keep Cancelled",
    },
    Open {
        law: "L6",
        text: "the present content of",
        why: "a line that changes back is answered Known though that version is superseded (admit, submit)",
    },
    Open {
        law: "L10",
        text: "it is superseded, and",
        why: "supersede commits its family without all_or_nothing: a stale child lives on (admit)",
    },
    Open {
        law: "L7",
        text: "the run, Go, was marked as finished",
        why: "a redrive between a session's last count and its finished_at: both have to be one transaction (session)",
    },
];

/// The entry that a complaint belongs to.
#[must_use]
pub fn known(broken: &Broken) -> Option<&'static Open> {
    OPEN.iter().find(|open| broken.law == open.law && broken.what.contains(open.text))
}
