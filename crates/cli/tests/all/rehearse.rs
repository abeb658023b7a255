//! The provider itself: its plans, its refusals, and that it is the same each time.

use crate::support::{Names, Place, Rehearsal, array, count, names, text};
use serde_json::Value;

#[test]
fn its_plans_are_listed_and_each_can_be_played() {
    let place = Place::new();
    let listed = place.json(&["rehearse", "--list"]);
    let plans: Vec<String> = array(&listed).iter().map(|plan| text(&plan["plan"])).collect();
    let wanted = ["calm", "strict", "liar", "outage", "broken", "poison", "quota", "chaos"];
    assert!(names(wanted).is_subset(&names(&plans)), "{plans:?}");
    assert!(array(&listed).iter().all(|plan| !text(&plan["summary"]).is_empty()));
    let words = place.run(&["rehearse", "--plan", "list"]).expect(0).stdout;
    assert_eq!(words.lines().count(), plans.len());
    for plan in &plans {
        assert!(words.lines().any(|line| line.starts_with(plan.as_str())), "{plan}");
        let started = place.start(&["rehearse", "--listen", "127.0.0.1:0", "--plan", plan, "--json"]);
        let first: Value = serde_json::from_str(&started.first_line()).expect("JSON");
        assert_eq!(first["plan"], plan.as_str());
        assert!(text(&first["listening"]).starts_with("http://127.0.0.1:"), "{first}");
        started.signal("INT");
        let last = started.finish().expect(0).stdout;
        let report: Value = serde_json::from_str(last.lines().last().expect("a report")).expect("JSON");
        assert_eq!((&report["plan"], count(&report["calls"])), (&first["plan"], 0));
    }
}

#[test]
fn mistakes_in_a_plan_are_told_by_their_key() {
    let place = Place::new();
    for (plan, key) in [
        ("[limit]\nrequests_per_hour = 5\n", "requests_per_hour"),
        ("[limit]\nrequests_per_second = 0\n", "requests_per_second"),
        ("[limit]\nrequests_per_second = 1\nhint = \"later\"\n", "later"),
        ("[[fault]]\nkind = \"status\"\nrate = 1.5\n", "rate"),
        ("[[fault]]\nkind = \"explode\"\n", "explode"),
        ("[[fault]]\nkind = \"cut\"\npace = \"1s\"\n", "pace"),
        ("[[fault]]\nkind = \"cut\"\nfrom = \"soon\"\n", "from"),
        ("[quota]\nrequests = -1\n", "requests"),
        ("nonsense", "plan.toml"),
    ] {
        place.write("plan.toml", plan);
        let ran = place.run(&["rehearse", "--listen", "127.0.0.1:0", "--plan", "./plan.toml"]).expect(2);
        assert!(ran.stderr.contains(key), "{plan}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "it never listened");
    }
    let ran = place.run(&["rehearse", "--plan", "no-such-plan"]).expect(2);
    assert!(ran.stderr.contains("no-such-plan") && ran.stderr.contains("--list"), "{}", ran.stderr);
}

#[test]
fn it_listens_on_this_machine_only_unless_told_otherwise() {
    let place = Place::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let ran = place.run(&["rehearse", "--listen", address]).expect(2);
        assert!(ran.stderr.contains("--allow-remote"), "{}", ran.stderr);
    }
    let first = place.start(&["rehearse", "--listen", "0.0.0.0:0", "--allow-remote", "--json"]);
    assert!(first.first_line().contains("listening"));
    first.signal("TERM");
    first.finish().expect(0);
    // An address that is taken is told too.
    let taken = Rehearsal::start("");
    let ran = place.run(&["rehearse", "--listen", taken.address()]).expect(2);
    assert!(ran.stderr.contains("cannot listen"), "{}", ran.stderr);
}

/// Faults that depend on dice, met by one client that asks for one text after another.
fn sequence(seed: u64) -> (Vec<String>, Value) {
    let provider = Rehearsal::start(&format!(
        "seed = {seed}\ndimensions = 4\n[[fault]]\nkind = \"status\"\nstatus = 500\nrate = 0.2\n\
         [[fault]]\nkind = \"too-few\"\nrate = 0.2\n[[fault]]\nkind = \"cut\"\nrate = 0.1\n"
    ));
    let answers = (0..60).map(|n| provider.ask(&format!("text {n}"))).collect();
    let mut report = provider.end();
    // Real time is not part of it.
    for field in ["first_call", "last_call", "lasted_ms", "last_ok_ms", "series"] {
        report[field] = Value::Null;
    }
    (answers, report)
}

#[test]
fn the_same_seed_gives_the_same_answers_and_the_same_report() {
    let (one, two, other) = (sequence(7), sequence(7), sequence(8));
    assert_eq!(one, two);
    assert_ne!(one.0, other.0, "another seed is another story");
    let report = &one.1;
    assert_eq!(count(&report["calls"]), 60);
    assert!(["ok", "failed", "spoilt", "cut"].iter().all(|end| count(&report[*end]) > 0), "{report:#}");
    let served: Names = one.0.iter().filter(|answer| answer.contains("\"embedding\"")).cloned().collect();
    assert!(served.len() as u64 >= count(&report["distinct_served"]));
}
