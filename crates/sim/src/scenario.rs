//! What a seed stands for: a pipeline, a source, some workers, and what is to go wrong.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::budget::BudgetSpec;
use redrive_core::id::StageNo;
use redrive_core::item::Payload;
use redrive_core::order::Order;
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::status::Thresholds;
use redrive_engine::recipe::{Recipe, StageWork};

use crate::fault::{Damage, Faults};
use crate::hub::Hub;
use crate::policy;
use crate::rng::{Rng, mix};
use crate::script::{Script, Scripted, content};
use crate::service::{self, Gated};

/// One line of the source.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its key.
    pub key: Arc<str>,
    /// Its content.
    pub payload: Payload,
}

/// How fast things go, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Longest time between two looks at the store.
    pub tick: i64,
    /// How long a lease lasts.
    pub lease: i64,
    /// How long a failing store is borne.
    pub patience: i64,
    /// How long things go wrong.
    pub faults: i64,
    /// Workers end when nothing is due within this.
    pub max_wait: Option<i64>,
}

/// What goes wrong besides the store, each in a thousand moments.
#[derive(Debug, Clone, Copy)]
pub struct Chaos {
    /// Processes die.
    pub crashes: u64,
    /// Workers stand still.
    pub freezes: u64,
    /// Clocks jump.
    pub jumps: u64,
    /// The clock of the whole machine is put forward or back, far.
    pub steps: u64,
    /// Workers are stopped.
    pub stops: u64,
    /// Operators act.
    pub operators: u64,
    /// Lines change.
    pub edits: u64,
    /// The run is cancelled.
    pub cancel: bool,
}

/// Everything that a seed stands for.
pub struct Scenario {
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// What its handlers answer.
    pub script: Arc<Script>,
    /// The source.
    pub lines: Vec<Line>,
    /// Lines submitted at once.
    pub piece: usize,
    /// Number of workers.
    pub workers: usize,
    /// Faults of the store.
    pub faults: Faults,
    /// Speed.
    pub pace: Pace,
    /// Other faults.
    pub chaos: Chaos,
    /// Workers keep rosters of runs.
    pub roster: bool,
}

impl Scenario {
    /// Draws it.
    #[must_use]
    pub fn draw(seed: u64, hub: &Arc<Hub>) -> Self {
        let rng = Rng::new(mix(&[seed, 2]));
        let slow = rng.permille(150);
        let second = if slow { 60_000 } else { 1_000 };
        let pace = Pace {
            tick: rng.span(second / 4, second * 2),
            lease: rng.span(second * 4, second * 20),
            patience: rng.span(second * 2, second * 20),
            faults: rng.span(second * 10, second * 60),
            max_wait: None,
        };
        let patient = mix(&[seed, 13]);
        let max_wait = patient.is_multiple_of(4).then_some(pace.tick * 2);
        let pace = Pace { max_wait, ..pace };
        let plan = draw_plan(&rng, slow);
        let gated = service::draw(seed, &plan, second, pace.faults);
        let gates = gated.gates.clone();
        let script = Arc::new(draw_script(&rng, seed, &plan, second, gated));
        let stages = plan.stages().map(|(no, stage)| StageWork {
            handler: Arc::new(Scripted {
                script: script.clone(),
                hub: hub.clone(),
                recalls: stage.first_child.is_none() && script.recalls(no),
                asks: script.asks(no),
            }),
            batch: rng.size(1, if rng.permille(500) { 4 } else { 16 }),
            concurrency: rng.size(1, 4),
            gate: script.gated.of_stage.get(no.index()).copied().flatten(),
            batch_tokens: script.gated.batch_tokens.get(no.index()).copied().flatten(),
            reuse: (stage.first_child.is_none() && rng.permille(250)).then(|| i64::from(no.0) + 77),
        });
        let stages = stages.collect();
        let recipe = Recipe {
            stages,
            gates,
            plan,
            order: *rng.pick(&[Order::Oldest, Order::FreshFirst, Order::RetryFirst]),
            share: *rng.pick(&[0.0, 0.1, 0.2, 0.2, 0.34, 0.5, 1.0]),
            budget: rng.permille(400).then(|| draw_budget(&rng)),
            max_dead: None,
            thresholds: Thresholds::default(),
        };
        let roster = mix(&[seed, 17]).is_multiple_of(3);
        Self {
            recipe: Arc::new(recipe),
            roster,
            script,
            lines: draw_lines(&rng),
            piece: rng.size(1, 20),
            workers: rng.size(1, 3),
            faults: Faults {
                damage: Damage::of(seed),
                ..if rng.permille(100) {
                    Faults { latency: 2, ..Faults::default() }
                } else {
                    Faults::draw(&rng)
                }
            },
            pace,
            chaos: draw_chaos(&rng),
        }
    }
}

fn draw_chaos(rng: &Rng) -> Chaos {
    let some = |most: u64| if rng.permille(450) { rng.range(most / 5, most) } else { 0 };
    Chaos {
        crashes: some(60),
        freezes: some(40),
        jumps: some(40),
        stops: some(40),
        operators: some(150),
        edits: some(100),
        cancel: rng.permille(300),
        steps: if rng.permille(200) { rng.range(10, 40) } else { 0 },
    }
}

fn draw_budget(rng: &Rng) -> BudgetSpec {
    BudgetSpec {
        rate: *rng.pick(&[0.05, 0.1, 0.3]),
        window: rng.size(5, 40),
        min_samples: rng.size(3, 12),
        consecutive: rng.permille(700).then(|| u32::try_from(rng.range(2, 6)).unwrap_or(3)),
        cumulative: rng.permille(200).then_some(0.4),
    }
}

/// One to four stages at the top, and below one of them possibly a list of one or two, and so on once more.
fn draw_plan(rng: &Rng, slow: bool) -> Plan {
    let mut stages: Vec<StagePlan> = Vec::new();
    let top = rng.size(1, 4);
    let owner_at = rng.permille(500).then(|| rng.size(0, top - 1));
    let deep = rng.permille(250);
    list(rng, slow, &mut stages, None, top, owner_at, deep);
    let span = if slow { (1_800, 20_000) } else { (4, 120) };
    let deadline = rng.permille(350).then(|| Duration::from_secs(rng.range(span.0, span.1)));
    Plan::new(stages, deadline)
}

fn list(
    rng: &Rng,
    slow: bool,
    stages: &mut Vec<StagePlan>,
    owner: Option<StageNo>,
    length: usize,
    owner_at: Option<usize>,
    deep: bool,
) {
    let mut previous: Option<usize> = None;
    for at in 0..length {
        let here = stages.len();
        let no = StageNo(u16::try_from(here).unwrap_or(0));
        stages.push(StagePlan {
            name: format!("s{here}"),
            next: None,
            first_child: None,
            owner,
            policy: policy::draw(rng, slow),
            timeout: Duration::from_millis(if slow {
                rng.range(20_000, 90_000)
            } else {
                rng.range(300, 2_000)
            }),
            config: i64::from(no.0) + 1,
            child_failure: if rng.permille(500) { ChildFailure::Dead } else { ChildFailure::Continue },
        });
        if let Some(previous) = previous {
            stages[previous].next = Some(no);
        }
        previous = Some(here);
        if owner_at == Some(at) {
            stages[here].first_child = Some(StageNo(u16::try_from(here + 1).unwrap_or(0)));
            let below = rng.size(1, 2);
            list(rng, slow, stages, Some(no), below, deep.then(|| rng.size(0, below - 1)), false);
        }
    }
}

fn draw_script(rng: &Rng, seed: u64, plan: &Plan, second: i64, gated: Gated) -> Script {
    let stages = plan.stages().count();
    Script {
        seed,
        badness: *rng.pick(&[30, 150, 300, 600]),
        expands: plan.stages().map(|(_, stage)| stage.first_child.is_some()).collect(),
        shapes: (0..stages).map(|_| rng.permille(120).then(|| rng.size(1, 6))).collect(),
        fan_out: rng.range(1, 5),
        outages: if rng.permille(400) { rng.range(20, 200) } else { 0 },
        outage_ms: second * rng.span(1, 6),
        latency: (second / 200, second / rng.span(2, 20)),
        hint_ms: (second * 20).unsigned_abs(),
        gated,
    }
}

fn draw_lines(rng: &Rng) -> Vec<Line> {
    let count = rng.range(5, if rng.permille(700) { 25 } else { 60 });
    let pool = rng.range(3, 200);
    let mut lines: Vec<Line> = Vec::new();
    for origin in 0..count {
        let (key, payload) = match rng.below(40) {
            0 if origin > 0 => {
                let again = rng.pick(&lines);
                (again.key.clone(), again.payload.clone())
            }
            1 if origin > 0 => (rng.pick(&lines).key.clone(), content(1_000_000 + origin)),
            _ => (Arc::from(format!("k{origin}")), content(rng.below(pool))),
        };
        lines.push(Line { key, payload });
    }
    lines
}
