//! Dead letters: list them, group them by alike errors, send them back, write them out, read them in edited, remove them.
//!
//! [`Which`] says which ones, as it was asked; a [`Selection`] is the same in a store's terms, and what a preview and the
//! act itself both go by.
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
//! # use redrive_core::failure::{Class, Failure, Kind};
//! # use redrive_operate::runs::{self, Begin, Next};
//! # use redrive_operate::work::{WorkSettings, work};
//! use redrive_operate::dead::{self, List, Redrive, Selection, Which};
//! use redrive_operate::work::Unobserved;
//! # struct Refuse;
//! # #[async_trait]
//! # impl Handler for Refuse {
//! #     async fn call(&self, request: Request) -> Answer {
//! #         let failure = || Failure::new(Class::Final, Kind::Handler, "no");
//! #         let failed = |_| ItemReply::Failed { failure: failure(), shared: false };
//! #         Reply::Items(request.items.iter().map(failed).collect()).into()
//! #     }
//! # }
//! # struct Handlers;
//! # impl Wiring for Handlers {
//! #     fn handler(&self, _: &StageDef, _: &Path, _: Option<&IndexTarget>) -> Result<Arc<dyn Handler>, String> {
//! #         Ok(Arc::new(Refuse))
//! #     }
//! #     fn check_model(&self, _: &ModelDef) -> Result<(), String> {
//! #         Ok(())
//! #     }
//! #     fn query_embedder(&self, _: &ServiceModel) -> Result<Arc<dyn Handler>, String> {
//! #         Err("no model is reached here".to_owned())
//! #     }
//! # }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("p.toml");
//! # std::fs::write(&file, "name = \"p\"\n[source]\npath = \"in.jsonl\"\n[[stage]]\nname = \"a\"\nkind = \"pass\"\n")?;
//! # std::fs::write(folder.path().join("in.jsonl"), "{\"n\":1}\n{\"n\":2}\n")?;
//! # let store = Arc::new(MemoryStore::new());
//! # let wiring = Arc::new(Handlers);
//! # let floor = Floor { store: store.clone(), index: store, env: Env::system(), asker: Asker::admin("me"), wiring };
//! # let pipeline = Pipeline::read(&file)?;
//! # let source = SourceName::find(&pipeline.definition, &[], &pipeline.folder)?;
//! # let prepared = runs::prepare(&*floor.wiring, pipeline, source)?;
//! # let Next::Work(ready) = runs::begin(&floor, prepared, Begin::default()).await?.next else { panic!() };
//! # work(&floor, *ready, WorkSettings::default(), &Unobserved).await?;
//! let which = Which { class: Some(Class::Final), ..Which::default() };
//! let page = dead::list(&floor, &List { which: which.clone(), limit: 50, ..List::default() }).await?;
//! assert_eq!(page.items.len(), 2);
//!
//! let selection = Selection::of(&floor, &which).await?;
//! let request = Redrive { limit: Some(1), ..Redrive::default() };
//! let planned = dead::preview(&floor, &selection, &request).await?;
//! let done = dead::redrive(&floor, &selection, &request, &Unobserved).await?;
//! assert_eq!((planned.items, done.items), (1, 1));
//! # Ok(())
//! # }
//! ```

mod edit;
mod export;
mod from;
mod frozen;
mod import;
mod layout;
mod list;
mod notes;
mod price;
mod purge;
mod redrive;
mod retry;
mod selection;
mod under_way;

pub use edit::{Difference, Draft, Edited, draft, work_after};
pub use export::{Export, Exported};
pub use from::redrive_from;
pub(crate) use from::requests_from;
pub use frozen::{Allowance, Freeze, Frozen, MOST_FROZEN, Planned, SentBack, Share, freeze, send_frozen};
pub(crate) use frozen::{gather, plan};
pub use import::{Import, Imported, LINES};
pub use layout::indented;
pub use list::{
    DeadGroup, DeadGroups, DeadItem, DeadList, DeadOrder, GroupPage, Groups, List, group_page, groups, list,
    open_groups,
};
pub use notes::{Note, Noted, note};
pub use purge::{Changed, preview_purge, purge};
pub use redrive::{Canary, Redrive, Redriven, preview, redrive};
pub(crate) use redrive::{check_rate, is_paused, touched};
pub(crate) use retry::own_policy_if_any;
pub use retry::said_policy;
pub(crate) use selection::finds_any;
pub use selection::{Selection, Which};
