//! The doctor finds what would keep a command from its work.

use crate::support::{Place, one_stage, samples};

#[test]
fn a_healthy_command_stage_is_ok_from_any_folder() {
    let place = Place::with(&one_stage("kind = \"command\"\ncommand = [\"cat\"]"), &samples(1));
    let whole = place.path("p.toml").display().to_string();
    for file in ["p.toml", "./p.toml", &whole] {
        let told = place.run(&["doctor", file]).expect(0).stdout;
        assert!(told.contains("stage work") && !told.contains("BAD"), "{file}: {told}");
    }
    place.write("p.toml", one_stage("kind = \"command\"\ncommand = [\"no-such-program\"]"));
    let told = place.run(&["doctor", "p.toml"]).expect(1).stdout;
    assert!(told.contains("there is no program no-such-program"), "{told}");
}

#[test]
fn the_doctor_finds_what_run_and_submit_refuse() {
    let place =
        Place::with(&one_stage("kind = \"command\"\ncommand = [\"python3\", \"work.py\"]"), &samples(1));
    let told = place.run(&["doctor", "p.toml"]).expect(0).stdout;
    assert!(told.contains("warning") && told.contains("there is no script"), "{told}");
    place.write("work.py", "");
    let told = place.run(&["doctor", "p.toml"]).expect(0).stdout;
    assert!(!told.contains("warning") && told.contains("p.toml: 1 stage\n"), "{told}");
    std::fs::remove_file(place.path("in.jsonl")).expect("removed");
    let told = place.run(&["doctor", "p.toml"]).expect(1).stdout;
    assert!(told.contains("BAD  source") && told.contains("cannot read the source"), "{told}");
    place.write("plain", "");
    let told = place.run(&["doctor", "--store", "sqlite:plain/below/state.db"]).expect(1).stdout;
    assert!(told.contains("BAD  store") && told.contains("plain is no folder"), "{told}");
}

#[test]
fn a_store_in_memory_is_refused_and_leaves_nothing_behind() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(1));
    let told = place.run(&["run", "p.toml", "--store", "sqlite::memory:"]).expect(2).stderr;
    assert!(told.contains("a store in memory would end with the command"), "{told}");
    assert!(!place.path(":memory:").exists());
}

#[test]
fn an_address_that_is_misspelt_is_not_repeated() {
    let place = Place::new();
    for said in [
        "AMQP://rd:an-open-sesame@127.0.0.1:1",
        "amqp:/rd:an-open-sesame@h",
        "rabbitmq://rd:an-open-sesame@h",
        "http://rd:an-open-sesame@h",
        "rd:an-open-sesame@h:5672",
    ] {
        for more in [&[][..], &["--json"]] {
            let ran = place.run(&[&["doctor", said], more].concat()).expect(1);
            assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("sesame"), "{said}: {ran:?}");
            assert!(ran.stdout.contains("bus"), "{said}: {ran:?}");
        }
    }
    let told = place.run(&["doctor", "me@home.toml"]).expect(1).stdout;
    assert!(told.contains("pipeline") && told.contains("home.toml"), "a file may be named so: {told}");
}

#[test]
fn facts_that_nobody_passes_on_are_told() {
    let place = Place::with(&one_stage("kind = \"pass\""), &samples(2));
    place.run(&["relay", "--once", "--bus", "amqp://127.0.0.1:1"]).expect(0);
    let told = place.run(&["doctor"]).expect(0).stdout;
    assert!(told.contains("bus facts          kept; none waits"), "{told}");
    place.run(&["run", "p.toml", "--quiet"]).expect(0);
    let told = place.run(&["doctor"]).expect(0).stdout;
    assert!(told.contains("wait, the oldest for"), "{told}");
    let store = rusqlite::Connection::open(place.path(".redrive/state.db")).expect("open");
    store.execute("UPDATE fact SET at = at - 700000", []).expect("older");
    drop(store);
    let told = place.run(&["doctor"]).expect(1).stdout;
    assert!(told.contains("BAD  bus facts") && told.contains("nobody passes them on"), "{told}");
    let metrics = place.run(&["stats", "--prometheus"]).expect(0).stdout;
    let of = |name: &str| crate::monitor::samples_of(&metrics)[name];
    assert_eq!(of("redrive_bus_facts_kept"), 1.0);
    assert!(of("redrive_bus_facts_waiting") > 2.0 && of("redrive_bus_oldest_fact_seconds") > 700.0);
    let daemon = crate::support::Daemon::start(&place, &[]);
    assert_eq!(daemon.get("/readyz").expect(200).json()["facts"], false);
    daemon.stop().expect(0);
    let ran = place.run(&["relay", "--off"]).expect(0);
    assert!(ran.stdout.contains("no more facts are kept from now on"), "{ran:?}");
    assert!(ran.stdout.contains("wait until a relay passes them on"), "{ran:?}");
}
