//! Claims about the `http` handler, against a server that misbehaves byte by byte.

use std::sync::Arc;

use redrive_engine::handler::{Answer, Handler, Reply};
use redrive_stages::HttpHandler;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{NOW, handler, listen, ok, once, receive};
use crate::support::{assert_reply, broken_answers, request};

async fn reply_to(answer: impl Into<Vec<u8>>) -> Answer {
    let (spec, _server) = once(answer).await;
    handler(spec).call(request(&["a", "b"])).await
}

#[tokio::test]
async fn broken_answers_are_told_apart() {
    for (answer, expected) in broken_answers(&request(&["a", "b"])) {
        let reply = reply_to(ok(&answer)).await;
        assert_reply(&reply, expected, &String::from_utf8_lossy(&answer));
    }
}

#[tokio::test]
async fn broken_http_is_told_apart() {
    let table: [(&str, &[u8], &str); 10] = [
        ("nothing", b"", "whole retryable/connection: connection broken to http://127.0.0.1:"),
        ("no HTTP", b"\x00\x01\x02 garbage\r\n\r\n", "whole retryable/answer: not an HTTP answer"),
        ("cut head", b"HTTP/1.1 200 OK\r\nContent-", "whole retryable/connection: connection broken"),
        (
            "cut body",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"results\"",
            "whole retryable/connection: answer broken off after 10 bytes",
        ),
        (
            "length too small",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"results\":[]}",
            "whole retryable/answer: the answer is not JSON",
        ),
        (
            "bad chunk",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "whole retryable/answer: answer broken off after 0 bytes",
        ),
        (
            "chunk bomb",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
            "whole retryable/answer: answer broken off",
        ),
        (
            "two lengths",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Length: 8\r\n\r\n{}",
            "whole retryable/answer: not an HTTP answer",
        ),
        ("no content", b"HTTP/1.1 204 No Content\r\n\r\n", "whole retryable/answer: the answer is empty"),
        (
            "gzip",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
            "whole retryable/answer: the answer is compressed (gzip)",
        ),
    ];
    for (case, answer, expected) in table {
        let reply = reply_to(answer).await;
        assert_reply(&reply, &[expected], case);
        assert!(!format!("{reply:?}").contains("hunter2"), "{case}: {reply:?}");
    }
}

#[tokio::test]
async fn statuses_are_classified_with_their_hints() {
    let table = [
        ("503 Busy\r\nRetry-After: 7", "whole retryable/server: HTTP 503: slow", Some(7_000)),
        (
            "429 Too Many\r\nRetry-After: Sun, 06 Nov 1994 08:50:07 GMT",
            "whole rate_limited/client: HTTP 429: slow",
            Some(30_000),
        ),
        ("429 Too Many\r\nRetry-After: -5", "whole rate_limited/client: HTTP 429: slow", None),
        (
            "429 Too Many\r\nx-ratelimit-reset: 1m2s",
            "whole rate_limited/client: HTTP 429: slow",
            Some(62_000),
        ),
        ("404 Not Found", "whole final/client: HTTP 404: slow", None),
        (
            "302 Found\r\nLocation: http://elsewhere.test/",
            "whole final/answer: HTTP 302: redirects are not followed; set url to the final address: http://elsewhere.test/",
            None,
        ),
        ("308 Moved", "whole final/answer: HTTP 308: redirects are not followed", None),
    ];
    for (status, expected, hint) in table {
        let reply = reply_to(format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nslow")).await;
        assert_reply(&reply, &[expected], status);
        let Reply::Whole(failure) = reply.reply else { panic!("{status}") };
        assert_eq!(failure.hint.map(|hint| hint.as_millis()), hint, "{status}");
        assert_eq!(failure.status.map(|code| code.to_string()).as_deref(), status.get(..3), "{status}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_refused_and_its_connection_closed() {
    for (status, expected) in [
        ("200 OK", "whole retryable/answer: answer larger than 1000000 bytes"),
        ("500 No", "whole retryable/server: HTTP 500: xxx"),
    ] {
        let (listener, mut spec) = listen().await;
        spec.max_answer = 1_000_000;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            receive(&mut stream).await;
            let head = format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let block = [b"10000\r\n".as_slice(), &b"xxx ".repeat(0x4000), b"\r\n"].concat();
            let mut sent = 0_u64;
            while sent < 10 << 30 && stream.write_all(&block).await.is_ok() {
                sent += block.len() as u64;
            }
            sent
        });
        let reply = handler(spec).call(request(&["a"])).await;
        assert_reply(&reply, &[expected], status);
        let sent = server.await.unwrap();
        assert!(sent < 64 << 20, "the server could send {sent} bytes");
    }
}

#[tokio::test]
async fn an_announced_size_above_the_limit_is_refused_before_it_comes() {
    let reply = reply_to("HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n").await;
    assert_reply(&reply, &["whole retryable/answer: answer larger than 16777216 bytes"], "");
}

#[tokio::test]
async fn endless_headers_are_refused() {
    let (listener, spec) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        receive(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        while stream.write_all(&b"X-More: and more\r\n".repeat(1_000)).await.is_ok() {}
    });
    let reply = handler(spec).call(request(&["a"])).await;
    assert_reply(&reply, &["whole retryable/answer: not an HTTP answer"], "");
    server.await.unwrap();
}

#[tokio::test]
async fn a_refused_connection_is_a_connection_failure() {
    let (listener, spec) = listen().await;
    drop(listener);
    let reply = handler(spec).call(request(&["a"])).await;
    assert_reply(&reply, &["whole retryable/connection: no connection to http://127.0.0.1:"], "");
}

#[tokio::test]
async fn a_server_without_tls_is_a_connection_failure() {
    let (listener, mut spec) = listen().await;
    spec.url = spec.url.replace("http:", "https:");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let handler = match HttpHandler::new(spec, Arc::new(|| NOW)) {
        Ok(handler) => handler,
        // A machine without any root certificate cannot set up TLS at all, and is told so.
        Err(why) => return assert!(why.contains("certificate"), "{why}"),
    };
    let Reply::Whole(failure) = handler.call(request(&["a"])).await.reply else { panic!() };
    assert_eq!(failure.kind.name(), "connection", "{failure}");
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let (listener, spec) = listen().await;
    let handler = handler(spec);
    let mut stream = tokio::select! {
        reply = handler.call(request(&["a"])) => panic!("{reply:?}"),
        stream = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            receive(&mut stream).await;
            stream
        } => stream,
    };
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
}
