//! Work is handed over: a whole run, or items one by one.
//!
//! [`run`] begins a run, or goes on with it, by the rules of [`runs::begin`](crate::runs::begin), and leaves the work to
//! others. An [`Inbox`] takes items for the standing runs of a pipeline: one open run for each category, in which a key is
//! known. [`close`] ends such a run once its items have ended.
//!
//! ```
//! # use std::path::Path;
//! # use std::sync::Arc;
//! # use redrive_engine::env::Env;
//! # use redrive_engine::handler::{Answer, Handler, Reply, Request};
//! # use redrive_operate::index::{IndexTarget, ServiceModel};
//! # use redrive_operate::pipelines::Pipeline;
//! # use redrive_operate::{Asker, Floor, Wiring};
//! # use redrive_pipeline::{ModelDef, StageDef};
//! # use redrive_store::MemoryStore;
//! use redrive_core::status::RunStatus;
//! use redrive_operate::submit::{self, Fate, Given, HandIn, Inbox};
//! # struct Nobody;
//! # #[async_trait::async_trait]
//! # impl Handler for Nobody {
//! #     async fn call(&self, _: Request) -> Answer {
//! #         Reply::Items(Vec::new()).into()
//! #     }
//! # }
//! # struct Handlers;
//! # impl Wiring for Handlers {
//! #     fn handler(&self, _: &StageDef, _: &Path, _: Option<&IndexTarget>) -> Result<Arc<dyn Handler>, String> {
//! #         Ok(Arc::new(Nobody))
//! #     }
//! #     fn check_model(&self, _: &ModelDef) -> Result<(), String> {
//! #         Ok(())
//! #     }
//! #     fn query_embedder(&self, _: &ServiceModel) -> Result<Arc<dyn Handler>, String> {
//! #         Err("no model is reached here".to_owned())
//! #     }
//! # }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("p.toml");
//! # let text = "name = \"p\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n";
//! # std::fs::write(&file, text)?;
//! # let store = Arc::new(MemoryStore::new());
//! # let wiring = Arc::new(Handlers);
//! # let floor = Floor { store: store.clone(), index: store, env: Env::system(), asker: Asker::admin("me"), wiring };
//! let ready = submit::prepare(&*floor.wiring, Pipeline::read(&file)?, HandIn::default())?;
//! let mut inbox = Inbox::open(&floor, ready);
//! let item = |payload: &str| Given { payload: payload.to_owned(), ..Given::default() };
//! let given = vec![item(r#"{"id":"a","n":1}"#), item(r#"{"id":"a","n":2}"#), item("{}")];
//! let answer = inbox.items(given).await?;
//! let fates: Vec<Fate> = answer.items.iter().map(|item| item.outcome).collect();
//! assert_eq!(fates, [Fate::Admitted, Fate::Changed, Fate::Refused]);
//! let closed = submit::close(&floor, answer.runs[0].run).await?;
//! assert_eq!(closed.report.counts.superseded, 1);
//! assert_eq!(closed.report.status, RunStatus::Queued, "an item is left for somebody to work on");
//! # Ok(())
//! # }
//! ```

mod answer;
mod close;
mod given;
mod inbox;
mod once;
mod run;
mod stream;

pub use answer::{Fate, Handed, HandedIn, StandingRun, Tally};
pub use close::{Closed, close};
pub use given::Given;
pub use inbox::{HandIn, Inbox, Ready, prepare};
pub use once::{RunOfItems, run_of_items};
pub use run::{HandedOver, run};
pub use stream::Stream;
