//! The cases.

use super::case::Tell::{Always, Date, Exact, None, Secs, Text};
use super::case::{Case, Limit, Tell};

fn bucket(rate: f64, burst: u32, tell: Tell, items: usize) -> Case {
    let name = format!("bucket {rate}/s burst {burst} {}", tell.name());
    Case::new(name, Limit::Bucket { rate, burst }, tell, items, 50)
}

fn random(percent: u32, tell: Tell) -> Case {
    let name = format!("random {percent} % {}", tell.name());
    Case::new(name, Limit::Random { share: f64::from(percent) / 100.0 }, tell, 600, 50)
}

fn window(most: u32, seconds: u32, tell: Tell, items: usize) -> Case {
    let name = format!("window {most} in {seconds} s {}", tell.name());
    Case::new(name, Limit::Window { most, seconds }, tell, items, 50)
}

fn sliding(tell: Tell, counting: bool) -> Case {
    let name = format!("sliding 100 in 2 s {}{}", tell.name(), if counting { " counting" } else { "" });
    Case::new(name, Limit::Sliding { most: 100, seconds: 2, counting }, tell, 1_000, 50)
}

fn at_once(most: u32, status: u16, tell: Tell, items: usize, latency: u32) -> Case {
    let name = format!("{most} at once {status} {}", tell.name());
    Case::new(name, Limit::AtOnce { most, status }, tell, items, latency)
}

fn spells(every: u32, status: u16, tell: Tell) -> Case {
    let name = format!("bad 2 of {every} s {status} {}", tell.name());
    Case::new(name, Limit::Spells { every, lasts: 2, status }, tell, 4_000, 250)
}

fn tokens(tell: Tell) -> Case {
    let name = format!("tokens for 50/s burst 50 {}", tell.name());
    Case::new(name, Limit::Tokens { rate: 50.0, burst: 50 }, tell, 1_000, 50)
}

fn free(name: &str, items: usize, latency: u32) -> Case {
    Case::new(name.to_owned(), Limit::None, None, items, latency)
}

fn headers(case: Case, whose: &'static str) -> Case {
    case.but(whose, |case| case.headers = Some(whose))
}

fn fleet(case: Case) -> Case {
    case.but("fleet", |case| case.processes = 4)
}

/// All cases.
pub fn all() -> Vec<Case> {
    [buckets(), chances(), windows(), crowds(), told(), short(), changing(), fleets()].concat()
}

fn buckets() -> Vec<Case> {
    let mut all = Vec::new();
    for burst in [50, 5, 1] {
        all.extend([None, Exact, Secs].map(|tell| bucket(50.0, burst, tell, 1_000)));
    }
    all.extend([
        bucket(50.0, 5, Date, 1_000),
        bucket(50.0, 50, Text, 1_000),
        bucket(200.0, 10, None, 2_000),
        bucket(100.0, 50, Secs, 2_000),
        bucket(10.0, 1, Secs, 200),
        bucket(50.0, 50, Secs, 1_000).but("4 at once", |case| case.at_once = 4),
        bucket(50.0, 50, Secs, 1_000).but("debt", |case| case.debt = true),
        bucket(50.0, 50, None, 1_000).but("debt", |case| case.debt = true),
    ]);
    all
}

fn chances() -> Vec<Case> {
    let mut all = Vec::new();
    for tell in [Always(1), None] {
        all.extend([1, 3, 10, 30].map(|percent| random(percent, tell)));
    }
    all.extend([
        random(3, Always(5)),
        random(3, Always(1)).but("calls of 1 s", |case| {
            (case.latency, case.items) = (1_000, 1_000);
        }),
    ]);
    all.extend([1, 3].map(|percent| {
        let limit = Limit::Dropped { share: f64::from(percent) / 100.0 };
        Case::new(format!("dropped {percent} %"), limit, None, 1_000, 500)
    }));
    all
}

fn windows() -> Vec<Case> {
    vec![
        window(100, 2, None, 1_000),
        window(100, 2, Secs, 1_000),
        window(50, 1, None, 1_000),
        window(600, 60, Secs, 1_000),
        sliding(None, false),
        sliding(Secs, false),
        sliding(Exact, false),
        sliding(Secs, true),
        spells(10, 503, None),
        spells(10, 529, None),
        spells(10, 529, Always(1)),
        spells(10, 503, Exact),
        spells(7, 529, None),
    ]
}

fn crowds() -> Vec<Case> {
    vec![
        at_once(8, 429, None, 600, 200),
        at_once(8, 503, None, 600, 200),
        at_once(8, 429, Always(1), 600, 200),
        at_once(2, 429, None, 100, 500),
        at_once(2, 503, None, 100, 500),
        at_once(1, 429, None, 20, 1_000),
        Case::new("crowd of 10".to_owned(), Limit::Crowd { servers: 10, most: 1_000 }, None, 1_500, 200),
        Case::new(
            "crowd of 10, at most 40".to_owned(),
            Limit::Crowd { servers: 10, most: 40 },
            None,
            1_500,
            200,
        ),
        free("heavy tail", 2_000, 200).but("p99 of 5 s", |case| case.p99 = Some(5_000)),
    ]
}

fn told() -> Vec<Case> {
    vec![
        headers(bucket(50.0, 50, Exact, 1_000), "openai"),
        headers(bucket(50.0, 5, Exact, 1_000), "openai"),
        headers(bucket(50.0, 5, Secs, 1_000), "anthropic"),
        headers(bucket(50.0, 5, Exact, 1_000), "azure"),
        headers(bucket(50.0, 50, None, 1_000), "mistral"),
        headers(bucket(50.0, 50, Secs, 1_000), "groq"),
        headers(window(100, 2, Secs, 1_000), "ietf"),
        headers(window(100, 2, Secs, 1_000), "ietf-old"),
        headers(window(600, 60, Secs, 1_000), "github"),
        headers(window(600, 60, Secs, 300), "github").but("300 items", |_| {}),
        tokens(Secs),
        headers(tokens(Text), "openai").but("chat", |case| case.chat = true),
        headers(tokens(Secs), "anthropic"),
    ]
}

fn short() -> Vec<Case> {
    vec![
        bucket(50.0, 50, Secs, 20).but("20 items", |_| {}),
        bucket(50.0, 50, Secs, 100).but("100 items", |_| {}),
        bucket(50.0, 50, Secs, 300).but("300 items", |_| {}),
        bucket(50.0, 50, None, 300).but("300 items", |_| {}),
        free("no limit, 20 calls of 1 s", 20, 1_000),
        free("no limit, 300 calls of 0.2 s", 300, 200),
        free("last 30 of 200 always 500", 200, 50).but("", |case| case.bad = 30),
    ]
}

fn changing() -> Vec<Case> {
    let neighbours = |every, tell: Tell| {
        let name = format!("neighbours {every} s {}", tell.name());
        Case::new(name, Limit::Neighbours { every }, tell, 1_000, 50)
    };
    let steps =
        |tell: Tell| Case::new(format!("50, 10, 200/s {}", tell.name()), Limit::Steps, tell, 3_000, 50);
    vec![neighbours(5, None), neighbours(5, Secs), neighbours(20, None), steps(None), steps(Secs)]
}

fn fleets() -> Vec<Case> {
    vec![
        fleet(bucket(50.0, 50, None, 1_000)),
        fleet(bucket(50.0, 50, Secs, 1_000)),
        fleet(bucket(50.0, 5, Exact, 1_000)),
        fleet(random(3, Always(1))),
        fleet(at_once(8, 429, None, 600, 200)),
        fleet(window(100, 2, Secs, 1_000)),
    ]
}
