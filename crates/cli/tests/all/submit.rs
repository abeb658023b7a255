//! A run is handed over, and worked on by somebody else.

use serde_json::{Value, json};

use crate::support::{Place, Server, array, count, keys, one_stage, samples, text};

const ITEMS: usize = 6;

fn place() -> (Server, Place) {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(ITEMS));
    (server, place)
}

fn submitted(place: &Place, more: &[&str], input: &str) -> Value {
    let args: Vec<&str> = ["submit", "p.toml", "--json"].into_iter().chain(more.iter().copied()).collect();
    place.start_with(&args, &[], input.as_bytes()).finish().expect(0).json()
}

#[test]
fn a_run_is_handed_over_once_and_worked_on_later() {
    let (server, place) = place();
    let first = submitted(&place, &["--category", "night", "--priority", "-3"], "");
    let source = place.path("in.jsonl").canonicalize().expect("it is there");
    let expected = json!({
        "run": "r1", "pipeline": "test", "source": source, "category": "night", "priority": -3, "created": true,
    });
    assert_eq!(first, expected);
    let second = submitted(&place, &[], "");
    assert_eq!((&second["run"], &second["created"]), (&json!("r1"), &json!(false)));
    assert_eq!((&second["category"], &second["priority"]), (&json!("night"), &json!(-3)), "it keeps its own");
    assert_eq!(server.count(), 0, "nobody worked on it");
    let run = &place.json(&["show", "r1"]);
    assert_eq!((&run["category"], count(&run["counts"]["admitted"])), (&json!("night"), 0));
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn a_command_says_what_was_done_and_what_comes_next() {
    let (_server, place) = place();
    let first = place.run(&["submit", "p.toml"]).expect(0);
    assert!(first.stdout.starts_with("run r1 of test over ") && first.stdout.ends_with("is handed over\n"));
    assert!(first.stderr.contains("`redrive work` works on it, `redrive show r1` shows it"), "{first:?}");
    let second = place.run(&["submit", "p.toml", "--priority", "7"]).expect(0);
    assert!(second.stdout.contains("was there already"), "{second:?}");
    assert!(second.stderr.contains("run r1 was there and keeps its category (none) and priority (0)"));
    let new = submitted(&place, &["--new", "--priority", "7"], "");
    assert_eq!((&new["run"], &new["created"], &new["priority"]), (&json!("r2"), &json!(true), &json!(7)));
}

#[test]
fn a_finished_run_is_handed_over_again_when_its_source_was_edited() {
    let (server, place) = place();
    place.run(&["run", "p.toml"]).expect(0);
    place.write("in.jsonl", samples(ITEMS + 1));
    assert_eq!(submitted(&place, &[], "")["run"], "r1");
    assert_eq!(server.count(), ITEMS);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!((place.result_keys(), server.count()), (keys(ITEMS + 1), ITEMS + 1));
}

#[test]
fn standard_input_is_admitted_whole_before_the_answer_however_much_it_is() {
    const MANY: usize = 21_500;
    let server = Server::good();
    let place = Place::with(&one_stage(&format!("{}\nbatch = 500", server.stage())), "");
    // More than is read ahead beside work: nobody makes room here.
    let first = submitted(&place, &["--input", "-"], &samples(MANY));
    assert_eq!((&first["source"], count(&first["admitted"])), (&json!("-"), MANY as u64));
    let run = place.json(&["show", "r1"]);
    assert_eq!((&run["admitted_all"], count(&run["counts"]["waiting"])), (&json!(true), MANY as u64));
    let again = submitted(&place, &["--input", "-"], &samples(MANY + 1));
    assert_eq!((&again["run"], count(&again["admitted"])), (&json!("r1"), 1), "what is known stays as it is");
    assert_eq!(server.count(), 0);
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys().len(), MANY + 1);
}

#[test]
fn standard_input_that_breaks_off_is_gone_on_with_by_the_same_command() {
    let (_server, place) = place();
    let mut started = place.start_open(&["submit", "p.toml", "--input", "-"], &[]);
    started.say(&samples(3));
    place.until_json(&["show"], |run| count(&run["counts"]["admitted"]) == 3);
    started.kill();
    assert_eq!(place.json(&["show"])["admitted_all"], false);
    let again = submitted(&place, &["--input", "-"], &samples(ITEMS));
    assert_eq!(
        (&again["run"], &again["created"], count(&again["admitted"])),
        (&json!("r1"), &json!(false), 3)
    );
    place.run(&["resume", "r1", "--results", "out.jsonl"]).expect(0);
    assert_eq!(place.result_keys(), keys(ITEMS));
    place.check();
}

#[test]
fn unusable_lines_of_standard_input_are_dead_as_with_run() {
    let (_server, place) = place();
    let input = format!("{}not json\n", samples(2));
    let handed = submitted(&place, &["--input", "-"], &input);
    assert_eq!((count(&handed["admitted"]), count(&handed["read"]["refused"])), (3, 1));
    assert_eq!(place.dead().len(), 1);
}

#[test]
fn what_cannot_be_run_is_not_handed_over() {
    let (_server, place) = place();
    let inbox = "name = \"box\"\n[source]\nkind = \"inbox\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n";
    place.write("box.toml", inbox);
    place.write("bad.toml", "name = \"x\"\n[[stage]]\nname = \"a\"\nkind = \"pas\"\n");
    let keyless =
        one_stage("kind = \"chat\"\nmodel = \"m\"\nprompt = \"{/n}\"\napi_key_env = \"REDRIVE_NO_SUCH_KEY\"");
    place.write("keyless.toml", keyless);
    for (args, why) in [
        (&["submit", "none.toml"][..], "cannot read none.toml"),
        (&["submit", "bad.toml"], "unknown kind \"pas\""),
        (&["submit", "keyless.toml"], "REDRIVE_NO_SUCH_KEY"),
        (&["submit", "p.toml", "--input", "none.jsonl"], "cannot read the source none.jsonl"),
        (&["submit", "p.toml", "--category", "a b"], "\"a b\" is no name"),
        (&["submit", "p.toml", "--item", "{}"], "pipeline test reads a source, and takes no items"),
        (&["submit", "p.toml", "--items", "in.jsonl"], "pipeline test reads a source, and takes no items"),
        (&["submit", "p.toml", "--item", "{}", "--items", "-"], "cannot be used with"),
        (&["submit", "p.toml", "--key", "a"], "--item"),
        (&["submit", "p.toml", "--envelope"], "--items"),
        (
            &["submit", "box.toml", "--item", "1", "--envelope"],
            "'--item <JSON>' cannot be used with '--envelope'",
        ),
        (&["submit", "p.toml", "--category", "a b"], "'--category <NAME>'"),
        (&["submit", "box.toml", "--input", "in.jsonl"], "has an inbox, which reads nothing"),
        (&["submit", "box.toml", "--items", "none.jsonl"], "none.jsonl"),
        (&["submit", "box.toml", "--item", "1", "--item", "2", "--key", "a"], "--key names one item"),
        (&["submit", "box.toml", "--item", "1", "--category", "a b"], "\"a b\" is no name"),
    ] {
        let ran = place.run(args).expect(2);
        assert!(ran.stderr.contains(why), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{args:?}: {}", ran.stdout);
    }
    let runs = || array(&place.json(&["runs"])["runs"]).len();
    assert!(!place.path(".redrive").exists() || runs() == 0, "nothing was begun");
}

#[test]
fn a_paused_run_is_not_handed_over() {
    let (_server, place) = place();
    submitted(&place, &[], "");
    place.run(&["pause", "r1"]).expect(0);
    let refused = place.run(&["submit", "p.toml"]).expect(5);
    assert!(refused.stderr.contains("run r1 of this pipeline and source is paused"), "{refused:?}");
    let new = submitted(&place, &["--new"], "");
    assert_eq!(text(&new["run"]), "r2");
}
