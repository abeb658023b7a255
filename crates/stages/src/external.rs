//! A stage whose work is done by workers outside of the process, which ask for it.
//!
//! A call is put on the board and waits there until a worker took it and answered, or let its lease run out. What nobody takes
//! is given back as if it had not been called. Time is kept here for leases only; how long a call may take at all is the
//! engine's affair, as with every stage, and dropping a call's future takes its batch off the board.

mod board;
mod lease;
mod state;

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::item::Payload;
use redrive_engine::handler::{Answer, Handler, Request, Room};
use tokio::sync::Notify;

pub use board::WorkBoard;
use state::Place;

use crate::protocol::Decoder;
use crate::usage;

/// Has a stage's work done by external workers.
pub struct ExternalHandler {
    board: Arc<WorkBoard>,
    place: Arc<Place>,
    decoder: Arc<Decoder>,
}

impl ExternalHandler {
    /// Puts the work of this stage on a board. `output` says where in the payload outputs are put: a JSON pointer; `None`: in
    /// place of the payload. `verdict` says where in the output the verdict stands.
    #[must_use]
    pub fn new(
        board: Arc<WorkBoard>,
        pipeline: &str,
        stage: &str,
        output: Option<String>,
        verdict: Option<String>,
    ) -> Self {
        let place = Arc::new(Place { pipeline: pipeline.into(), stage: stage.into() });
        let decoder = Arc::new(Decoder { output, verdict, ..Decoder::default() });
        Self { board, place, decoder }
    }
}

#[async_trait]
impl Handler for ExternalHandler {
    async fn call(&self, request: Request) -> Answer {
        self.board.lay(&self.place, &self.decoder, request).await
    }

    fn tokens(&self, payload: &Payload) -> u64 {
        usage::of_bytes(payload)
    }

    fn room(&self) -> Option<Room> {
        Some(self.board.room(&self.place))
    }

    fn rings_for_room(&self, wake: &Arc<Notify>) {
        self.board.rings_for(&self.place, wake);
    }
}
