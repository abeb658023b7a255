//! A key is hidden however it is spelled and wherever a service puts it.

use std::fmt::Write;

use crate::support::index::{DOCS, Library};
use crate::support::{Answer, Call, Place, Ran, Server, key, quick_retry, without_breaker};

/// Like the keys that look like base64: what JSON, URLs and HTML escape is in it.
const KEY: &str = "AbCd/1234+efgh/5678==";

/// The key as services spell it. What is here can stand in a JSON string as it is.
fn spellings() -> Vec<String> {
    let each = |spell: &dyn Fn(u8) -> String| KEY.bytes().map(spell).collect::<String>();
    let marks = |spell: &dyn Fn(u8) -> String| {
        each(&|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { spell(byte) })
    };
    vec![
        KEY.to_owned(),
        KEY.to_ascii_uppercase(),
        KEY.to_ascii_lowercase(),
        KEY.replace('/', "\\/"),
        each(&|byte| format!("\\u{byte:04x}")),
        marks(&|byte| format!("\\u{byte:04X}")),
        marks(&|byte| format!("%{byte:02X}")),
        each(&|byte| format!("%{byte:02x}")),
        KEY.replace('/', "&sol;").replace('+', "&plus;").replace('=', "&equals;"),
        marks(&|byte| format!("&#{byte};")),
        marks(&|byte| format!("&#x{byte:x};")),
        "QWJDZC8xMjM0K2VmZ2gvNTY3OD09".to_owned(),
        "dXNlcjpBYkNkLzEyMzQrZWZnaC81Njc4PT0=".to_owned(),
        each(&|byte| format!("{byte:02x}")),
        each(&|byte| format!("{byte:02X}")),
    ]
}

/// Parts of the spellings that nothing else has.
fn parts() -> Vec<String> {
    let ends = |spelled: &String| {
        let (first, last) = (&spelled[..12], &spelled[spelled.len() - 12..]);
        [first.to_owned(), last.to_owned(), first.replace('\\', "\\\\"), last.replace('\\', "\\\\")]
    };
    let common = ["1234+efgh", "efgh/5678", "1234%2Befgh", "EFGH/5678"].map(str::to_owned);
    spellings().iter().flat_map(ends).chain(common).collect()
}

fn search(what: &str, bytes: &[u8]) {
    for part in parts() {
        let found = bytes.windows(part.len()).any(|window| window == part.as_bytes());
        assert!(!found, "{what} shows {part}");
    }
}

/// Looks through everything that is written and printed. The payloads and outputs of items are the user's own.
fn search_all(place: &Place, mut outputs: Vec<Ran>, items: usize) {
    let asked: [&[&str]; 9] = [
        &["show", "--json"],
        &["failures", "--json"],
        &["failures"],
        &["dead", "list", "--json"],
        &["dead", "list"],
        &["dead", "groups", "--json"],
        &["dead", "export"],
        &["gates", "--json"],
        &["gates"],
    ];
    outputs.extend(asked.iter().map(|args| place.run(args)));
    outputs.extend((0..items).step_by(7).map(|n| place.run(&["explain", &key(n), "--json"])));
    for ran in &outputs {
        search("standard output", ran.stdout.as_bytes());
        search("standard error", ran.stderr.as_bytes());
    }
    let hidden = outputs.iter().map(|ran| ran.stdout.matches("[redacted]").count()).sum::<usize>();
    assert!(hidden >= items.min(100), "only {hidden} were there to be removed");
    let mut files = 0;
    for entry in std::fs::read_dir(place.path(".redrive")).expect("listed") {
        let path = entry.expect("listed").path();
        search(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
        files += 1;
    }
    assert!(files > 0, "the store is there");
    place.check();
}

/// Runs items for every spelling at every one of `places`; `answer` makes the answer from place, spelling and call.
fn run(kind: &str, places: usize, answer: impl Fn(usize, &str, &Call) -> Answer + Send + Sync + 'static) {
    let spellings = spellings();
    let items = places * spellings.len();
    let server = Server::start(move |call| {
        let item = call.item().key.rsplit(' ').next().unwrap_or_default().trim_start_matches('k');
        let n: usize = item.parse().expect("a number");
        answer(n % places, &spellings[n / places], call)
    });
    let stage = format!("{}\nconcurrency = 8\n{}", kind.replace("HOST", server.address()), quick_retry(1));
    let mut place = Place::with(&without_breaker(&stage), &crate::support::texts(items));
    place.set("SERVICE_KEY", KEY);
    place.set("REDRIVE_LOG", "trace");
    let ran = place.run(&["run", "p.toml", "--json", "--log-format", "json"]);
    assert!(matches!(ran.code(), Some(3 | 4)), "{}", ran.stderr);
    assert!(server.calls().iter().all(|call| call.headers["authorization"].contains(KEY)), "it was sent");
    search_all(&place, vec![ran], items);
}

fn http(status: u16, headers: Vec<(&'static str, String)>, body: String) -> Answer {
    Answer::Http(status, headers, body)
}

#[test]
fn a_token_is_hidden_in_every_spelling_and_place_of_an_http_service() {
    let kind =
        "kind = \"http\"\nurl = \"http://HOST/work\"\nheader_env = { Authorization = \"SERVICE_KEY\" }";
    run(kind, 11, |place, spelled, call| {
        let id = &call.item().id;
        let ok = |body: String| http(200, Vec::new(), body);
        match place {
            0 => http(422, Vec::new(), format!("unknown token {spelled}.")),
            1 => http(401, Vec::new(), format!(r#"{{"error":{{"message":"unknown token {spelled}"}}}}"#)),
            2 => ok(format!(
                r#"{{"results":[{{"id":"{id}","error":{{"class":"final","message":"no {spelled}"}}}}]}}"#
            )),
            3 => ok(format!(
                r#"{{"results":[{{"id":"{id}","error":{{"class":"{spelled}","message":"x"}}}}]}}"#
            )),
            4 => ok(format!(r#"{{"results":[{{"id":"{id}","filtered":"for {spelled}"}}]}}"#)),
            5 => ok(format!(r#"{{"results":[{{"id":"{spelled}","output":1}}]}}"#)),
            6 => ok(format!(r#"{{"dat": "{spelled}"}}"#)),
            7 => ok(format!("<html>{spelled}</html>")),
            8 => http(302, vec![("Location", format!("http://x.test/{spelled}?k={spelled}"))], String::new()),
            9 => http(
                500,
                vec![("Retry-After", spelled.to_owned()), ("x-request-id", spelled.to_owned())],
                String::new(),
            ),
            _ => {
                let half = format!(r#"{{"error":"{spelled}"#);
                let chunks = format!("{:x}\r\n{half}\r\n2\r\n\"}}\r\n0\r\n\r\n", half.len());
                Answer::Raw(format!("HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"))
            }
        }
    });
}

/// Where a service compatible with OpenAI's can put a key.
fn model(place: usize, spelled: &str, chat: bool) -> Answer {
    let error = |message: &str, code: &str, of: &str| {
        format!(r#"{{"error":{{"message":"{message}","code":"{code}","type":"{of}"}}}}"#)
    };
    let said = |message: &str, end: &str| {
        format!(
            r#"{{"choices":[{{"message":{message},"finish_reason":"{end}"}}],"usage":{{"note":"{spelled}"}}}}"#
        )
    };
    let message = format!("unknown token {spelled} here");
    match place {
        0 => http(400, Vec::new(), error(&message, "invalid_value", "x")),
        1 => http(422, Vec::new(), error("no", spelled, "x")),
        2 => http(500, Vec::new(), error("no", "x", spelled)),
        3 => http(200, Vec::new(), error(&message, "x", "server_error")),
        4 => http(200, Vec::new(), error("no", spelled, spelled)),
        5 => http(400, Vec::new(), message),
        6 => http(302, vec![("Location", format!("http://x.test/{spelled}"))], String::new()),
        7 if chat => {
            http(200, Vec::new(), said(&format!(r#"{{"content":null,"refusal":"not {spelled}"}}"#), "stop"))
        }
        8 if chat => http(200, Vec::new(), said(r#"{"content":"x"}"#, spelled)),
        9 if chat => http(200, Vec::new(), said(r#"{"content":""}"#, "stop")),
        7 => http(200, Vec::new(), format!(r#"{{"dat": "{spelled}"}}"#)),
        8 => http(200, Vec::new(), format!(r#"{{"data": ["{spelled}"]}}"#)),
        _ => http(413, Vec::new(), error(&message, "context_length_exceeded", spelled)),
    }
}

#[test]
fn a_key_is_hidden_in_every_spelling_and_place_of_a_model_service() {
    let common = "base_url = \"http://HOST/v1\"\nmodel = \"m\"\napi_key_env = \"SERVICE_KEY\"";
    run(&format!("kind = \"embed\"\nbatch = 1\n{common}"), 10, |place, spelled, _| {
        model(place, spelled, false)
    });
    run(&format!("kind = \"chat\"\nprompt = \"{{/text}}\"\n{common}"), 10, |place, spelled, _| {
        model(place, spelled, true)
    });
}

#[test]
fn a_key_is_hidden_in_every_spelling_by_index() {
    for status in [200, 401, 403, 400] {
        let all = spellings().join(" and ");
        let server = Server::start(move |_| {
            let body =
                format!(r#"{{"error":{{"message":"unknown token {all}","code":"insufficient_quota"}}}}"#);
            Answer::status(status, &body)
        });
        let mut library = Library::asking(&format!("http://{}/v1", server.address()));
        library.write("a.md", "This is a text.\n");
        library.place.set("REDRIVE_LOG", "trace");
        let key = [("MODEL_KEY", KEY)];
        let args = ["--api-key-env", "MODEL_KEY"];
        let json = library.run_with(&args, &key).expect(5);
        let base = format!("http://{}/v1", server.address());
        let plain =
            ["index", DOCS, "--embedder", "openai", "--model", "m", "--base-url", &base, args[0], args[1]];
        let plain = library.place.run_with(&plain, &key).expect(5);
        assert!(plain.stdout.contains("[redacted]"), "{}", plain.stdout);
        search_all(&library.place, vec![json, plain], 1);
    }
}

#[test]
fn a_token_is_hidden_in_every_spelling_that_a_child_uses() {
    let spellings = spellings();
    let items = spellings.len() * 4;
    let stage = format!(
        "kind = \"command\"\ncommand = [\"python3\", \"work.py\"]\nenv = [\"SERVICE_KEY\"]\nconcurrency = 4\n\
         retry.crash_limit = 1\n{}",
        quick_retry(1)
    );
    let mut place = Place::with(&crate::support::one_stage(&stage), &crate::support::samples(items));
    let mut list = String::new();
    spellings.iter().for_each(|spelled| writeln!(list, "{spelled}").expect("written"));
    place.write("spellings.txt", list);
    place.write(
        "work.py",
        r#"
import sys
import json
spellings = open("spellings.txt").read().splitlines()
for line in sys.stdin:
    item = json.loads(line)["items"][0]
    n = int(item["key"][1:])
    spelled = spellings[n // 4]
    say = lambda field: '{"results":[{"id":"%s",%s}]}' % (item["id"], field)
    if n % 4 == 0:
        print("garbage with " + spelled, flush=True)
    elif n % 4 == 1:
        sys.stderr.write("using " + spelled + "\n")
        sys.exit(9)
    elif n % 4 == 2:
        print(say('"error":{"class":"final","message":"no %s"}' % spelled), flush=True)
    else:
        print(say('"filtered":"for %s"' % spelled), flush=True)
"#,
    );
    place.set("SERVICE_KEY", KEY);
    place.set("REDRIVE_LOG", "trace");
    let ran = place.run(&["run", "p.toml", "--json"]);
    assert!(matches!(ran.code(), Some(3 | 4)), "{}", ran.stderr);
    search_all(&place, vec![ran], items);
}

#[test]
fn an_output_is_the_users_own_and_stays_as_it_is() {
    let server = Server::start(|call| {
        Answer::results(&[serde_json::json!({ "id": call.item().id, "output": { "echo": KEY } })])
    });
    let stage = format!("{}\nheader_env = {{ Authorization = \"SERVICE_KEY\" }}", server.stage());
    let mut place = Place::with(&crate::support::one_stage(&stage), &crate::support::samples(1));
    place.set("SERVICE_KEY", KEY);
    place.run(&["run", "p.toml", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.results()["k0000"]["echo"], KEY);
}

#[test]
fn a_key_in_the_headers_of_a_pipeline_file_is_refused_before_it_is_kept() {
    let stage = format!(
        "kind = \"http\"\nurl = \"http://127.0.0.1:1/work\"\nheaders = {{ Authorization = \"Bearer {KEY}\" }}"
    );
    let place = Place::with(&crate::support::one_stage(&stage), &crate::support::samples(1));
    let ran = place.run(&["run", "p.toml"]).expect(2);
    assert!(
        ran.stderr.contains("headers.Authorization") && ran.stderr.contains("header_env"),
        "{}",
        ran.stderr
    );
    search("standard error", ran.stderr.as_bytes());
    let store = std::fs::read(place.path(".redrive/state.db")).unwrap_or_default();
    search("the store", &store);
}
