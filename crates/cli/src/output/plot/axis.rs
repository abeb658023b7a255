//! Axes: where a value lies on the page, and which values are worth a label.

use std::time::Duration;

use super::figures::exact;

/// From this ratio of the last start to the first wait on, a linear axis would hide the first ones.
const LOG_FROM: f64 = 3_000.0;
/// The part of the width that is used; behind the last moment a little is left free.
const USED: f64 = 0.96;
/// Most labels of a linear axis.
const TICKS: f64 = 8.0;
/// The least distance of two labels on a logarithmic axis.
const LABEL_ROOM: f64 = 46.0;
/// Lengths that people count time in, in seconds.
const STEPS: [f64; 25] = [
    0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0,
    1_800.0, 3_600.0, 7_200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0, 172_800.0,
];
/// Round times, each several times the one before.
const ROUND: [f64; 12] =
    [0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 864_000.0, 8_640_000.0, 86_400_000.0];

/// Time, from left to right.
pub struct TimeAxis {
    end: f64,
    /// The unit of a logarithmic axis; none is linear.
    log: Option<f64>,
    left: f64,
    width: f64,
}

impl TimeAxis {
    /// An axis from zero to `end`; `first` is the earliest moment after zero that must be told from it.
    pub fn new(end: Duration, first: Option<Duration>, left: f64, width: f64) -> Self {
        let end = if end.is_zero() { 1.0 } else { end.as_secs_f64() };
        let log = first.map(|first| first.as_secs_f64()).filter(|first| end / first > LOG_FROM);
        Self { end, log, left, width: width * USED }
    }

    /// Where a moment lies.
    pub fn at(&self, moment: Duration) -> f64 {
        self.place(moment.as_secs_f64())
    }

    fn place(&self, seconds: f64) -> f64 {
        // ln(1 + t) rather than ln(t): the first attempt is at zero and has to be on the page.
        let part = match self.log {
            None => seconds / self.end,
            Some(unit) => (seconds / unit).ln_1p() / (self.end / unit).ln_1p(),
        };
        self.left + self.width * part.clamp(0.0, 1.0)
    }

    /// What it shows.
    pub fn title(&self) -> &'static str {
        if self.log.is_some() {
            "time since the first attempt, if calls take none (logarithmic)"
        } else {
            "time since the first attempt, if calls take none"
        }
    }

    /// Places with labels.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let times = if self.log.is_some() { self.round_times() } else { self.even_times() };
        let label = |seconds| exact(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        times.into_iter().map(|seconds| (self.place(seconds), label(seconds))).collect()
    }

    fn even_times(&self) -> Vec<f64> {
        let fits = |step: &f64| self.end / step <= TICKS;
        let days = || (0..12).map(|power| 5.0 * 86_400.0 * 10_f64.powi(power)).find(fits);
        let step = STEPS.into_iter().find(fits).or_else(days).unwrap_or(self.end);
        (0..=8).map(|n| f64::from(n) * step).filter(|time| *time <= self.end * 1.0001).collect()
    }

    fn round_times(&self) -> Vec<f64> {
        let mut kept = vec![0.0];
        for time in ROUND.into_iter().filter(|time| *time <= self.end) {
            let room = |last: &f64| self.place(time) - self.place(*last) >= LABEL_ROOM;
            if kept.last().is_none_or(room) {
                kept.push(time);
            }
        }
        kept
    }
}

/// Shares, from bottom to top.
pub struct ShareAxis {
    /// The least share of a logarithmic axis, as a power of ten; none is linear.
    decades: Option<i32>,
    top: f64,
    height: f64,
}

impl ShareAxis {
    /// An axis that can tell `least` from zero, as far as that makes sense.
    pub fn new(least: f64, top: f64, height: f64) -> Self {
        let small = least > 0.0 && least < 0.02;
        // Below a billionth it is zero to everybody.
        let decades = small.then(|| -(least.log10() + 1e-9).floor().clamp(-9.0, -1.0) as i32);
        Self { decades, top, height }
    }

    /// Where a share lies.
    pub fn at(&self, share: f64) -> f64 {
        let part = match self.decades {
            None => share,
            Some(decades) if share > 0.0 => 1.0 + share.log10() / f64::from(decades),
            Some(_) => 0.0,
        };
        self.top + self.height * (1.0 - part.clamp(0.0, 1.0))
    }

    /// Shares worth a label.
    pub fn ticks(&self) -> Vec<f64> {
        match self.decades {
            None => vec![0.0, 0.5, 1.0],
            Some(decades) => {
                let every = usize::try_from(1 + (decades - 1) / 3).unwrap_or(1);
                (0..=decades).step_by(every).map(|power| 10_f64.powi(-power)).collect()
            }
        }
    }

    /// What kind of axis it is, where that has to be said.
    pub fn kind(&self) -> &'static str {
        if self.decades.is_some() { " (logarithmic)" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn labels_are_round_and_few() {
        let labels = |end, first| {
            let axis = TimeAxis::new(end, first, 0.0, 600.0);
            axis.ticks().into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels(secs(3), Some(secs(1))), "0s 500ms 1s 1.5s 2s 2.5s 3s");
        assert_eq!(labels(secs(7_380), Some(secs(60))), "0s 30m 1h 1h 30m 2h");
        assert_eq!(labels(secs(86_400), Some(secs(1))), "0s 10s 1m 10m 1h 6h 24h");
        assert_eq!(labels(Duration::ZERO, None), "0s 200ms 400ms 600ms 800ms 1s");
        assert!(labels(Duration::MAX, Some(secs(1))).starts_with("0s"));
        assert!(labels(Duration::MAX, None).starts_with("0s"));
    }

    #[test]
    fn small_shares_are_told_apart() {
        let axis = ShareAxis::new(0.001, 0.0, 90.0);
        assert_eq!([1.0, 0.1, 0.001, 0.0].map(|share| axis.at(share).round()), [0.0, 30.0, 90.0, 90.0]);
        assert_eq!(axis.ticks().len(), 4);
        assert_eq!(ShareAxis::new(0.125, 0.0, 100.0).at(0.5), 50.0);
        assert!(ShareAxis::new(1e-300, 0.0, 100.0).ticks().len() <= 5);
    }
}
