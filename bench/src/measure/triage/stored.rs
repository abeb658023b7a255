//! Stores as operators find them: made by the engine itself.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure as AttemptFailure, Kind};
use redrive_engine::handler::{Answer, Handler, Reply, Request};
use rusqlite::Connection;

use crate::Failure;
use crate::engine::{Bench, runtime};
use crate::material::{Pass, Shape, mixed};

/// Ways in which items fail.
const GROUPS: u64 = 20;
/// What the pipeline of the run looks like to those who read it.
const PIPELINE: &str =
    "name = \"bench\"\n[source]\npath = \"in.jsonl\"\n[[stage]]\nname = \"stage-0\"\nkind = \"pass\"\n";

/// Refuses every item, in one of a few ways.
struct Refuse;

#[async_trait]
impl Handler for Refuse {
    async fn call(&self, request: Request) -> Answer {
        let reply = |id: [u8; 16]| {
            let way =
                mixed(u64::from_le_bytes([id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7]])) % GROUPS;
            let letter = char::from(b'a' + u8::try_from(way).unwrap_or(0));
            let text = format!("the upstream refused it: column {letter} is not what it should be");
            let failure = AttemptFailure::new(Class::Final, Kind::Client, text).with_status(422);
            ItemReply::Failed { failure, shared: false }
        };
        Reply::Items(request.items.iter().map(|input| reply(input.id.0)).collect()).into()
    }
}

/// A store whose items are all dead, each after one attempt.
pub fn dead(path: &Path, shape: Shape) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let bench = Bench::create(path, Shape { stages: 1, ..shape }, Arc::new(Refuse)).await?;
        bench.submit_all().await?;
        bench.drain().await
    })?;
    readable(path)
}

/// A store whose items all wait.
pub fn waiting(path: &Path, shape: Shape) -> Result<(), Failure> {
    runtime()?.block_on(async {
        Bench::create(path, Shape { stages: 1, ..shape }, Arc::new(Pass)).await?.submit_all().await
    })?;
    readable(path)
}

/// Gives the run a pipeline that can be read, and moves the log into the file.
fn readable(path: &Path) -> Result<(), Failure> {
    let conn = Connection::open(path)?;
    conn.execute("UPDATE run SET definition = ?1", [PIPELINE])?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}
