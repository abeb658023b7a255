//! Claims about how children end: with everything they started, and whoever asked for it.
//!
//! Each child and a process that it starts hold a connection to the test; the connection ends when both are gone.

use std::sync::Arc;

use redrive_engine::handler::{Handler as _, Reply};
use redrive_stages::{CommandHandler, CommandSpec};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

use crate::support::{request, shown};

/// Connects, starts a process that keeps the connection for ever, says so, and goes on with `then`.
fn holder(port: u16, then: &str) -> CommandSpec {
    let script = format!(
        "import os, json, signal, socket, subprocess, sys\n\
         line = sys.stdin.readline()\n\
         connection = socket.create_connection(('127.0.0.1', {port}))\n\
         subprocess.Popen(['sleep', '1000'], pass_fds=[connection.fileno()], stdout=subprocess.DEVNULL)\n\
         connection.send(b'x')\n\
         def answer():\n \
           id = json.loads(line)['items'][0]['id']\n \
           print(json.dumps({{'results': [{{'id': id, 'output': os.getpid()}}]}}), flush=True)\n\
         {then}\n"
    );
    CommandSpec::new(["python3", "-c", &script])
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// The connection of a child that is up.
async fn connected(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'x');
    stream
}

/// Returns when everything that holds the connection is gone.
async fn gone(mut stream: TcpStream) {
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_dropped_call_ends_its_child_and_what_it_started() {
    let (listener, port) = listen().await;
    let handler = CommandHandler::new(holder(port, "signal.pause()")).unwrap();
    for _ in 0..2 {
        let stream = tokio::select! {
            reply = handler.call(request(&["a"])) => panic!("{reply:?}"),
            stream = connected(&listener) => stream,
        };
        gone(stream).await;
    }
}

#[tokio::test]
async fn a_child_that_ends_takes_along_what_it_started() {
    for (then, expected) in [
        ("os._exit(3)", "crash/process: python3 exited with status 3"),
        ("os.kill(os.getpid(), signal.SIGABRT)", "crash/process: python3 was killed by signal 6"),
        ("os.close(1)\nsignal.pause()", "retryable/answer: python3 closed its standard output"),
        ("print('garbage', flush=True)\nsignal.pause()", "retryable/answer: the answer is not a JSON object"),
    ] {
        let (listener, port) = listen().await;
        let handler = CommandHandler::new(holder(port, then)).unwrap();
        let (reply, stream) = tokio::join!(handler.call(request(&["a"])), connected(&listener));
        let Reply::Whole(failure) = &reply.reply else { panic!("{reply:?}") };
        assert!(failure.to_string().starts_with(expected), "{failure}");
        gone(stream).await;
    }
}

#[tokio::test]
async fn closing_ends_idle_children_and_refuses_calls() {
    let (listener, port) = listen().await;
    let handler = CommandHandler::new(holder(port, "answer()\nsignal.pause()")).unwrap();
    let (reply, stream) = tokio::join!(handler.call(request(&["a"])), connected(&listener));
    assert!(matches!(reply.reply, Reply::Items(_)), "{reply:?}");
    handler.close().await;
    gone(stream).await;
    let refused = shown(&handler.call(request(&["a"])).await);
    assert_eq!(refused, ["whole retryable/process: the stage is closed"]);
}

#[tokio::test]
async fn closing_ends_busy_children_without_blaming_their_items() {
    let (listener, port) = listen().await;
    let handler = CommandHandler::new(holder(port, "signal.pause()")).unwrap();
    let (reply, ()) = tokio::join!(handler.call(request(&["a"])), async {
        let stream = connected(&listener).await;
        handler.close().await;
        gone(stream).await;
    });
    assert_eq!(shown(&reply), ["whole retryable/process: python3 was ended with its stage"]);
}

#[tokio::test]
async fn dropping_the_handler_ends_its_children() {
    let (listener, port) = listen().await;
    let handler = CommandHandler::new(holder(port, "answer()\nsignal.pause()")).unwrap();
    let (_, stream) = tokio::join!(handler.call(request(&["a"])), connected(&listener));
    drop(handler);
    gone(stream).await;
}

#[tokio::test]
async fn a_child_outlives_the_thread_that_asked_for_it() {
    let script = r#"while read -r line; do id=${line#*\"id\":\"}; id=${id%%\"*}
        printf '{"results":[{"id":"%s","output":%s}]}\n' "$id" $$; done"#;
    let handler = Arc::new(CommandHandler::new(CommandSpec::new(["sh", "-c", script])).unwrap());
    let (asking, runtime) = (Arc::clone(&handler), Handle::current());
    let ask = move || shown(&runtime.block_on(asking.call(request(&["a"]))));
    let first = tokio::task::spawn_blocking(|| std::thread::spawn(ask).join().unwrap()).await.unwrap();
    assert_eq!(shown(&handler.call(request(&["b"])).await), first);
}
