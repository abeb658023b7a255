//! A terminal that is closed asks for an end, and takes nothing with it.

use crate::support::wait::until;
use crate::support::{Answer, Place, Server, count, one_stage, samples};

/// Runs a command on a terminal of its own, except for what it says, closes that as soon as `close` is there, and writes down
/// the exit code.
const TERMINAL: &str = r#"
import os, pty, select, sys
pid, master = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", 'exec "$@" 2> said', "sh", *sys.argv[1:]])
while not os.path.exists("close"):
    if select.select([master], [], [], 0.05)[0]:
        os.read(master, 4096)
os.close(master)
_, status = os.waitpid(pid, 0)
with open("ended.new", "w") as out:
    out.write(str(os.waitstatus_to_exitcode(status)))
os.rename("ended.new", "ended")
"#;

#[test]
fn a_terminal_that_is_closed_drains_and_costs_nothing() {
    let server = Server::start(Answer::all);
    server.hold();
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 3\n", server.stage())), &samples(30));
    place.write("terminal.py", TERMINAL);
    let running = place.start_under(&["python3", "terminal.py"], &["run", "p.toml"]);
    server.until_open(3);
    place.write("close", "");
    until("it stops", || place.read("said").contains("stopping"));
    server.release();
    running.finish().expect(0);
    assert_eq!(place.read("ended"), "130");
    let report = place.json(&["show", "r1"]);
    let crashed = count(&report["attempts"]["crashes"]);
    assert_eq!((count(&report["counts"]["succeeded"]), crashed), (3, 0), "{report}");
    place.run(&["resume", "r1"]).expect(0);
    place.check();
}

#[test]
fn a_watcher_ends_with_its_terminal() {
    let place = Place::new();
    std::fs::create_dir(place.path("docs")).expect("made");
    place.write("docs/a.txt", "the walrus and the carpenter");
    let watching = place.start(&["index", "docs", "--watch", "--on-end", "cat > report.json"]);
    watching.until_said("watching");
    watching.signal("HUP");
    watching.finish().expect(130);
    assert!(place.read("report.json").contains("\"completed\""), "{}", place.read("report.json"));
}

#[test]
fn what_is_sent_back_and_worked_on_drains_too() {
    let server = Server::start(|call| match call.item().before {
        0 => Answer::status(400, "no"),
        _ => Answer::all(call),
    });
    let place = Place::with(&one_stage(&format!("{}\nconcurrency = 2\n", server.stage())), &samples(6));
    place.run(&["run", "p.toml"]).expect(4);
    server.hold();
    let running = place.start(&["dead", "redrive", "--all", "--work", "--json"]);
    server.until_open(2);
    running.signal("HUP");
    running.until_said("stopping");
    server.release();
    let done = running.finish().expect(130).json();
    assert_eq!(count(&done["runs"][0]["attempts"]["crashes"]), 0, "{done}");
    assert_eq!(count(&done["runs"][0]["counts"]["succeeded"]), 2, "{done}");
    place.check();
}

#[test]
fn a_run_whose_process_was_killed_is_not_told_to_be_running() {
    let server = Server::start(Answer::all);
    server.hold();
    let place = Place::with(&one_stage(&server.stage()), &samples(3));
    let running = place.start(&["run", "p.toml"]);
    server.until_open(1);
    assert_eq!(place.json(&["show"])["status"], "running");
    running.kill();
    for args in [&["show"][..], &["runs"]] {
        let told = place.run(args).expect(0).stdout;
        assert!(told.contains("interrupted"), "{args:?}: {told}");
    }
    let told = place.run(&["doctor"]).expect(0).stdout;
    assert!(told.contains("is gone") && !told.contains("alive"), "{told}");
    server.release();
}
