//! Everybody but the workers: the source, operators, and whoever puts things right at the end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redrive_core::failure::Class;
use redrive_core::gate::GateState;
use redrive_core::id::{ItemId, RunId};
use redrive_core::item::NewItem;
use redrive_core::status::Control;
use redrive_engine::admin::{self, Redrive};
use redrive_engine::admit;
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_store::{Cursor, Error, ItemFilter, Pause, Retired, RunChange, Store};

use crate::hub::Hub;
use crate::met::Met;
use crate::scenario::{Chaos, Line, Pace};
use crate::script::{Script, content};
use crate::store::FaultyStore;

/// What the source's process has, and what outlives it.
#[derive(Clone)]
pub struct Source {
    /// The run's shared part.
    pub hub: Arc<Hub>,
    /// The store as this process sees it.
    pub store: FaultyStore,
    /// Its clock and dice.
    pub env: Env,
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// The run.
    pub run: RunId,
    /// The lines as they are now: a file, which no crash changes.
    pub lines: Arc<Mutex<Vec<Line>>>,
    /// What of them was last acknowledged; `None` where nobody can say.
    pub told: Arc<Mutex<Vec<Option<ItemId>>>>,
    /// A line that was changed and has not been acknowledged since.
    pub dirty: Arc<AtomicUsize>,
    /// Whether lines are being admitted at this moment.
    pub reading: Arc<AtomicBool>,
    /// Whether all is said.
    pub done: Arc<AtomicBool>,
    /// Lines submitted at once.
    pub piece: usize,
    /// Speed.
    pub pace: Pace,
    /// How often lines change.
    pub chaos: Chaos,
}

/// No line is dirty.
pub const CLEAN: usize = usize::MAX;

impl Source {
    /// Reads the source to its end, from where the store says it was read to, and then watches it.
    pub async fn read(self) {
        while !self.read_through().await {
            self.hub.sleep(self.pace.tick).await;
        }
        while !self.hub.healed() || self.dirty.load(Ordering::SeqCst) != CLEAN {
            if self.dirty.load(Ordering::SeqCst) == CLEAN && self.hub.rng.permille(self.chaos.edits) {
                self.change_a_line();
            }
            let dirty = self.dirty.load(Ordering::SeqCst);
            if dirty != CLEAN && self.tell(dirty, 1).await {
                self.dirty.store(CLEAN, Ordering::SeqCst);
            }
            self.hub.sleep(self.pace.tick).await;
        }
        self.done.store(true, Ordering::SeqCst);
    }

    fn count(&self) -> usize {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    async fn read_through(&self) -> bool {
        self.reading.store(true, Ordering::SeqCst);
        let whole = self.admit_all().await;
        self.reading.store(false, Ordering::SeqCst);
        whole
    }

    /// `false` when the store failed or the run is not to go on; a cancelled run needs no more.
    async fn admit_all(&self) -> bool {
        let Ok(Some(row)) = self.store.run(self.run).await else { return false };
        if row.control == Control::Cancelled || row.admitted_all {
            return true;
        }
        let mut at: usize = row.cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        while at < self.count() {
            let ahead = self.store.run(self.run).await.ok().flatten().map(|row| row.control);
            if ahead != Some(Control::Go) || !self.tell(at, self.piece).await {
                return false;
            }
            at += self.piece;
            let pause = self.hub.rng.span(0, self.pace.tick / 2);
            self.hub.sleep(pause).await;
        }
        true
    }

    /// Submits some lines; `true` when that was acknowledged, or cannot be any more.
    async fn tell(&self, from: usize, count: usize) -> bool {
        let lines: Vec<Line> = {
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.iter().skip(from).take(count).cloned().collect()
        };
        let row = self.store.run(self.run).await.ok().flatten();
        let Some(row) = row.filter(|row| row.control == Control::Go || row.control == Control::Cancelled)
        else {
            return false;
        };
        if row.control == Control::Cancelled && self.hub.rng.permille(500) {
            self.note(from, &vec![None; lines.len()]);
            return true;
        }
        let upto = from + lines.len();
        let whole = row.admitted_all || upto >= self.count();
        let position = if row.admitted_all { row.cursor.unwrap_or_default() } else { upto.to_string() };
        let cursor = Cursor { position, done: whole, duplicates: 0 };
        let items: Vec<NewItem> = lines
            .iter()
            .map(|line| NewItem::new(line.key.clone(), line.payload.clone(), line.origin))
            .collect();
        let ids: Vec<Option<ItemId>> = items.iter().map(|item| self.own_id(item)).collect();
        self.note(from, &vec![None; ids.len()]);
        match admit::submit(&self.store, &self.recipe, &self.env, self.run, items, cursor).await {
            Ok(_) => self.note(from, &ids),
            Err(Error::NotFound(_)) => {}
            Err(_) => return false,
        }
        true
    }

    /// The id a line must have, unless its key is also another line's.
    fn own_id(&self, item: &NewItem) -> Option<ItemId> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let alone = lines.iter().filter(|line| line.key == item.key).count() == 1;
        alone.then(|| ItemId::derive(self.run, None, &item.key, item.version()))
    }

    fn note(&self, from: usize, ids: &[Option<ItemId>]) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, id) in ids.iter().enumerate() {
            if let Some(place) = told.get_mut(from + at) {
                *place = *id;
            }
        }
    }

    fn change_a_line(&self) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let last = if self.hub.rng.permille(500) { 1 } else { lines.len() - 1 };
        let at = self.hub.rng.size(0, last);
        // Few enough versions that a line sometimes changes back.
        lines[at].payload = content(5_000_000 + self.hub.rng.below(3));
        self.hub.log("edit", &[i64::try_from(at).unwrap_or(0)], || format!("line {at}, {}", lines[at].key));
        self.dirty.store(at, Ordering::SeqCst);
    }
}

/// What an operator's process has.
#[derive(Clone)]
pub struct Operator {
    /// The run's shared part.
    pub hub: Arc<Hub>,
    /// The store as this process sees it.
    pub store: FaultyStore,
    /// Its clock and dice.
    pub env: Env,
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// The run.
    pub run: RunId,
    /// Speed.
    pub pace: Pace,
    /// How often it acts.
    pub chaos: Chaos,
    /// What is behind gates, and who has to be paid.
    pub script: Arc<Script>,
    /// An act that was begun and not acknowledged; it is repeated, also by the next process.
    pub begun: Arc<Mutex<Option<Act>>>,
    /// Whether it has acted for the last time.
    pub done: Arc<AtomicBool>,
}

/// Something an operator does.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends dead items back.
    Redrive(Redrive),
    /// Sends one dead item back with other content.
    Edit,
    /// Gives an item up.
    Kill,
    /// Removes dead items.
    Purge(ItemFilter),
    /// Stops the run.
    Pause,
    /// Lets it go on.
    Resume,
    /// Takes it out.
    Cancel,
    /// Takes a worker for dead that may be alive.
    Bury,
    /// Does something about a gate.
    Gate(usize, GateAct),
}

/// What an operator does about a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateAct {
    /// Stops it.
    Stop,
    /// Pays, and lets it go on.
    Resume,
    /// Makes it forget what was found out.
    Reset,
}

impl Operator {
    /// Acts now and then, until all is to be put right.
    pub async fn act(self) {
        loop {
            let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if begun.is_none() && self.hub.healed() {
                break;
            }
            let act = begun.or_else(|| self.hub.rng.permille(self.chaos.operators).then(|| self.choose()));
            if let Some(act) = act {
                *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(act.clone());
                self.hub.log("operator", &[], || format!("{act:?}"));
                if self.carry_out(&act).await.is_ok() {
                    *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = None;
                }
            }
            self.hub.sleep(self.pace.tick).await;
        }
        self.done.store(true, Ordering::SeqCst);
    }

    fn choose(&self) -> Act {
        let rng = &self.hub.rng;
        let gates = self.recipe.gates.len();
        if gates > 0 && rng.permille(400) {
            let act = *rng.pick(&[GateAct::Stop, GateAct::Resume, GateAct::Resume, GateAct::Reset]);
            return Act::Gate(rng.size(0, gates - 1), act);
        }
        let filter = ItemFilter {
            run: Some(self.run),
            class: rng.permille(300).then(|| *rng.pick(&Class::ALL)),
            top: rng.permille(150),
            text: rng.permille(150).then(|| "/".to_owned()),
            ..ItemFilter::default()
        };
        match rng.below(10) {
            0..4 => Act::Redrive(Redrive {
                filter,
                limit: rng.permille(300).then(|| rng.range(1, 5)),
                rate: rng.permille(300).then_some(2.0),
            }),
            4 if rng.permille(500) => Act::Kill,
            4 => Act::Edit,
            5 => Act::Purge(filter),
            6 => Act::Pause,
            7 | 8 if self.chaos.cancel => Act::Cancel,
            9 => Act::Bury,
            _ => Act::Resume,
        }
    }

    async fn carry_out(&self, act: &Act) -> redrive_store::Result<()> {
        let plan = &self.recipe.plan;
        match act {
            Act::Redrive(request) => {
                let plans = |_| Some(plan.clone());
                admin::redrive(&self.store, &plans, request, "sim", &self.env).await.map(drop)
            }
            Act::Edit => {
                let dead = self.store.oracle().dead().next().cloned();
                let Some(item) = dead else { return Ok(()) };
                let payload = content(9_000_000 + self.hub.rng.below(1_000));
                let open =
                    self.store.run(self.run).await?.is_some_and(|row| row.control != Control::Cancelled);
                if open {
                    admin::redrive_edited(&self.store, plan, &item, payload, &self.env).await?;
                }
                Ok(())
            }
            Act::Kill => {
                let live = self.store.oracle().some_live(self.hub.rng.bits()).cloned();
                let Some(item) = live else { return Ok(()) };
                admin::kill(&self.store, &item, plan, "simulated", &self.env).await.map(drop)
            }
            Act::Purge(filter) => admin::purge(&self.store, filter, "sim", &self.env).await.map(drop),
            Act::Pause => {
                let row = self.store.run(self.run).await?;
                let Some(row) = row.filter(|row| row.control == Control::Go) else { return Ok(()) };
                let control = Some((Control::Paused, Some("simulated".to_owned())));
                let pause = Some(Pause { since: Some(self.env.clock.now()), ..row.pause });
                let change = RunChange { control, pause, ..RunChange::default() };
                self.store.change_run(self.run, change).await.map(drop)
            }
            Act::Resume => admin::resume(&self.store, self.run, self.env.clock.now()).await.map(drop),
            Act::Bury => {
                let workers = self.store.workers().await?;
                let Some(worker) = workers.first().filter(|_| !self.hub.healed()) else { return Ok(()) };
                self.store.retire(worker.id, Retired::Lost).await
            }
            Act::Gate(at, act) => self.change_gate(*at, *act).await,
            Act::Cancel => admin::cancel(&self.store, self.run, plan, "sim", &self.env).await.map(drop),
        }
    }

    async fn change_gate(&self, at: usize, act: GateAct) -> redrive_store::Result<()> {
        let Some(gate) = self.recipe.gates.get(at) else { return Ok(()) };
        let now = self.env.clock.now();
        let change = |state: &mut GateState| match act {
            GateAct::Stop => state.stop("simulated".to_owned(), now),
            GateAct::Resume => state.resume(now),
            GateAct::Reset => state.reset(),
        };
        if let Some(service) = self.script.gated.services.get(at).filter(|_| act == GateAct::Resume) {
            service.top_up();
        }
        admin::change_gate(&self.store, &gate.name, act == GateAct::Stop, now, change).await?;
        self.hub.meet(match act {
            GateAct::Stop => Met::GateStopped,
            GateAct::Resume => Met::GateResumed,
            GateAct::Reset => Met::GateReset,
        });
        Ok(())
    }

    /// Whoever paused a gate lets it go on; one that is closed or away has to find its way back by itself.
    async fn heal_gates(&self) {
        for (at, gate) in self.recipe.gates.iter().enumerate() {
            let rows = self.store.gates().await.unwrap_or_default();
            let row = rows.into_iter().find(|row| *row.name == *gate.name);
            if row.is_some_and(|row| GateState::read(&row.state).pause.is_some()) {
                let _ = self.change_gate(at, GateAct::Resume).await;
            }
        }
    }

    /// Lets a paused run go on, whenever it is paused.
    pub async fn heal(self) {
        loop {
            self.heal_gates().await;
            // Nothing fails any more; a run that is gone or cancelled is left alone.
            let _ = admin::resume(&self.store, self.run, self.env.clock.now()).await;
            self.hub.sleep(self.pace.tick).await;
        }
    }
}
