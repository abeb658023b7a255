//! The board with its clock: calls that wait for workers, and workers that wait for calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redrive_engine::env::Clock;
use redrive_engine::external::{Ask, Board, Heard, Holder, Leased, Refused, Said, Standing};
use redrive_engine::handler::{Answer, Request, Room};
use redrive_engine::receipt::Receipt;
use tokio::sync::Notify;

use super::lease::Signer;
use super::state::{GRACE, Given, Next, Place, State};
use crate::protocol::Decoder;

/// Longest wait of a timer: what is later is looked at again then.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The board of a process.
pub struct WorkBoard {
    clock: Arc<dyn Clock>,
    signer: Signer,
    state: Mutex<State>,
}

impl WorkBoard {
    /// An empty board that nobody may ask at yet. `key` signs leases; nobody else may know it.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, key: [u8; 32]) -> Self {
        Self { clock, signer: Signer::new(key), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.clock.uptime()
    }

    /// Puts a batch on the board and waits for what becomes of it.
    pub(super) async fn lay(&self, place: &Arc<Place>, decoder: &Arc<Decoder>, request: Request) -> Answer {
        let (call, bell) = self.lock().lay(place, decoder, request, self.now());
        let laid = OffTheBoard { board: self, call };
        loop {
            // Not while the board is held.
            let next = self.lock().next(laid.call, self.now());
            match next {
                Next::Answered(answer) => return answer,
                Next::Waits(wait) => tokio::select! {
                    () = bell.notified() => {}
                    () = self.clock.sleep(wait.min(LONGEST)) => {}
                },
            }
        }
    }

    pub(super) fn room(&self, place: &Place) -> Room {
        self.lock().room(place)
    }

    pub(super) fn rings_for(&self, place: &Arc<Place>, wake: &Arc<Notify>) {
        self.lock().rings_for(place, wake);
    }

    fn leased(&self, given: Given, holder: &Holder) -> Leased {
        let Given { call, place, digest, request, standing } = given;
        Leased {
            token: self.signer.token(call, &digest, holder),
            pipeline: place.pipeline.clone(),
            stage: place.stage.clone(),
            run: request.run,
            items: request.items.clone(),
            left: standing.left,
            most: standing.most,
        }
    }
}

/// Takes a batch off the board when its call ends, however it does.
struct OffTheBoard<'a> {
    board: &'a WorkBoard,
    call: u64,
}

impl Drop for OffTheBoard<'_> {
    fn drop(&mut self) {
        self.board.lock().lift(self.call);
    }
}

/// Asks no more when it is dropped; what was given and not taken goes to the next.
struct Leaves<'a> {
    board: &'a WorkBoard,
    ask: u64,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let now = self.board.now();
        self.board.lock().leave(self.ask, now);
    }
}

#[async_trait]
impl Board for WorkBoard {
    fn open(&self) {
        self.lock().open();
    }

    fn drain(&self) {
        self.lock().drain();
    }

    fn is_stopping(&self) -> bool {
        self.lock().is_draining()
    }

    async fn claim(&self, holder: &Holder, ask: Ask) -> Result<Option<Leased>, Refused> {
        let begun = self.now();
        let ends = begun.saturating_add(ask.wait);
        let (ask, bell) = self.lock().ask(ask, self.now())?;
        let waits = Leaves { board: self, ask };
        loop {
            let now = self.now();
            let (given, draining) = {
                let mut state = self.lock();
                (state.take(waits.ask, now), state.is_draining())
            };
            if let Some(given) = given {
                return Ok(Some(self.leased(given, holder)));
            }
            if draining || now >= ends {
                return Ok(None);
            }
            // Whoever goes first was waited for by then.
            let graced = begun.saturating_add(GRACE);
            let until = if now < graced { graced.min(ends) } else { ends };
            tokio::select! {
                () = bell.notified() => {}
                () = self.clock.sleep(until.saturating_sub(now)) => {}
            }
        }
    }

    fn heartbeat(&self, holder: &Holder, token: &str, lease: Option<Duration>) -> Result<Standing, Refused> {
        let held = self.signer.read(token, holder)?;
        let now = self.now();
        self.lock().heartbeat(&held, lease, now)
    }

    async fn hear(&self, holder: &Holder, token: &str, said: Said) -> Result<Heard, Refused> {
        let held = self.signer.read(token, holder)?;
        let (receipt, told) = Receipt::new();
        let now = self.now();
        let taken = self.lock().hear(&held, &said, receipt, now)?;
        if !taken.over {
            return Ok(Heard::Part { accepted: taken.accepted, left: taken.left, standing: taken.standing });
        }
        // The call may have been broken off before it could be answered: then there is nobody left to tell.
        let kept = told.await.map_err(|_| Refused::Lost)?;
        match kept.recorded + kept.stale {
            0 => Err(Refused::Lost),
            _ => Ok(Heard::Over { accepted: taken.accepted, kept }),
        }
    }
}
