//! Named places where a test can kill the process, to show that nothing is lost there.
//!
//! The list is static: a test kills the real binary at every point and fails when one was never reached. Without
//! `REDRIVE_CRASH_AT` in the environment a point costs one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every point there is.
pub const POINTS: &[&str] = &[
    "run.created",
    "run.before_finish",
    "run.after_finish",
    "admit.reading_begun",
    "admit.before_submit",
    "admit.after_submit",
    "admit.before_sweep",
    "inbox.begun",
    "inbox.before_submit",
    "inbox.after_submit",
    "inbox.closed",
    "edit.taken_over",
    "reconfigure.reading_begun",
    "claim.before",
    "claim.after",
    "execute.before_call",
    "execute.after_call",
    "record.before_commit",
    "record.after_commit",
    "heartbeat.after_renew",
    "gates.before_save",
    "gates.after_save",
    "reap.before_commit",
    "reap.after_commit",
    "join.before_commit",
    "join.after_commit",
    "stop.before_release",
    "stop.after_release",
    "results.before_rename",
    "redrive.before_page",
    "redrive.after_page",
    "retry.before_page",
    "retry.after_page",
    "rerun.before_page",
    "rerun.after_page",
    "purge.before_page",
    "purge.after_page",
    "cancel.before_page",
    "cancel.after_page",
    "answer.before_commit",
    "answer.after_commit",
    "import.before_page",
    "import.after_page",
    "prune.opened",
    "prune.after_page",
    "notify.decided",
    "notify.handed_over",
    "schedule.decided",
    "schedule.begun",
    "relay.before_forget",
    "relay.after_forget",
    "bus.before_ack",
    "bus.after_bury",
    "requeue.before_ack",
    "sqlite.before_begin",
    "sqlite.before_commit",
    "sqlite.after_commit",
    "sqlite.mid_migration",
];

/// Which point to die at, and at which visit.
struct Target {
    point: String,
    visits_left: AtomicU64,
}

static TARGET: OnceLock<Option<Target>> = OnceLock::new();

/// Dies here, with SIGKILL, when the environment names this point.
pub fn point(name: &'static str) {
    let target = TARGET.get_or_init(|| {
        let wanted = std::env::var("REDRIVE_CRASH_AT").ok()?;
        let (point, visit) = wanted.split_once(':').unwrap_or((&wanted, "1"));
        Some(Target { point: point.to_owned(), visits_left: AtomicU64::new(visit.parse().unwrap_or(1)) })
    });
    let Some(target) = target else { return };
    if target.point == name && target.visits_left.fetch_sub(1, Ordering::SeqCst) == 1 {
        die();
    }
}

/// Dies at one of several points, where something is done that the point is named after.
pub fn points<const N: usize>(named: [(bool, &'static str); N]) {
    named.into_iter().filter(|(done, _)| *done).for_each(|(_, name)| point(name));
}

#[expect(unsafe_code, reason = "a process can only be killed through the C library")]
fn die() {
    // SAFETY: both calls take no pointers; the signal goes to this very process.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
    }
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::POINTS;

    #[test]
    fn points_are_named_once() {
        let mut sorted = POINTS.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), POINTS.len());
    }
}
