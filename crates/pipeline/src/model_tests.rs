use std::time::Duration;

use crate::definition::{Definition, ModelDef, PriceDef, StageDef, StageKind};
use crate::parse;
use crate::problem::Problem;

/// The model stages of the contract.
const CONTRACT: &str = r#"
name = "p"
[[stage]]
name = "embed"
kind = "embed"
provider = "openai"               # openai | builtin
base_url = "http://127.0.0.1:9000/v1"
model = "text-embedding-3-small"
api_key_env = "OPENAI_API_KEY"
input = "/text"                   # JSON pointers into the payload
output = "/embedding"
batch = 64

[[stage]]
name = "sum"
kind = "chat"
base_url = "http://127.0.0.1:9000/v1/"
model = "gpt-4o-mini"
prompt = "Summarise: {/text}"
output = "/summary"
"#;

/// A file with one stage; what is added to it starts on line 6.
fn stage(kind: &str, rest: &str) -> Result<Definition, Vec<Problem>> {
    let prompt = if kind == "chat" { "prompt = \"{/text}\"" } else { "" };
    let text = format!("name = \"p\"\n[[stage]]\nname = \"s\"\nkind = \"{kind}\"\n{prompt}\n{rest}");
    parse(&text, "p.toml")
}

fn told(result: Result<Definition, Vec<Problem>>) -> Vec<String> {
    let told = |problem: &Problem| match &problem.hint {
        Some(hint) => format!("{problem} ({hint})"),
        None => problem.to_string(),
    };
    result.unwrap_err().iter().map(told).collect()
}

fn first(definition: Result<Definition, Vec<Problem>>) -> StageDef {
    definition.unwrap().stages.swap_remove(0)
}

fn model(stage: &StageDef) -> &ModelDef {
    match &stage.kind {
        StageKind::Embed { model, .. } | StageKind::Chat { model, .. } => model,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_model_stages_of_the_contract_are_read() {
    let definition = parse(CONTRACT, "p.toml").unwrap();
    assert_eq!(definition.warnings, []);
    let embed = &definition.stages[0];
    assert_eq!((embed.batch, embed.concurrency, embed.timeout), (64, 16, Duration::from_secs(60)));
    assert_eq!(model(embed).api_key_env.as_deref(), Some("OPENAI_API_KEY"));
    let StageKind::Embed { input, output, dimensions, .. } = &embed.kind else { panic!() };
    assert_eq!((input.as_str(), output.as_str(), *dimensions), ("/text", "/embedding", None));
    let chat = &definition.stages[1];
    assert_eq!((chat.batch, chat.batch_tokens, chat.concurrency), (1, None, 16));
    assert_eq!(model(chat).base_url, "http://127.0.0.1:9000/v1");
    let StageKind::Chat { prompt, output, json, .. } = &chat.kind else { panic!() };
    assert_eq!((prompt.as_str(), output.as_str(), *json), ("Summarise: {/text}", "/summary", false));
    assert_eq!((embed.kind.name(), chat.kind.name()), ("embed", "chat"));
}

#[test]
fn what_is_left_out_has_a_default() {
    let embed = first(stage("embed", "model = \"m\"\napi_key_env = \"K\""));
    assert_eq!((embed.batch, embed.batch_tokens), (64, Some(200_000)));
    assert_eq!(model(&embed).base_url, "https://api.openai.com/v1");
    assert_eq!(model(&embed).max_answer, 64 << 20);
    let StageKind::Embed { input, output, .. } = &embed.kind else { panic!() };
    assert_eq!((input.as_str(), output.as_str()), ("/text", "/embedding"));
    let chat = first(stage("chat", "model = \"m\"\napi_key_env = \"K\""));
    let StageKind::Chat { output, temperature, allow_truncated, .. } = &chat.kind else { panic!() };
    assert_eq!((output.as_str(), *temperature, *allow_truncated), ("/answer", None, false));
}

#[test]
fn mistakes_in_model_stages_are_told_with_line_and_key() {
    let table = [
        ("embed", "", "p.toml:2: stage.s.model: missing"),
        ("embed", "model = \"a b\"", "p.toml:6: stage.s.model: expected the name of a model"),
        (
            "chat",
            "model = \"m\"\nprovider = \"builtin\"",
            "p.toml:7: stage.s.provider: the built-in model can only embed (use \"openai\"",
        ),
        (
            "embed",
            "model = \"m\"\nprovider = \"bulitin\"",
            "p.toml:7: stage.s.provider: unknown provider \"bulitin\" (did you mean \"builtin\"?)",
        ),
        (
            "chat",
            "model = \"m\"\nprovider = \"opnai\"",
            "p.toml:7: stage.s.provider: unknown provider \"opnai\" (did you mean \"openai\"?)",
        ),
        (
            "embed",
            "model = \"m\"\nbase_url = \"http://h/v1/embeddings\"",
            "p.toml:7: stage.s.base_url: the base address ends before the operation (leave out /embeddings)",
        ),
        (
            "embed",
            "model = \"m\"\nbase_url = \"https://u:p@h/v1\"",
            "p.toml:7: stage.s.base_url: the address holds a user name, password or key",
        ),
        (
            "embed",
            "model = \"m\"\napi_key_env = \"sk-12 34\"",
            "p.toml:7: stage.s.api_key_env: expected the name of an environment variable",
        ),
        (
            "embed",
            "model = \"m\"\napi_key_env = \"K\"\nheader_env = { authorization = \"A\" }",
            "p.toml:7: stage.s.api_key_env: the header Authorization is given as well",
        ),
        ("embed", "model = \"m\"\ninput = \"text\"", "p.toml:7: stage.s.input: \"text\" is no JSON pointer"),
        ("embed", "model = \"m\"\ndimensions = 0", "p.toml:7: stage.s.dimensions: 0 is not between 1"),
        ("embed", "model = \"m\"\nbatch_tokens = 0", "p.toml:7: stage.s.batch_tokens: 0 is not between 1"),
        ("embed", "model = \"m\"\nprompt = \"{/x}\"", "p.toml:7: stage.s.prompt: unknown key"),
        (
            "embed",
            "model = \"m\"\nbatch = 2049",
            "p.toml:7: stage.s.batch: OpenAI takes at most 2048 texts a call (use batch = 2048 or less)",
        ),
        (
            "chat",
            "model = \"m\"\nbatch = 2",
            "p.toml:7: stage.s.batch: a chat stage takes one item a call (leave batch out; concurrency",
        ),
        ("chat", "model = \"m\"\nbatch_tokens = 9", "p.toml:7: stage.s.batch_tokens: unknown key"),
        ("chat", "model = \"m\"\ninput = \"/text\"", "p.toml:7: stage.s.input: unknown key"),
        (
            "chat",
            "model = \"m\"\nsystem = \"Answer {\"",
            "p.toml:7: stage.s.system: a \"{\" is not closed (write a JSON pointer in braces",
        ),
        ("chat", "model = \"m\"\ntemperature = 3", "p.toml:7: stage.s.temperature: 3 is not between 0 and 2"),
        ("chat", "model = \"m\"\ntemperature = nan", "p.toml:7: stage.s.temperature: NaN is not between"),
        ("chat", "model = \"m\"\nseed = 1.5", "p.toml:7: stage.s.seed: expected an integer"),
        ("chat", "model = \"m\"\njson = \"yes\"", "p.toml:7: stage.s.json: expected true or false"),
        ("pass", "batch_tokens = 9", "p.toml:6: stage.s.batch_tokens: unknown key"),
        ("pass", "[price.m]", "p.toml:6: price.m.input: missing"),
        ("pass", "[price.m]\ninput = -1", "p.toml:7: price.m.input: -1 is no price"),
        ("pass", "[price.m]\ninput = 1\noutput = \"1\"", "p.toml:8: price.m.output: expected a number"),
        ("pass", "[price.m]\ninput = 1\noutputs = 1", "p.toml:8: price.m.outputs: unknown key (did you mean"),
        (
            "pass",
            "[price.gpt-4.1]\ninput = 1",
            "p.toml:6: price.gpt-4: holds another table (a name with dots",
        ),
    ];
    for (kind, rest, expected) in table {
        let found = told(stage(kind, rest));
        assert!(found.len() == 1 && found[0].starts_with(expected), "{rest:?} {expected}: {found:#?}");
    }
    let text = "name = \"p\"\n[[stage]]\nname = \"s\"\nkind = \"chat\"\nmodel = \"m\"";
    assert_eq!(told(parse(text, "p.toml")), ["p.toml:2: stage.s.prompt: missing"]);
}

#[test]
fn openai_without_a_key_and_an_item_above_a_batch_are_warned_of() {
    let warned = |rest: &str| {
        let warnings = stage("embed", rest).unwrap().warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = warned("model = \"m\"");
    assert!(found.len() == 1 && found[0].contains("api.openai.com needs a key"), "{found:?}");
    assert!(warned("model = \"m\"\nheader_env = { Authorization = \"A\" }").is_empty());
    assert!(warned("model = \"m\"\nbase_url = \"http://localhost:11434/v1\"").is_empty());
    let found = warned("model = \"m\"\napi_key_env = \"K\"\nbatch_tokens = 10\nmax_item_tokens = 11");
    assert!(
        found.len() == 1 && found[0].starts_with("p.toml:9: stage.s.max_item_tokens: above"),
        "{found:?}"
    );
}

#[test]
fn a_stage_has_one_gate_for_each_host_model_and_operation() {
    let gate = |kind: &str, rest: &str| first(stage(kind, rest)).default_gate();
    let local = "base_url = \"http://LOCALHOST:11434/v1\"\nmodel = \"BAAI/bge-m3\"";
    assert_eq!(gate("embed", local).as_deref(), Some("localhost:11434/BAAI/bge-m3/embeddings"));
    assert_eq!(gate("chat", local).as_deref(), Some("localhost:11434/BAAI/bge-m3/chat"));
    assert_eq!(gate("embed", "model = \"m\"").as_deref(), Some("api.openai.com/m/embeddings"));
    assert_eq!(gate("http", "url = \"https://h.test:443/work\"").as_deref(), Some("h.test"));
    assert_eq!(gate("http", "url = \"http://h.test:8080/work\"").as_deref(), Some("h.test:8080"));
    for (kind, rest) in [("pass", ""), ("filter", "keep = \"true\""), ("command", "command = [\"x\"]")] {
        assert_eq!(gate(kind, rest), None, "{kind}");
    }
}

#[test]
fn batches_of_other_kinds_can_be_limited_by_tokens_too() {
    assert_eq!(first(stage("http", "url = \"http://h\"\nbatch_tokens = 900")).batch_tokens, Some(900));
    assert_eq!(first(stage("command", "command = [\"x\"]")).batch_tokens, None);
}

#[test]
fn prices_reach_the_stages_that_use_the_model() {
    let prices = "[price.\"gpt-4.1\"]\ninput = 2\noutput = 8.0\n[price.bge]\ninput = 0.01\n";
    let children = "[[stage.children]]\nname = \"c\"\nkind = \"embed\"\nmodel = \"bge\"\n";
    let definition = stage("chat", &format!("model = \"gpt-4.1\"\n{children}{prices}")).unwrap();
    let dear = PriceDef { input: 2.0, output: Some(8.0) };
    let cheap = PriceDef { input: 0.01, output: None };
    assert_eq!(model(&definition.stages[0]).price, Some(dear));
    assert_eq!(model(&definition.stages[0].children[0]).price, Some(cheap));
    assert_eq!(definition.prices.len(), 2);
    assert_eq!(definition.prices["gpt-4.1"], dear);
    assert_eq!(model(&first(stage("embed", "model = \"other\"\n[price.bge]\ninput = 1"))).price, None);
}

#[test]
fn the_hash_follows_what_changes_an_output_and_neither_keys_nor_limits() {
    let hash = |kind: &str, rest: &str| first(stage(kind, &format!("model = \"m\"\n{rest}"))).config_hash();
    for kind in ["embed", "chat"] {
        let base = hash(kind, "");
        for same in [
            "api_key_env = \"K\"",
            "max_answer = 9",
            "max_item_tokens = 9",
            "header_env = { X-Key = \"K\" }",
            "concurrency = 3",
            "base_url = \"https://api.openai.com/v1/\"",
            "[price.m]\ninput = 1",
        ] {
            assert_eq!(base, hash(kind, same), "{kind} {same}");
        }
        for other in ["base_url = \"http://h/v1\"", "output = \"/x\"", "headers = { OpenAI-Beta = \"1\" }"] {
            assert_ne!(base, hash(kind, other), "{kind} {other}");
        }
        assert_ne!(base, first(stage(kind, "model = \"n\"")).config_hash());
    }
    assert_ne!(hash("embed", ""), hash("embed", "input = \"/x\""));
    assert_ne!(hash("embed", ""), hash("embed", "dimensions = 4"));
    assert_eq!(hash("embed", ""), hash("embed", "batch = 3\nbatch_tokens = 4"));
    for other in [
        "system = \"x\"",
        "temperature = 0",
        "max_tokens = 7",
        "seed = 7",
        "json = true",
        "allow_truncated = true",
    ] {
        assert_ne!(hash("chat", ""), hash("chat", other), "{other}");
    }
    assert_ne!(hash("chat", "temperature = 0.5"), hash("chat", "temperature = 0.25"));
}
