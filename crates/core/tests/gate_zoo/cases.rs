//! The cases: what a service does, how many items there are, and how long they take at best.

use redrive_core::gate::LimitKind;

use crate::dice::Dice;
use crate::provider::{Headers, Limit, Provider, Tell, rate_at};

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub provider: Provider,
    pub items: usize,
    /// Calls at once that each worker may make.
    pub at_once: usize,
    /// Workers that share a store.
    pub workers: usize,
    /// Calls that are turned away whatever the client does, for each that passes.
    pub unavoidable: f64,
    /// The client sleeps now and then, for so many microseconds out of every so many.
    pub stalls: Option<(i64, i64)>,
}

impl Case {
    fn new(name: &str, limit: Limit, tell: Tell, items: usize, latency: f64) -> Self {
        let provider =
            Provider { limit, tell, headers: Headers::Nothing, rejected_cost: false, latency, tail: 0.0 };
        let case = Self {
            name: name.to_owned(),
            provider,
            items,
            at_once: 64,
            workers: 1,
            unavoidable: 0.0,
            stalls: None,
        };
        case.known()
    }

    /// The same with what follows from it.
    fn known(mut self) -> Self {
        if let Limit::Random { share, .. } = self.provider.limit {
            self.unavoidable = share / (1.0 - share);
        }
        self
    }

    /// What a gate should take it for, where that can be told.
    pub fn kind(&self) -> Option<LimitKind> {
        let plain = self.workers == 1 && self.stalls.is_none() && self.items >= 100;
        let silent = self.provider.headers == Headers::Nothing && !self.provider.rejected_cost;
        match self.provider.limit {
            Limit::Bucket { .. } if plain && silent => Some(LimitKind::Rate),
            Limit::Random { .. } if plain => Some(LimitKind::Chance),
            Limit::AtOnce { .. } if plain => Some(LimitKind::AtOnce),
            _ => None,
        }
    }

    fn change(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self.known()
    }

    fn headers(self) -> Self {
        self.change(|case| case.provider.headers = Headers::Exact)
    }

    /// The limit is told per minute, though the bucket holds less.
    fn per_minute(self, headers: Headers) -> Self {
        let name = if headers == Headers::PerMinute { " per minute" } else { " whole per minute" };
        self.change(|case| {
            case.provider.headers = headers;
            case.name += name;
        })
    }

    /// The client sleeps for a second now and then, as on a busy machine.
    fn stalls(self) -> Self {
        self.change(|case| {
            case.stalls = Some((1_000_000, 3_700_000));
            case.name += " stalls";
        })
    }

    /// When the client hears of something that happens then.
    pub fn awake_at(&self, at: i64) -> i64 {
        match self.stalls {
            Some((lasts, every)) if at >= every && at % every < lasts => at - at % every + lasts,
            _ => at,
        }
    }

    fn at_once(self, at_once: usize) -> Self {
        self.change(|case| case.at_once = at_once)
    }

    fn workers(self, workers: usize) -> Self {
        self.change(|case| {
            case.workers = workers;
            case.name = format!("{} fleet", case.name);
        })
    }

    /// Seconds that a client takes who knows the limit, with so much jitter on the way.
    #[expect(clippy::cast_precision_loss, reason = "thousands at most")]
    pub fn ideal(&self, jitter: f64) -> f64 {
        // The way to the service and back takes a millisecond, and most of the jitter in the mean.
        let latency = self.provider.latency + 0.001 + 0.65 * jitter;
        let items = self.items as f64;
        let places = (self.at_once * self.workers) as f64;
        let mean = latency * (self.provider.tail * self.provider.tail / 2.0).exp();
        // Calls that all take as long go round by round.
        let rounds = if self.provider.tail > 0.0 { items / places } else { (items / places).ceil() };
        let by_places = (rounds * mean).max(latency);
        let by_limit = match &self.provider.limit {
            Limit::None => 0.0,
            Limit::Bucket { rate, burst } => (items - burst) / rate + latency,
            Limit::Steps { steps, burst } => filled(steps, items - burst) + latency,
            Limit::Window { most, seconds } => ((items - 1.0) / most).floor() * seconds + latency,
            Limit::Sliding { most, seconds, .. } => {
                ((items - 1.0) / *most as f64).floor() * seconds + latency
            }
            Limit::AtOnce { most } => (items / *most as f64).ceil() * latency,
            Limit::Random { share, only_first } => {
                let Tell::Always(hint) = self.provider.tell else { return by_places / (1.0 - share) };
                let in_a_row = if *only_first { 1.0 } else { (items.ln() / -share.ln()).floor() };
                by_places / (1.0 - share) + in_a_row * hint
            }
            Limit::Bursts { every, lasts } => {
                let good = every - lasts;
                by_places + ((by_places - latency) / good).floor() * lasts
            }
            Limit::Queue { servers, .. } => items / *servers as f64 * latency,
            Limit::Crowd { knee, .. } => items / knee * latency,
            Limit::Lost { share } => by_places * (1.0 + share) + 0.25,
        };
        by_limit.max(by_places)
    }
}

/// When a rate that changes has given so many.
fn filled(steps: &[(f64, f64)], mut items: f64) -> f64 {
    let mut now = 0.0;
    while items > 0.0 {
        items -= rate_at(steps, now) * 0.01;
        now += 0.01;
    }
    now
}

fn bucket(rate: f64, burst: f64, tell: Tell, items: usize) -> Case {
    let word = told(tell);
    let name = format!("bucket {rate}/s burst {burst} {word}");
    Case::new(&name, Limit::Bucket { rate, burst }, tell, items, 0.05)
}

fn told(tell: Tell) -> String {
    match tell {
        Tell::Nothing => "none".to_owned(),
        Tell::Exactly => "exact".to_owned(),
        Tell::Seconds => "secs".to_owned(),
        Tell::Date => "date".to_owned(),
        Tell::Always(seconds) => format!("{seconds} s"),
    }
}

fn random(share: f64, tell: Tell) -> Case {
    let name = format!("random {} % {}", share * 100.0, told(tell));
    Case::new(&name, Limit::Random { share, only_first: false }, tell, 600, 0.05)
}

fn window(most: f64, seconds: f64, tell: Tell, items: usize) -> Case {
    let name = format!("window {most} in {seconds} s {}", told(tell));
    Case::new(&name, Limit::Window { most, seconds }, tell, items, 0.05)
}

fn sliding(tell: Tell, rejected_count: bool) -> Case {
    let name = format!("sliding 100 in 2 s {}{}", told(tell), if rejected_count { " counting" } else { "" });
    let limit = Limit::Sliding { most: 100, seconds: 2.0, rejected_count };
    Case::new(&name, limit, tell, 1_000, 0.05)
}

fn at_once(most: usize, tell: Tell, items: usize, latency: f64) -> Case {
    let name = format!("{most} at once {}", told(tell));
    Case::new(&name, Limit::AtOnce { most }, tell, items, latency)
}

fn neighbour(seconds: f64, tell: Tell) -> Case {
    let mut dice = Dice::new(77);
    let steps = (0..100_i32).map(|n| (f64::from(n) * seconds, 50.0 * (1.0 - 0.9 * dice.share()))).collect();
    let name = format!("neighbour {seconds} s {}", told(tell));
    Case::new(&name, Limit::Steps { steps, burst: 50.0 }, tell, 1_000, 0.05)
}

fn changing(tell: Tell) -> Case {
    let steps = vec![(0.0, 50.0), (15.0, 10.0), (35.0, 200.0)];
    Case::new(
        &format!("50, 10, 200/s {}", told(tell)),
        Limit::Steps { steps, burst: 50.0 },
        tell,
        3_000,
        0.05,
    )
}

/// All cases.
pub fn all() -> Vec<Case> {
    use Tell::{Always, Date, Exactly, Nothing, Seconds};
    let mut all = Vec::new();
    for burst in [50.0, 20.0, 5.0, 1.0] {
        all.extend([Nothing, Exactly, Seconds].map(|tell| bucket(50.0, burst, tell, 1_000)));
    }
    all.extend([
        bucket(50.0, 5.0, Date, 1_000),
        bucket(50.0, 50.0, Exactly, 1_000).headers().change(|case| case.name += " headers"),
        bucket(50.0, 5.0, Exactly, 1_000).headers().change(|case| case.name += " headers"),
        bucket(50.0, 50.0, Exactly, 1_000).per_minute(Headers::PerMinute),
        bucket(50.0, 5.0, Exactly, 1_000).per_minute(Headers::PerMinute),
        bucket(50.0, 50.0, Seconds, 1_000).per_minute(Headers::WholePerMinute),
        bucket(50.0, 5.0, Seconds, 1_000).per_minute(Headers::WholePerMinute),
        bucket(200.0, 10.0, Nothing, 2_000),
        bucket(100.0, 50.0, Seconds, 2_000),
        bucket(10.0, 1.0, Seconds, 200),
        bucket(10.0, 10.0, Seconds, 200).change(|case| {
            case.provider.latency = 2.0;
            case.name += " calls of 2 s";
        }),
        bucket(50.0, 50.0, Seconds, 1_000).at_once(4).change(|case| case.name += " 4 at once"),
        bucket(50.0, 50.0, Seconds, 1_000).at_once(256).change(|case| case.name += " 256 at once"),
        bucket(50.0, 50.0, Seconds, 3_000).change(|case| {
            case.provider.latency = 0.2;
            case.name += " calls of 0.2 s";
        }),
        bucket(50.0, 50.0, Nothing, 3_000).change(|case| {
            case.provider.latency = 0.2;
            case.name += " calls of 0.2 s";
        }),
        bucket(50.0, 5.0, Nothing, 3_000).change(|case| {
            case.provider.latency = 0.2;
            case.name += " calls of 0.2 s";
        }),
        bucket(50.0, 50.0, Nothing, 1_000).change(|case| {
            case.provider.rejected_cost = true;
            case.name += " debt";
        }),
        bucket(50.0, 50.0, Seconds, 1_000).change(|case| {
            case.provider.rejected_cost = true;
            case.name += " debt";
        }),
    ]);
    all.extend([0.01, 0.03, 0.1, 0.3].map(|share| random(share, Always(1.0))));
    all.extend([0.01, 0.03, 0.1, 0.3].map(|share| random(share, Nothing)));
    all.extend([random(0.6, Always(1.0)), random(0.6, Nothing)]);
    all.extend([
        random(0.03, Always(5.0)),
        random(0.03, Always(1.0)).change(|case| {
            case.provider.limit = Limit::Random { share: 0.03, only_first: true };
            case.name += " first calls";
        }),
        random(0.03, Always(1.0)).change(|case| {
            case.provider.latency = 1.0;
            case.items = 1_000;
            case.name += " calls of 1 s";
        }),
        random(0.1, Nothing).change(|case| {
            case.provider.latency = 1.0;
            case.items = 400;
            case.at_once = 16;
            case.name += " 16 calls of 1 s";
        }),
    ]);
    all.extend([Nothing, Seconds].map(|tell| window(100.0, 2.0, tell, 1_000)));
    all.extend([Nothing, Seconds].map(|tell| window(50.0, 1.0, tell, 1_000)));
    all.extend([Nothing, Seconds].map(|tell| window(600.0, 60.0, tell, 1_000)));
    all.extend([
        window(100.0, 2.0, Seconds, 1_000).headers().change(|case| case.name += " headers"),
        window(600.0, 60.0, Seconds, 1_000).headers().change(|case| case.name += " headers"),
        window(600.0, 60.0, Seconds, 300).headers().change(|case| case.name += " headers 300 items"),
        sliding(Nothing, false),
        sliding(Seconds, false),
        sliding(Exactly, false),
        sliding(Seconds, true),
        at_once(8, Nothing, 600, 0.2),
        at_once(8, Always(1.0), 600, 0.2),
        at_once(4, Nothing, 200, 0.5),
        at_once(2, Nothing, 100, 0.5),
        at_once(2, Always(1.0), 100, 0.5),
        at_once(1, Nothing, 20, 1.0),
        Case::new("bad 2 of 10 s none", Limit::Bursts { every: 10.0, lasts: 2.0 }, Nothing, 4_000, 0.25),
        Case::new("bad 2 of 10 s 1 s", Limit::Bursts { every: 10.0, lasts: 2.0 }, Always(1.0), 4_000, 0.25),
        Case::new("bad 2 of 10 s exact", Limit::Bursts { every: 10.0, lasts: 2.0 }, Exactly, 4_000, 0.25),
        Case::new("bad 2 of 7 s none", Limit::Bursts { every: 7.0, lasts: 2.0 }, Nothing, 4_000, 0.25),
        Case::new("crowd of 8", Limit::Crowd { knee: 8.0, power: 1.5 }, Nothing, 3_000, 0.05),
        Case::new("crowd of 24", Limit::Crowd { knee: 24.0, power: 2.0 }, Nothing, 3_000, 0.2),
        Case::new("queue of 10", Limit::Queue { servers: 10, most: 1_000 }, Nothing, 1_500, 0.2),
        Case::new("queue of 10, 30 in line", Limit::Queue { servers: 10, most: 40 }, Nothing, 1_500, 0.2),
        Case::new("heavy tail", Limit::None, Nothing, 2_000, 0.2).change(|case| case.provider.tail = 1.384),
        neighbour(5.0, Nothing),
        neighbour(5.0, Seconds),
        neighbour(20.0, Nothing),
        changing(Nothing),
        changing(Seconds),
        changing(Exactly).change(|case| case.provider.latency = 0.2),
        bucket(50.0, 50.0, Exactly, 2_000).change(|case| {
            case.provider.rejected_cost = true;
            case.provider.latency = 0.2;
            case.name += " debt";
        }),
        bucket(50.0, 50.0, Seconds, 20).change(|case| case.name += " 20 items"),
        bucket(50.0, 50.0, Seconds, 100).change(|case| case.name += " 100 items"),
        bucket(50.0, 50.0, Seconds, 300).change(|case| case.name += " 300 items"),
        bucket(50.0, 50.0, Nothing, 300).change(|case| case.name += " 300 items"),
        Case::new("no limit, 20 calls of 1 s", Limit::None, Nothing, 20, 1.0),
        Case::new("no limit, 300 calls of 0.2 s", Limit::None, Nothing, 300, 0.2),
        Case::new("no limit, 300 of 0.2 s, 256 at once", Limit::None, Nothing, 300, 0.2).at_once(256),
        Case::new("lost 1 %", Limit::Lost { share: 0.01 }, Nothing, 1_000, 0.5),
        Case::new("lost 3 %", Limit::Lost { share: 0.03 }, Nothing, 1_000, 0.5),
        bucket(50.0, 50.0, Nothing, 1_000).workers(4),
        bucket(50.0, 50.0, Seconds, 1_000).workers(4),
        bucket(50.0, 5.0, Exactly, 1_000).workers(4),
        random(0.03, Always(1.0)).workers(4),
        at_once(8, Nothing, 600, 0.2).workers(4),
        window(100.0, 2.0, Seconds, 1_000).workers(4),
        bucket(50.0, 50.0, Nothing, 1_000).stalls(),
        bucket(50.0, 50.0, Seconds, 1_000).stalls(),
        bucket(50.0, 5.0, Seconds, 1_000).stalls(),
        bucket(100.0, 20.0, Seconds, 1_500).workers(4).stalls(),
        random(0.1, Always(1.0)).stalls(),
        random(0.3, Always(1.0)).stalls(),
        random(0.3, Nothing).stalls(),
        random(0.01, Always(30.0)),
        at_once(8, Nothing, 600, 0.2).stalls(),
        window(100.0, 2.0, Seconds, 1_000).stalls(),
    ]);
    all
}
