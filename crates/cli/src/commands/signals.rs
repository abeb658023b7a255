//! Signals that ask for an end: an interrupt, a request to terminate, a terminal that was closed.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears of signals that ask for an end, for as long as it is kept.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` where hangups are ignored.
    hangup: Option<Signal>,
}

impl Signals {
    /// Begins to listen.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            // Whoever started it with hangups ignored, as `nohup` does, wants it to go on.
            hangup: if hangups_are_ignored() { None } else { signal(SignalKind::hangup()).ok() },
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hung_up => {}
        }
    }
}

/// Whether the process was started with hangups ignored. Where that cannot be read, it was not.
fn hangups_are_ignored() -> bool {
    const HANGUP: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & HANGUP != 0)
}
