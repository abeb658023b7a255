//! What people read: it fits the width there is, has colours where they are wanted, and hints that work as printed.

use unicode_width::UnicodeWidthStr;

use crate::support::{Answer, Place, Server, array, one_stage, quick_retry, samples, text};

/// A place with a finished run, dead items of two kinds, a gate and an operation.
fn used(server: &Server) -> Place {
    let pipeline = one_stage(&format!("{}\ngate = \"a-service\"\n{}", server.stage(), quick_retry(1)));
    let place = Place::with(&pipeline, &samples(30));
    place.run(&["run", "p.toml"]).expect(3);
    place.run(&["dead", "redrive", "--all", "--limit", "1"]).expect(0);
    place.run(&["resume", "r1"]).expect(3);
    place
}

/// Refuses some items, with many words.
fn refuses_some() -> Server {
    Server::start(|call| match call.item().key.ends_with(['3', '7']) {
        true => Answer::status(422, &"a reason of many words that does not end soon ".repeat(6)),
        false => Answer::all(call),
    })
}

#[test]
fn every_command_keeps_to_the_width_and_a_pipe_gets_all() {
    let server = refuses_some();
    let place = used(&server);
    let id = text(&place.dead()[0]["id"]);
    for args in [
        &["runs"][..],
        &["show"],
        &["gates"],
        &["dead", "list"],
        &["dead", "groups"],
        &["dead", "operations"],
        &["items"],
        &["items", "--columns", "id,key,state,class,group,due,created_at,updated_at,message"],
        &["stuck", "--older-than", "0s"],
        &["check"],
        &["policy", "list"],
        &["policy", "show", "index"],
        &["policy", "simulate", "p.toml", "--items", "1000"],
        &["rehearse", "--list"],
        &["failures"],
        &["stats"],
        &["explain", &id],
        &["submit", "p.toml"],
        &["--help"],
    ] {
        for columns in [80, 120, 200] {
            let ran = place.run_with(args, &[("COLUMNS", &columns.to_string())]).expect(0);
            for line in ran.stdout.lines().chain(ran.stderr.lines()) {
                assert!(line.width() <= columns, "{args:?} at {columns}: {}: {line}", line.width());
                assert!(!line.contains('\u{1b}'), "{args:?} has colours in a pipe: {line}");
            }
        }
    }
    let cut = place.run_with(&["dead", "list"], &[("COLUMNS", "80")]).expect(0).stdout;
    assert!(cut.contains('…') && !cut.contains("ATTEMPTS"), "{cut}");
    let whole = place.run(&["dead", "list"]).expect(0).stdout;
    let heading = "ITEM RUN KEY STAGE REASON ATTEMPTS DIED MESSAGE";
    let words = whole.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    assert_eq!(words.join(" "), heading);
    assert!(
        whole.lines().nth(1).is_some_and(|line| line.matches("a reason of many words").count() > 2),
        "{whole}"
    );
}

#[test]
fn colours_come_where_they_are_asked_for() {
    let server = refuses_some();
    let place = used(&server);
    let dead = "\u{1b}[31m";
    let coloured =
        |args: &[&str], env: &[(&str, &str)]| place.run_with(args, env).expect(0).stdout.contains(dead);
    assert!(!coloured(&["runs"], &[]));
    assert!(coloured(&["runs", "--color", "always"], &[("NO_COLOR", "1")]));
    assert!(coloured(&["runs"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&["runs"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!coloured(&["runs", "--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    let json = place.run(&["runs", "--json", "--color", "always"]).expect(0).stdout;
    assert!(!json.contains('\u{1b}'), "{json}");
}

#[test]
fn times_are_told_by_their_distance_and_exactly_where_asked_for() {
    let server = refuses_some();
    let place = used(&server);
    let near = place.run(&["dead", "groups"]).expect(0).stdout;
    assert!(near.contains(" ago") || near.contains(" now "), "{near}");
    let exact = place.run(&["dead", "groups", "--utc"]).expect(0).stdout;
    let groups = place.json(&["dead", "groups"]);
    let last = text(&array(&groups["groups"])[0]["last_at"]);
    assert!(last.ends_with('Z') && exact.contains(&last), "{last}: {exact}");
}

#[test]
fn hints_repeat_the_store_that_was_named_and_only_that() {
    let server = refuses_some();
    let place = Place::with(&one_stage(&format!("{}\n{}", server.stage(), quick_retry(1))), &samples(10));
    let named = place.run(&["run", "p.toml", "--store", "sqlite:my store.db"]).expect(3).stderr;
    assert!(named.contains("`redrive dead list --run r1 --store 'sqlite:my store.db'`"), "{named}");
    let wrong = place.run(&["show", "r9", "--store", "sqlite:my store.db"]).expect(2).stderr;
    assert!(!wrong.contains("`redrive runs`"), "{wrong}");
    let known = place.run_with(&["show"], &[("REDRIVE_STORE", "sqlite:my store.db")]).expect(0).stderr;
    assert!(known.contains("`redrive dead list --run r1`"), "{known}");
    let usual = place.run(&["run", "p.toml"]).expect(3).stderr;
    assert!(usual.contains("`redrive dead list --run r1`"), "{usual}");
}

#[test]
fn a_run_that_waits_for_a_paused_gate_names_the_way_on() {
    let server = refuses_some();
    let place = Place::with(&one_stage(&format!("{}\ngate = \"api\"\n", server.stage())), &samples(3));
    place.run(&["submit", "p.toml"]).expect(0);
    place.run(&["gates", "pause", "api", "--why", "an invoice is open"]).expect(0);
    let ran = place.run(&["run", "p.toml", "--max-wait", "0s"]).expect(3);
    assert!(
        ran.stdout.contains("gate api is paused: ") && ran.stdout.contains("an invoice is open"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("`redrive gates resume api` lets it go on"), "{}", ran.stderr);
    let shown = place.run(&["show"]).expect(0);
    assert!(shown.stderr.contains("`redrive gates resume api`"), "{}", shown.stderr);
    place.run(&["gates", "resume", "api"]).expect(0);
    place.run(&["run", "p.toml"]).expect(0);
}

#[test]
fn one_warning_stands_for_many() {
    let stage = format!(
        "kind = \"command\"\ncommand = [\"sh\", \"-c\", \"read line; exit 3\"]\nretry.crash_limit = 3\n{}",
        quick_retry(3)
    );
    let place = Place::with(&one_stage(&stage), &samples(4));
    let ran = place.run(&["run", "p.toml"]).expect(4).stderr;
    let told = ran.lines().filter(|line| line.contains("WARN") && line.contains("with work in hand"));
    assert_eq!(told.count(), 1, "{ran}");
    assert!(ran.contains("more times: a child exited with status 3 with work in hand"), "{ran}");
    place.run(&["dead", "redrive", "--all"]).expect(0);
    let all = place.run_with(&["resume", "r1"], &[("REDRIVE_LOG", "warn")]).expect(4).stderr;
    let told = all.lines().filter(|line| line.contains("WARN") && line.contains("with work in hand"));
    assert!(told.count() > 1 && !all.contains("more times:"), "{all}");
}

#[test]
fn help_has_groups_and_options_of_all_commands_stand_apart() {
    let place = Place::new();
    let help = place.run(&["--help"]).expect(0).stdout;
    let at = |what: &str| help.find(what).unwrap_or_else(|| panic!("{what}: {help}"));
    assert!(at("\nWork:") < at("\nLook:") && at("\nCare:") < at("\nGlobal options:"), "{help}");
    assert!(!help.contains("parse-worker") && help.contains("  run "), "{help}");
    let run = place.run(&["run", "--help"]).expect(0).stdout;
    let (own, all) = run.split_once("Global options:").unwrap_or_else(|| panic!("{run}"));
    assert!(own.contains("--keep-passed") && !own.contains("--store"), "{run}");
    assert!(["--store", "--json", "--color", "--utc"].iter().all(|option| all.contains(option)), "{run}");
    let wrong = place.run(&["rnu"]).expect(2).stderr;
    assert!(wrong.contains("'runs'") && wrong.contains("redrive [OPTIONS] <COMMAND>"), "{wrong}");
    let page = place.run(&["man"]).expect(0).stdout;
    assert!(page.starts_with(".TH REDRIVE 1") && page.contains(".SS \"redrive dead redrive\""), "{page}");
}
