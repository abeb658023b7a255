//! The board that external workers take batches from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::Class;
use redrive_core::id::RunId;
use redrive_core::pool::Rank;
use redrive_core::time::Timestamp;
use redrive_engine::env::{Clock, Env, SystemClock};
use redrive_engine::external::{Ask, Board, Heard, Refused, Said};
use redrive_engine::handler::{Answer, Handler, Reply, Request};
use redrive_stages::{ExternalHandler, WorkBoard};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::support::request;

const ANN: &str = "ann";

fn board() -> (Arc<WorkBoard>, Arc<ExternalHandler>) {
    let board = Arc::new(WorkBoard::new(Arc::new(SystemClock), [7; 32]));
    let handler = Arc::new(ExternalHandler::new(board.clone(), "moods", "mood", None, None));
    (board, handler)
}

fn ask(max_items: usize, wait: u64) -> Ask {
    Ask {
        pipeline: None,
        stages: vec!["mood".to_owned()],
        max_items,
        wait: Duration::from_millis(wait),
        lease: Duration::from_secs(30),
        worker: "w".to_owned(),
    }
}

fn call(handler: &Arc<ExternalHandler>, keys: &[&str]) -> JoinHandle<Answer> {
    let (handler, request) = (handler.clone(), request(keys));
    tokio::spawn(async move { handler.call(request).await })
}

fn claim(board: &Arc<WorkBoard>, ask: Ask) -> JoinHandle<Option<redrive_engine::external::Leased>> {
    let board = board.clone();
    tokio::spawn(async move { board.claim(ANN, ask).await.expect("it is open") })
}

fn results(all: &[(&str, Value)], done: bool) -> Said {
    let raw = |value: &Value| -> Box<RawValue> { to_raw_value(value).expect("JSON") };
    let results = all.iter().map(|(id, said)| {
        let mut result = said.clone();
        result["id"] = json!(format!("once-{id}"));
        raw(&result)
    });
    Said::Results { results: results.collect(), done, usage: None }
}

async fn asked_for(handler: &ExternalHandler, calls: usize) {
    while handler.room().is_none_or(|room| room.calls != calls) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn there_is_room_for_what_is_asked_for_and_whoever_waits_for_it_is_woken() {
    let (board, handler) = board();
    let wake = Arc::new(Notify::new());
    handler.rings_for_room(&wake);
    let room = handler.room().expect("it says so");
    assert_eq!((room.calls, room.never), (0, true), "nobody can ask");
    assert_eq!(board.claim(ANN, ask(1, 0)).await.expect_err("nobody works"), Refused::NobodyWorks);
    board.open();
    wake.notified().await;
    assert_eq!(handler.room().map(|room| (room.calls, room.never)), Some((0, false)));
    let (large, small) = (claim(&board, ask(100, 60_000)), claim(&board, ask(10, 60_000)));
    wake.notified().await;
    asked_for(&handler, 2).await;
    assert_eq!(handler.room().and_then(|room| room.items), Some(10), "as few as fit both");
    let elsewhere = Ask { stages: vec!["other".to_owned()], ..ask(5, 60_000) };
    let elsewhere = claim(&board, elsewhere);
    tokio::task::yield_now().await;
    assert_eq!(handler.room().map(|room| room.calls), Some(2));
    small.abort();
    asked_for(&handler, 1).await;
    assert_eq!(handler.room().and_then(|room| room.items), Some(100));
    board.drain();
    assert!(large.await.expect("no panic").is_none() && elsewhere.await.expect("no panic").is_none());
    assert_eq!(handler.room().map(|room| room.calls), Some(0));
}

#[tokio::test]
async fn parts_of_a_batch_are_answered_one_after_the_other_and_the_last_waits_until_it_is_kept() {
    let (board, handler) = board();
    board.open();
    let claimed = claim(&board, ask(3, 60_000));
    asked_for(&handler, 1).await;
    let call = call(&handler, &["a", "b", "c"]);
    let leased = claimed.await.expect("no panic").expect("a batch");
    assert_eq!((leased.items.len(), &*leased.pipeline, &*leased.stage), (3, "moods", "mood"));
    let hear = |said: Said| board.hear(ANN, &leased.token, said);
    let strange = hear(results(&[("a", json!({"output": 1})), ("x", json!({"output": 1}))], false)).await;
    assert!(
        matches!(&strange, Err(Refused::Wrong(why)) if why.contains("no item of the batch")),
        "{strange:?}"
    );
    let part = hear(results(&[("a", json!({"output": 1}))], false)).await.expect("taken");
    assert!(matches!(part, Heard::Part { accepted: 1, left: 2, .. }), "{part:?}");
    let again = hear(results(&[("a", json!({"output": 2}))], false)).await;
    assert_eq!(again, Err(Refused::Gone), "the first answer holds");
    let last = tokio::spawn({
        let (board, token) = (board.clone(), leased.token.clone());
        async move { board.hear(ANN, &token, results(&[("b", json!({"filtered": "no"}))], true)).await }
    });
    let answer = call.await.expect("no panic");
    let Reply::Items(replies) = &answer.reply else { panic!("{answer:?}") };
    assert_eq!(replies[0], ItemReply::Output(Some(b"1".as_slice().into())));
    assert!(matches!(&replies[1], ItemReply::Filtered(_)));
    assert!(
        matches!(&replies[2], ItemReply::Failed { failure, .. } if failure.message().contains("left out"))
    );
    tokio::task::yield_now().await;
    assert!(!last.is_finished(), "nothing is kept yet");
    drop(answer);
    assert_eq!(last.await.expect("no panic"), Err(Refused::Lost), "nobody kept it");
    assert_eq!(board.heartbeat(ANN, &leased.token, None), Err(Refused::Gone));
}

#[tokio::test]
async fn a_lease_that_runs_out_is_a_crash_and_a_sign_of_life_prolongs_it() {
    let (board, handler) = board();
    board.open();
    let clock = Env::system().clock;
    let claimed = claim(&board, Ask { lease: Duration::from_millis(300), ..ask(3, 60_000) });
    asked_for(&handler, 1).await;
    let (call, begun) = (call(&handler, &["a", "b", "c"]), clock.uptime());
    let leased = claimed.await.expect("no panic").expect("a batch");
    board.hear(ANN, &leased.token, results(&[("b", json!({"output": 1}))], false)).await.expect("taken");
    let standing = board.heartbeat(ANN, &leased.token, Some(Duration::from_millis(900))).expect("held");
    assert!(standing.left > Duration::from_millis(500) && !standing.stopping, "{standing:?}");
    let answer = call.await.expect("no panic");
    assert!(clock.uptime().saturating_sub(begun) >= Duration::from_millis(900), "it was prolonged");
    let Reply::Items(replies) = answer.reply else { panic!("{answer:?}") };
    assert!(matches!(&replies[1], ItemReply::Output(_)), "what it said before counts");
    for at in [0, 2] {
        let ItemReply::Failed { failure, shared: true } = &replies[at] else { panic!("{replies:?}") };
        assert_eq!(failure.class, Class::Crash);
        assert!(failure.message().contains("no sign of life"), "{failure}");
    }
    assert_eq!(board.heartbeat(ANN, &leased.token, None), Err(Refused::Gone), "too late");
}

#[tokio::test]
async fn what_nobody_takes_is_given_back_and_so_is_what_is_in_hand_when_the_process_stops() {
    let (board, handler) = board();
    board.open();
    let unasked = call(&handler, &["a"]).await.expect("no panic");
    assert!(
        matches!(&unasked.reply, Reply::Part { replies, begun: false } if *replies == [None]),
        "{unasked:?}"
    );
    let claimed = claim(&board, Ask { lease: Duration::from_millis(500), ..ask(3, 60_000) });
    asked_for(&handler, 1).await;
    let call = call(&handler, &["a", "b"]);
    let leased = claimed.await.expect("no panic").expect("a batch");
    board.drain();
    assert!(board.heartbeat(ANN, &leased.token, None).expect("held").stopping);
    board.hear(ANN, &leased.token, results(&[("b", json!({"output": 1}))], false)).await.expect("taken");
    let answer = call.await.expect("no panic");
    let Reply::Part { replies, begun: true } = answer.reply else { panic!("{answer:?}") };
    assert!(matches!(replies.as_slice(), [None, Some(ItemReply::Output(_))]), "{replies:?}");
}

#[tokio::test]
async fn a_batch_goes_to_the_next_when_whoever_asked_is_gone_and_off_the_board_with_its_call() {
    let (board, handler) = board();
    board.open();
    let first = claim(&board, ask(2, 60_000));
    asked_for(&handler, 1).await;
    first.abort();
    asked_for(&handler, 0).await;
    let call = call(&handler, &["a"]);
    let second = board.claim(ANN, ask(2, 60_000)).await.expect("open").expect("it is on the board");
    assert_eq!(board.heartbeat("bob", &second.token, None), Err(Refused::Foreign), "of somebody else");
    call.abort();
    asked_for(&handler, 0).await;
    let late = board.hear(ANN, &second.token, results(&[("a", json!({"output": 1}))], true)).await;
    assert_eq!(late, Err(Refused::Gone));
    let too_large: Box<RawValue> = to_raw_value(&json!({"class": "oversized"})).expect("JSON");
    let claimed = claim(&board, ask(2, 60_000));
    asked_for(&handler, 1).await;
    let call = self::call(&handler, &["a", "b"]);
    let leased = claimed.await.expect("no panic").expect("a batch");
    let refused = board.hear(ANN, &leased.token, Said::Failed(too_large)).await;
    assert!(matches!(&refused, Err(Refused::Wrong(why)) if why.contains("claim fewer")), "{refused:?}");
    call.abort();
}

/// A clock that stands still until it is put forward.
#[derive(Default)]
struct Still(AtomicU64);

#[async_trait]
impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    async fn sleep(&self, span: Duration) {
        let until = self.uptime().saturating_add(span);
        while self.uptime() < until {
            tokio::task::yield_now().await;
        }
    }
}

/// A board with a clock that stands still, and the handlers of two pipelines, of which the first goes first.
struct Two {
    clock: Arc<Still>,
    board: Arc<WorkBoard>,
    handlers: [Arc<ExternalHandler>; 2],
}

impl Two {
    fn new() -> Self {
        let clock = Arc::new(Still::default());
        let board = Arc::new(WorkBoard::new(clock.clone(), [7; 32]));
        board.open();
        let handlers = ["first", "second"]
            .map(|name| Arc::new(ExternalHandler::new(board.clone(), name, "mood", None, None)));
        Self { clock, board, handlers }
    }

    /// Puts a batch of the n-th pipeline's run on the board.
    async fn lay(&self, n: usize) -> JoinHandle<Answer> {
        let run = RunId(i64::try_from(n).expect("few"));
        let rank = Rank::new(-i32::try_from(n).expect("few"), Timestamp(0), run);
        let request = Request { run, rank, ..request(&["a"]) };
        let handler = self.handlers[n].clone();
        let call = tokio::spawn(async move { handler.call(request).await });
        // There is one thread only: the call is begun when this goes on.
        tokio::task::yield_now().await;
        call
    }

    fn calls(&self, n: usize) -> usize {
        self.handlers[n].room().map_or(0, |room| room.calls)
    }

    /// The pipeline of the batch that an ask is given.
    async fn given(&self) -> String {
        self.board.claim(ANN, ask(1, 60_000)).await.expect("open").expect("a batch").pipeline.to_string()
    }
}

#[tokio::test]
async fn the_batch_of_the_run_that_goes_first_is_given_first_and_every_fifth_is_of_another() {
    let two = Two::new();
    let mut calls = Vec::new();
    for n in [1, 0].repeat(20) {
        calls.push(two.lay(n).await);
    }
    let mut given = Vec::new();
    for _ in 0..20 {
        given.push(two.given().await);
    }
    let first = given.iter().filter(|name| *name == "first").count();
    assert_eq!((first, given.len()), (16, 20), "{given:?}");
    calls.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn a_run_that_goes_first_and_had_a_batch_a_moment_ago_is_waited_for_but_not_for_long() {
    let two = Two::new();
    let mut calls = vec![two.lay(0).await, two.lay(1).await];
    assert_eq!(two.given().await, "first");
    let asked = claim(&two.board, ask(1, 60_000));
    while two.calls(0) < 2 {
        tokio::task::yield_now().await;
    }
    calls.push(two.lay(0).await);
    assert_eq!(&*asked.await.expect("no panic").expect("a batch").pipeline, "first");
    let asked = claim(&two.board, ask(1, 60_000));
    while two.calls(0) < 3 {
        tokio::task::yield_now().await;
    }
    two.clock.0.fetch_add(20, Ordering::SeqCst);
    assert_eq!(&*asked.await.expect("no panic").expect("a batch").pipeline, "second");
    calls.iter().for_each(JoinHandle::abort);
}
