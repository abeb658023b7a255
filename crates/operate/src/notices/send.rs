//! Who is told: a standing run of Redrive's own for each.

use std::path::Path;

use redrive_core::id::ContentHash;
use redrive_pipeline::{Definition, NotifyDef, NotifyTarget};
use redrive_store::NewRun;
use serde_json::{Value, json};

use super::Notice;
use crate::Floor;
use crate::error::{Error, Result};
use crate::pipelines::{Pipeline, recipe};
use crate::submit::{self, Given, HandIn, Inbox};
use crate::wiring::Wiring;

/// So much of a pipeline's name is a part of the names of its own standing runs.
const NAME: usize = 32;

/// Somebody who is told.
pub(super) struct Target<'a> {
    pub(super) def: &'a NotifyDef,
    /// The name of the pipeline whose items are the messages.
    pub(super) name: String,
    text: String,
}

impl<'a> Target<'a> {
    /// Everybody whom a pipeline tells something.
    pub(super) fn all(definition: &'a Definition) -> Vec<Self> {
        definition.notify.iter().map(|def| Self::of(&definition.name, def)).collect()
    }

    fn of(pipeline: &str, def: &'a NotifyDef) -> Self {
        let quoted = |text: &str| Value::from(text).to_string();
        let (identity, stage) = match &def.target {
            NotifyTarget::Url { url, secret_env } => {
                let secret = secret_env.as_ref().map(|name| format!("secret_env = {}\n", quoted(name)));
                let stage = format!("kind = \"http\"\nbody = \"webhook\"\nurl = {}\n", quoted(url));
                (format!("url {url}"), stage + &secret.unwrap_or_default())
            }
            NotifyTarget::Command { command } => {
                let command = json!(command).to_string();
                (format!("command {command}"), format!("kind = \"command\"\ncommand = {command}\n"))
            }
        };
        let mark = ContentHash::of(&[pipeline.as_bytes(), identity.as_bytes()]).to_string();
        let short: String = pipeline.chars().take(NAME).collect();
        let name = format!("{}{short}.{}", NewRun::INTERNAL, mark.get(..8).unwrap_or_default());
        // Whoever is away for a day is told after it: the waits grow to an hour, and there are a week of them.
        let text = format!(
            "name = {}\ndeadline = \"7d\"\n[source]\nkind = \"inbox\"\n[run]\nfailure_budget = false\n\
             [gate.notify-{mark}]\nbreaker = false\n[[stage]]\nname = \"tell\"\n{stage}gate = \"notify-{mark}\"\n\
             concurrency = 2\ntimeout = \"30s\"\nretry = {{ preset = \"daemon\", max_attempts = 200 }}\n",
            quoted(&name),
            mark = mark.get(..16).unwrap_or_default(),
        );
        Self { def, name, text }
    }

    /// Whether it is to hear of this.
    pub(super) fn hears(&self, notice: &Notice) -> bool {
        let named = notice.to.as_ref().is_none_or(|to| *to == self.name);
        named && self.def.on.iter().any(|on| on.name() == notice.kind)
    }

    fn pipeline(&self, folder: &Path) -> Result<Pipeline> {
        Pipeline::internal(self.text.clone(), folder.to_owned())
    }

    /// Hands messages over. The same again is known, and not told twice.
    pub(super) async fn hand_over(&self, floor: &Floor, folder: &Path, notices: &[Notice]) -> Result<()> {
        let given: Vec<Given> = notices.iter().filter(|notice| self.hears(notice)).map(message).collect();
        if given.is_empty() {
            return Ok(());
        }
        // What was told before stays so, whatever of the entry was edited.
        let how = HandIn { keep_passed: true, ..HandIn::default() };
        let ready = submit::prepare(&*floor.wiring, self.pipeline(folder)?, how)?;
        Inbox::open(floor, ready).items(given).await?;
        Ok(())
    }
}

/// A message as Standard Webhooks has it.
fn message(notice: &Notice) -> Given {
    let payload = json!({"type": notice.kind, "timestamp": notice.at.to_string(), "data": notice.data});
    Given { key: Some(notice.key.clone()), payload: payload.to_string(), category: None }
}

/// Refuses a pipeline that names somebody who cannot be told.
pub(crate) fn refuse_targets(wiring: &dyn Wiring, pipeline: &Pipeline) -> Result<()> {
    for (n, target) in Target::all(&pipeline.definition).into_iter().enumerate() {
        let own = target.pipeline(&pipeline.folder)?;
        // The stage that sends is ours; who reads of it wrote an entry.
        let entry = format!("[[notify]] entry {}", n + 1);
        recipe(wiring, &own.definition, &own.folder, None)
            .map_err(|error| Error { message: error.message.replace("stage tell", &entry), ..error })?;
    }
    Ok(())
}
