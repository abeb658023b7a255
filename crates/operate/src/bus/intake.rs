//! Items come as messages of a queue.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use redrive_pipeline::SourceKind;
use redrive_store::RunFilter;

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::pipelines::{Pipeline, definition_of};
use crate::submit::{Fate, Given, HandIn, HandedIn, Inbox, prepare};
use crate::{Asker, Floor};

/// In whose name items are handed in.
const NAME: &str = "bus";
/// So many of the newest runs are looked at for queues.
const NEWEST: usize = 500;
/// Most bytes of a message.
const LARGEST: usize = 16 << 20;

/// Messages that are in hand at a time.
const IN_HAND: u16 = 256;

/// A message, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wire {
    /// Its body.
    pub body: Vec<u8>,
    /// The key of the item, where a header says it.
    pub key: Option<String>,
    /// The category of the item, where a header says it.
    pub category: Option<String>,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// What it says is kept: the queue may forget it.
    Done,
    /// It can never be used, and why.
    Poison(String),
    /// It cannot be used now, and why.
    Later(String),
}

/// Takes the messages of one queue.
#[async_trait]
pub trait Taker: Send + Sync {
    /// The queue.
    fn queue(&self) -> &str;
    /// The event whose messages the queue gets; `None` where it gets what others put into it.
    fn hears(&self) -> Option<&str> {
        None
    }
    /// Most messages that are in hand at a time.
    fn in_hand(&self) -> u16 {
        IN_HAND
    }
    /// Takes messages, and says of each, in their order, what became of it. A message may come again that was taken: that
    /// changes nothing.
    async fn take(&self, messages: &[Wire]) -> Vec<Taken>;
    /// Ends whatever it keeps running. Called once, when no more messages come.
    async fn close(&self) {}
}

/// Hands the messages of a queue to the standing runs of the pipeline that names it.
pub struct Intake {
    floor: Floor,
    catalog: Arc<Catalog>,
    queue: String,
}

impl Intake {
    /// The intake of one queue.
    #[must_use]
    pub fn of(floor: &Floor, catalog: &Arc<Catalog>, queue: String) -> Self {
        let floor = Floor { asker: Asker::admin(NAME), ..floor.clone() };
        Self { floor, catalog: catalog.clone(), queue }
    }

    /// The queues that pipelines of the folder name now.
    #[must_use]
    pub fn queues(catalog: &Catalog) -> BTreeSet<String> {
        catalog.in_force().iter().filter_map(|pipeline| queue_of(pipeline).map(ToOwned::to_owned)).collect()
    }

    /// The version of the pipeline that is in force now: its file may have been changed since the last messages.
    fn pipeline(&self) -> Result<Pipeline> {
        let mut all = self.catalog.in_force().into_iter();
        let found = all.find(|pipeline| queue_of(pipeline) == Some(&self.queue));
        found.map(Arc::unwrap_or_clone).ok_or_else(|| {
            Error::not_found(format!("no pipeline of the folder takes from queue {} any more", self.queue))
        })
    }

    async fn hand_in(&self, given: Vec<Given>) -> Result<HandedIn> {
        let ready = prepare(&*self.floor.wiring, self.pipeline()?, HandIn::default())?;
        Inbox::open(&self.floor, ready).items(given).await
    }
}

fn queue_of(pipeline: &Pipeline) -> Option<&str> {
    let source = &pipeline.definition.source;
    source.queue.as_deref().filter(|_| source.kind == SourceKind::Inbox)
}

/// The queues that pipelines of runs name, as far as the newest runs tell.
///
/// # Errors
/// When the store fails.
pub async fn queues_of_runs(floor: &Floor) -> Result<BTreeSet<String>> {
    let rows = floor.store.runs(RunFilter::default(), None, NEWEST).await?;
    Ok(rows.iter().filter_map(definition_of).filter_map(|definition| definition.source.queue).collect())
}

#[async_trait]
impl Taker for Intake {
    fn queue(&self) -> &str {
        &self.queue
    }

    async fn take(&self, messages: &[Wire]) -> Vec<Taken> {
        let mut taken: Vec<Taken> = Vec::with_capacity(messages.len());
        let (mut places, mut given) = (Vec::new(), Vec::new());
        for (place, message) in messages.iter().enumerate() {
            match read(message) {
                Err(why) => taken.push(Taken::Poison(why)),
                Ok(item) => {
                    taken.push(Taken::Later(String::new()));
                    places.push(place);
                    given.push(item);
                }
            }
        }
        if given.is_empty() {
            return taken;
        }
        let fates: Vec<Taken> = match self.hand_in(given).await {
            Ok(handed) => handed
                .items
                .into_iter()
                .map(|item| match item.outcome {
                    Fate::Admitted | Fate::Known | Fate::Changed => Taken::Done,
                    Fate::Refused => {
                        let why = item.reason.unwrap_or_else(|| "cannot be used".to_owned());
                        Taken::Poison(format!("the message {why}"))
                    }
                })
                .collect(),
            Err(error) => places.iter().map(|_| Taken::Later(error.to_string())).collect(),
        };
        for (place, fate) in places.into_iter().zip(fates) {
            taken[place] = fate;
        }
        taken
    }
}

fn read(message: &Wire) -> std::result::Result<Given, String> {
    if message.body.len() > LARGEST {
        return Err(format!("the message has {} bytes, and an item at most {LARGEST}", message.body.len()));
    }
    let payload =
        std::str::from_utf8(&message.body).map_err(|_| "the message is no UTF-8 text".to_owned())?;
    let payload = payload.to_owned();
    Ok(Given { key: message.key.clone(), payload, category: message.category.clone() })
}
