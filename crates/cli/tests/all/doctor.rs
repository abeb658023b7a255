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
