//! Many small runs in one worker beside one run of as many items, and how soon the first call comes where many runs are open.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::id::{RunId, WorkerId};
use redrive_core::reading::Reading;
use redrive_core::time::Timestamp;
use redrive_engine::admit::{Batch, KnownKeys, submit};
use redrive_engine::env::Env;
use redrive_engine::handler::{Answer, Handler, Request};
use redrive_engine::recipe::Recipe;
use redrive_engine::worker::{
    Among, Ending, Host, Mates, Pulse, Rings, Roster, RosterSettings, Session, Settings, Stop,
};
use redrive_store::{Cursor, Error, NewRun, OpenRun, Store};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::Scratch;
use crate::clock::{Watch, nanos};
use crate::engine::{Bench, measured, open, runtime};
use crate::material::{Pass, Shape, item, new_run, recipe};
use crate::report::{Spread, round, save, say, table};
use crate::{Common, Failure, facts, process};

/// Items of each of the many runs.
const ITEMS: usize = 4;
/// How many runs are open when the first call is waited for.
const OPEN: [usize; 4] = [10, 100, 1_000, 10_000];

/// Notes when it is first called.
#[derive(Default)]
struct First(AtomicU64);

#[async_trait]
impl Handler for First {
    async fn call(&self, request: Request) -> Answer {
        let _ = self.0.compare_exchange(0, nanos(), Ordering::SeqCst, Ordering::SeqCst);
        Pass.call(request).await
    }
}

/// Opens runs as tasks, all with one pipeline.
struct Tasks {
    store: Arc<dyn Store>,
    recipe: Arc<Recipe>,
    env: Env,
    pulse: Pulse,
    rings: Rings,
    stop: watch::Sender<Stop>,
    sender: mpsc::UnboundedSender<(RunId, Result<Ending, Error>)>,
    ended: mpsc::UnboundedReceiver<(RunId, Result<Ending, Error>)>,
    first: Option<(RunId, Result<Ending, Error>)>,
}

#[async_trait]
impl Host for Tasks {
    fn worker(&self) -> WorkerId {
        self.pulse.worker()
    }

    fn stop(&mut self) -> Stop {
        Stop::No
    }

    fn takes(&mut self, _run: &OpenRun, _now: Timestamp) -> bool {
        true
    }

    fn open(&mut self, run: OpenRun, mates: Mates) {
        let id = run.row.id;
        let session = Session {
            store: self.store.clone(),
            recipe: self.recipe.clone(),
            env: self.env.clone(),
            settings: Settings { max_wait: Some(Duration::ZERO), ..Settings::default() },
            wake: self.rings.of(id),
            admitting: Arc::new(AtomicBool::new(false)),
            stop: self.stop.subscribe(),
            among: Some(Among { mates, pulse: self.pulse.clone(), rings: self.rings.clone() }),
        };
        let sender = self.sender.clone();
        tokio::spawn(async move { sender.send((id, session.work(run.row).await)) });
    }

    fn close(&mut self, _run: RunId) {}

    fn ended(&mut self) -> Option<(RunId, Result<Ending, Error>)> {
        let (run, ending) = self.first.take().or_else(|| self.ended.try_recv().ok())?;
        self.rings.forget(run);
        Some((run, ending))
    }

    async fn wait(&mut self, at_most: Duration) {
        tokio::select! {
            ended = self.ended.recv() => self.first = ended,
            () = self.env.clock.sleep(at_most) => {}
        }
    }
}

/// Makes a store with so many runs in it, all read to their ends.
async fn fill(path: &Path, runs: usize, shape: Shape, recipe: &Recipe) -> Result<Arc<dyn Store>, Failure> {
    let (store, env) = (Arc::new(open(path)?), Env::system());
    for run in 0..runs {
        let new = NewRun { source: format!("run {run}"), ..new_run() };
        let row = store.create_run(new, env.clock.now()).await?;
        let items = (0..ITEMS).map(|n| item(run * ITEMS + n, shape.payload)).collect();
        let cursor = Cursor { position: "end".to_owned(), done: true, duplicates: 0 };
        submit(
            &*store,
            recipe,
            &env,
            Batch { run: row.id, reading: Reading::FIRST, items, cursor, known_keys: KnownKeys::Replaced },
        )
        .await?;
    }
    Ok(store)
}

/// Works on all runs of a store until nothing is left.
async fn serve(store: Arc<dyn Store>, recipe: Arc<Recipe>) -> Result<(), Failure> {
    let env = Env::system();
    let lease = Settings::default().lease;
    let pulse = Pulse::begin(store.clone(), env.clone(), "bench".to_owned(), Vec::new(), lease).await?;
    let settings = RosterSettings { until_idle: Some(Duration::ZERO), ..RosterSettings::default() };
    let roster = Roster::new(store.clone(), env.clone(), &pulse.worker().to_string(), settings);
    let ((sender, ended), (stop, _)) = (mpsc::unbounded_channel(), watch::channel(Stop::No));
    let (rings, first) = (Rings::default(), None);
    let mut tasks = Tasks { store, recipe, env, pulse, rings, stop, sender, ended, first };
    Ok(roster.work(&mut tasks).await?)
}

/// Many small runs against one large one, taking turns; then the first call over the number of open runs.
pub fn run(common: &Common) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let shape =
        Shape { stages: common.stages.max(1), concurrency: 128, batch: ITEMS, ..common.shape(20_000) };
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for _ in 0..common.repeat {
        let path = scratch.store()?;
        one.push(runtime()?.block_on(async {
            let bench = Bench::create(&path, shape, Arc::new(Pass)).await?;
            bench.submit_all().await?;
            Ok::<_, Failure>(measured(bench.drain()).await?.1.seconds)
        })?);
        let path = scratch.store()?;
        many.push(runtime()?.block_on(async {
            let handler: Arc<dyn Handler> = Arc::new(Pass);
            let recipe = Arc::new(recipe(shape, &handler)?);
            let store = fill(&path, shape.items / ITEMS, shape, &recipe).await?;
            Ok::<_, Failure>(measured(serve(store, recipe)).await?.1.seconds)
        })?);
    }
    let rate = |seconds: &[f64]| Spread::of(seconds.iter().map(|s| shape.items as f64 / s).collect());
    let ratio = Spread::of(one.iter().zip(&many).map(|(one, many)| one / many).collect());
    let rows = vec![
        vec!["one run".to_owned(), rate(&one).text(0)],
        vec![format!("{} runs of {ITEMS}", shape.items / ITEMS), rate(&many).text(0)],
        vec!["share".to_owned(), ratio.text(2)],
    ];
    table(&["items a second", "median (least to most)"], &rows);
    let first = first_calls(&scratch, shape)?;
    let result = json!({
        "facts": facts, "items": shape.items, "stages": shape.stages,
        "one": rate(&one).json(), "many": rate(&many).json(), "share": ratio.json(), "first_call": first,
    });
    save(common.json.as_deref(), &result)
}

/// How long it takes from the start of a worker to its first call, and how much memory it has then and at the end.
fn first_calls(scratch: &Scratch, shape: Shape) -> Result<Vec<Value>, Failure> {
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for runs in OPEN {
        let path = scratch.store()?;
        let (ms, seconds) = runtime()?.block_on(async {
            let first = Arc::new(First::default());
            let handler: Arc<dyn Handler> = first.clone();
            let recipe = Arc::new(recipe(shape, &handler)?);
            let store = fill(&path, runs, shape, &recipe).await?;
            let (began, watch) = (nanos(), Watch::start());
            serve(store, recipe).await?;
            let called = first.0.load(Ordering::SeqCst).saturating_sub(began) as f64 / 1e6;
            Ok::<_, Failure>((called, watch.seconds()))
        })?;
        let peak = process::peak_rss_mb();
        rows.push(vec![runs.to_string(), format!("{ms:.1}"), format!("{seconds:.2}"), format!("{peak:.0}")]);
        figures.push(json!({ "runs": runs, "first_call_ms": round(ms), "peak_mb": round(peak) }));
    }
    say("");
    table(&["open runs", "first call, ms", "all done, s", "peak memory so far, MB"], &rows);
    Ok(figures)
}
