//! The variables of the retry job.

use std::time::Duration;

use redrive_core::policy::{Backoff, preset};

use crate::error::{Error, Result};

/// What the names of its variables begin with.
pub const PREFIX: &str = "RETRY_JOB_";

/// How the retry job goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How often it sweeps.
    pub interval: Duration,
    /// An item that was due, or in hand, for longer is reported.
    pub threshold: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { interval: Duration::from_secs(900), threshold: Duration::from_secs(24 * 3_600) }
    }
}

/// What a variable is about.
#[derive(Clone, Copy)]
enum About {
    Interval,
    Threshold,
    /// A figure of these presets.
    BaseDelay,
    MaxDelay,
    Attempts(&'static str),
}

const VARIABLES: [(&str, About); 8] = [
    ("RETRY_JOB_INTERVAL_SECONDS", About::Interval),
    ("RETRY_JOB_BASE_DELAY_SECONDS", About::BaseDelay),
    ("RETRY_JOB_MAX_DELAY_SECONDS", About::MaxDelay),
    ("RETRY_JOB_STUCK_THRESHOLD_HOURS", About::Threshold),
    ("RETRY_JOB_MAX_ATTEMPTS_ARCHIVES", About::Attempts("document-archive")),
    ("RETRY_JOB_MAX_ATTEMPTS_MESSAGES", About::Attempts("document-message")),
    ("RETRY_JOB_MAX_ATTEMPTS_CHUNKS", About::Attempts("document-chunk")),
    ("RETRY_JOB_MAX_ATTEMPTS_THREADS", About::Attempts("document-thread")),
];

impl Settings {
    /// Reads the settings from these variables of the environment; others than the job's are passed over.
    ///
    /// # Errors
    /// With every variable that is not known or has a value that cannot be taken.
    pub fn read(variables: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let mut settings = Self::default();
        let mut problems = Vec::new();
        let mut own: Vec<(String, String)> = variables.filter(|(name, _)| name.starts_with(PREFIX)).collect();
        own.sort();
        for (name, value) in own {
            match VARIABLES.iter().find(|(known, _)| *known == name) {
                Some((_, about)) => {
                    settings.take(*about, &name, &value).unwrap_or_else(|why| problems.push(why))
                }
                None => problems.push(format!("{name}: there is no such setting")),
            }
        }
        match problems.is_empty() {
            true => Ok(settings),
            false => {
                let known: Vec<&str> = VARIABLES.iter().map(|(name, _)| *name).collect();
                Err(Error::wrong(problems.join("; ")).hint(format!("the settings are {}", known.join(", "))))
            }
        }
    }

    fn take(&mut self, about: About, name: &str, value: &str) -> std::result::Result<(), String> {
        let number = value.trim().parse::<u64>().ok().filter(|number| (1..=10_000_000).contains(number));
        let number = number.ok_or_else(|| format!("{name}={value:?}: expected a whole number from 1 on"))?;
        let figure = |now: u64, remedy: &str| match now == number {
            true => Ok(()),
            // A pipeline says itself how it retries, so that all that work on it agree; a value that is passed over in
            // silence would be worse than one that is refused.
            false => {
                Err(format!("{name}={number}: it is {now}, and a pipeline says otherwise itself: {remedy}"))
            }
        };
        match about {
            About::Interval => self.interval = Duration::from_secs(number),
            About::Threshold => self.threshold = Duration::from_secs(number * 3_600),
            About::BaseDelay => figure(waits("document").0, &in_backoff("base", number))?,
            About::MaxDelay => figure(waits("document").1, &in_backoff("max", number))?,
            About::Attempts(name) => {
                let most = preset(name).and_then(|preset| preset.policy.most_failures());
                let remedy = format!("write retry = {{ preset = {name:?}, max_attempts = {number} }}");
                figure(most.map_or(0, |most| most.get().into()), &remedy)?;
            }
        }
        Ok(())
    }
}

fn in_backoff(key: &str, seconds: u64) -> String {
    format!("write {key} = \"{seconds}s\" into its retry.backoff")
}

/// The first wait of a preset and its longest, in seconds.
fn waits(name: &str) -> (u64, u64) {
    let backoff =
        preset(name).and_then(|preset| preset.policy.tiers().first().map(|tier| tier.backoff.clone()));
    match backoff {
        Some(Backoff::Exponential { base, max, .. }) => (base.as_secs(), max.as_secs()),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<Settings> {
        Settings::read(given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn the_variables_of_the_seed_are_taken_with_the_figures_that_hold() {
        assert_eq!(read(&[]).unwrap(), Settings::default());
        let seed = [
            ("RETRY_JOB_INTERVAL_SECONDS", "900"),
            ("RETRY_JOB_BASE_DELAY_SECONDS", "300"),
            ("RETRY_JOB_MAX_DELAY_SECONDS", "3600"),
            ("RETRY_JOB_STUCK_THRESHOLD_HOURS", "24"),
            ("RETRY_JOB_MAX_ATTEMPTS_ARCHIVES", "3"),
            ("RETRY_JOB_MAX_ATTEMPTS_MESSAGES", "3"),
            ("RETRY_JOB_MAX_ATTEMPTS_CHUNKS", "5"),
            ("RETRY_JOB_MAX_ATTEMPTS_THREADS", "5"),
            ("PATH", "/bin"),
        ];
        assert_eq!(read(&seed).unwrap(), Settings::default());
        let other = read(&[("RETRY_JOB_INTERVAL_SECONDS", "60"), ("RETRY_JOB_STUCK_THRESHOLD_HOURS", "2")]);
        let (interval, threshold) = (Duration::from_secs(60), Duration::from_secs(7_200));
        assert_eq!(other.unwrap(), Settings { interval, threshold });
    }

    #[test]
    fn what_is_not_known_or_cannot_be_taken_is_refused_by_name() {
        let table = [
            ("RETRY_JOB_INTERVAL", "5", "RETRY_JOB_INTERVAL: there is no such setting"),
            ("RETRY_JOB_INTERVAL_SECONDS", "soon", "expected a whole number"),
            ("RETRY_JOB_INTERVAL_SECONDS", "0", "expected a whole number"),
            ("RETRY_JOB_BASE_DELAY_SECONDS", "60", "write base = \"60s\" into its retry.backoff"),
            ("RETRY_JOB_MAX_DELAY_SECONDS", "60", "write max = \"60s\""),
            (
                "RETRY_JOB_MAX_ATTEMPTS_CHUNKS",
                "9",
                "write retry = { preset = \"document-chunk\", max_attempts = 9 }",
            ),
        ];
        for (name, value, told) in table {
            let error = read(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains(name), "{error}");
        }
        let both = read(&[("RETRY_JOB_A", "1"), ("RETRY_JOB_B", "1")]).unwrap_err().to_string();
        assert!(both.contains("RETRY_JOB_A") && both.contains("RETRY_JOB_B"), "{both}");
    }
}
