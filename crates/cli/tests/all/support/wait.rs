//! Waiting for something that can be observed, with a generous limit.

#![expect(clippy::disallowed_methods, reason = "tests of the real binary live in real time")]

use std::time::{Duration, Instant};

/// Longest time anything may take before a test gives it up.
pub const LIMIT: Duration = Duration::from_secs(120);

/// The time.
pub fn now() -> Instant {
    Instant::now()
}

/// Lets some time pass between two looks.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// Takes time, as a slow service does.
pub fn work(span: Duration) {
    std::thread::sleep(span);
}

/// Waits until something holds; fails when it does not within [`LIMIT`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        pause();
    }
}
