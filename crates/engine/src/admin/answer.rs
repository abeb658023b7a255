//! Answers of items that were handed over, whoever brings them: one transaction for those of a run.

use std::collections::BTreeSet;

use redrive_core::budget::{BudgetSpec, SharedBudget};
use redrive_core::decide::{Moment, decide};
use redrive_core::event::{Event, ItemReply, Transition};
use redrive_core::failure::Class;
use redrive_core::id::{ContentHash, RunId};
use redrive_core::item::{Item, Payload};
use redrive_core::plan::Plan;
use redrive_core::status::Control;
use redrive_core::usage::Usage;
use redrive_store::{Applied, Change, Commit, OutputKey, Result, RunChange, RunRow, Store};

use crate::env::Env;
use crate::{crash, journal, maintain, shared, trace};

/// Under which name what answers bring is counted in a failure budget.
const BUDGET_NAME: &str = "answers";
/// How often that is written again because a worker was faster.
const BUDGET_TRIES: u32 = 5;

/// An answer, and the item it is for as it was read.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The item.
    pub item: Item,
    /// Its content.
    pub payload: Payload,
    /// What became of it.
    pub reply: ItemReply,
    /// What was consumed for it, where that is known.
    pub usage: Option<Usage>,
}

/// What answers of a run are judged by.
pub struct AnswerRules<'a> {
    /// The run.
    pub run: &'a RunRow,
    /// Its pipeline.
    pub plan: &'a Plan,
    /// How much failure is too much; `None`: none is.
    pub budget: Option<&'a BudgetSpec>,
    /// Under which mark outputs of each stage are kept, if they are.
    pub reuse: Vec<Option<i64>>,
}

/// Takes answers of items of one run. Each is written only where its item is as it was read; the answers are in the order given.
///
/// # Errors
/// When the store fails.
pub async fn answer(
    store: &dyn Store,
    rules: &AnswerRules<'_>,
    answers: Vec<Answered>,
    env: &Env,
) -> Result<Vec<Applied>> {
    let now = env.clock.now();
    let mut applied = vec![Applied::Stale; answers.len()];
    let (mut places, mut changes, mut quota) = (Vec::new(), Vec::new(), None);
    for (place, answered) in answers.into_iter().enumerate() {
        let at = Moment { now, draw: env.dice.draw() };
        quota = quota.or_else(|| exhausted(rules.plan, &answered));
        if let Some(change) = change(rules, answered, at) {
            places.push(place);
            changes.push(change);
        }
    }
    if changes.is_empty() {
        return Ok(applied);
    }
    let run = rules.run.id;
    let decided: Vec<Transition> = changes.iter().map(|change| change.transition.clone()).collect();
    crash::point("answer.before_commit");
    let commit = Commit { changes, unless_cancelled: Some(run), now, ..Commit::default() };
    let written = store.commit(commit).await?;
    crash::point("answer.after_commit");
    let mut done = Vec::new();
    for ((place, transition), written) in places.into_iter().zip(decided).zip(written) {
        applied[place] = written;
        done.extend((written == Applied::Done).then_some(transition));
    }
    follow_up(store, rules, &done, quota, env).await?;
    Ok(applied)
}

/// What is written of an answer; `None` where none is awaited any more.
fn change(rules: &AnswerRules<'_>, answered: Answered, at: Moment) -> Option<Change> {
    let Answered { item, payload, reply, usage } = answered;
    let stage = item.stage;
    let passes = matches!(reply, ItemReply::Output(Some(_)) | ItemReply::Judged(_, Some(_)));
    let mark = rules.reuse.get(stage.index()).copied().flatten().filter(|_| passes);
    let mut output = mark.map(|config| OutputKey { config, input: ContentHash::of(&[&payload]) });
    let mut transition = decide(&item, Event::Answered(reply), rules.plan, at).ok()?;
    if let Some(record) = &mut transition.record {
        record.usage = usage;
    }
    let goes_on = rules.plan.stage(stage).is_some_and(|stage| stage.next.is_some());
    if transition.children.is_some() && goes_on {
        // What it was expanded from, for when a child that lives again takes it back there.
        transition.payload = Some(payload);
        output = Some(OutputKey::expansion(item.id, stage));
    }
    Some(Change { output, ..Change::from(transition) })
}

/// What a service said whose credit is exhausted.
fn exhausted(plan: &Plan, answered: &Answered) -> Option<String> {
    let ItemReply::Failed { failure, .. } = &answered.reply else { return None };
    let policy = plan.policy_of(&answered.item)?;
    let taken = policy.reclassify(failure.clone());
    (taken.class == Class::Quota).then(|| taken.message().to_owned())
}

/// What follows from answers as from anything that a worker records: the log, spans, the budget, parents that go on.
async fn follow_up(
    store: &dyn Store,
    rules: &AnswerRules<'_>,
    done: &[Transition],
    quota: Option<String>,
    env: &Env,
) -> Result<()> {
    let (run, plan) = (rules.run.id, rules.plan);
    let mut bereft = BTreeSet::new();
    for transition in done {
        journal::committed(plan, transition);
        trace::committed(&env.traced, plan, transition);
        let after = &transition.after;
        bereft.extend(after.parent.filter(|_| after.state.kind().is_terminal()));
        bereft.extend(transition.children.is_some().then_some(after.seq));
    }
    let mut all = done.to_vec();
    if !bereft.is_empty() {
        let told = &mut |transition: &Transition| all.push(transition.clone());
        maintain::join_among(store, bereft, plan, env, told).await?;
    }
    if let Some(why) = quota.filter(|_| !done.is_empty()) {
        pause(store, run, Control::PausedQuota, why, env).await?;
    }
    spend(store, rules, &all, env).await
}

/// Counts what became of the items in the run's failure budget, and pauses the run where that is spent.
async fn spend(store: &dyn Store, rules: &AnswerRules<'_>, all: &[Transition], env: &Env) -> Result<()> {
    let (Some(spec), run) = (rules.budget, rules.run.id) else { return Ok(()) };
    let Some(row) = store.run(run).await? else { return Ok(()) };
    let unreadable = |why| shared::unreadable_budget(run, &why);
    let mut budget = SharedBudget::new(BUDGET_NAME, row.budget.as_deref()).map_err(unreadable)?;
    let mut breach = None;
    for transition in all {
        breach = budget.observe(spec, rules.plan, transition).or(breach);
    }
    for _ in 0..BUDGET_TRIES {
        let Some(change) = budget.save() else { break };
        let row = store.change_run(run, RunChange { budget: Some(change), ..RunChange::default() }).await?;
        breach = budget.hear(row.budget.as_deref(), spec, rules.plan).map_err(unreadable)?.or(breach);
        if !budget.is_behind() {
            break;
        }
    }
    match breach {
        Some(breach) => pause(store, run, Control::PausedBudget, breach.to_string(), env).await,
        None => Ok(()),
    }
}

/// Has a run that goes on wait for somebody.
async fn pause(store: &dyn Store, run: RunId, control: Control, why: String, env: &Env) -> Result<()> {
    let goes = store.run(run).await?.is_some_and(|row| row.control == Control::Go);
    if goes {
        store.change_run(run, RunChange::ask(control, Some(why.clone()), env.clock.now())).await?;
        journal::run_halted(run, control, &why);
    }
    Ok(())
}
