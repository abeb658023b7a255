//! A floor over the in-memory store, and handlers that do as they are told.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::item::NewItem;
use redrive_core::status::RunStatus;
use redrive_engine::env::Env;
use redrive_engine::handler::{Answer, Handler, Input, Reply, Request};
use redrive_engine::report::RunReport;
use redrive_operate::index::{IndexTarget, ServiceModel};
use redrive_operate::pipelines::Pipeline;
use redrive_operate::runs::{self, Begin, Begun, Next};
use redrive_operate::sources::SourceName;
use redrive_operate::work::{Unobserved, WorkSettings, work};
use redrive_operate::{Asker, Floor, Result, Wiring};
use redrive_pipeline::{ModelDef, StageDef};
use redrive_store::MemoryStore;

/// A stage `split` makes two children of an item; any other passes what is well, or everything once it is mended.
struct Service {
    mended: Arc<AtomicBool>,
}

impl Service {
    fn reply(&self, stage: &str, item: &Input) -> ItemReply {
        if stage == "split" {
            let child = |part: &str, place| NewItem::new(part, item.payload.clone(), place);
            return ItemReply::Children(vec![child("a", 0), child("b", 1)]);
        }
        let ill = item.payload.windows(3).any(|word| word == b"ill");
        if ill && !self.mended.load(Ordering::SeqCst) {
            let failure = Failure::new(Class::Final, Kind::Handler, "unreadable");
            return ItemReply::Failed { failure, shared: false };
        }
        ItemReply::Output(None)
    }
}

#[async_trait]
impl Handler for Service {
    async fn call(&self, request: Request) -> Answer {
        let reply = |item| self.reply(&request.stage, item);
        Reply::Items(request.items.iter().map(reply).collect()).into()
    }
}

struct Services {
    mended: Arc<AtomicBool>,
}

impl Wiring for Services {
    fn handler(
        &self,
        _stage: &StageDef,
        _folder: &Path,
        _index: Option<&IndexTarget>,
    ) -> std::result::Result<Arc<dyn Handler>, String> {
        Ok(Arc::new(Service { mended: self.mended.clone() }))
    }

    fn check_model(&self, _model: &ModelDef) -> std::result::Result<(), String> {
        Ok(())
    }

    fn query_embedder(&self, _model: &ServiceModel) -> std::result::Result<Arc<dyn Handler>, String> {
        Err("no model is reached here".to_owned())
    }
}

/// A floor, a folder with a pipeline and its source, and a way to mend the service.
pub struct House {
    pub floor: Floor,
    folder: tempfile::TempDir,
    mended: Arc<AtomicBool>,
}

impl House {
    /// A house whose pipeline has these stages over these lines.
    pub fn new(stages: &str, lines: &str) -> Self {
        let (store, mended) = (Arc::new(MemoryStore::new()), Arc::new(AtomicBool::new(false)));
        let floor = Floor {
            store: store.clone(),
            index: store,
            env: Env::system(),
            asker: Asker::admin("somebody"),
            wiring: Arc::new(Services { mended: mended.clone() }),
        };
        let house = Self { floor, folder: tempfile::tempdir().expect("a folder"), mended };
        house.write(stages, lines);
        house
    }

    /// Writes the pipeline and its source anew.
    pub fn write(&self, stages: &str, lines: &str) {
        let text = format!("name = \"p\"\n[source]\npath = \"in.jsonl\"\n{stages}");
        std::fs::write(self.file(), text).expect("written");
        std::fs::write(self.folder.path().join("in.jsonl"), lines).expect("written");
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("p.toml")
    }

    pub fn mend(&self) {
        self.mended.store(true, Ordering::SeqCst);
    }

    /// Begins the run of the pipeline, or goes on with it.
    pub async fn begin(&self, request: Begin) -> Result<Begun> {
        let pipeline = Pipeline::read(&self.file())?;
        let source = SourceName::find(&pipeline.definition, &[], &pipeline.folder)?;
        let prepared = runs::prepare(&*self.floor.wiring, pipeline, source)?;
        runs::begin(&self.floor, prepared, request).await
    }

    /// Runs the pipeline until it ends.
    pub async fn run(&self) -> RunReport {
        let begun = self.begin(Begin::default()).await.expect("begun");
        let Next::Work(ready) = begun.next else { panic!("it is paused") };
        let worked = work(&self.floor, *ready, WorkSettings::default(), &Unobserved).await;
        let worked = worked.expect("worked");
        assert_ne!(worked.report.status, RunStatus::Running);
        worked.report
    }
}
