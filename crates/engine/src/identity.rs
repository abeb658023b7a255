//! Tells whether a worker's process still exists, so that a restart need not wait for the lease of a dead one.

use std::fs;

/// Describes this process: machine boot, process namespace, process id and its start time.
///
/// Empty where the system does not tell; such a worker is only given up when its lease is over.
#[must_use]
pub fn identity() -> String {
    describe(std::process::id()).unwrap_or_default()
}

/// Whether a worker with that identity ran on this machine since its last boot, and its process is gone.
#[must_use]
pub fn is_gone(identity: &str) -> bool {
    let mut parts = identity.split(' ');
    let (Some(boot), Some(namespace), Some(pid), Some(_)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let Ok(pid) = pid.parse::<u32>() else { return false };
    let here = boot_id().as_deref() == Some(boot) && process_namespace().as_deref() == Some(namespace);
    here && describe(pid).as_deref() != Some(identity)
}

fn describe(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the fields after it are plain. Field 3 is the state, 22 the start.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    let started = fields.nth(18)?;
    Some(format!("{} {} {pid} {started}", boot_id()?, process_namespace()?))
}

fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

fn process_namespace() -> Option<String> {
    fs::read_link("/proc/self/ns/pid").ok().map(|link| link.to_string_lossy().replace(' ', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_process_is_not_gone_and_a_dead_one_is() {
        let mine = identity();
        assert!(!mine.is_empty());
        assert!(!is_gone(&mine));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        let its = describe(child.id()).expect("it runs");
        assert!(!is_gone(&its));
        child.kill().expect("it can be killed");
        child.wait().expect("it can be waited for");
        assert!(is_gone(&its));
    }

    #[test]
    fn an_unknown_identity_is_never_declared_gone() {
        for identity in ["", "x", "boot ns 1 2", "a b c d"] {
            assert!(!is_gone(identity), "{identity:?}");
        }
    }
}
