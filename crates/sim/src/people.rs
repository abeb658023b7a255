//! Operators, and whoever puts things right at the end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use redrive_core::failure::Class;
use redrive_core::gate::GateState;
use redrive_core::id::{RunId, StageNo};
use redrive_core::item::{NewItem, StateKind};
use redrive_core::plan::Plan;
use redrive_core::policy::OwnPolicy;
use redrive_core::status::Control;
use redrive_engine::admin::{self, AnswerRules, Answered, Plans, Redrive, Rerun, Retry};
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_engine::source::{Piece, Source, SourceError};
use redrive_store::{
    Applied, Content, ItemContent, ItemFilter, ItemQuery, Pause, PipelinePause, Retired, RunChange, Store,
};

use crate::hub::Hub;
use crate::met::Met;
use crate::oracle::PIPELINE;
use crate::policy;
use crate::rng::{Rng, mix};
use crate::scenario::{Chaos, Line, Pace};
use crate::script::{Script, content};
use crate::store::FaultyStore;

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
    /// Every version of the source there was.
    pub versions: Arc<Mutex<Vec<Vec<Line>>>>,
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
    /// Has waiting items go now, or later.
    Retry(Retry),
    /// Has items done again from a stage.
    Rerun(Rerun),
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
    /// Pauses the pipeline, or a stage of it.
    Halt(Option<String>),
    /// Lets it go on.
    GoOn(Option<String>),
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
        let mut brought = Vec::new();
        loop {
            self.bring_answers(&mut brought).await;
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

    /// Whoever has items that were handed over answers for some, and now and then for one again. From chance of its own, so that
    /// what else a seed stands for stays as it is.
    async fn bring_answers(&self, brought: &mut Vec<Answered>) {
        let rng = Rng::new(mix(&[self.hub.now().unsigned_abs(), 33]));
        let filter =
            ItemFilter { run: Some(self.run), state: Some(StateKind::Waiting), ..ItemFilter::default() };
        let query = ItemQuery { filter, after: None, limit: 1_000 };
        let (Ok(waiting), Ok(Some(row))) = (self.store.items(query).await, self.store.run(self.run).await)
        else {
            return;
        };
        let some = waiting.iter().filter(|item| item.handed.is_some() && rng.permille(150));
        let Ok(found) = self.store.contents(some.map(|item| item.seq).collect(), usize::MAX).await else {
            return;
        };
        let mut answers: Vec<Answered> = Vec::new();
        for ItemContent { item, content } in found {
            if let Content::Whole(payload) = content {
                let reply = self.script.answers(&item, payload.clone());
                answers.push(Answered { item, payload, reply, usage: None });
            }
        }
        let fresh = answers.len();
        let again = brought.iter().filter(|_| rng.permille(50)).cloned();
        let mut met = BTreeSet::new();
        let again: Vec<Answered> = again.filter(|again| met.insert(again.item.seq)).collect();
        answers
            .extend(again.into_iter().filter(|again| !waiting.iter().any(|item| item.seq == again.item.seq)));
        let (plan, budget) = (&self.recipe.plan, self.recipe.budget.as_ref());
        let reuse = self.recipe.stages.iter().map(|work| work.reuse).collect();
        let rules = AnswerRules { run: &row, plan, budget, reuse };
        let applied =
            admin::answer(&self.store, &rules, answers.clone(), &self.env).await.unwrap_or_default();
        for (at, (answer, applied)) in answers.into_iter().zip(applied).enumerate() {
            match applied {
                Applied::Done if at < fresh => {
                    self.hub.meet(Met::Answered);
                    brought.push(answer);
                }
                Applied::Done | Applied::Stale => self.hub.meet(Met::StaleAnswer),
            }
        }
    }

    fn choose(&self) -> Act {
        let rng = &self.hub.rng;
        let gates = self.recipe.gates.len();
        if gates > 0 && rng.permille(400) {
            let act = *rng.pick(&[GateAct::Stop, GateAct::Resume, GateAct::Resume, GateAct::Reset]);
            return Act::Gate(rng.size(0, gates - 1), act);
        }
        if rng.permille(200) {
            let names: Vec<String> = self.recipe.plan.stages().map(|(_, stage)| stage.name.clone()).collect();
            let stage = rng.permille(700).then(|| rng.pick(&names).clone());
            return if rng.permille(500) { Act::Halt(stage) } else { Act::GoOn(stage) };
        }
        let filter = ItemFilter {
            run: Some(self.run),
            class: rng.permille(300).then(|| *rng.pick(&Class::ALL)),
            top: rng.permille(150),
            text: rng.permille(150).then(|| "/".to_owned()),
            ..ItemFilter::default()
        };
        match rng.below(12) {
            11 => Act::Rerun(self.again()),
            10 => {
                let later = std::time::Duration::from_millis(rng.range(0, 20_000));
                let due = rng.permille(400).then(|| self.env.clock.now().after(later));
                Act::Retry(Retry { filter, due })
            }
            0..4 => Act::Redrive(Redrive {
                limit: rng.permille(300).then(|| rng.range(1, 5)),
                rate: rng.permille(300).then_some(2.0),
                retry: self.own_policy(),
                ..Redrive::of(filter)
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

    /// A policy for a redrive, now and then; from chance of its own, so that what else a seed stands for stays as it is.
    fn own_policy(&self) -> Option<OwnPolicy> {
        let rng = Rng::new(mix(&[self.hub.now().unsigned_abs(), 24]));
        rng.permille(400).then(|| policy::own(&rng))
    }

    /// The lines of the source as it is now.
    fn lines(&self) -> Vec<NewItem> {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = versions.last().into_iter().flatten().zip(1..);
        lines.map(|(line, at)| NewItem::new(line.key.clone(), line.payload.clone(), at)).collect()
    }

    /// A stage that items pass, with the marks that outputs are kept by.
    fn again(&self) -> Rerun {
        let rng = &self.hub.rng;
        let plan = &self.recipe.plan;
        let mut top: Vec<StageNo> = Vec::new();
        let mut next = plan.stages().next().map(|(no, _)| no);
        while let Some(no) = next {
            top.push(no);
            next = plan.stage(no).and_then(|stage| stage.next);
        }
        let (before, anew) = top.split_at(rng.size(0, top.len() - 1));
        let mark = |no: &StageNo| self.recipe.work(*no).and_then(|work| work.reuse);
        let some =
            rng.permille(300).then(|| self.store.oracle().dead().next().map(|item| item.key.to_string()));
        Rerun {
            run: self.run,
            key: some.flatten(),
            stage: anew[0],
            before: before.iter().map(mark).collect(),
            anew: anew.iter().filter_map(mark).collect(),
            can_reread: rng.permille(700),
            dead: rng.permille(300).then(ItemFilter::default),
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
                    let mut import =
                        admin::Import::begin(&self.store, "an edit", "sim", self.env.clock.now()).await?;
                    import.send_back(&self.store, plan, &item, payload, &self.env).await?;
                    import.end(&self.store, self.env.clock.now()).await?;
                }
                Ok(())
            }
            Act::Kill => {
                let live = self.store.oracle().some_live(self.hub.rng.bits()).cloned();
                let Some(item) = live else { return Ok(()) };
                admin::kill(&self.store, &item, plan, "simulated", &self.env).await.map(drop)
            }
            Act::Retry(request) => {
                let plans = |_| Some(plan.clone());
                admin::retry(&self.store, &plans, request, "sim", &self.env).await.map(drop)
            }
            Act::Rerun(request) => {
                let plans = Readable { plan: plan.clone(), lines: self.lines() };
                admin::rerun(&self.store, &plans, request, "sim", &self.env).await.map(drop)
            }
            Act::Purge(filter) => admin::purge(&self.store, filter, "sim", &self.env).await.map(drop),
            Act::Pause => {
                let row = self.store.run(self.run).await?;
                let Some(row) = row.filter(|row| row.control == Control::Go) else { return Ok(()) };
                let now = self.env.clock.now();
                let pause = Some(Pause { since: Some(now), ..row.pause });
                let asked = RunChange::ask(Control::Paused, Some("simulated".to_owned()), now);
                let change = RunChange { pause, ..asked };
                self.store.change_run(self.run, change).await.map(drop)
            }
            Act::Resume => admin::resume(&self.store, self.run, self.env.clock.now()).await.map(drop),
            Act::Bury => {
                let workers = self.store.workers().await?;
                let Some(worker) = workers.first().filter(|_| !self.hub.healed()) else { return Ok(()) };
                self.store.retire(worker.id, Retired::Lost).await
            }
            Act::Gate(at, act) => self.change_gate(*at, *act).await,
            Act::Halt(stage) => {
                let pause = PipelinePause {
                    pipeline: PIPELINE.to_owned(),
                    stage: stage.clone(),
                    since: self.env.clock.now(),
                    actor: "sim".to_owned(),
                    why: "simulated".to_owned(),
                };
                admin::pause_pipeline(&self.store, pause).await.map(drop)
            }
            Act::GoOn(stage) => self.go_on(stage.as_deref()).await,
            Act::Cancel => admin::cancel(&self.store, self.run, plan, "sim", &self.env).await.map(drop),
        }
    }

    async fn go_on(&self, stage: Option<&str>) -> redrive_store::Result<()> {
        let now = self.env.clock.now();
        admin::resume_pipeline(&self.store, PIPELINE, stage, "sim", now).await.map(drop)
    }

    /// Whoever paused a stage, or all of them, lets it go on.
    async fn heal_pauses(&self) {
        for pause in self.store.pauses().await.unwrap_or_default().rows {
            let _ = self.go_on(pause.stage.as_deref()).await;
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
            if row.is_some_and(|row| GateState::read(&row.state).is_ok_and(|state| state.pause.is_some())) {
                let _ = self.change_gate(at, GateAct::Resume).await;
            }
        }
    }

    /// Lets a paused run go on, whenever it is paused.
    pub async fn heal(self) {
        loop {
            self.heal_gates().await;
            self.heal_pauses().await;
            // Nothing fails any more; a run that is gone or cancelled is left alone.
            let _ = admin::resume(&self.store, self.run, self.env.clock.now()).await;
            self.hub.sleep(self.pace.tick).await;
        }
    }
}

/// The run's plan, and its source for whoever reads it from the beginning.
struct Readable {
    plan: Plan,
    lines: Vec<NewItem>,
}

#[async_trait]
impl Plans for Readable {
    async fn plan(&self, _run: RunId) -> redrive_store::Result<Option<Plan>> {
        Ok(Some(self.plan.clone()))
    }

    async fn source(&self, _run: RunId) -> redrive_store::Result<Option<Box<dyn Source>>> {
        Ok(Some(Box::new(Whole(self.lines.clone()))))
    }
}

/// A source that is read at one go.
struct Whole(Vec<NewItem>);

impl Source for Whole {
    fn next_piece(&mut self) -> Result<Piece, SourceError> {
        Ok(Piece { items: std::mem::take(&mut self.0), position: String::new(), done: true })
    }
}
