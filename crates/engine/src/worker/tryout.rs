//! One call of one stage, decided as a worker decides and written nowhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::budget::SharedBudget;
use redrive_core::event::Transition;
use redrive_store::{ClaimedItem, Error, Result};

use super::desk::{Desk, Halt};
use super::execute::answer_of;
use crate::env::Env;
use crate::handler::{Answer, Request};
use crate::recipe::Recipe;

/// What came of a call, and what would follow.
#[derive(Debug)]
pub struct Tryout {
    /// The call; `None` when none was made, because the item could never be called for.
    pub call: Option<TriedCall>,
    /// What would be recorded.
    pub transition: Transition,
    /// Why the run would stop.
    pub halt: Option<Halt>,
}

/// A call that was made.
#[derive(Debug)]
pub struct TriedCall {
    /// What the handler was asked.
    pub request: Request,
    /// What it answered.
    pub answer: Answer,
    /// How long that took.
    pub took: Duration,
}

/// Calls the stage that an item is held at, once. The desk is that of a worker, with gates that know of nothing.
///
/// # Errors
/// When no outcome can be decided, which would be a mistake in the program.
pub async fn try_once(recipe: Arc<Recipe>, claimed: ClaimedItem, env: &Env) -> Result<Tryout> {
    let budget = SharedBudget::new("tryout", None).map_err(|why| Error::Internal(why.to_string()))?;
    let mut desk = Desk::new(claimed.item.run, recipe.clone(), budget);
    desk.accept(&[], vec![claimed], BTreeMap::new(), env.clock.now());
    let mut made = None;
    if let Some(call) = desk.next_calls(env.clock.now()).into_iter().next()
        && let Some(work) = recipe.work(call.stage)
    {
        let begun = env.clock.now();
        let answer = answer_of(call.request.clone(), &*work.handler, env).await;
        let ended = env.clock.now();
        desk.finished(call.id, answer.clone(), ended);
        made = Some(TriedCall { request: call.request, answer, took: ended.since(begun) });
    }
    let commit = desk.commit(env.clock.now(), || env.dice.draw());
    let change = commit.and_then(|commit| commit.changes.into_iter().next());
    let change = change.ok_or_else(|| Error::Internal("a call came to no end".to_owned()))?;
    Ok(Tryout { call: made, transition: change.transition, halt: desk.halt().cloned() })
}
