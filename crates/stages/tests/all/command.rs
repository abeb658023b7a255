//! Claims about the `command` handler, against children that misbehave.

mod restarts;

use std::collections::BTreeSet;

use redrive_engine::handler::{Answer, Handler, Request};
use redrive_stages::{CommandHandler, CommandSpec};

use crate::support::{assert_reply, broken_answers, item, request, shown};

/// Sets `$id` to the id of the first item of `$line`.
const ID: &str = r#"id=${line#*\"id\":\"}; id=${id%%\"*}"#;

/// A child that runs this script for each request line; `answer JSON` answers for the first item.
fn each(script: &str) -> CommandSpec {
    let answer = r#"answer() { printf '{"results":[{"id":"%s","output":%s}]}\n' "$id" "$1"; }"#;
    sh(&format!("{answer}\nwhile read -r line; do {ID}\n{script}\ndone"))
}

fn sh(script: &str) -> CommandSpec {
    CommandSpec::new(["sh", "-c", script])
}

fn python(script: &str) -> CommandSpec {
    CommandSpec::new(["python3", "-c", script])
}

fn handler(spec: CommandSpec) -> CommandHandler {
    CommandHandler::new(spec).unwrap()
}

async fn reply_of(spec: CommandSpec) -> Answer {
    handler(spec).call(request(&["a"])).await
}

/// The only output of a reply.
async fn output(handler: &CommandHandler, request: Request) -> String {
    let shown = shown(&handler.call(request).await);
    assert!(shown.len() == 1 && !shown[0].contains("retryable"), "{shown:?}");
    shown[0].clone()
}

#[tokio::test]
async fn a_child_is_asked_again_and_again() {
    let mut spec = each("answer $$");
    spec.output = Some("/pid".into());
    let handler = handler(spec);
    let first = output(&handler, request(&["a"])).await;
    assert!(first.starts_with(r#"{"n":1,"pid":"#), "{first}");
    for key in ["b", "c"] {
        assert_eq!(output(&handler, request(&[key])).await, first);
    }
}

#[tokio::test]
async fn what_a_call_consumed_is_read_from_the_answer() {
    let answer = r#"{"results":[{"id":"%s","output":1}],"usage":{"prompt_tokens":5,"total_tokens":8}}"#;
    let answer = reply_of(each(&format!("printf '{answer}\\n' \"$id\""))).await;
    assert_eq!(shown(&answer), ["1"]);
    assert_eq!(answer.usage.map(|usage| (usage.tokens_in, usage.tokens_out)), Some((5, 3)));
}

#[tokio::test]
async fn calls_at_once_get_children_of_their_own_up_to_the_limit() {
    let mut spec = each("answer $$");
    spec.processes = 2;
    let handler = handler(spec);
    let batches = ["a", "b", "c", "d"].map(|key| request(&[key]));
    let pids = futures(batches.map(|batch| output(&handler, batch))).await;
    let distinct: BTreeSet<_> = pids.iter().collect();
    assert!((1..=2).contains(&distinct.len()), "{pids:?}");
}

async fn futures<const N: usize>(futures: [impl Future<Output = String>; N]) -> Vec<String> {
    let mut results = Vec::new();
    let mut open: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        open.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Ready(result) => {
                results.push(result);
                false
            }
            std::task::Poll::Pending => true,
        });
        if open.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    results
}

#[tokio::test]
async fn broken_answers_are_told_apart() {
    let batch = request(&["a", "b"]);
    for (answer, expected) in broken_answers(&batch) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [answer.as_slice(), b"\n"].concat()).unwrap();
        let spec = sh(&format!("while read -r line; do cat '{}'; done", file.path().display()));
        let reply = handler(spec).call(batch.clone()).await;
        assert_reply(&reply, expected, &String::from_utf8_lossy(&answer));
    }
}

#[tokio::test]
async fn broken_children_are_told_apart() {
    let table = [
        ("read -r line; exit 3", "whole crash/process: sh exited with status 3 without answering"),
        ("exit 3", "whole crash/process: sh exited with status 3 without answering"),
        ("read -r line; exit 0", "whole crash/process: sh exited with status 0 without answering"),
        ("read -r line; kill -SEGV $$", "whole crash/process: sh was killed by signal 11 without answering"),
        ("read -r line; kill -KILL $$", "whole crash/process: sh was killed by signal 9 without answering"),
        ("read -r line; printf '{\"results\"'; exit 4", "whole crash/process: sh exited with status 4"),
        ("read -r line; exec 1>&-; exec sleep 1000", "whole retryable/answer: sh closed its standard output"),
        ("read -r line; sleep 1000 & exit 5", "whole crash/process: sh exited with status 5"),
        (
            "read -r line; tr '\\0' x < /dev/zero",
            "whole retryable/answer: answer larger than 16777216 bytes from sh",
        ),
        (
            "read -r line; echo loading; exec sleep 1000",
            "whole retryable/answer: the answer is not a JSON object: loading",
        ),
    ];
    for (script, expected) in table {
        assert_reply(&reply_of(sh(script)).await, &[expected], script);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_death_is_told_right_however_it_races_with_the_pipes() {
    let mut deaths = 0;
    for round in 0..150 {
        let code = 1 + round % 100;
        for (script, how) in [
            (format!("read -r line; exit {code}"), format!("exited with status {code}")),
            ("read -r line; kill -KILL $$".to_owned(), "was killed by signal 9".to_owned()),
        ] {
            let reply = reply_of(sh(&script)).await;
            assert_reply(&reply, &[&format!("whole crash/process: sh {how} without answering")], &script);
            deaths += 1;
        }
    }
    assert_eq!(deaths, 300);
}

#[tokio::test]
async fn a_child_that_does_not_read_is_told_apart() {
    let mut large = request(&[]);
    large.items = vec![item("a", &format!("\"{}\"", "x".repeat(1 << 20)))];
    let table = [
        ("exec 0<&-; exec sleep 1000", "whole retryable/answer: sh closed its standard input"),
        (
            "echo hello; exec sleep 1000",
            "whole retryable/answer: the answer came before the request was read: hello",
        ),
        ("exit 7", "whole crash/process: sh exited with status 7"),
    ];
    for (script, expected) in table {
        assert_reply(&handler(sh(script)).call(large.clone()).await, &[expected], script);
    }
    let handler = handler(each("answer ${#line}"));
    assert!(output(&handler, large).await.parse::<usize>().unwrap() > 1 << 20);
}

#[tokio::test]
async fn a_child_that_ends_after_its_answer_is_replaced() {
    for script in ["answer $$; exit 0", "answer $$; exit 9", "printf '%s' \"$(answer $$)\"; exit 0"] {
        let handler = handler(each(script));
        let first = output(&handler, request(&["a"])).await;
        assert_ne!(output(&handler, request(&["b"])).await, first, "{script}");
    }
}

#[tokio::test]
async fn a_child_that_answers_twice_is_replaced() {
    let handler = handler(each("both=$(answer $$; answer $$); echo \"$both\""));
    let first = output(&handler, request(&["a"])).await;
    assert_ne!(output(&handler, request(&["b"])).await, first);
}

#[tokio::test]
async fn a_child_that_answers_something_else_is_replaced() {
    let handler = handler(each("answer $$; read -r line; answer $$; read -r line; answer $$"));
    let first = output(&handler, request(&["a"])).await;
    let stale = handler.call(request(&["b"])).await;
    assert_reply(&stale, &["retryable/answer: left out of the answer, which has 1 for no item"], "");
    assert_ne!(output(&handler, request(&["a"])).await, first);
}

#[tokio::test]
async fn the_last_words_of_a_child_are_kept() {
    let spec = each("i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo \"line $i\" >&2; done; exit 3");
    let reply = shown(&reply_of(spec).await).remove(0);
    assert!(
        reply.starts_with("whole crash/process: sh exited with status 3 without answering; stderr: …"),
        "{reply}"
    );
    assert!(reply.ends_with("line 2999\nline 3000"), "{reply}");
    let reply = reply_of(each("echo 'no model' >&2; echo oops")).await;
    assert_reply(
        &reply,
        &["whole retryable/answer: the answer is not a JSON object: oops; stderr: no model"],
        "",
    );
}

#[tokio::test]
async fn a_flood_on_standard_error_blocks_nothing() {
    let handler = handler(each("head -c 200000000 /dev/zero >&2; answer 1"));
    assert_eq!(output(&handler, request(&["a"])).await, "1");
}

#[tokio::test]
async fn a_child_sees_only_the_environment_it_is_given() {
    let canary = "CARGO_MANIFEST_DIR";
    assert!(std::env::var_os(canary).is_some(), "the canary must be in this environment");
    let mut spec = python(
        "import os, json, sys\nfor line in sys.stdin:\n id = json.loads(line)['items'][0]['id']\n \
         print(json.dumps({'results': [{'id': id, 'output': sorted(os.environ)}]}), flush=True)",
    );
    spec.env = vec![("GIVEN_TO_IT".into(), "yes".into())];
    let seen = output(&handler(spec), request(&["a"])).await;
    assert!(seen.contains("\"GIVEN_TO_IT\"") && seen.contains("\"PATH\""), "{seen}");
    assert!(!seen.contains("CARGO"), "{seen}");
}

#[tokio::test]
async fn secrets_from_the_environment_are_in_no_message() {
    for script in ["echo \"got $MY_TOKEN\" >&2; exit 3", "echo $MY_TOKEN"] {
        let mut spec = each(script);
        spec.env = vec![("MY_TOKEN".into(), "canary-0123".into())];
        let text = format!("{:?}", reply_of(spec).await);
        assert!(!text.contains("canary") && text.contains("[redacted]"), "{text}");
    }
}

#[tokio::test]
async fn nothing_in_an_item_is_interpreted() {
    let mut batch = request(&[]);
    batch.items = vec![item("$(exit 9); `exit 9` --x\n\"\0", r#"{"a":"$(exit 9)\n;|&"}"#)];
    let handler = handler(each("answer 1"));
    assert_eq!(output(&handler, batch).await, "1");
}

#[tokio::test]
async fn what_cannot_be_started_is_final_and_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no program").unwrap();
    let path = file.path().display().to_string();
    let reply = reply_of(CommandSpec::new([&path])).await;
    assert_reply(&reply, &[&format!("whole final/process: cannot start {path}: it is not executable")], "");
    drop(file);
    for program in [path.as_str(), "no-such-program-9"] {
        let reply = reply_of(CommandSpec::new([program])).await;
        assert_reply(
            &reply,
            &[&format!("whole final/process: cannot start {program}: there is no such program")],
            "",
        );
    }
    let mut spec = sh("exit 0");
    spec.cwd = Some("/no/such/folder".into());
    assert_reply(
        &reply_of(spec).await,
        &["whole final/process: cannot start sh: /no/such/folder is no folder"],
        "",
    );
}

#[test]
fn a_specification_that_cannot_be_used_is_refused() {
    let refused = |spec: CommandSpec| CommandHandler::new(spec).err().unwrap_or_default();
    assert!(refused(CommandSpec::new::<&str>([])).contains("empty"));
    assert!(refused(CommandSpec::new([""])).contains("empty"));
    assert!(refused(CommandSpec::new(["sh", "a\0b"])).contains("zero byte"));
    let mut spec = sh("");
    spec.env = vec![("A=B".into(), "".into())];
    assert!(refused(spec).contains("no name of a variable"));
}
