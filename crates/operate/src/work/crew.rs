//! Work on any number of runs in one process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::id::{RunId, WorkerId};
use redrive_core::status::{Left, RunStatus};
use redrive_core::time::Timestamp;
use redrive_engine::report::report_on_leaving;
use redrive_engine::worker::{Among, Ending, Host, Mates, Pulse, Rings, Roster, RosterSettings, Stop};
use redrive_store::{Has, OpenRun, WorkFilter};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::shared_handlers::SharedHandlers;
use super::{Notice, Observer, Rounds, WorkSettings, left_as, paused};
use crate::error::{Code, Result};
use crate::index::IndexTarget;
use crate::operations::Carrier;
use crate::pipelines::{self, recipe};
use crate::room;
use crate::runs::edited_to_the_end;
use crate::sources::{Reopened, SourceName, reopen};
use crate::{Floor, Role};

/// How long a run with nothing but later retries stays open.
const LINGER: Duration = Duration::from_secs(2);
/// How long a run is left alone that cannot be built or read here.
const UNWORKABLE: Duration = Duration::from_secs(30);
/// How long a worker that is told to stop waits for room for what it has in hand.
const IN_VAIN: Duration = Duration::from_secs(5);

/// Which runs are worked on, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serve {
    /// Only runs of these categories; empty: all runs.
    pub categories: Vec<String>,
    /// Only runs of these pipelines; empty: all runs.
    pub pipelines: Vec<String>,
    /// Ends when nothing can be done now, nor within this; `None`: goes on until it is told to stop.
    pub until_idle: Option<Duration>,
    /// How long work is held without a sign of life before others may take it over.
    pub lease: Duration,
    /// Most runs that are open at a time.
    pub runs_at_once: usize,
    /// Whether operations that others have left are carried on.
    pub carry: bool,
}

impl Default for Serve {
    fn default() -> Self {
        Self {
            categories: Vec::new(),
            pipelines: Vec::new(),
            until_idle: None,
            lease: Duration::from_secs(30),
            runs_at_once: RosterSettings::default().open,
            carry: true,
        }
    }
}

/// What was worked on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Served {
    /// Runs that came to an end.
    pub finished: u64,
    /// Runs that were left unfinished: paused, cancelled, waiting, or with somebody else.
    pub left: BTreeMap<RunId, RunStatus>,
    /// Runs that cannot be worked on here, and why.
    pub unworkable: BTreeMap<RunId, String>,
    /// How the finished ones ended.
    pub statuses: BTreeSet<RunStatus>,
    /// Whether it was told to stop.
    pub interrupted: bool,
}

/// Works on all runs of a store that have something to do, until it is told to stop or nothing is left. Runs are served in a
/// fair order: those of higher priority first, then by their submission, and none starves another.
///
/// # Errors
/// When the store fails and stays so.
pub async fn serve(floor: &Floor, request: Serve, observer: Arc<dyn Observer>) -> Result<Served> {
    floor.require(Role::Operator)?;
    let (stop, stopped) = watch::channel(Stop::No);
    let watching = observer.serving(stop.clone());
    let name = format!("pid {}", std::process::id());
    let (store, env) = (floor.store.clone(), floor.env.clone());
    // Whoever writes just then may take a while, at the beginning as at any time.
    let patience = RosterSettings::default().patience;
    // Who stays goes on when there is room again; who is to come to an end says why he does not.
    let full_disk = if request.until_idle.is_none() { Duration::MAX } else { patience };
    let pulse = Pulse::begin_patiently(store.clone(), env.clone(), name, request.lease, patience).await?;
    let beat = tokio::spawn(pulse.clone().beat());
    let settings = RosterSettings {
        filter: WorkFilter {
            categories: request.categories,
            pipelines: request.pipelines,
            but_pipelines: Vec::new(),
        },
        open: request.runs_at_once.max(1),
        until_idle: request.until_idle,
        full_disk,
        ..RosterSettings::default()
    };
    let (undrained, draining) = watch::channel(false);
    let carrier = request.carry.then(|| tokio::spawn(Carrier::default().carry(floor.clone(), draining)));
    let handlers = Arc::new(SharedHandlers::new(floor.wiring.clone()));
    let (sender, ended) = mpsc::unbounded_channel();
    let mut crew = Crew {
        floor: Floor { wiring: handlers.clone(), ..floor.clone() },
        handlers: handlers.clone(),
        observer,
        work: WorkSettings { lease: request.lease, max_wait: Some(LINGER), answers_within: None, full_disk },
        pulse: pulse.clone(),
        rings: Rings::default(),
        stopped,
        stops: BTreeMap::new(),
        tasks: JoinSet::new(),
        sender,
        ended,
        first: None,
        full_since: None,
        unworkable: BTreeMap::new(),
        served: Served::default(),
    };
    let roster = Roster::new(store, env, &pulse.worker().to_string(), settings);
    let worked = roster.work(&mut crew).await;
    beat.abort();
    undrained.send_replace(true);
    // One that is under way stays open, and the next process carries it on.
    carrier.into_iter().for_each(|carrier| carrier.abort());
    drop(watching);
    let mut served = std::mem::take(&mut crew.served);
    served.interrupted = *crew.stopped.borrow() != Stop::No;
    drop(crew);
    handlers.close_all().await;
    worked?;
    Ok(served)
}

/// How work on one of the runs ended.
struct OneEnded {
    run: RunId,
    edition: u32,
    ending: redrive_store::Result<Ending>,
    told: Told,
}

/// What is told of a run that was left.
enum Told {
    Status(RunStatus),
    Unworkable(String),
    Nothing,
}

/// The open runs, each a task.
struct Crew {
    floor: Floor,
    handlers: Arc<SharedHandlers>,
    observer: Arc<dyn Observer>,
    work: WorkSettings,
    pulse: Pulse,
    rings: Rings,
    stopped: watch::Receiver<Stop>,
    stops: BTreeMap<RunId, watch::Sender<Stop>>,
    tasks: JoinSet<()>,
    sender: mpsc::UnboundedSender<OneEnded>,
    ended: mpsc::UnboundedReceiver<OneEnded>,
    first: Option<OneEnded>,
    /// Since when a worker that is told to stop has found no room, by the clock that is never put.
    full_since: Option<Duration>,
    /// Runs that could not be built or read: which edition, and until when they are left alone.
    unworkable: BTreeMap<RunId, (u32, Timestamp)>,
    served: Served,
}

#[async_trait]
impl Host for Crew {
    fn worker(&self) -> WorkerId {
        self.pulse.worker()
    }

    fn stop(&mut self) -> Stop {
        let stop = *self.stopped.borrow_and_update();
        if stop != Stop::No {
            self.stops.values().for_each(|told| {
                told.send_if_modified(|told| std::mem::replace(told, (*told).max(stop)) != stop);
            });
        }
        stop
    }

    fn takes(&mut self, run: &OpenRun, now: Timestamp) -> bool {
        let row = &run.row;
        let left_alone = self.unworkable.get(&row.id);
        if left_alone.is_some_and(|(edition, until)| *edition == row.edition && *until > now) {
            return false;
        }
        if run.has != Has::Source || !SourceName::of(row).is_read_once() {
            return true;
        }
        // Standard input of another process cannot be read here: whoever gave it has to give it again.
        self.served.left.insert(row.id, RunStatus::Queued);
        false
    }

    fn open(&mut self, run: OpenRun, mates: Mates) {
        let (stop, stopped) = watch::channel(Stop::No);
        self.stops.insert(run.row.id, stop.clone());
        let among = Among { mates, pulse: self.pulse.clone(), rings: self.rings.clone() };
        let one = OneRun {
            floor: self.floor.clone(),
            handlers: self.handlers.clone(),
            observer: self.observer.clone(),
            work: self.work,
            among,
            stop,
            stopped,
        };
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            let ended = one.work(run).await;
            // Nobody listens any more when the process is about to end.
            drop(sender.send(ended));
        });
    }

    fn close(&mut self, run: RunId) {
        if let Some(stop) = self.stops.get(&run) {
            stop.send_if_modified(|stop| {
                let goes_on = *stop == Stop::No;
                *stop = (*stop).max(Stop::Drain);
                goes_on
            });
        }
    }

    fn ended(&mut self) -> Option<(RunId, redrive_store::Result<Ending>)> {
        while let Some(joined) = self.tasks.try_join_next() {
            // What a run held whose task broke is nobody's: only with the process is it free for others.
            if let Err(broken) = joined
                && broken.is_panic()
            {
                std::panic::resume_unwind(broken.into_panic());
            }
        }
        let OneEnded { run, edition, ending, told } =
            self.first.take().or_else(|| self.ended.try_recv().ok())?;
        self.stops.remove(&run);
        self.rings.forget(run);
        self.served.left.remove(&run);
        match told {
            Told::Status(status) if ending == Ok(Ending::Finished) => {
                self.served.finished += 1;
                self.served.statuses.insert(status);
            }
            Told::Status(status) => drop(self.served.left.insert(run, status)),
            Told::Unworkable(why) => {
                let until = self.floor.now().after(UNWORKABLE);
                self.unworkable.insert(run, (edition, until));
                self.served.unworkable.insert(run, why);
            }
            Told::Nothing => {}
        }
        Some((run, ending))
    }

    async fn wait(&mut self, at_most: Duration) {
        tokio::select! {
            ended = self.ended.recv() => self.first = ended,
            _ = self.stopped.changed() => {
                self.stop();
            }
            () = self.floor.env.clock.sleep(at_most) => {}
        }
        self.break_off_in_vain().await;
    }
}

impl Crew {
    /// Breaks off what a worker that is told to stop cannot record: without room it would never end.
    async fn break_off_in_vain(&mut self) {
        if *self.stopped.borrow() != Stop::Drain {
            return;
        }
        let full = matches!(room::try_writing(&self.floor, false).await, Err(error) if error.code == Code::StoreFull);
        let now = self.floor.env.clock.uptime();
        self.full_since = full.then(|| self.full_since.unwrap_or(now));
        if self.full_since.is_some_and(|since| now.saturating_sub(since) >= IN_VAIN) {
            tracing::warn!("there is no room to record what is in hand; it is left to whoever comes next");
            self.stops.values().for_each(|stop| {
                stop.send_replace(Stop::Now);
            });
        }
    }
}

/// Work on one run among others.
struct OneRun {
    floor: Floor,
    handlers: Arc<SharedHandlers>,
    observer: Arc<dyn Observer>,
    work: WorkSettings,
    among: Among,
    stop: watch::Sender<Stop>,
    stopped: watch::Receiver<Stop>,
}

impl OneRun {
    async fn work(self, open: OpenRun) -> OneEnded {
        let (run, edition) = (open.row.id, open.row.edition);
        match self.work_on(open).await {
            Ok((ending, told)) => OneEnded { run, edition, ending, told },
            Err(error) => {
                let why = match &error.hint {
                    Some(hint) => format!("{error} ({hint})"),
                    None => error.to_string(),
                };
                self.observer.notice(&Notice::Unworkable { run, why: why.clone() });
                OneEnded { run, edition, ending: Ok(Ending::Stopped), told: Told::Unworkable(why) }
            }
        }
    }

    async fn work_on(&self, open: OpenRun) -> Result<(redrive_store::Result<Ending>, Told)> {
        let (floor, wiring) = (&self.floor, &*self.floor.wiring);
        let row = edited_to_the_end(floor, open.row).await?;
        let definition = pipelines::parse(&row.spec.definition, &format!("the pipeline of {}", row.id))?;
        let index = IndexTarget::open(floor, &definition, &row.spec.source).await?;
        let mut recipe = recipe(wiring, &definition, row.spec.folder.as_ref(), index.as_ref())?;
        recipe.plan = recipe.plan.with_grace(paused(&row));
        let Reopened { source, unreadable } = reopen(wiring, &row, &definition, index.as_ref())?;
        unreadable.into_iter().for_each(|why| self.observer.notice(&Notice::SourceUnreadable { why }));
        let mut rounds = Rounds {
            floor,
            row: row.clone(),
            recipe: Arc::new(recipe),
            settings: self.work,
            observer: &*self.observer,
            stop: self.stop.clone(),
            stopped: self.stopped.clone(),
            among: Some(self.among.clone()),
            part: None,
            failed: None,
        };
        let ended = rounds.until_the_end(source).await;
        self.handlers.close(&rounds.recipe).await;
        if let Some(failed) = rounds.failed {
            return Ok((Err(failed), Told::Nothing));
        }
        let ending = ended?.ending;
        let row = floor.store.run(row.id).await?.unwrap_or(row);
        let (plan, thresholds) = (&rounds.recipe.plan, rounds.recipe.thresholds);
        let left = left_as(&ending).map(|left| match left {
            Left::Stopped => Left::ToOthers,
            other => other,
        });
        let report = report_on_leaving(&*floor.store, &row, plan, thresholds, left, floor.now()).await?;
        self.observer.left(&report);
        Ok((Ok(ending), Told::Status(report.status)))
    }
}
