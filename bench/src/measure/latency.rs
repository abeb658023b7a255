//! How long an item waits on an idle engine.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::reading::Reading;
use redrive_engine::admit::{Batch, KnownKeys, submit};
use redrive_engine::handler::{Answer, Handler, Reply, Request};
use redrive_engine::worker::Stop;
use redrive_store::Cursor;
use serde_json::json;
use tokio::sync::mpsc;

use super::Scratch;
use crate::clock::{Watch, nanos, pause};
use crate::engine::{Bench, runtime};
use crate::material::{Shape, item};
use crate::report::{percentile, round, save, table};
use crate::{Common, Failure, facts};

/// Says when it is called.
struct Bell(mpsc::UnboundedSender<u64>);

#[async_trait]
impl Handler for Bell {
    async fn call(&self, request: Request) -> Answer {
        let _ = self.0.send(nanos());
        Reply::Items(request.items.iter().map(|_| ItemReply::Output(None)).collect()).into()
    }
}

/// Submits one item at a time and waits for its start.
pub fn run(common: &Common) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let shape = Shape { concurrency: 16, batch: 1, ..common.shape(2_000) };
    let (mut durable, mut started) = runtime()?.block_on(one_by_one(&scratch, shape))?;
    let mut result = json!({ "facts": facts, "items": shape.items });
    let mut rows = Vec::new();
    for (name, figures) in [("submit_to_durable", &mut durable), ("submit_to_start", &mut started)] {
        figures.sort_by(f64::total_cmp);
        let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|share| percentile(figures, share));
        rows.push(vec![name.to_owned(), format!("{p50:.2}"), format!("{p99:.2}"), format!("{worst:.2}")]);
        result[name] = json!({ "p50_ms": round(p50), "p99_ms": round(p99), "max_ms": round(worst) });
    }
    table(&["milliseconds", "p50", "p99", "max"], &rows);
    save(common.json.as_deref(), &result)
}

async fn one_by_one(scratch: &Scratch, shape: Shape) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    let (bell, mut rung) = mpsc::unbounded_channel();
    let bench = Bench::create(&scratch.store()?, shape, Arc::new(Bell(bell))).await?;
    bench.admitting.store(true, Ordering::SeqCst);
    let session = tokio::spawn(bench.session().work(bench.run.clone()));
    let (mut durable, mut started) = (Vec::new(), Vec::new());
    for n in 0..shape.items {
        // Long enough for the item before to be recorded, and for the engine to be idle.
        pause(Duration::from_millis(5)).await;
        let cursor = Cursor { position: n.to_string(), done: false, duplicates: 0 };
        let (begun, watch) = (nanos(), Watch::start());
        let items = vec![item(n, shape.payload)];
        let batch = Batch {
            run: bench.run.id,
            reading: Reading::FIRST,
            items,
            cursor,
            known_keys: KnownKeys::Replaced,
        };
        submit(&*bench.store, &bench.recipe, &bench.env, batch).await?;
        bench.wake.notify_one();
        durable.push(watch.seconds() * 1e3);
        let at = rung.recv().await.ok_or("the session ended")?;
        started.push(at.saturating_sub(begun) as f64 / 1e6);
    }
    bench.teller.send_replace(Stop::Drain);
    session.await??;
    Ok((durable, started))
}
