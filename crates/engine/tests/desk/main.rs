//! The desk by hand.

mod calls;
mod gates;
mod pauses;
mod room;
mod shared;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::budget::{BudgetSpec, SharedBudget};
use redrive_core::draw::Draw;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::GateSpec;
use redrive_core::id::{ContentHash, ItemId, ItemSeq, Rev, RunId, StageNo, WorkerId};
use redrive_core::item::{Item, Payload, State};
use redrive_core::order::Order;
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::preset;
use redrive_core::status::Thresholds;
use redrive_core::time::Timestamp;
use redrive_engine::handler::{Answer, Handler, Reply, Request};
use redrive_engine::recipe::{GateWork, Recipe, StageWork};
use redrive_engine::worker::{Call, Desk};
use redrive_store::{ClaimedItem, Commit};

/// When everything happens, unless a test says otherwise.
const NOW: Timestamp = Timestamp(0);

struct Nobody;

#[async_trait]
impl Handler for Nobody {
    async fn call(&self, _: Request) -> Answer {
        unreachable!("the test answers")
    }

    /// A byte is a token.
    fn tokens(&self, payload: &Payload) -> u64 {
        payload.len() as u64
    }
}

fn stage_plan(name: &str, policy: &str) -> StagePlan {
    StagePlan {
        name: name.to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy: preset(policy).expect("it is there").policy.clone(),
        timeout: Duration::from_secs(1),
        config: 0,
        child_failure: ChildFailure::Continue,
    }
}

fn work(batch: usize, concurrency: usize, gate: Option<usize>) -> StageWork {
    StageWork { handler: Arc::new(Nobody), batch, batch_tokens: None, concurrency, gate, reuse: None }
}

fn recipe(batch: usize, concurrency: usize, policy: &str, budget: Option<BudgetSpec>) -> Arc<Recipe> {
    Arc::new(Recipe {
        plan: Plan::new(vec![stage_plan("work", policy)], None),
        stages: vec![work(batch, concurrency, None)],
        gates: Vec::new(),
        order: Order::Oldest,
        share: 0.0,
        budget,
        max_dead: None,
        thresholds: Thresholds::default(),
    })
}

/// One stage for each gate, with names `s0`, `s1`, and gates `g0`, `g1`.
fn gated(batch: usize, concurrency: usize, specs: &[GateSpec]) -> Recipe {
    let mut plans: Vec<StagePlan> =
        (0..specs.len()).map(|no| stage_plan(&format!("s{no}"), "sample")).collect();
    for (no, plan) in plans.iter_mut().enumerate().take(specs.len() - 1) {
        plan.next = Some(StageNo(u16::try_from(no + 1).expect("few")));
    }
    let gate =
        |(no, spec): (usize, &GateSpec)| GateWork { name: format!("g{no}").into(), spec: spec.clone() };
    Recipe {
        plan: Plan::new(plans, None),
        stages: (0..specs.len()).map(|no| work(batch, concurrency, Some(no))).collect(),
        gates: specs.iter().enumerate().map(gate).collect(),
        order: Order::Oldest,
        share: 0.0,
        budget: None,
        max_dead: None,
        thresholds: Thresholds::default(),
    }
}

fn claimed(n: i64) -> ClaimedItem {
    let version = ContentHash::of(&[&n.to_le_bytes()]);
    let item = Item {
        seq: ItemSeq(n),
        id: ItemId::derive(RunId(1), None, &n.to_string(), version),
        run: RunId(1),
        parent: None,
        key: n.to_string().into(),
        version,
        origin: 0,
        reading: 1,
        stage: StageNo(0),
        state: State::Running { worker: WorkerId(1), since: Timestamp(0) },
        generation: 0,
        rev: Rev(1),
        attempt: 1,
        failures: 0,
        throttles: 0,
        crashes: 0,
        earlier: 0,
        policy: None,
        handed: None,
        first_failed_at: None,
        failing_since: None,
        last: None,
        verdicts: redrive_core::verdict::Verdicts::default(),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        deadline: None,
    };
    ClaimedItem { item, payload: Arc::from(*b"{}") }
}

fn desk(recipe: &Arc<Recipe>, items: Vec<ClaimedItem>) -> Desk {
    let mut desk = Desk::new(RunId(1), recipe.clone(), SharedBudget::default());
    claim(&mut desk, items, NOW);
    desk
}

/// Takes in what the desk asked for.
fn claim(desk: &mut Desk, items: Vec<ClaimedItem>, now: Timestamp) {
    let slots = desk.wants(now);
    desk.accept(&slots, items, BTreeMap::new(), now);
}

fn keys(call: &Call) -> Vec<String> {
    call.request.items.iter().map(|input| input.key.to_string()).collect()
}

fn passes(call: &Call) -> Reply {
    Reply::Items(vec![ItemReply::Output(None); call.request.items.len()])
}

fn server_error() -> Reply {
    Reply::Whole(Failure::new(Class::Retryable, Kind::Server, "HTTP 500").with_status(500))
}

fn commit(desk: &mut Desk) -> Commit {
    desk.commit(Timestamp(5), || Draw::MIDDLE).expect("something ended")
}
