//! Handlers that runs of the same stage configuration have in common.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_engine::external::Board;
use redrive_engine::handler::Handler;
use redrive_engine::recipe::Recipe;
use redrive_pipeline::{ModelDef, StageDef, StageKind};

use crate::index::{IndexTarget, ServiceModel};
use crate::wiring::Wiring;

/// Handlers that are kept though no run uses them.
const UNUSED: usize = 32;

/// Makes each handler once for all runs whose stage is configured alike.
pub(super) struct SharedHandlers {
    inner: Arc<dyn Wiring>,
    made: Mutex<BTreeMap<String, Arc<dyn Handler>>>,
}

impl SharedHandlers {
    pub(super) fn new(inner: Arc<dyn Wiring>) -> Self {
        Self { inner, made: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<dyn Handler>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what a run has to itself, and the handlers that nobody has used for long.
    pub(super) async fn close(&self, recipe: &Recipe) {
        for work in &recipe.stages {
            let shared = self.lock().values().any(|handler| Arc::ptr_eq(handler, &work.handler));
            if !shared {
                work.handler.close().await;
            }
        }
        let unused = {
            let mut made = self.lock();
            let all = std::mem::take(&mut *made);
            let (idle, used): (BTreeMap<_, _>, _) =
                all.into_iter().partition(|(_, handler)| Arc::strong_count(handler) == 1);
            *made = used;
            let mut idle = idle.into_iter();
            made.extend(idle.by_ref().take(UNUSED));
            idle.collect::<Vec<_>>()
        };
        for (_, handler) in unused {
            handler.close().await;
        }
    }

    /// Ends all of them.
    pub(super) async fn close_all(&self) {
        let made = std::mem::take(&mut *self.lock());
        for handler in made.into_values() {
            handler.close().await;
        }
    }
}

impl Wiring for SharedHandlers {
    fn handler(
        &self,
        stage: &StageDef,
        folder: &Path,
        index: Option<&IndexTarget>,
    ) -> Result<Arc<dyn Handler>, String> {
        // What writes into an index belongs to that index, and a model whose dimension is kept with its run to that run.
        if index.is_some() || matches!(stage.kind, StageKind::Embed { .. }) {
            return self.inner.handler(stage, folder, index);
        }
        let key = format!("{}\n{stage:?}", folder.display());
        if let Some(handler) = self.lock().get(&key) {
            return Ok(handler.clone());
        }
        let made = self.inner.handler(stage, folder, index)?;
        Ok(self.lock().entry(key).or_insert(made).clone())
    }

    fn check_filter(&self, keep: &str) -> Result<(), String> {
        self.inner.check_filter(keep)
    }

    fn check_model(&self, model: &ModelDef) -> Result<(), String> {
        self.inner.check_model(model)
    }

    fn check_outbound(&self, stage: &StageDef) -> Result<(), String> {
        self.inner.check_outbound(stage)
    }

    fn check_command(&self, stage: &StageDef) -> Result<(), String> {
        self.inner.check_command(stage)
    }

    fn query_embedder(&self, model: &ServiceModel) -> Result<Arc<dyn Handler>, String> {
        self.inner.query_embedder(model)
    }

    fn board(&self) -> Option<Arc<dyn Board>> {
        self.inner.board()
    }

    fn standard_input(&self) -> Option<Box<dyn Read + Send>> {
        self.inner.standard_input()
    }
}
