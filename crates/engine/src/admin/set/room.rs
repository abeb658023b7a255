//! How many more items of a set may be sent back, by how those went that were.

use crate::admin::outcome::Tally;

/// Items that may be under way at first, while it is watched how many of them fail again: fewer than a failure budget takes in a
/// row, unless somebody set it otherwise.
const FIRST: u64 = 20;
/// At least so many go at first, however small the set is.
const FIRST_AT_LEAST: u64 = 5;
/// Fewer ends than this say nothing about a share.
const TELLING: u64 = 10;

/// How many more may be sent back now.
#[derive(Debug, PartialEq)]
pub(super) enum Room {
    For(u64),
    Later,
    Stop(String),
}

impl Room {
    /// What may follow so much, when so many canaries go first and at most this share may fail again.
    pub(super) fn after(tally: &Tally, canary: u64, stop_at: Option<f64>) -> Self {
        let (sent, failed) = (tally.sent(), tally.failed());
        if sent < canary && tally.pending > 0 {
            return Self::For(canary - sent);
        }
        if canary > 0 && sent <= canary {
            if failed > 0 {
                return Self::Stop(format!("{failed} of {sent} canaries failed"));
            }
            if tally.live > 0 {
                return Self::Later;
            }
        }
        stop_at.map_or(Self::For(u64::MAX), |most| watched(tally, most))
    }

    /// The same, and no more than this.
    pub(super) fn at_most(self, most: u64) -> Self {
        match self {
            Self::For(n) if n.min(most) > 0 => Self::For(n.min(most)),
            Self::For(_) => Self::Later,
            Self::Later | Self::Stop(_) => self,
        }
    }
}

/// What may follow so many ends when at most this share of them may be failures. A few go first; once enough of these have ended,
/// more may be under way the more have ended.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn watched(tally: &Tally, most: f64) -> Room {
    let (failed, ended) = (tally.failed(), tally.passed + tally.failed());
    let first = (tally.items / 10).clamp(FIRST_AT_LEAST, FIRST);
    let tells = ended >= TELLING.min(first);
    if tells && failed as f64 > most * ended as f64 {
        return Room::Stop(format!("{failed} of {ended} failed again, more than {} percent", most * 100.0));
    }
    let room = match tells {
        true => first.max(ended).saturating_sub(tally.live),
        false => first.saturating_sub(tally.sent()),
    };
    match room {
        0 if tally.pending > 0 => Room::Later,
        n => Room::For(n.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pending: u64, live: u64, passed: u64, failed_again: u64) -> Tally {
        let items = pending + live + passed + failed_again;
        Tally { items, pending, live, passed, failed_again, ..Tally::default() }
    }

    #[test]
    fn the_others_wait_for_the_canaries() {
        let room = |tally| Room::after(&tally, 3, None);
        assert_eq!(room(after(10, 0, 0, 0)), Room::For(3));
        assert_eq!(room(after(9, 1, 0, 0)), Room::For(2), "a crash came between them");
        assert_eq!(room(after(7, 1, 2, 0)), Room::Later);
        assert_eq!(room(after(7, 0, 3, 0)), Room::For(u64::MAX));
        assert_eq!(room(after(0, 0, 10, 0)), Room::For(u64::MAX), "nothing is left");
        let Room::Stop(why) = room(after(7, 1, 1, 1)) else { panic!("one of them failed") };
        assert_eq!(why, "1 of 3 canaries failed");
        assert_eq!(room(after(3, 2, 4, 1)), Room::For(u64::MAX), "those that went later are no canaries");
    }

    #[test]
    fn a_share_is_judged_by_enough_ends_and_more_may_go_the_more_have_ended() {
        let room = |tally| Room::after(&tally, 0, Some(0.2));
        assert_eq!(room(after(900, 0, 0, 0)), Room::For(20));
        assert_eq!(room(after(880, 20, 0, 0)), Room::Later);
        assert_eq!(room(after(880, 11, 0, 9)), Room::Later, "nine say nothing yet, and nothing follows them");
        assert_eq!(room(after(880, 10, 8, 2)), Room::For(10), "as much as is allowed");
        let Room::Stop(why) = room(after(880, 10, 7, 3)) else { panic!("too many") };
        assert_eq!(why, "3 of 10 failed again, more than 20 percent");
        assert_eq!(room(after(800, 100, 400, 0)), Room::For(300));
        assert_eq!(room(after(0, 100, 0, 0)), Room::For(1), "nothing is left to be held back");
    }

    #[test]
    fn a_small_set_is_judged_by_its_first_few() {
        let room = |tally| Room::after(&tally, 0, Some(0.1));
        assert_eq!(room(after(60, 0, 0, 0)), Room::For(6));
        assert_eq!(room(after(54, 1, 0, 5)), Room::Later);
        assert!(matches!(room(after(54, 0, 0, 6)), Room::Stop(_)));
        assert_eq!(room(after(8, 0, 0, 0)), Room::For(5));
        assert!(matches!(room(after(3, 0, 4, 1)), Room::Stop(_)), "one of five is more than a tenth");
        assert_eq!(room(after(3, 0, 5, 0)), Room::For(5));
    }

    #[test]
    fn what_a_rate_does_not_let_go_waits_and_what_is_stopped_stays_so() {
        assert_eq!(Room::For(9).at_most(4), Room::For(4));
        assert_eq!(Room::For(9).at_most(0), Room::Later);
        assert_eq!(Room::Stop("so".to_owned()).at_most(0), Room::Stop("so".to_owned()));
    }
}
