//! Good answers of all three kinds.

mod support;

use serde_json::{Value, json};
use support::Stage;

fn vector(entry: &Value) -> Vec<f64> {
    entry["embedding"].as_array().expect("numbers").iter().map(|x| x.as_f64().expect("a number")).collect()
}

#[tokio::test]
async fn handler_items_come_back_with_a_hash_that_hangs_on_the_payload() {
    let stage = Stage::play("").await;
    let payloads =
        [json!({"text": "a"}), json!({}), json!([1]), json!({"text": "a"}), json!({"rehearsed": "old"})];
    let answer = stage.work(&payloads).await.expect("an answer");
    assert_eq!(answer.status, 200);
    let answer = answer.json();
    let results = answer["results"].as_array().expect("results");
    let ids: Vec<&str> = results.iter().filter_map(|result| result["id"].as_str()).collect();
    assert_eq!(ids, ["id0", "id1", "id2", "id3", "id4"]);
    let hash = |n: usize| results[n]["output"]["rehearsed"].as_str().expect("a hash");
    assert_eq!(results[0]["output"]["text"], "a");
    assert_eq!(results[2]["output"]["value"], json!([1]));
    assert_eq!(hash(0), hash(3));
    assert_ne!(hash(0), hash(1));
    assert_ne!(hash(4), "old");
    assert_eq!(results[4]["output"].as_object().map(serde_json::Map::len), Some(1));
}

#[tokio::test]
async fn a_bare_payload_gets_a_bare_output() {
    let stage = Stage::play("").await;
    let answer = stage.post("/any/path", &json!({"text": "a"})).await.expect("an answer").json();
    assert_eq!(answer["text"], "a");
    assert_eq!(answer["rehearsed"].as_str().map(str::len), Some(16));
}

#[tokio::test]
async fn equal_texts_have_equal_vectors_of_length_one() {
    let stage = Stage::play("").await;
    let answer = stage.embed(&["one", "two", "one"]).await.expect("an answer").json();
    let data = answer["data"].as_array().expect("data");
    assert_eq!(
        data.iter().map(|entry| entry["index"].as_u64()).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2)]
    );
    let vectors: Vec<Vec<f64>> = data.iter().map(vector).collect();
    assert!(vectors.iter().all(|v| v.len() == 64));
    assert!(vectors.iter().all(|v| (v.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-4));
    assert_eq!(vectors[0], vectors[2]);
    assert_ne!(vectors[0], vectors[1]);
    assert_eq!(answer["model"], "m");
    assert_eq!(answer["usage"], json!({"prompt_tokens": 3, "total_tokens": 3}));
}

#[tokio::test]
async fn dimensions_and_base64_are_honoured() {
    let stage = Stage::play("dimensions = 8").await;
    let ask = |more: Value| {
        let mut body = json!({"model": "m", "input": "one"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let plain = stage.post("/v1/embeddings", &ask(json!({}))).await.expect("an answer").json();
    assert_eq!(vector(&plain["data"][0]).len(), 8);
    let more = stage.post("/v1/embeddings", &ask(json!({"dimensions": 3}))).await.expect("an answer").json();
    assert_eq!(vector(&more["data"][0]).len(), 3);
    let coded = ask(json!({"encoding_format": "base64"}));
    let coded = stage.post("/v1/embeddings", &coded).await.expect("an answer").json();
    let text = coded["data"][0]["embedding"].as_str().expect("text").to_owned();
    assert_eq!(text.len(), (8_usize * 4).div_ceil(3) * 4);
    for wrong in [
        json!({"dimensions": 0}),
        json!({"encoding_format": "hex"}),
        json!({"input": 7}),
        json!({"input": []}),
    ] {
        let answer = stage.post("/v1/embeddings", &ask(wrong.clone())).await.expect("an answer");
        assert_eq!(
            (answer.status, answer.json()["error"]["type"].clone()),
            (400, json!("invalid_request_error")),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn chat_answers_hang_on_the_last_words_of_the_user() {
    let stage = Stage::play("").await;
    let ask = |text: &str| {
        json!({"model": "m", "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": text}]},
        ]})
    };
    let one = stage.post("/v1/chat/completions", &ask("hello there")).await.expect("an answer").json();
    let again = stage.post("/v1/chat/completions", &ask("hello there")).await.expect("an answer").json();
    let other = stage.post("/v1/chat/completions", &ask("good bye")).await.expect("an answer").json();
    assert_eq!(one, again);
    assert_ne!(one["choices"], other["choices"]);
    let content = one["choices"][0]["message"]["content"].as_str().expect("text");
    assert!(content.ends_with("hello there"), "{content}");
    assert_eq!(one["choices"][0]["finish_reason"], "stop");
    let tokens = |text: &str| (text.chars().count() as u64).div_ceil(4);
    let (prompt, completion) = (tokens("be brief\nhello there"), tokens(content));
    assert_eq!(
        one["usage"],
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
    );
    assert_eq!(
        stage.running.report().tokens_served,
        2 * (prompt + completion) + other["usage"]["total_tokens"].as_u64().expect("a number")
    );
    let mut short = ask("hello there");
    short["max_tokens"] = json!(2);
    let short = stage.post("/v1/chat/completions", &short).await.expect("an answer").json();
    assert_eq!(short["choices"][0]["finish_reason"], "length");
    let mut streamed = ask("hello there");
    streamed["stream"] = json!(true);
    assert_eq!(stage.post("/v1/chat/completions", &streamed).await.expect("an answer").status, 400);
}

#[tokio::test]
async fn tokens_can_be_given_exactly() {
    let stage = Stage::play("tokens_per_text = 7").await;
    let answer = stage.embed(&["one", "a much longer text than that"]).await.expect("an answer").json();
    assert_eq!(answer["usage"]["total_tokens"], 14);
}

#[tokio::test]
async fn models_are_listed_and_other_requests_are_not_calls() {
    let stage = Stage::play("").await;
    assert_eq!(stage.get("/v1/models").await.json()["data"][0]["id"], "rehearse-embedding");
    assert_eq!(stage.get("/nowhere").await.status, 404);
    assert_eq!(stage.running.report().calls, 0);
    let answer = stage.post("/work", &Value::Null).await.expect("an answer");
    assert_eq!(answer.status, 200, "null is a payload too");
}

#[tokio::test]
async fn what_is_no_json_gets_400() {
    use tokio::io::AsyncWriteExt;
    let stage = Stage::play("").await;
    let mut stream = tokio::net::TcpStream::connect(stage.addr()).await.expect("a connection");
    stream
        .write_all(b"POST /work HTTP/1.1\r\nconnection: close\r\ncontent-length: 3\r\n\r\n{no")
        .await
        .expect("written");
    assert!(support::drain(&mut stream).await.starts_with("HTTP/1.1 400"));
}
