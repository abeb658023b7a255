//! The stage that embeds for an index: each text once, nothing wrong ever kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{Event, ItemReply};
use redrive_core::failure::{Class, Failure};
use redrive_core::id::{ContentHash, ItemId, RunId, StageNo};
use redrive_core::index::{Effect, ModelNo};
use redrive_core::item::NewItem;
use redrive_core::order::Order;
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::Policy;
use redrive_core::pool::Rank;
use redrive_core::time::Timestamp;
use redrive_engine::handler::{Answer, Handler, Input, Reply, Request};
use redrive_index::IndexEmbed;
use redrive_store::index::{Index, NewCollection};
use redrive_store::{Claim, Commit, MemoryStore, NewRun, NewWorker, Slot, Store, Submit};
use tokio::sync::{Notify, Semaphore};

/// A model that counts, and answers when it is let.
struct Model {
    asked: Mutex<BTreeMap<String, u32>>,
    arrived: Notify,
    lets: Semaphore,
    answer: fn(&str) -> Result<Vec<f32>, Failure>,
}

impl Model {
    fn new(lets: usize, answer: fn(&str) -> Result<Vec<f32>, Failure>) -> Arc<Self> {
        let lets = Semaphore::new(lets);
        Arc::new(Self { asked: Mutex::default(), arrived: Notify::new(), lets, answer })
    }

    fn asked(&self) -> BTreeMap<String, u32> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Handler for Model {
    async fn call(&self, request: Request) -> Answer {
        let text = |item: &Input| -> String {
            let payload: serde_json::Value = serde_json::from_slice(&item.payload).unwrap();
            payload["text"].as_str().unwrap().to_owned()
        };
        let texts: Vec<String> = request.items.iter().map(text).collect();
        for text in &texts {
            *self.asked.lock().unwrap().entry(text.clone()).or_default() += 1;
        }
        self.arrived.notify_one();
        self.lets.acquire().await.unwrap().forget();
        let mut replies = Vec::new();
        for text in &texts {
            match (self.answer)(text) {
                Ok(vector) => {
                    let output = serde_json::to_vec(&vector).unwrap();
                    replies.push(ItemReply::Output(Some(output.into())));
                }
                Err(failure) => return Reply::Whole(failure).into(),
            }
        }
        Reply::Items(replies).into()
    }
}

fn two(text: &str) -> Result<Vec<f32>, Failure> {
    Ok(vec![text.len() as f32, 1.0])
}

fn request(texts: &[&str]) -> Request {
    let items = texts.iter().enumerate().map(|(n, text)| {
        let payload = serde_json::json!({
            "path": "a.md", "version": ContentHash([7; 16]).to_string(), "ordinal": n, "context": "", "text": text,
            "page": null, "lines": [1, 2], "bytes": [0, 9],
        });
        let id = ItemId([u8::try_from(n).unwrap(); 16]);
        Input::new(id, "k", payload.to_string().into_bytes().into(), "i")
    });
    Request {
        run: RunId(1),
        rank: Rank::new(0, Timestamp(0), RunId(1)),
        stage: "embed".into(),
        items: items.collect(),
        timeout: Duration::from_secs(60),
    }
}

async fn stage(model: Arc<Model>, dimensions: u32) -> (Arc<IndexEmbed>, Arc<MemoryStore>, ModelNo) {
    let store = Arc::new(MemoryStore::new());
    let new = NewCollection { root: "/".into(), model: "m".into(), dimensions, settings: "{}".into() };
    let collection = store.open_collection(new, Timestamp(0)).await.unwrap();
    let embed = IndexEmbed::new(model, store.clone(), collection.model_no, dimensions);
    (Arc::new(embed), store, collection.model_no)
}

fn kept(reply: &Reply) -> Vec<Option<ContentHash>> {
    let Reply::Items(replies) = reply else { panic!("{reply:?}") };
    let text = |reply: &ItemReply| match reply {
        ItemReply::Indexed(Effect::Keep(kept), None) => Some(kept.key.text),
        _ => None,
    };
    replies.iter().map(text).collect()
}

fn whole(reply: &Reply) -> &Failure {
    match reply {
        Reply::Whole(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_text_that_is_there_twice_in_a_batch_is_sent_once() {
    let model = Model::new(9, two);
    let (embed, ..) = stage(model.clone(), 2).await;
    let answer = embed.call(request(&["one", "two", "one"])).await;
    let kept = kept(&answer.reply);
    assert!(kept.iter().all(Option::is_some) && kept[0] == kept[2] && kept[0] != kept[1]);
    assert_eq!(model.asked(), BTreeMap::from([("one".to_owned(), 1), ("two".to_owned(), 1)]));
    embed.call(request(&["two"])).await;
    assert_eq!(model.asked()["two"], 1, "what has just landed is not sent again");
}

#[tokio::test]
async fn a_text_that_another_call_has_under_way_is_waited_for() {
    let model = Model::new(0, two);
    let (embed, ..) = stage(model.clone(), 2).await;
    let first = tokio::spawn({
        let embed = embed.clone();
        async move { embed.call(request(&["one", "two"])).await }
    });
    model.arrived.notified().await;
    let second = tokio::spawn({
        let embed = embed.clone();
        async move { embed.call(request(&["two", "three"])).await }
    });
    model.arrived.notified().await;
    model.lets.add_permits(2);
    assert!(kept(&first.await.unwrap().reply).iter().all(Option::is_some));
    assert!(kept(&second.await.unwrap().reply).iter().all(Option::is_some));
    assert_eq!(model.asked().values().copied().collect::<Vec<_>>(), [1, 1, 1]);
}

#[tokio::test]
async fn what_a_broken_off_call_had_under_way_is_sent_by_whoever_waited() {
    let model = Model::new(0, two);
    let (embed, ..) = stage(model.clone(), 2).await;
    let first = tokio::spawn({
        let embed = embed.clone();
        async move { embed.call(request(&["one"])).await }
    });
    model.arrived.notified().await;
    let second = tokio::spawn({
        let embed = embed.clone();
        async move { embed.call(request(&["one"])).await }
    });
    tokio::task::yield_now().await;
    first.abort();
    model.arrived.notified().await;
    model.lets.add_permits(1);
    assert!(kept(&second.await.unwrap().reply)[0].is_some());
    assert_eq!(model.asked()["one"], 2);
}

#[tokio::test]
async fn another_dimension_than_the_index_has_waits_for_somebody_and_keeps_nothing() {
    let model = Model::new(9, |text| if text == "odd" { Ok(vec![1.0; 3]) } else { two(text) });
    let (embed, ..) = stage(model, 2).await;
    let answer = embed.call(request(&["one", "odd"])).await;
    let failure = whole(&answer.reply);
    assert_eq!(failure.class, Class::Quota);
    assert!(failure.message().contains("3 dimensions, the index has 2"), "{failure}");
    assert!(failure.message().contains("--reembed"), "{failure}");
}

#[tokio::test]
async fn the_first_answer_tells_the_dimension_where_nobody_knows() {
    let model = Model::new(9, |text| Ok(vec![1.0; text.len()]));
    let (embed, store, no) = stage(model, 0).await;
    assert!(kept(&embed.call(request(&["abcd"])).await.reply)[0].is_some());
    assert_eq!(store.collections().await.unwrap()[0].spec.dimensions, 4);
    assert_eq!(store.learn_dimensions(no, 9).await.unwrap(), 4);
    assert_eq!(whole(&embed.call(request(&["abc"])).await.reply).class, Class::Quota);
}

#[tokio::test]
async fn a_vector_without_a_direction_is_never_kept() {
    let (embed, ..) =
        stage(Model::new(9, |text| Ok(vec![0.0, if text == "zero" { 0.0 } else { 1.0 }])), 2).await;
    let answer = embed.call(request(&["zero", "fine"])).await;
    let Reply::Items(replies) = &answer.reply else { panic!("{answer:?}") };
    assert!(
        matches!(&replies[0], ItemReply::Failed { failure, shared: false } if failure.class == Class::Retryable)
    );
    assert!(matches!(replies[1], ItemReply::Indexed(..)));
}

#[tokio::test]
async fn what_is_kept_is_recalled() {
    let (embed, store, _) = stage(Model::new(9, two), 2).await;
    let asked = request(&["one", "two"]);
    let payloads: Vec<_> = asked.items.iter().map(|item| item.payload.clone()).collect();
    assert!(embed.remembers());
    assert_eq!(embed.recall(&payloads).await, [false, false]);
    let Reply::Items(replies) = embed.call(request(&["two"])).await.reply else { panic!("no replies") };
    record(&store, replies[0].clone()).await;
    assert_eq!(embed.recall(&payloads).await, [false, true]);
}

/// Has an item end with this reply.
async fn record(store: &MemoryStore, reply: ItemReply) {
    let now = Timestamp(0);
    let new = NewRun {
        pipeline: "p".into(),
        source: "s".into(),
        category: None,
        priority: 0,
        definition: String::new(),
        folder: String::new(),
    };
    let run = store.create_run(new, now).await.unwrap().id;
    let worker = NewWorker { name: "w".into(), identity: "i".into(), runs: Vec::new() };
    let worker = store.register(worker, now.after(Duration::from_secs(60)), now).await.unwrap();
    let submit = Submit {
        reading: redrive_core::reading::Reading::FIRST,
        run,
        stage: StageNo(0),
        items: vec![NewItem::new("k", &b"{}"[..], 0)],
        deadline: None,
        new_versions: false,
        changes: Vec::new(),
        cursor: None,
        now,
    };
    store.submit(submit).await.unwrap();
    let slot = Slot { run, edition: 0, stage: StageNo(0), order: Order::Oldest, reserved: 0, limit: 1 };
    let claimed = store.claim(Claim { worker, slots: vec![slot], pauses: 0, now }).await.unwrap();
    let stage = StagePlan {
        name: "embed".into(),
        next: None,
        first_child: None,
        owner: None,
        policy: Policy::default(),
        timeout: Duration::from_secs(1),
        config: 0,
        child_failure: ChildFailure::Continue,
    };
    let plan = Plan::new(vec![stage], None);
    let at = Moment { now, draw: Draw::MIDDLE };
    let transition = decide(&claimed.items[0].item, Event::Finished(reply), &plan, at).unwrap();
    let commit = Commit { changes: vec![transition.into()], now, ..Commit::default() };
    store.commit(commit).await.unwrap();
}
