//! What is on the board, without a clock of its own: every change is handed the time.
//!
//! Times are those of a clock that is never put (how long something has been running), so that leases neither end early nor
//! late when the machine's clock is put.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Kind};
use redrive_core::order::{Order, reserved};
use redrive_core::pool::Rank;
use redrive_core::usage::Usage;
use redrive_engine::external::{Ask, Refused, Said, Standing};
use redrive_engine::handler::{Answer, Reply, Request, Room};
use redrive_engine::receipt::Receipt;
use tokio::sync::Notify;

use super::lease::{Lease, digest};
use crate::protocol::{Decoder, failed};
use crate::usage;

/// How long a batch waits for somebody who asks, where whoever had asked is gone: longer than a worker takes between two
/// requests.
const UNASKED: Duration = Duration::from_millis(500);
/// How long before the engine would break off a call it goes back, when the process is about to stop.
const BEFORE_THE_END: Duration = Duration::from_millis(200);
/// How long a worker that asks waits for the batch of a run that goes first and had one a moment ago, while the board has
/// batches of others for it.
pub(super) const GRACE: Duration = Duration::from_millis(20);
/// How long a run is one that had a batch a moment ago.
const MOMENT: Duration = Duration::from_secs(1);
/// Most workers that wait at a time.
const MOST_ASKS: usize = 256;

/// What a batch is of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pipeline: Arc<str>,
    pub(super) stage: Arc<str>,
}

impl Place {
    fn is_asked_for(&self, ask: &Ask) -> bool {
        ask.pipeline.as_deref().is_none_or(|pipeline| pipeline == &*self.pipeline)
            && (ask.stages.is_empty() || ask.stages.iter().any(|stage| *stage == *self.stage))
    }
}

/// A worker that waits.
struct Asking {
    ask: Ask,
    since: Duration,
    /// The batch that it was given, until it takes it.
    given: Option<u64>,
    bell: Arc<Notify>,
}

/// A batch on the board.
struct Batch {
    place: Arc<Place>,
    decoder: Arc<Decoder>,
    request: Arc<Request>,
    digest: String,
    replies: Vec<Option<ItemReply>>,
    usage: Option<Usage>,
    held: Option<Held>,
    /// When it is given back if nobody takes it.
    unasked: Duration,
    /// When the engine breaks the call off.
    ends: Duration,
    over: Option<Answer>,
    bell: Arc<Notify>,
}

/// Who holds a batch.
struct Held {
    worker: String,
    lease: Duration,
    until: Duration,
}

/// What a call that waits does next.
pub(super) enum Next {
    /// Its answer is there.
    Answered(Answer),
    /// It looks again then, or when its bell rings.
    Waits(Duration),
}

/// A batch that was taken.
pub(super) struct Given {
    pub(super) call: u64,
    pub(super) place: Arc<Place>,
    pub(super) digest: String,
    pub(super) request: Arc<Request>,
    pub(super) standing: Standing,
}

/// What came of something that a worker said.
pub(super) struct Taken {
    pub(super) accepted: usize,
    /// Items without a reply.
    pub(super) left: usize,
    pub(super) standing: Standing,
    pub(super) over: bool,
}

/// Everything on the board.
#[derive(Default)]
pub(super) struct State {
    open: bool,
    draining: bool,
    last: u64,
    asks: BTreeMap<u64, Asking>,
    batches: BTreeMap<u64, Batch>,
    rings: Vec<(Arc<Place>, Weak<Notify>)>,
    /// Runs that had a batch here a moment ago, by where they stand: what of, and until when they are waited for.
    recent: BTreeMap<Rank, (Arc<Place>, Duration)>,
    /// How many batches were given where those of several runs were there, for the share of runs that do not go first.
    given: u64,
}

impl State {
    pub(super) fn open(&mut self) {
        self.open = true;
        self.rings.iter().filter_map(|(_, ring)| ring.upgrade()).for_each(|ring| ring.notify_one());
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Answers whoever waits, and gives back what nobody holds.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        self.asks.values().for_each(|asking| asking.bell.notify_one());
        for batch in self.batches.values_mut() {
            match batch.held.is_none() && batch.over.is_none() {
                true => batch.give_back(false),
                false => batch.bell.notify_one(),
            }
        }
    }

    /// As many calls as are under way and are asked for, each as large as the smallest that is asked for.
    pub(super) fn room(&self, place: &Place) -> Room {
        let under_way = self.batches.values().filter(|batch| *batch.place == *place).count();
        let mut asked = 0;
        let mut items = None;
        let waits = |asking: &&Asking| asking.given.is_none() && place.is_asked_for(&asking.ask);
        for asking in self.asks.values().filter(waits).filter(|_| !self.draining) {
            asked += 1;
            items = Some(items.map_or(asking.ask.max_items, |least: usize| least.min(asking.ask.max_items)));
        }
        Room { calls: under_way + asked, items: Some(items.unwrap_or(1)), never: !self.open }
    }

    pub(super) fn rings_for(&mut self, place: &Arc<Place>, wake: &Arc<Notify>) {
        self.rings.retain(|(_, ring)| ring.strong_count() > 0);
        self.rings.push((place.clone(), Arc::downgrade(wake)));
    }

    /// Puts a batch on the board.
    pub(super) fn lay(
        &mut self,
        place: &Arc<Place>,
        decoder: &Arc<Decoder>,
        request: Request,
        now: Duration,
    ) -> (u64, Arc<Notify>) {
        self.last += 1;
        let bell = Arc::new(Notify::new());
        let mut batch = Batch {
            place: place.clone(),
            decoder: decoder.clone(),
            digest: digest(&request.items),
            replies: vec![None; request.items.len()],
            usage: None,
            held: None,
            unasked: now.saturating_add(UNASKED),
            ends: now.saturating_add(request.timeout),
            over: None,
            bell: bell.clone(),
            request: Arc::new(request),
        };
        if self.draining {
            batch.give_back(false);
        }
        self.recent.retain(|_, (_, until)| *until > now);
        self.recent.insert(batch.request.rank, (place.clone(), now.saturating_add(MOMENT)));
        self.batches.insert(self.last, batch);
        self.hand_out(now);
        (self.last, bell)
    }

    /// Gives batches that nobody holds to those who wait, whoever has waited longest first.
    fn hand_out(&mut self, now: Duration) {
        let waiting: Vec<u64> =
            self.asks.iter().filter(|(_, asking)| asking.given.is_none()).map(|(id, _)| *id).collect();
        waiting.into_iter().for_each(|ask| self.serve(ask, now));
    }

    /// Gives a batch to a worker that waits, where there is one for it.
    fn serve(&mut self, ask: u64, now: Duration) {
        let Some(asking) = self.asks.get(&ask).filter(|asking| asking.given.is_none()) else { return };
        let Some(call) = self.choose(&asking.ask, asking.since, now) else { return };
        let (Some(asking), Some(batch)) = (self.asks.get_mut(&ask), self.batches.get_mut(&call)) else {
            return;
        };
        batch.hold(&asking.ask, now);
        asking.given = Some(call);
        asking.bell.notify_one();
        let first = batch.request.run;
        let others = self.batches.values().any(|other| other.held.is_none() && other.request.run != first);
        self.given += u64::from(others);
    }

    /// The batch for whoever asks: that of the run that goes first, and every fifth time the one that has waited longest of
    /// the others. `None` where there is none, or the run that goes first is about to have one.
    fn choose(&self, ask: &Ask, since: Duration, now: Duration) -> Option<u64> {
        let fitting = || self.batches.iter().filter(|(_, batch)| batch.fits(ask));
        let (first, best) = fitting().min_by_key(|(call, batch)| (batch.request.rank, **call))?;
        let others = fitting().find(|(_, batch)| batch.request.run != best.request.run);
        if let Some((other, _)) = others.filter(|_| reserved(Order::DEFAULT_SHARE, self.given, 1) > 0) {
            return Some(*other);
        }
        let before = self.recent.range(..best.request.rank);
        let expected =
            before.filter(|(_, (place, until))| *until > now && place.is_asked_for(ask)).count() > 0;
        (!expected || now >= since.saturating_add(GRACE)).then_some(*first)
    }

    /// A worker asks, and waits from now on.
    pub(super) fn ask(&mut self, ask: Ask, now: Duration) -> Result<(u64, Arc<Notify>), Refused> {
        if !self.open {
            return Err(Refused::NobodyWorks);
        }
        if self.asks.len() >= MOST_ASKS {
            return Err(Refused::Crowded);
        }
        self.last += 1;
        let (id, bell) = (self.last, Arc::new(Notify::new()));
        self.asks.insert(id, Asking { ask, since: now, given: None, bell: bell.clone() });
        self.serve(id, now);
        if let Some(asking) = self.asks.get(&id).filter(|asking| asking.given.is_none() && !self.draining) {
            let asked = self.rings.iter().filter(|(place, _)| place.is_asked_for(&asking.ask));
            asked.filter_map(|(_, ring)| ring.upgrade()).for_each(|ring| ring.notify_one());
        }
        Ok((id, bell))
    }

    /// What a worker that waits was given.
    pub(super) fn take(&mut self, ask: u64, now: Duration) -> Option<Given> {
        self.serve(ask, now);
        let call = self.asks.get(&ask)?.given?;
        let batch = self.batches.get(&call)?;
        self.asks.remove(&ask);
        Some(Given {
            call,
            place: batch.place.clone(),
            digest: batch.digest.clone(),
            request: batch.request.clone(),
            standing: batch.standing(self.draining, now),
        })
    }

    /// A worker waits no more. What it was given and has not taken goes to the next.
    pub(super) fn leave(&mut self, ask: u64, now: Duration) {
        let Some(Asking { given: Some(call), .. }) = self.asks.remove(&ask) else { return };
        let draining = self.draining;
        let Some(batch) = self.batches.get_mut(&call).filter(|batch| batch.over.is_none()) else { return };
        batch.held = None;
        batch.unasked = now.saturating_add(UNASKED);
        batch.bell.notify_one();
        if draining {
            batch.give_back(false);
        }
        self.hand_out(now);
    }

    /// What a call that waits does next.
    pub(super) fn next(&mut self, call: u64, now: Duration) -> Next {
        let draining = self.draining;
        let Some(batch) = self.batches.get_mut(&call) else {
            return Next::Answered(Reply::Part { replies: Vec::new(), begun: true }.into());
        };
        let due = batch.due(draining);
        if batch.over.is_none() && now >= due {
            match batch.held.is_some() && !draining {
                true => batch.lapse(),
                false => batch.give_back(batch.held.is_some()),
            }
        }
        match batch.over.take() {
            Some(answer) => {
                self.batches.remove(&call);
                Next::Answered(answer)
            }
            None => Next::Waits(due.saturating_sub(now)),
        }
    }

    /// A call is over, or was broken off. Whoever was given it and has not taken it yet goes on waiting.
    pub(super) fn lift(&mut self, call: u64) {
        self.batches.remove(&call);
        let given = self.asks.values_mut().filter(|asking| asking.given == Some(call));
        given.for_each(|asking| asking.given = None);
    }

    fn held(&mut self, lease: &Lease, now: Duration) -> Result<&mut Batch, Refused> {
        let batch = self.batches.get_mut(&lease.call).ok_or(Refused::Gone)?;
        if batch.digest != lease.items {
            return Err(Refused::Foreign);
        }
        let lives = batch.over.is_none() && batch.held.as_ref().is_some_and(|held| now < held.until);
        if lives { Ok(batch) } else { Err(Refused::Gone) }
    }

    /// Prolongs a lease.
    pub(super) fn heartbeat(
        &mut self,
        lease: &Lease,
        by: Option<Duration>,
        now: Duration,
    ) -> Result<Standing, Refused> {
        let draining = self.draining;
        let batch = self.held(lease, now)?;
        if let Some(held) = &mut batch.held {
            held.lease = by.unwrap_or(held.lease);
            held.until = now.saturating_add(held.lease).min(batch.ends);
        }
        // The call that waits sees by itself that it is not over yet.
        Ok(batch.standing(draining, now))
    }

    /// Takes what a worker says of its batch. Nothing is changed where it makes no sense.
    pub(super) fn hear(
        &mut self,
        lease: &Lease,
        said: &Said,
        receipt: Receipt,
        now: Duration,
    ) -> Result<Taken, Refused> {
        let draining = self.draining;
        let batch = self.held(lease, now)?;
        let accepted = match said {
            Said::Results { results, done, usage } => {
                let accepted = batch.hear(results)?;
                batch.spend(usage.as_deref().and_then(usage::read));
                if *done {
                    let left_out = batch.decoder.nothing_said();
                    batch.rest(&left_out);
                }
                accepted
            }
            Said::Failed(error) => {
                let failure = batch.decoder.read_error(error);
                let left = batch.left();
                if failure.class == Class::Oversized && batch.replies.len() > 1 {
                    return Err(Refused::Wrong(
                        "a batch that is too large is no fault of its items: claim fewer of them, or say which one it is"
                            .to_owned(),
                    ));
                }
                batch.rest(&ItemReply::Failed { failure, shared: left > 1 });
                left
            }
        };
        let left = batch.left();
        if left == 0 {
            let replies = std::mem::take(&mut batch.replies).into_iter().flatten().collect();
            let answer =
                Answer { usage: batch.usage.take(), receipt: Some(receipt), ..Reply::Items(replies).into() };
            batch.end(answer);
        }
        Ok(Taken { accepted, left, standing: batch.standing(draining, now), over: left == 0 })
    }
}

impl Batch {
    /// Whether it can be given to whoever asks for this.
    fn fits(&self, ask: &Ask) -> bool {
        self.held.is_none()
            && self.over.is_none()
            && self.place.is_asked_for(ask)
            && self.replies.len() <= ask.max_items
    }

    /// When something is to be done about it if nothing happens before. Where its lease lasts as long as the call may take at
    /// all, the engine breaks it off, unless the process stops: then it goes back a moment before.
    fn due(&self, draining: bool) -> Duration {
        match &self.held {
            None => self.unasked,
            Some(held) if draining => held.until.min(self.ends.saturating_sub(BEFORE_THE_END)),
            Some(held) if held.until < self.ends => held.until,
            Some(_) => Duration::MAX,
        }
    }

    fn hold(&mut self, ask: &Ask, now: Duration) {
        let until = now.saturating_add(ask.lease).min(self.ends);
        self.held = Some(Held { worker: ask.worker.clone(), lease: ask.lease, until });
        self.bell.notify_one();
    }

    fn standing(&self, stopping: bool, now: Duration) -> Standing {
        let until = self.held.as_ref().map_or(now, |held| held.until);
        Standing { left: until.saturating_sub(now), most: self.ends.saturating_sub(now), stopping }
    }

    fn left(&self) -> usize {
        self.replies.iter().filter(|reply| reply.is_none()).count()
    }

    /// Takes results; how many. Those of items that have one already change nothing.
    fn hear(&mut self, results: &[Box<serde_json::value::RawValue>]) -> Result<usize, Refused> {
        let said = self.decoder.read_some(results, &self.request.items).map_err(Refused::Wrong)?;
        let new =
            |(known, said): &(&Option<ItemReply>, &Option<ItemReply>)| known.is_none() && said.is_some();
        let accepted = self.replies.iter().zip(&said).filter(new).count();
        if accepted == 0 && !results.is_empty() {
            return Err(Refused::Gone);
        }
        for (known, said) in self.replies.iter_mut().zip(said) {
            if known.is_none() {
                *known = said;
            }
        }
        Ok(accepted)
    }

    fn spend(&mut self, usage: Option<Usage>) {
        self.usage = match (self.usage, usage) {
            (Some(before), Some(more)) => Some(before.plus(more)),
            (before, more) => before.or(more),
        };
    }

    /// Every item that nothing was said of ends like this.
    fn rest(&mut self, reply: &ItemReply) {
        self.replies
            .iter_mut()
            .filter(|known| known.is_none())
            .for_each(|known| *known = Some(reply.clone()));
    }

    /// The worker gave no sign of life: whatever it was doing, it did not come to an end.
    fn lapse(&mut self) {
        let Some(held) = &self.held else { return };
        let text = format!("the external worker {:?} gave no sign of life for {:?}", held.worker, held.lease);
        tracing::warn!(stage = &*self.place.stage, run = %self.request.run, items = self.left(), text);
        let failure = self.decoder.failure(Class::Crash, Kind::Process, text);
        let reply = match self.left() {
            1 => failed(failure),
            _ => ItemReply::Failed { failure, shared: true },
        };
        self.rest(&reply);
        let replies = std::mem::take(&mut self.replies).into_iter().flatten().collect();
        let usage = self.usage.take();
        self.end(Answer { usage, ..Reply::Items(replies).into() });
    }

    /// What has no reply goes back.
    fn give_back(&mut self, begun: bool) {
        let replies = std::mem::take(&mut self.replies);
        let usage = self.usage.take();
        self.end(Answer { usage, ..Reply::Part { replies, begun }.into() });
    }

    fn end(&mut self, answer: Answer) {
        self.over = Some(answer);
        self.bell.notify_one();
    }
}
