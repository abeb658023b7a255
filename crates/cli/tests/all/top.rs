//! `redrive top` on a real terminal, and `runs --watch` with and without one.

use crate::support::{
    Answer, Place, Server, Started, array, count, one_stage, quick_retry, samples, text, wait,
};
use serde_json::Value;

const ITEMS: usize = 6;

/// Runs a program on a terminal of its own of 80 by 24: what it shows goes to standard error, what is typed comes from standard
/// input. At the end it says whether the terminal was given back.
const TERMINAL: &str = r#"
import fcntl, os, pty, select, signal, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm-256color"
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
keys = [0]
while True:
    ready, _, _ = select.select([terminal] + keys, [], [])
    if terminal in ready:
        try:
            shown = os.read(terminal, 65536)
        except OSError:
            break
        if not shown:
            break
        os.write(2, shown)
    if 0 in ready:
        typed = os.read(0, 1024)
        if typed:
            os.write(terminal, typed)
        else:
            keys = []
_, status = os.waitpid(pid, 0)
flags = termios.tcgetattr(terminal)[3]
whole = flags & termios.ECHO and flags & termios.ICANON
os.write(2, b"\ngiven back\n" if whole else b"\nkept raw\n")
sys.exit(os.waitstatus_to_exitcode(status))
"#;

pub fn on_a_terminal(place: &Place, args: &[&str]) -> Started {
    place.start_under(&["python3", "-c", TERMINAL], args)
}

/// Two of six items are dead, with alike errors.
fn dead_run() -> (Server, Place) {
    let server = Server::start(|call| match call.item().payload["n"].as_u64() {
        Some(1 | 4) => Answer::status(422, "not like this"),
        _ => Answer::all(call),
    });
    let stage = format!("{}\n{}", server.stage(), quick_retry(2));
    let place = Place::with(&one_stage(&stage), &samples(ITEMS));
    place.run_pipeline(3);
    (server, place)
}

fn dead(place: &Place) -> usize {
    array(&place.json(&["dead", "list"])["items"]).len()
}

/// What top shows at first, with these variables and options.
fn shown(place: &Place, variables: &[&str], options: &[&str]) -> String {
    let python = ["python3", "-c", TERMINAL];
    let under: Vec<&str> = std::iter::once(&"env").chain(variables).chain(&python).copied().collect();
    let args: Vec<&str> = ["top", "--interval", "100ms"].iter().chain(options).copied().collect();
    let mut top = place.start_under(&under, &args);
    top.until_said("partial_su");
    top.say("q");
    top.finish().expect(0).stderr
}

#[test]
fn top_has_colours_where_everything_else_has() {
    let (_server, place) = dead_run();
    let coloured =
        |variables: &[&str], options: &[&str]| shown(&place, variables, options).contains("\u{1b}[38;5;");
    let plain = ["-u", "NO_COLOR", "-u", "CLICOLOR_FORCE"];
    assert!(coloured(&plain, &[]), "a terminal has colours");
    assert!(!coloured(&plain, &["--color", "never"]), "they can be declined");
    assert!(!coloured(&["NO_COLOR=1"], &[]), "for all programs");
    assert!(coloured(&["NO_COLOR=1"], &["--color", "always"]), "what is said here goes before");
}

#[test]
fn top_on_a_terminal_sends_a_group_back_after_a_yes_and_gives_the_terminal_back() {
    let (_server, place) = dead_run();
    let mut top = on_a_terminal(&place, &["top", "--interval", "100ms"]);
    top.until_said("partial_su");
    // To the dead groups, and the first of them.
    top.say("\t\td");
    top.until_said("Send");
    assert_eq!(dead(&place), 2, "nobody has said yes");
    top.say("y");
    place.until_json(&["dead", "list"], |list| array(&list["items"]).is_empty());
    top.say("q");
    let ended = top.finish().expect(0);
    assert!(
        ended.stderr.contains("\u{1b}[?1049l") && ended.stderr.contains("given back"),
        "{:?}",
        ended.stderr
    );
}

#[test]
fn top_pauses_a_run_and_lets_it_go_on() {
    let server = Server::good();
    server.hold();
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 1\n", server.stage())), &samples(ITEMS));
    let run = place.start(&["run", "p.toml"]);
    server.until_open(1);
    let mut top = on_a_terminal(&place, &["top", "--interval", "100ms"]);
    top.until_said("running");
    top.say("p");
    place.until_json(&["show"], |report| report["status"] == "paused");
    top.say("u");
    place.until_json(&["show"], |report| report["status"] != "paused");
    top.signal("TERM");
    let ended = top.finish().expect(130);
    assert!(ended.stderr.contains("given back"), "{:?}", ended.stderr);
    server.release();
    drop(run);
}

#[test]
fn top_has_waiting_items_go_now() {
    let server = Server::start(|_| Answer::status(500, "broken"));
    let hour = "retry.max_attempts = 3\nretry.backoff = { kind = \"fixed\", delay = \"1h\" }\nretry.jitter = \"none\"";
    let stage = format!("{}\n{hour}\n", server.stage());
    let place = Place::with(&one_stage(&stage), &samples(2));
    place.run(&["run", "p.toml", "--max-wait", "0s"]).expect(3);
    let due = |place: &Place| text(&place.json(&["show"])["next_due"]);
    let before = due(&place);
    let mut top = on_a_terminal(&place, &["top", "--interval", "100ms"]);
    top.until_said("partially");
    top.say("r");
    place.until_json(&["show"], |report| text(&report["next_due"]) < before);
    top.say("q");
    top.finish().expect(0);
}

#[test]
fn top_without_a_terminal_refuses_and_names_what_works() {
    let (_server, place) = dead_run();
    let refused = place.run(&["top"]).expect(2);
    assert!(
        refused.stderr.contains("needs a terminal") && refused.stderr.contains("runs --watch"),
        "{refused:?}"
    );
    let told = place.json(&["top"]);
    assert_eq!(
        (&told["runs"][0]["status"], count(&told["totals"]["counts"]["dead"])),
        (&"partial_success".into(), 2)
    );
    let stage = &told["runs"][0]["stages"][0];
    assert_eq!((count(&stage["in"]), count(&stage["out"]), count(&stage["dead"])), (6, 4, 2));
    assert_eq!(count(&told["dead"][0]["items"]), 2);
    place.run(&["top", "--run", "r9", "--json"]).expect(2);
}

#[test]
fn runs_that_are_watched_tell_a_line_for_each_change() {
    let server = Server::good();
    server.hold();
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 1\n", server.stage())), &samples(ITEMS));
    let run = place.start(&["run", "p.toml"]);
    server.until_open(1);
    let watch = place.start(&["runs", "--watch", "--interval", "100ms", "--json"]);
    let first: Value = serde_json::from_str(&watch.first_line()).expect("JSON");
    assert_eq!((&first["run"], &first["status"]), (&"r1".into(), &"running".into()));
    let words = place.start(&["runs", "--watch", "--interval", "100ms"]);
    assert!(words.first_line().contains(" r1 test running, "), "{}", words.first_line());
    server.release();
    run.finish().expect(0);
    let lines = |watch: Started| watch.kill().stdout;
    place.until_json(&["show"], |report| report["status"] == "completed");
    watch.until_printed("\"completed\"");
    words.until_printed("completed");
    let all = lines(watch);
    let told: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(count(&told.last().expect("a line")["counts"]["succeeded"]), ITEMS as u64);
    assert!(told.windows(2).all(|two| two[0] != two[1]), "only changes are told");
    let said = lines(words);
    assert!(said.trim_end().ends_with("r1 test completed, 6 items: 6 succeeded"), "{said}");
}

#[test]
fn runs_that_are_watched_on_a_terminal_are_printed_in_their_place() {
    let (_server, place) = dead_run();
    let mut watch = on_a_terminal(&place, &["runs", "--watch", "--interval", "100ms"]);
    watch.until_said("partial_success");
    // Up over what was printed, and everything below it away.
    watch.until_said("F\u{1b}[J");
    watch.say("\u{3}");
    wait::until("it ends", || watch.has_ended());
}

#[test]
fn runs_are_filtered_and_added_up() {
    let (_server, place) = dead_run();
    place.run(&["run", "p.toml", "--new"]).expect(3);
    let all = place.run(&["runs"]).expect(0).stdout;
    assert!(all.trim_end().ends_with("2 runs, 12 items: 8 succeeded, 4 dead"), "{all}");
    let failed = place.json(&["runs", "--status", "failed,completed"]);
    assert_eq!(array(&failed["runs"]).len(), 0);
    let partial = place.json(&["runs", "--status", "partial_success", "--since", "1h", "-n", "1"]);
    assert_eq!((text(&partial["runs"][0]["run"]), count(&partial["total"]["dead"])), ("r2".to_owned(), 2));
    let wrong = place.run(&["runs", "--status", "nice"]).expect(2);
    assert!(wrong.stderr.contains("partially_completed"), "{}", wrong.stderr);
}

#[test]
fn who_watches_before_there_is_a_store_waits_for_it() {
    let server = Server::good();
    let place = Place::with(&one_stage(&server.stage()), &samples(2));
    let watch = place.start(&["runs", "--watch", "--interval", "100ms"]);
    let mut top = on_a_terminal(&place, &["top", "--interval", "100ms"]);
    watch.until_said("no store yet");
    top.until_said("no store yet");
    assert!(!place.path(".redrive").exists(), "looking makes none");
    place.run(&["run", "p.toml"]).expect(0);
    watch.until_printed("completed");
    top.until_said("test");
    top.say("q");
    wait::until("it ends", || top.has_ended());
    watch.kill();
    assert_eq!(place.run(&["top", "--json"]).expect(0).json()["runs"][0]["run"], "r1");
}
