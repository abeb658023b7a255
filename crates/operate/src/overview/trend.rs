//! What follows from several looks: how fast things go, and how long the rest takes.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_engine::report::Pace;
use serde::Serialize;

use super::flow::StageView;
use super::look::{Overview, RunView};

/// How something goes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Flow {
    /// How many a second; `None` while that is not known.
    pub per_second: Option<f64>,
    /// Milliseconds until what there is to do is done, as things go now; `None` when that is not known.
    pub left_ms: Option<u64>,
}

/// What was seen of everything that is counted, over the last looks. Whatever was in the last look is remembered, and nothing
/// else.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trend {
    paces: BTreeMap<Counted, Pace>,
}

/// Something that is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    /// Items of a run that ended.
    Run(RunId),
    /// Items that left a stage.
    Stage(RunId, String),
    /// Calls that a gate turned away.
    Gate(String),
    /// Dead items of a group.
    Group(String),
}

impl Trend {
    /// Takes a look in.
    pub fn look(&mut self, overview: &Overview) {
        let mut before = std::mem::take(&mut self.paces);
        let mut see = |counted: Counted, count: u64| {
            let mut pace = before.remove(&counted).unwrap_or_default();
            pace.look(overview.now, count);
            self.paces.insert(counted, pace);
        };
        for run in &overview.runs {
            see(Counted::Run(run.run), run.counts.finished());
            for stage in &run.stages {
                let here = stage.waiting + stage.running + stage.joining;
                see(Counted::Stage(run.run, stage.name.clone()), stage.came.saturating_sub(here));
            }
        }
        for gate in &overview.gates {
            see(Counted::Gate(gate.name.clone()), gate.totals.throttled);
        }
        for group in &overview.dead {
            see(Counted::Group(group.group.clone()), group.items);
        }
    }

    /// How a run goes. How long it takes is not known while its source is read, or nobody is at it.
    #[must_use]
    pub fn run(&self, run: &RunView) -> Flow {
        let foreseen = Self::foreseen(run, run.counts.live());
        self.flow(&Counted::Run(run.run), foreseen, last_due(&run.stages, |_| true))
    }

    /// How a stage of a run goes.
    #[must_use]
    pub fn stage(&self, run: &RunView, name: &str) -> Flow {
        let Some(at) = run.stages.iter().position(|stage| stage.name == name) else { return Flow::default() };
        let stage = &run.stages[at];
        let foreseen = Self::foreseen(run, stage.to_do);
        // What waits before it has to come through it, too.
        let last = last_due(&run.stages[..=at], |other| other.below == stage.below);
        self.flow(&Counted::Stage(run.run, name.to_owned()), foreseen, last)
    }

    /// How many calls a gate turns away a second.
    #[must_use]
    pub fn turned_away(&self, gate: &str) -> Option<f64> {
        self.paces.get(&Counted::Gate(gate.to_owned()))?.per_second()
    }

    /// How many items are added to a group of dead ones a second.
    #[must_use]
    pub fn growth(&self, group: &str) -> Option<f64> {
        self.paces.get(&Counted::Group(group.to_owned()))?.per_second()
    }

    fn foreseen(run: &RunView, to_do: u64) -> Option<u64> {
        (!run.reading && !run.ended && !run.workers.is_empty()).then_some(to_do)
    }

    fn flow(&self, counted: &Counted, to_do: Option<u64>, due: Duration) -> Flow {
        let Some(pace) = self.paces.get(counted) else { return Flow::default() };
        let left = to_do.and_then(|to_do| pace.left(to_do, due));
        let ms = |left: Duration| u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Flow { per_second: pace.per_second(), left_ms: left.map(ms) }
    }
}

/// In how long the last item that waits at any of these stages is due.
fn last_due(stages: &[StageView], of: impl Fn(&&StageView) -> bool) -> Duration {
    let last = stages.iter().filter(of).filter_map(|stage| stage.last_in_ms).max().unwrap_or(0);
    Duration::from_millis(u64::try_from(last).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use redrive_core::status::{Counts, RunStatus};
    use redrive_core::time::Timestamp;
    use redrive_engine::report::Attempts;

    use super::super::look::Totals;
    use super::*;

    fn seen(seconds: i64, passed: u64, waiting: u64) -> Overview {
        let stage = StageView {
            name: "embed".to_owned(),
            below: None,
            came: passed + waiting,
            passed,
            waiting,
            running: 0,
            joining: 0,
            dead: 0,
            filtered: 0,
            to_do: waiting,
            oldest_ms: None,
            next_in_ms: None,
            last_in_ms: None,
            attempts: Attempts::default(),
        };
        let run = RunView {
            run: RunId(1),
            pipeline: "p".to_owned(),
            source: "s".to_owned(),
            category: None,
            status: RunStatus::Running,
            reason: None,
            paused: Vec::new(),
            ended: false,
            reading: false,
            counts: Counts { admitted: passed + waiting, succeeded: passed, waiting, ..Counts::default() },
            awaited: 0,
            attempts: Attempts::default(),
            next_due: None,
            created_at: String::new(),
            finished_at: None,
            elapsed_ms: 0,
            workers: vec!["w".to_owned()],
            stages: vec![stage],
        };
        let now = Timestamp(seconds * 1_000);
        let (gates, dead, totals) = (Vec::new(), Vec::new(), Totals::default());
        Overview { at: now.to_string(), now, runs: vec![run], gates, dead, totals }
    }

    #[test]
    fn rates_and_times_left_follow_from_two_looks() {
        let mut trend = Trend::default();
        trend.look(&seen(0, 100, 900));
        let first = seen(0, 100, 900);
        assert_eq!(trend.stage(&first.runs[0], "embed"), Flow::default(), "one look tells no rate");
        let second = seen(10, 200, 800);
        trend.look(&second);
        let flow = Flow { per_second: Some(10.0), left_ms: Some(80_000) };
        assert_eq!((trend.stage(&second.runs[0], "embed"), trend.run(&second.runs[0])), (flow, flow));
    }

    #[test]
    fn no_end_is_foretold_before_the_last_that_waits_is_due() {
        let mut trend = Trend::default();
        trend.look(&seen(0, 0, 200));
        let mut later = seen(10, 190, 10);
        later.runs[0].stages[0].last_in_ms = Some(22_000);
        trend.look(&later);
        let run = &later.runs[0];
        assert_eq!(trend.run(run).left_ms, Some(22_000));
        assert_eq!(trend.stage(run, "embed").left_ms, Some(22_000));
    }

    #[test]
    fn no_end_is_foretold_while_a_source_is_read_or_nobody_is_at_it() {
        let mut trend = Trend::default();
        trend.look(&seen(0, 100, 900));
        let mut later = seen(10, 200, 800);
        trend.look(&later);
        let unknown = Flow { per_second: Some(10.0), left_ms: None };
        later.runs[0].reading = true;
        assert_eq!(trend.run(&later.runs[0]), unknown);
        (later.runs[0].reading, later.runs[0].workers) = (false, Vec::new());
        assert_eq!(trend.run(&later.runs[0]), unknown);
    }

    #[test]
    fn what_is_seen_no_more_is_forgotten() {
        let mut trend = Trend::default();
        trend.look(&seen(0, 1, 1));
        trend.look(&Overview { runs: Vec::new(), ..seen(1, 1, 1) });
        assert_eq!(trend, Trend::default());
    }
}
