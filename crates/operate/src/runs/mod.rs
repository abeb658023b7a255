//! Runs: find one, begin or go on with it, change its pipeline, pause, resume, cancel it, and say how it stands.
//!
//! A run belongs to a pipeline and a source. [`begin`] goes on with the run of both if there is one; [`resume`] names the
//! run. Both answer with [`Work`](crate::work::Work) that [`work`](crate::work::work) does.
//!
//! ```
//! # use std::path::Path;
//! # use std::sync::Arc;
//! # use async_trait::async_trait;
//! # use redrive_core::event::ItemReply;
//! # use redrive_engine::env::Env;
//! # use redrive_engine::handler::{Answer, Handler, Reply, Request};
//! # use redrive_operate::index::{IndexTarget, ServiceModel};
//! # use redrive_operate::pipelines::Pipeline;
//! # use redrive_operate::sources::SourceName;
//! # use redrive_operate::{Asker, Floor, Wiring};
//! # use redrive_pipeline::{ModelDef, StageDef};
//! # use redrive_store::MemoryStore;
//! # use redrive_core::status::RunStatus;
//! use redrive_operate::runs::{self, Begin, Next};
//! use redrive_operate::work::{Unobserved, WorkSettings, work};
//!
//! struct Pass;
//!
//! #[async_trait]
//! impl Handler for Pass {
//!     async fn call(&self, request: Request) -> Answer {
//!         Reply::Items(request.items.iter().map(|_| ItemReply::Output(None)).collect()).into()
//!     }
//! }
//! # struct Handlers;
//! # impl Wiring for Handlers {
//! #     fn handler(&self, _: &StageDef, _: &Path, _: Option<&IndexTarget>) -> Result<Arc<dyn Handler>, String> {
//! #         Ok(Arc::new(Pass))
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
//! # std::fs::write(&file, "name = \"p\"\n[source]\npath = \"in.jsonl\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n")?;
//! # std::fs::write(folder.path().join("in.jsonl"), "{\"n\":1}\n{\"n\":2}\n")?;
//! let store = Arc::new(MemoryStore::new());
//! let floor = Floor {
//!     store: store.clone(),
//!     index: store,
//!     env: Env::system(),
//!     asker: Asker::admin("me"),
//!     wiring: Arc::new(Handlers),
//! };
//! let pipeline = Pipeline::read(&file)?;
//! let source = SourceName::find(&pipeline.definition, &[], &pipeline.folder)?;
//! let prepared = runs::prepare(&*floor.wiring, pipeline, source)?;
//! let begun = runs::begin(&floor, prepared, Begin::default()).await?;
//! let Next::Work(ready) = begun.next else { panic!("somebody paused it") };
//! let worked = work(&floor, *ready, WorkSettings::default(), &Unobserved).await?;
//! assert_eq!((worked.report.status, worked.report.counts.succeeded), (RunStatus::Completed, 2));
//! assert_eq!(runs::show(&floor, Some(begun.run)).await?.status, RunStatus::Completed);
//! # Ok(())
//! # }
//! ```

mod begin;
mod control;
mod dry_run;
mod edit;
mod reader;
mod show;

pub use begin::{Begin, Begun, Next, Other, Prepared, Resume, Resumed, begin, prepare, resume};
pub(crate) use begin::{Standing, refuse_second, standing};
pub use control::{cancel, let_go_on, pause, refuse_cancelling, refuse_finished};
pub(crate) use control::{cancel_known, refuse_full};
pub use dry_run::{DryRun, Lines, RefusedLine, StageAhead, Would, dry_run};
pub use edit::Edit;
pub(crate) use edit::{edit_is_under_way, edited_to_the_end, refuse_other_stages};
pub use reader::{KnownRun, Runs};
pub use show::{List, RunList, list, report, show};
