//! What the floor is handed by whoever builds it: the handlers of stages, and what only a process has.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use redrive_core::event::ItemReply;
use redrive_engine::external::Board;
use redrive_engine::handler::{Handler, Input};
use redrive_engine::tap::Tap;
use redrive_pipeline::{ModelDef, StageDef, StageKind};
use serde_json::value::RawValue;

use crate::index::{IndexTarget, ServiceModel};

/// Makes what the floor only knows by its trait. The one place that implements it names concrete handlers.
pub trait Wiring: Send + Sync {
    /// Makes the handler of a stage. Relative paths start from `folder`; `index` is where an index goes, if the pipeline
    /// makes one.
    ///
    /// # Errors
    /// What is wrong with the stage or its environment, in words.
    fn handler(
        &self,
        stage: &StageDef,
        folder: &Path,
        index: Option<&IndexTarget>,
    ) -> Result<Arc<dyn Handler>, String>;

    /// Reads the expression of a filter.
    ///
    /// # Errors
    /// What is wrong with it, in words that go on from "in the expression,".
    fn check_filter(&self, _keep: &str) -> Result<(), String> {
        Ok(())
    }

    /// Makes the handler of a stage for somebody who wants to see what goes over the wire: it tells `tap`, where there is a
    /// wire at all.
    ///
    /// # Errors
    /// What is wrong with the stage or its environment, in words.
    fn tapped_handler(
        &self,
        stage: &StageDef,
        folder: &Path,
        _tap: Arc<Tap>,
    ) -> Result<Arc<dyn Handler>, String> {
        self.handler(stage, folder, None)
    }

    /// Looks whether a model's key and headers are there.
    ///
    /// # Errors
    /// What is missing, in words.
    fn check_model(&self, model: &ModelDef) -> Result<(), String>;

    /// Looks whether a stage may call the address that is written in it; what a name leads to is looked at with every call.
    ///
    /// # Errors
    /// Why it may not, in words.
    fn check_outbound(&self, _stage: &StageDef) -> Result<(), String> {
        Ok(())
    }

    /// Looks whether a stage may start the program that is written in it; where it leads is looked at again with every start.
    ///
    /// # Errors
    /// Why it may not, in words.
    fn check_command(&self, stage: &StageDef) -> Result<(), String> {
        match stage.kind {
            StageKind::Command { .. } => Err("nobody here says which programs may be started".to_owned()),
            _ => Ok(()),
        }
    }

    /// Makes a handler that embeds the text at `/text` by a service's model and answers with the bare vector.
    ///
    /// # Errors
    /// What is missing, in words.
    fn query_embedder(&self, model: &ServiceModel) -> Result<Arc<dyn Handler>, String>;

    /// Reads the answer of an item that was handed over at a stage.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    fn read_answer(&self, stage: &StageDef, _item: &Input, _result: &RawValue) -> Result<ItemReply, String> {
        Err(format!("nobody here can read what stage {} answers", stage.name))
    }

    /// Where the work of external stages is put, in a process that has such a place.
    fn board(&self) -> Option<Arc<dyn Board>> {
        None
    }

    /// Standard input, where whoever asks has one to be read.
    fn standard_input(&self) -> Option<Box<dyn Read + Send>> {
        None
    }
}
