//! What is wrong with a plan is told with file and key.

use redrive_rehearse::Plan;

fn problem(text: &str) -> String {
    Plan::parse(text, "p.toml").map(|_| ()).expect_err(text).to_string()
}

#[test]
fn problems_name_file_and_key() {
    let cases = [
        ("speed = 1", "p.toml:1: speed: unknown field"),
        ("[limit]\n\nrequests_per_hour = 1", "p.toml:3: requests_per_hour: unknown field"),
        ("[[fault]]\nkind = \"cut\"\nrait = 1", "p.toml:3: rait: unknown field"),
        ("[limit]\nrequests_per_second = 1\nsteps = [{ after = \"1s\", calls = 3 }]", "calls: unknown field"),
        ("[[fault]]\nkind = \"flood\"", "p.toml:2: kind: unknown variant `flood`"),
        ("[latency]\nbase = 5", "p.toml:2: base: invalid type"),
        ("[latency]\nbase = \"5\"", "p.toml:2: base: \"5\" is no duration"),
        ("[limit]\nhint = \"maybe\"", "p.toml:2: hint: unknown variant"),
        ("[limit", "p.toml:1"),
        ("[[fault]]\nrate = 1", "missing field `kind`"),
        ("dimensions = 0", "p.toml: dimensions: must be from 1 to 8192"),
        ("[latency]\njitter = 2.0", "p.toml: latency.jitter: must be from 0 to 1"),
        ("[[fault]]\nkind = \"cut\"\nrate = 1.5", "p.toml: fault[0].rate: must be from 0 to 1"),
        ("[[fault]]\nkind = \"cut\"\nrate = nan", "p.toml: fault[0].rate: must be from 0 to 1"),
        ("[[fault]]\nkind = \"cut\"\nstatus = 500", "fault[0].status: does not go with this kind"),
        ("[[fault]]\nkind = \"status\"\nstatus = 200", "fault[0].status: must be a status from 400 to 599"),
        ("[[fault]]\nkind = \"cut\"\nfrom = \"2s\"\nuntil = \"1s\"", "fault[0].until: must be later"),
        ("[[fault]]\nkind = \"cut\"\nevery = \"2s\"", "fault[0].every: `every` and `lasts` go together"),
        ("[[fault]]\nkind = \"cut\"\nevery = \"0s\"\nlasts = \"0s\"", "fault[0].lasts: must be above zero"),
        ("[[fault]]\nkind = \"cut\"\ntimes = 2", "fault[0].times: needs by = \"item\""),
        ("[[fault]]\nkind = \"cut\"\nretry_after = \"1s\"", "fault[0].retry_after: needs a status"),
        ("[[fault]]\nkind = \"outage\"\nrate = 0.5", "fault[0].rate: an outage hits every call"),
        ("[limit]\nrequests_per_second = 0", "limit.requests_per_second: must be at least one a minute"),
        ("[limit]\nrequests_per_second = -1", "limit.requests_per_second: must be at least one a minute"),
        ("[limit]\nrequests_per_second = 0.5\nkind = \"window\"", "a window needs a whole number"),
        (
            "[limit]\nrequests_per_second = 1\nrequests_per_minute = 60",
            "limit.requests_per_minute: say either",
        ),
        ("[limit]\nburst = 5", "limit.burst: needs a limit of requests"),
        ("[limit]\nrequests_per_second = 1\nsteps = [{ after = \"1s\" }]", "limit.steps[0]: changes nothing"),
        (
            "[limit]\nsteps = [{ after = \"1s\", tokens_per_minute = 5 }]",
            "limit.steps[0]: the plan has no limit",
        ),
        ("[network]\ndelay = \"1s\"", "p.toml:2: delay: unknown field"),
        ("[network]\njitter = 10", "p.toml:2: jitter: invalid type"),
        ("[limit]\nheaders = \"gemini\"", "p.toml:2: headers: invalid value: string \"gemini\""),
        ("[limit]\nheaders = 1", "expected true, false, or whose headers: \"openai\""),
        ("[limit]\nrequests_per_second = 1\nwindow = \"2s\"", "limit.window: is for kind = \"window\""),
        (
            "[limit]\nrequests_per_second = 1\nkind = \"sliding\"\nwindow = \"0s\"",
            "limit.window: must be whole milliseconds",
        ),
        (
            "[limit]\nrequests_per_second = 1\nkind = \"sliding\"\nburst = 5",
            "limit.burst: is for kind = \"bucket\" only",
        ),
        (
            "[limit]\nneighbours = { share = 0.5, every = \"5s\" }",
            "limit.neighbours: need a limit of requests to share",
        ),
        (
            "[limit]\nrequests_per_second = 1\nneighbours = { share = 1.0, every = \"5s\" }",
            "limit.neighbours.share: must be above 0 and below 1",
        ),
        (
            "[limit]\nrequests_per_second = 9\nneighbours = { share = 0.5, every = \"5s\" }\nsteps = [{ after = \"1s\", requests_per_second = 1 }]",
            "limit.neighbours: do not go with `steps`",
        ),
        ("[latency]\nbase = \"2s\"\np99 = \"1s\"", "latency.p99: must be longer than `base`"),
        ("[latency]\nbase = \"1s\"\np99 = \"2s\"\njitter = 0.1", "latency.p99: say either this or jitter"),
        ("[latency]\nover_retry_after = \"1s\"", "latency.over_retry_after: needs max_concurrency"),
        ("[[fault]]\nkind = \"status\"\nretry_after = \"soon\"", "retry_after: \"soon\" is no duration"),
        ("[[fault]]\nkind = \"status\"\nretry_after = \"end\"", "fault[0].retry_after: there is no end"),
        ("[[fault]]\nkind = \"status\"\nhint = \"ms\"", "fault[0].hint: needs retry_after"),
        ("[[fault]]\nkind = \"cut\"\nquick = true", "fault[0].quick: needs kind = \"status\""),
        ("[[poison]]\nmarker = \"\"", "poison[0].marker: must not be empty"),
        ("[quota]\nrequests = 0", "quota.requests: must be above zero"),
    ];
    for (text, expected) in cases {
        let found = problem(text);
        assert!(
            found.contains("p.toml") && found.contains(expected),
            "{text}\n  {found}\n  lacks {expected}"
        );
    }
}

#[test]
fn every_problem_is_told_at_once() {
    let error = Plan::parse("dimensions = 0\n[latency]\njitter = 2.0\n[quota]\ntokens = 0", "p.toml");
    assert_eq!(error.map(|_| ()).expect_err("three").problems.len(), 3);
}

#[test]
fn a_plan_is_a_built_in_name_or_a_file() {
    assert_eq!(Plan::load("strict").expect("built in").name(), "strict");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, "seed = 9\nsummary = \"mine\"").expect("written");
    let plan = Plan::load(&file.display().to_string()).expect("a plan");
    assert_eq!((plan.seed(), plan.summary()), (9, "mine"));
    let missing = Plan::load("nowhere.toml").map(|_| ()).expect_err("missing").to_string();
    assert!(missing.starts_with("nowhere.toml: is no built-in plan"), "{missing}");
}

#[test]
fn tokens_are_a_quarter_of_the_characters() {
    let counts = ["", "a", "abcd", "abcde", "äöüß", "日本語日本"].map(redrive_rehearse::tokens);
    assert_eq!(counts, [1, 1, 1, 2, 1, 2]);
}
