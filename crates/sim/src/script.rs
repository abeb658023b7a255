//! What handlers answer: a function of the seed, the item, the stage and the attempt.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::answer::HandOver;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::StageNo;
use redrive_core::item::{Item, NewItem, Payload};
use redrive_core::verdict::Verdict;
use redrive_engine::handler::{Answer, Handler, Input, Reply, Request};

use crate::hub::Hub;
use crate::met::Met;
use crate::rng::{mix, mix_bytes};
use crate::service::{Gated, Service};

/// How an item behaves at a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Temper {
    Good,
    /// Fails so often, then passes.
    Flaky(u32),
    Filtered,
    Final,
    /// Makes every batch fail that it is in, and fails alone.
    Poison,
    /// Fails for as long as there are faults.
    Hopeless,
    /// Is turned away so often, then passes.
    Throttled(u32),
    Quota,
    /// Gives no answer at its first attempt.
    Silent,
    /// Answers nonsense at its first attempt.
    Nonsense,
}

/// The script of a run.
#[derive(Debug)]
pub struct Script {
    /// The run's seed.
    pub seed: u64,
    /// How many in a thousand items behave badly at a stage.
    pub badness: u64,
    /// Stages whose items become children.
    pub expands: Vec<bool>,
    /// Largest batch that passes, where a stage has such a limit.
    pub shapes: Vec<Option<usize>>,
    /// Most children of an item.
    pub fan_out: u64,
    /// How many in a thousand moments a stage's service is away.
    pub outages: u64,
    /// How long such a moment is.
    pub outage_ms: i64,
    /// Usual time of an answer.
    pub latency: (i64, i64),
    /// The longest hint.
    pub hint_ms: u64,
    /// The services behind gates.
    pub gated: Gated,
}

/// An answer, and how long it takes; `None`: for ever.
pub struct Said {
    /// What is said.
    pub answer: Answer,
    /// After how many milliseconds.
    pub after: Option<i64>,
}

fn stage_no(name: &str) -> StageNo {
    StageNo(name.trim_start_matches('s').parse().unwrap_or(0))
}

impl Script {
    /// What a stage makes of some content; `None` when it leaves it as it is.
    #[must_use]
    pub fn output(&self, stage: StageNo, payload: &[u8]) -> Option<Payload> {
        let way = mix(&[self.seed, 3, u64::from(stage.0)]);
        (!way.is_multiple_of(4)).then(|| content(mix(&[way, mix_bytes(payload)])))
    }

    /// What a stage finds of some content; most find nothing, and one that knows what it needs no call for never does.
    #[must_use]
    pub fn verdict(&self, stage: StageNo, payload: &[u8]) -> Option<Verdict> {
        let way = mix(&[self.seed, 16, u64::from(stage.0)]);
        if !way.is_multiple_of(3) || self.recalls(stage) {
            return None;
        }
        let luck = mix(&[way, mix_bytes(payload)]) % 4;
        u8::try_from(luck).ok().and_then(Verdict::from_code)
    }

    /// Whether the handler of a stage, which leaves content as it is, knows of some that it needs no call.
    #[must_use]
    pub fn recalls(&self, stage: StageNo) -> bool {
        let way = mix(&[self.seed, 14, u64::from(stage.0)]);
        self.output(stage, &[]).is_none() && way.is_multiple_of(2)
    }

    /// How long an answer of a stage is left until it is asked for; `None` where answers come by themselves.
    #[must_use]
    pub fn asks(&self, stage: StageNo) -> Option<Duration> {
        let way = mix(&[self.seed, 31, u64::from(stage.0)]);
        way.is_multiple_of(2).then(|| Duration::from_millis(200 + way % 2_000))
    }

    /// Whether the item is handed over now, or still: a service does so with some of what it would pass.
    fn hands_over(&self, hub: &Hub, input: &Input, stage: StageNo) -> Option<ItemReply> {
        let luck =
            mix(&[self.seed, 32, mix_bytes(&input.id.0), u64::from(stage.0), u64::from(input.attempt)]);
        let over = match input.handed {
            Some(_) => hub.now() % 3 == 0,
            None => !hub.healed() && luck.is_multiple_of(6),
        };
        let within = Duration::from_millis(300 + (luck >> 8) % 15_000);
        over.then(|| {
            let ask_in = self.asks(stage);
            ItemReply::HandedOver(HandOver { within, ask_in, ticket: None, route: None })
        })
    }

    /// What whoever has an item that was handed over answers.
    #[must_use]
    pub fn answers(&self, item: &Item, payload: Payload) -> ItemReply {
        self.pass(&Input::new(item.id, item.key.clone(), payload, "later"), item.stage)
    }

    fn temper(&self, input: &Input, stage: StageNo, healed: bool) -> Temper {
        let luck = mix(&[self.seed, 4, mix_bytes(&input.id.0), u64::from(stage.0)]);
        if luck % 1_000 >= self.badness {
            return Temper::Good;
        }
        let times = u32::try_from(1 + (luck >> 20) % 3).unwrap_or(1);
        let temper = match (luck >> 32) % 100 {
            0..25 => Temper::Flaky(times),
            25..35 => Temper::Filtered,
            35..50 => Temper::Final,
            50..65 => Temper::Poison,
            65..72 => Temper::Hopeless,
            72..84 => Temper::Throttled(times),
            84..87 => Temper::Quota,
            87..94 => Temper::Silent,
            _ => Temper::Nonsense,
        };
        match temper {
            Temper::Filtered | Temper::Final => temper,
            _ if healed => Temper::Good,
            temper => temper,
        }
    }

    /// Answers a request.
    pub fn answer(&self, hub: &Hub, request: &Request) -> Said {
        let stage = stage_no(&request.stage);
        let healed = hub.healed();
        let tempers: Vec<Temper> =
            request.items.iter().map(|item| self.temper(item, stage, healed)).collect();
        let first =
            request.items.first().map_or(0, |item| mix(&[mix_bytes(&item.id.0), u64::from(item.attempt)]));
        let call = mix(&[self.seed, 5, first, request.items.len() as u64]);
        let mut after = Some(hub.rng.span(self.latency.0, self.latency.1));
        let silent = |(temper, item): (&Temper, &Input)| *temper == Temper::Silent && item.attempt == 1;
        if tempers.iter().zip(&request.items).any(silent) {
            after = (call.is_multiple_of(2))
                .then(|| hub.rng.span(1, 4) * i64::try_from(request.timeout.as_millis()).unwrap_or(1));
        }
        let service = self.service(stage);
        let refused = service.and_then(|service| service.refuse(hub, &request.items));
        let reply = match refused.or_else(|| self.whole(hub, stage, request, &tempers, call)) {
            Some(failure) => Reply::Whole(failure),
            None => {
                let each = request.items.iter().zip(&tempers);
                let mut replies: Vec<ItemReply> =
                    each.map(|(item, temper)| self.reply(hub, item, *temper, stage)).collect();
                if !healed && call.is_multiple_of(67) {
                    hub.meet(Met::WrongCount);
                    replies.pop();
                }
                if !healed && call % 71 == 7 {
                    // Somebody else did the work, and is gone with half of it.
                    hub.meet(Met::GivenBack);
                    let half = replies.into_iter().enumerate();
                    let replies = half.map(|(at, reply)| (at % 2 == 1).then_some(reply)).collect();
                    Reply::Part { replies, begun: true }
                } else {
                    Reply::Items(replies)
                }
            }
        };
        let mut answer = Answer::from(reply);
        if let (Some(service), Reply::Items(_)) = (service, &answer.reply) {
            let tokens = request.items.iter().map(|item| self.tokens(&item.payload)).sum();
            (answer.usage, answer.limits) = service.says(hub, tokens);
        }
        Said { answer, after }
    }

    /// What is behind a stage's gate.
    fn service(&self, stage: StageNo) -> Option<&Service> {
        let gate = self.gated.of_stage.get(stage.index()).copied().flatten()?;
        self.gated.services.get(gate)
    }

    /// About how many tokens some content has.
    #[must_use]
    pub fn tokens(&self, payload: &[u8]) -> u64 {
        let luck = mix(&[self.seed, 10, mix_bytes(payload)]);
        if self.gated.huge && luck.is_multiple_of(25) { 1_000_000 } else { 5 + luck % 60 }
    }

    /// Whether the call fails as a whole.
    fn whole(
        &self,
        hub: &Hub,
        stage: StageNo,
        request: &Request,
        tempers: &[Temper],
        call: u64,
    ) -> Option<Failure> {
        let many = request.items.len() > 1;
        let shape = self.shapes.get(stage.index()).copied().flatten();
        if shape.is_some_and(|most| request.items.len() > most) {
            return Some(
                Failure::new(Class::Oversized, Kind::Client, "the request is too large").with_status(413),
            );
        }
        if let Some(at) = tempers.iter().position(|temper| *temper == Temper::Poison) {
            let luck = mix(&[self.seed, 6, mix_bytes(&request.items[at].id.0)]);
            return Some(match luck % 4 {
                0 => Failure::new(Class::Crash, Kind::Process, "the process died"),
                1 => Failure::new(Class::Final, Kind::Client, "bad request").with_status(400),
                2 => Failure::new(Class::Oversized, Kind::Client, "too large").with_status(413),
                _ => Failure::new(Class::Retryable, Kind::Server, "internal error").with_status(500),
            });
        }
        let moment = hub.now() / self.outage_ms.max(1);
        let away = mix(&[self.seed, 7, u64::from(stage.0), moment.cast_unsigned()]);
        if !hub.healed() && away % 1_000 < self.outages {
            return Some(match (away >> 16) % 4 {
                0 => Failure::new(Class::Retryable, Kind::Connection, "connection refused"),
                1 => self.throttle(hub, away),
                _ => Failure::new(Class::Retryable, Kind::Server, "unavailable").with_status(503),
            });
        }
        (many && !hub.healed() && call.is_multiple_of(97))
            .then(|| Failure::new(Class::Retryable, Kind::Unknown, "something"))
    }

    fn throttle(&self, hub: &Hub, luck: u64) -> Failure {
        let hint = (luck.is_multiple_of(2)).then(|| Duration::from_millis(luck % self.hint_ms.max(1)));
        hub.meet(if hint.is_some() { Met::Hinted } else { Met::Throttled });
        Failure::new(Class::RateLimited, Kind::Client, "too many requests").with_status(429).with_hint(hint)
    }

    fn reply(&self, hub: &Hub, input: &Input, temper: Temper, stage: StageNo) -> ItemReply {
        let luck = mix(&[self.seed, 8, mix_bytes(&input.id.0), u64::from(stage.0), u64::from(input.attempt)]);
        let failed = |failure: Failure| ItemReply::Failed { failure, shared: false };
        if let (Temper::Good, Some(over)) = (temper, self.hands_over(hub, input, stage)) {
            return over;
        }
        match temper {
            Temper::Flaky(times) if input.attempt <= times => failed(some_failure(luck)),
            Temper::Hopeless => failed(some_failure(luck)),
            Temper::Filtered => ItemReply::Filtered("not wanted".to_owned()),
            // A policy without end that retries everything comes to an end all the same.
            Temper::Final if hub.healed() && input.attempt > 12 => self.pass(input, stage),
            Temper::Final => failed(Failure::new(Class::Final, Kind::Handler, "never")),
            Temper::Throttled(times) if input.attempt <= times => failed(self.throttle(hub, luck)),
            Temper::Quota if input.attempt == 1 => {
                failed(Failure::new(Class::Quota, Kind::Client, "no credit left"))
            }
            Temper::Nonsense if input.attempt == 1 => ItemReply::Children(vec![
                NewItem::new("same", content(1), 0),
                NewItem::new("same", content(2), 1),
            ]),
            Temper::Good
            | Temper::Flaky(_)
            | Temper::Poison
            | Temper::Throttled(_)
            | Temper::Quota
            | Temper::Silent
            | Temper::Nonsense => self.pass(input, stage),
        }
    }

    fn pass(&self, input: &Input, stage: StageNo) -> ItemReply {
        let luck = mix(&[self.seed, 9, mix_bytes(&input.id.0), u64::from(stage.0)]);
        if !self.expands.get(stage.index()).copied().unwrap_or(false) || luck.is_multiple_of(8) {
            let output = self.output(stage, &input.payload);
            return match self.verdict(stage, &input.payload) {
                Some(verdict) => ItemReply::Judged(verdict, output),
                None => ItemReply::Output(output),
            };
        }
        let child = |n: u64| {
            let payload = content(mix(&[mix_bytes(&input.payload), n]));
            NewItem::new(format!("{}/{}", input.key, n), payload, n)
        };
        ItemReply::Children((0..(luck >> 8) % (self.fan_out + 1)).map(child).collect())
    }
}

fn some_failure(luck: u64) -> Failure {
    match luck % 7 {
        0 => Failure::new(Class::Timeout, Kind::Timeout, "no answer"),
        1 => Failure::new(Class::Crash, Kind::Memory, "out of memory"),
        2 => Failure::new(Class::Retryable, Kind::Unknown, "something else"),
        3 => Failure::new(Class::Retryable, Kind::Database, "locked"),
        4 => Failure::new(Class::Retryable, Kind::Connection, "reset by peer"),
        _ => Failure::new(Class::Retryable, Kind::Server, "internal error").with_status(500),
    }
}

/// Some content.
#[must_use]
pub fn content(number: u64) -> Payload {
    Payload::from(format!("{{\"n\":{number}}}").into_bytes())
}

/// The script as a handler, as the engine knows handlers. The simulation itself asks [`Script::answer`], which also
/// says how long it takes.
pub struct Scripted {
    /// The script.
    pub script: Arc<Script>,
    /// The run it plays in.
    pub hub: Arc<Hub>,
    /// Whether it knows of some contents that they need no call.
    pub recalls: bool,
    /// How long it leaves an answer until it asks for it.
    pub asks: Option<Duration>,
}

#[async_trait]
impl Handler for Scripted {
    async fn call(&self, request: Request) -> Answer {
        self.script.answer(&self.hub, &request).answer
    }

    fn tokens(&self, payload: &Payload) -> u64 {
        self.script.tokens(payload)
    }

    fn asks_every(&self) -> Option<Duration> {
        self.asks
    }

    fn remembers(&self) -> bool {
        self.recalls
    }

    async fn recall(&self, payloads: &[Payload]) -> Vec<bool> {
        let known = |payload: &Payload| {
            let known = mix(&[self.script.seed, 15, mix_bytes(payload)]).is_multiple_of(3);
            if known {
                self.hub.meet(Met::Recalled);
            }
            known
        };
        payloads.iter().map(known).collect()
    }
}
