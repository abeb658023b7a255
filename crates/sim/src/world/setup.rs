//! Everybody and everything of a run, before it begins.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_core::id::{RunId, StoreId};
use redrive_core::time::Timestamp;
use redrive_store::{NewRun, Store};

use super::{MEDIC, OPERATORS, SOURCE, STEPS, World};
use crate::clock;
use crate::fault::Actor;
use crate::hub::{Hub, at_once};
use crate::mailbox::Orders;
use crate::neighbours::{Alone, Lives};
use crate::oracle::{Oracle, PIPELINE};
use crate::people::Operator;
use crate::rng::mix;
use crate::scenario::Scenario;
use crate::slip::Slip;
use crate::source::Source;
use crate::store::FaultyStore;

impl World {
    pub(super) fn new(seed: u64, inner: Arc<dyn Store>, verbose: bool, slip: Option<Slip>) -> Self {
        let hub = Hub::new(seed, verbose);
        let scenario = Scenario::draw(seed, &hub);
        let stepped = if scenario.chaos.steps > 0 { 4 * STEPS[2] } else { 0 };
        let skew = Duration::from_millis((scenario.pace.lease * 3 + stepped).unsigned_abs());
        let oracle = Oracle::new(hub.clone(), scenario.recipe.clone(), scenario.script.clone(), skew);
        let oracle = Arc::new(Mutex::new(oracle));
        let actors: BTreeMap<usize, Arc<Actor>> = (0..scenario.workers)
            .map(|slot| (slot, Actor::new(slot, format!("worker-{slot}"))))
            .chain([(SOURCE, Actor::new(SOURCE, "source")), (MEDIC, Actor::new(MEDIC, "medic"))])
            .chain(OPERATORS.map(|slot| (slot, Actor::new(slot, format!("operator-{slot}")))))
            .collect();
        let store = FaultyStore::new(hub.clone(), inner, oracle, scenario.faults, actors[&SOURCE].clone());
        if mix(&[seed, 15]).is_multiple_of(4) {
            keep_facts(&store, seed);
        }
        let run = create_run(&store);
        let still = Arc::new(AtomicI64::new(0));
        let (recipe, pace, chaos) = (scenario.recipe.clone(), scenario.pace, scenario.chaos);
        let source = Source {
            hub: hub.clone(),
            store: store.clone(),
            env: clock::env(&hub, &still, Arc::new(Alone)),
            recipe: recipe.clone(),
            run,
            versions: Arc::new(Mutex::new(vec![scenario.lines.clone()])),
            reading: Arc::new(AtomicBool::new(false)),
            done: Arc::new(AtomicBool::new(false)),
            piece: scenario.piece,
            pace,
            chaos,
            slip,
        };
        let operators = OPERATORS.iter().chain([&MEDIC]).map(|slot| Operator {
            hub: hub.clone(),
            store: store.seen_by(actors[slot].clone()),
            env: clock::env(&hub, &still, Arc::new(Alone)),
            recipe: recipe.clone(),
            run,
            pace,
            chaos,
            script: scenario.script.clone(),
            versions: source.versions.clone(),
            begun: Arc::new(Mutex::new(None)),
            done: Arc::new(AtomicBool::new(false)),
        });
        Self {
            operators: operators.collect(),
            skews: (0..scenario.workers).map(|_| Arc::new(AtomicI64::new(0))).collect(),
            orders: (0..scenario.workers).map(|_| Arc::new(Orders::default())).collect(),
            lives: Arc::new(Lives::default()),
            still,
            hub,
            scenario,
            store,
            run,
            tasks: BTreeMap::new(),
            slots: BTreeMap::new(),
            frozen: BTreeMap::new(),
            actors,
            source,
            healed_at: None,
            healed_time: 0,
            slip,
        }
    }
}

/// Has the world told of everything. That changes nothing about what happens.
fn keep_facts(store: &FaultyStore, seed: u64) {
    at_once(store.inner().keep_facts(StoreId(seed))).expect("an empty store keeps facts");
    store.oracle().on_facts_kept();
}

fn create_run(store: &FaultyStore) -> RunId {
    let new = NewRun {
        pipeline: PIPELINE.to_owned(),
        source: "lines".to_owned(),
        category: None,
        priority: 0,
        definition: String::new(),
        folder: String::new(),
    };
    let row = at_once(store.inner().create_run(new, Timestamp(crate::hub::EPOCH)))
        .expect("an empty store takes a run");
    if let Err(broken) = store.oracle().on_run(&row) {
        unreachable!("{broken:?}");
    }
    row.id
}
