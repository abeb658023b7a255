//! A fact as it is told.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use redrive_core::fact::{Fact, FactKind};
use redrive_core::failure::Class;
use redrive_core::id::{FactId, ItemId, RunId, StoreId};
use redrive_core::time::Timestamp;
use redrive_store::{KeptFact, Store};
use serde::Serialize;

use super::event::event;
use super::waves::Subject;
use crate::error::{Error, Result};
use crate::pipelines::definition_of;

/// Most runs whose stages are remembered.
const RUNS: usize = 1_000;

/// A fact as it is handed to the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The fact.
    pub fact: FactId,
    /// Its name for ever: one that comes twice has it twice.
    pub id: String,
    /// What happened, by which it is routed.
    pub event: String,
    /// When.
    pub at: Timestamp,
    /// The body: one JSON document.
    pub body: Vec<u8>,
    /// Whether whoever hears it is asked for an answer.
    pub answered: bool,
    /// Whether it is the work of an event that a stage is told as, for which there has to be a queue.
    pub is_work: bool,
    /// What it is about.
    pub(super) subject: Subject,
    /// The pipeline, while its run is known.
    pub(super) pipeline: Option<String>,
}

/// What a letter says.
#[derive(Serialize)]
struct Body<'a> {
    event: &'a str,
    fact: FactKind,
    pipeline: Option<&'a str>,
    run: RunId,
    item: Option<ItemId>,
    key: Option<&'a str>,
    stage: Option<&'a str>,
    generation: Option<u32>,
    attempt: Option<u32>,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<Class>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

/// The names of a run's pipeline and stages, and of the events that stages are told as.
#[derive(Debug, PartialEq, Eq)]
struct Names {
    edition: u32,
    pipeline: String,
    stages: Vec<String>,
    told: Vec<String>,
}

/// Writes letters. What a run's stages are called is in its row, and read again with every batch, because it can be edited.
#[derive(Default)]
pub(super) struct Writer {
    runs: BTreeMap<RunId, Arc<Names>>,
}

impl Writer {
    /// The letters of these facts, in their order.
    pub(super) async fn letters(
        &mut self,
        store: &dyn Store,
        name: StoreId,
        facts: &[KeptFact],
    ) -> Result<Vec<Letter>> {
        let mut seen: BTreeMap<RunId, Option<Arc<Names>>> = BTreeMap::new();
        for kept in facts {
            if let Entry::Vacant(place) = seen.entry(kept.fact.run) {
                place.insert(self.names(store, kept.fact.run).await?);
            }
        }
        let of = |kept: &KeptFact| letter(name, kept, seen.get(&kept.fact.run).and_then(Option::as_deref));
        facts.iter().map(of).collect()
    }

    /// What a run's stages are called; `None` once it is forgotten.
    async fn names(&mut self, store: &dyn Store, run: RunId) -> Result<Option<Arc<Names>>> {
        let Some(row) = store.run(run).await? else { return Ok(None) };
        if let Some(known) = self.runs.get(&run).filter(|known| known.edition == row.edition) {
            return Ok(Some(known.clone()));
        }
        let definition = definition_of(&row);
        let all = || definition.iter().flat_map(|definition| definition.all_stages());
        let stages = all().map(|stage| stage.name.clone()).collect();
        let told = all().filter_map(|stage| stage.event.clone()).collect();
        let names = Arc::new(Names { edition: row.edition, pipeline: row.spec.pipeline, stages, told });
        if self.runs.len() >= RUNS {
            self.runs.clear();
        }
        self.runs.insert(run, names.clone());
        Ok(Some(names))
    }
}

fn letter(store: StoreId, kept: &KeptFact, names: Option<&Names>) -> Result<Letter> {
    let Fact { kind, item, key, run, stage, generation, attempt, at, due, class, reason, token, route } =
        &kept.fact;
    let pipeline = names.map(|names| names.pipeline.as_str());
    let stage = names.zip(*stage).and_then(|(names, stage)| names.stages.get(stage.index()));
    let stage = stage.map(String::as_str);
    let event = route
        .as_deref()
        .unwrap_or_else(|| event(pipeline, stage, *kind, names.map_or(&[], |names| names.told.as_slice())));
    let body = Body {
        event,
        fact: *kind,
        pipeline,
        run: *run,
        item: *item,
        key: key.as_deref(),
        stage,
        generation: *generation,
        attempt: *attempt,
        at: at.to_string(),
        due: due.map(|due| due.to_string()),
        class: *class,
        reason: reason.as_deref(),
        token: token.as_deref(),
    };
    let body = serde_json::to_vec(&body).map_err(|error| Error::internal(format!("a fact: {error}")))?;
    let subject = Subject::of(&kept.fact);
    let event = event.to_owned();
    let (answered, pipeline) = (token.is_some(), pipeline.map(str::to_owned));
    let is_work = answered && names.is_some_and(|names| names.told.contains(&event));
    let id = kept.message_id(store);
    Ok(Letter { fact: kept.id, id, event, at: *at, body, answered, is_work, subject, pipeline })
}

#[cfg(test)]
mod tests {
    use redrive_core::id::StageNo;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_letter_names_the_stage_and_no_content() {
        let fact = Fact {
            kind: FactKind::Dead,
            item: Some(ItemId([7; 16])),
            key: Some("k".to_owned()),
            run: RunId(3),
            stage: Some(StageNo(1)),
            generation: Some(0),
            attempt: Some(2),
            at: Timestamp(0),
            due: None,
            class: Some(Class::Final),
            reason: Some("final_error".to_owned()),
            token: None,
            route: None,
        };
        let kept = KeptFact { id: FactId(9), fact };
        let names = Names {
            edition: 0,
            pipeline: "p".to_owned(),
            stages: vec!["a".to_owned(), "b".to_owned()],
            told: vec![],
        };
        let told = letter(StoreId(1), &kept, Some(&names)).expect("written");
        assert_eq!((told.id.as_str(), told.event.as_str()), ("0000000000000001-9", "item.dead"));
        let body: Value = serde_json::from_slice(&told.body).expect("JSON");
        let item = ItemId([7; 16]).to_string();
        assert_eq!(
            body,
            json!({"event": "item.dead", "fact": "item.dead", "pipeline": "p", "run": "r3", "item": item, "key": "k",
                "stage": "b", "generation": 0, "attempt": 2, "at": Timestamp(0).to_string(), "class": "final", "reason": "final_error"})
        );
        let forgotten = letter(StoreId(1), &kept, None).expect("written");
        let body: Value = serde_json::from_slice(&forgotten.body).expect("JSON");
        assert_eq!(
            (&body["pipeline"], &body["stage"], &body["run"]),
            (&Value::Null, &Value::Null, &json!("r3"))
        );
    }

    #[test]
    fn what_is_handed_over_is_told_by_the_name_that_its_stage_says_with_the_token_of_its_answer() {
        let created = Fact::of_created(RunId(3), Timestamp(0));
        let fact = Fact {
            kind: FactKind::HandedOver,
            token: Some("a-token".to_owned()),
            route: Some("summarization.requested".to_owned()),
            ..created.clone()
        };
        let told =
            letter(StoreId(1), &KeptFact { id: FactId(9), fact: fact.clone() }, None).expect("written");
        let body: Value = serde_json::from_slice(&told.body).expect("JSON");
        assert_eq!((told.event.as_str(), told.answered), ("summarization.requested", true));
        assert_eq!(
            (&body["event"], &body["fact"], &body["token"]),
            (&json!("summarization.requested"), &json!("item.handed_over"), &json!("a-token"))
        );
        let by_callback =
            letter(StoreId(1), &KeptFact { id: FactId(9), fact: Fact { route: None, ..fact } }, None);
        assert_eq!(by_callback.expect("written").event, "item.handed_over");
        let plain = letter(StoreId(1), &KeptFact { id: FactId(9), fact: created }, None).expect("written");
        assert!(!plain.answered);
    }
}
