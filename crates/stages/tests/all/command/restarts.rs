//! Claims about when children are replaced, and when not.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::time::Timestamp;
use redrive_engine::handler::{Handler as _, Reply};
use redrive_stages::command::RestartBudget;
use redrive_stages::{CommandHandler, CommandSpec};

use crate::support::{request, shown};

/// Answers each item with the child's number, and runs `first` before it reads.
fn numbered(first: &str) -> CommandSpec {
    let script = format!(
        "import os, json, sys\n{first}\nfor line in sys.stdin:\n items = json.loads(line)['items']\n \
         print(json.dumps({{'results': [{{'id': i['id'], 'output': os.getpid()}} for i in items]}}), flush=True)"
    );
    CommandSpec::new(["python3", "-c", &script])
}

/// A child that dies unless there is this file.
fn dies_without(file: &Path) -> CommandSpec {
    numbered(&format!("if not os.path.exists({:?}):\n os._exit(3)", file.display().to_string()))
}

#[tokio::test]
async fn a_child_is_replaced_after_its_share_of_items() {
    let mut spec = numbered("");
    spec.recycle_after = Some(3);
    let handler = CommandHandler::new(spec).unwrap();
    let mut pids = Vec::new();
    // 2, then 4 and at an end; 1, 2 and 3 and at an end; and so on.
    for keys in [&["a", "b"][..], &["a", "b"], &["a"], &["a"], &["a"], &["a", "b", "c"], &["a"]] {
        let answers = shown(&handler.call(request(keys)).await);
        assert_eq!(answers.len(), keys.len(), "{answers:?}");
        assert!(answers.iter().all(|pid| *pid == answers[0] && pid.parse::<u32>().is_ok()), "{answers:?}");
        pids.push(answers[0].clone());
    }
    assert_eq!(pids[0], pids[1]);
    assert_eq!((&pids[2], &pids[3]), (&pids[3], &pids[4]));
    assert_eq!(pids.iter().collect::<BTreeSet<_>>().len(), 4, "{pids:?}");
    assert_eq!((handler.starts(), handler.deaths()), (4, 0));
}

#[tokio::test]
async fn a_script_that_was_mended_is_started_anew_and_the_old_one_is_asked_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("handler.py");
    let write = |says: &str| {
        let script = format!(
            "import json, sys\nfor line in sys.stdin:\n items = json.loads(line)['items']\n \
             print(json.dumps({{'results': [{{'id': i['id'], 'output': '{says}'}} for i in items]}}), flush=True)"
        );
        std::fs::write(&file, script).unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
    };
    write("as it was");
    let mut spec = CommandSpec::new(["python3", "-u", "handler.py"]);
    spec.cwd = Some(folder.path().to_owned());
    let handler = CommandHandler::new(spec).unwrap();
    for _ in 0..2 {
        assert_eq!(shown(&handler.call(request(&["a"])).await), ["\"as it was\""]);
    }
    write("mended");
    assert_eq!(shown(&handler.call(request(&["a"])).await), ["\"mended\""]);
    assert_eq!((handler.starts(), handler.deaths()), (2, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacing_children_loses_no_call_however_many_there_are_at_once() {
    let script = r#"while read -r line; do id=${line#*\"id\":\"}; id=${id%%\"*}
        printf '{"results":[{"id":"%s","output":%s}]}\n' "$id" $$; done"#;
    let mut spec = CommandSpec::new(["sh", "-c", script]);
    (spec.recycle_after, spec.processes) = (Some(1), 4);
    let handler = Arc::new(CommandHandler::new(spec).unwrap());
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let handler = Arc::clone(&handler);
            tokio::spawn(async move { shown(&handler.call(request(&["a"])).await).remove(0) })
        })
        .collect();
    let mut pids = BTreeSet::new();
    for call in calls {
        let pid = call.await.unwrap();
        assert!(pid.parse::<u32>().is_ok(), "{pid}");
        pids.insert(pid);
    }
    assert_eq!((pids.len(), handler.starts(), handler.deaths()), (200, 200, 0));
}

/// The failure of a call as a whole.
async fn failure(handler: &CommandHandler) -> Failure {
    match handler.call(request(&["a"])).await.reply {
        Reply::Whole(failure) => failure,
        reply => panic!("{reply:?}"),
    }
}

#[tokio::test]
async fn a_program_that_only_dies_is_left_alone_for_a_while_and_an_answer_makes_good() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cure");
    let clock = Arc::new(AtomicI64::new(0));
    let hand = Arc::clone(&clock);
    let handler = CommandHandler::new(dies_without(&file)).unwrap().with_restart_budget(
        RestartBudget { deaths: 3 },
        Arc::new(move || Timestamp(hand.load(Ordering::Relaxed))),
    );
    for _ in 0..3 {
        assert_eq!(failure(&handler).await.class, Class::Crash);
    }
    for (deaths, wait) in [(3, 1_000), (4, 2_000), (5, 4_000)] {
        let due = clock.load(Ordering::Relaxed);
        // At the beginning of the wait, and in its last millisecond.
        for left in [wait, 1].map(Duration::from_millis) {
            let turned_away = failure(&handler).await;
            assert_eq!((turned_away.class, turned_away.kind), (Class::RateLimited, Kind::Process));
            assert_eq!(turned_away.hint, Some(left));
            let text = format!("python3 died {deaths} times in a row; the next is started in {left:?}");
            assert_eq!(turned_away.message(), text);
            clock.store(due + i64::try_from(wait).unwrap() - 1, Ordering::Relaxed);
        }
        assert_eq!((handler.starts(), handler.deaths()), (deaths, deaths));
        clock.fetch_add(1, Ordering::Relaxed);
        assert_eq!(failure(&handler).await.class, Class::Crash);
    }
    clock.fetch_add(8_000, Ordering::Relaxed);
    std::fs::write(&file, "").unwrap();
    assert!(shown(&handler.call(request(&["a"])).await)[0].parse::<u32>().is_ok());
    assert_eq!((handler.starts(), handler.deaths()), (7, 6));
}

#[tokio::test]
async fn an_answer_between_deaths_begins_the_count_anew() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cure");
    let mut spec = dies_without(&file);
    spec.recycle_after = Some(1);
    let handler = CommandHandler::new(spec)
        .unwrap()
        .with_restart_budget(RestartBudget { deaths: 3 }, Arc::new(|| Timestamp(0)));
    for _ in 0..4 {
        for _ in 0..2 {
            assert_eq!(failure(&handler).await.class, Class::Crash);
        }
        std::fs::write(&file, "").unwrap();
        assert!(shown(&handler.call(request(&["a"])).await)[0].parse::<u32>().is_ok());
        std::fs::remove_file(&file).unwrap();
    }
    assert_eq!((handler.starts(), handler.deaths()), (12, 8));
    for _ in 0..3 {
        assert_eq!(failure(&handler).await.class, Class::Crash);
    }
    assert_eq!(failure(&handler).await.class, Class::RateLimited);
}

#[tokio::test]
async fn without_a_budget_every_call_starts_a_child() {
    let handler = CommandHandler::new(CommandSpec::new(["sh", "-c", "exit 3"])).unwrap();
    for _ in 0..20 {
        assert_eq!(failure(&handler).await.class, Class::Crash);
    }
    assert_eq!((handler.starts(), handler.deaths()), (20, 20));
}
