//! A stage that takes items out by an expression in the Common Expression Language.
//!
//! The expression sees `payload` and `key`. True lets an item through as it is, false takes it out; anything else is
//! the item's failure, and another try could not help.
//!
//! Nothing here keeps the process from its other work. What an expression without loops can take is known beforehand
//! (see `weight`), and where that is little, it is evaluated here. Anything else is evaluated by a child, which has a
//! limit of memory and is killed when the time of the call is up.

mod evaluate;
mod expression;
mod names;
mod value;
mod weight;
pub mod worker;

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::event::ItemReply;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_engine::handler::{Answer, Handler, Input, Reply, Request, Room};

use crate::protocol::{Decoder, failed};
pub use evaluate::Filter;
use evaluate::Judged;

/// Most bytes, each as often as it may be looked at, that are evaluated in this process: some milliseconds.
const LIGHT: u64 = 512 << 10;
/// So much of it is done before others get their turn.
const TURN: u64 = 64 << 10;
/// Most bytes of the contents of one call that a child is asked about.
const LARGEST: usize = 64 << 20;

/// Lets items through for which an expression is true.
pub struct FilterHandler {
    filter: Filter,
    child: Arc<dyn Handler>,
    decoder: Decoder,
}

impl FilterHandler {
    /// Evaluates here what is little work, and has `child` evaluate everything else: one that [`worker::serve`] answers
    /// for, with the same expression.
    #[must_use]
    pub fn new(filter: Filter, child: Arc<dyn Handler>) -> Self {
        Self { filter, child, decoder: Decoder::default() }
    }

    /// The same, and what is let through has the verdict that stands at a JSON pointer in its payload.
    #[must_use]
    pub fn judging(self, verdict: Option<String>) -> Self {
        Self { decoder: Decoder { verdict, ..self.decoder }, ..self }
    }

    fn reply(&self, judged: Judged, item: &Input) -> ItemReply {
        match judged {
            Judged::Passed => self.decoder.passed_as_it_is(item),
            Judged::TakenOut(reason) => ItemReply::Filtered(reason),
            Judged::Unusable(why) => failed(Failure::new(Class::Final, Kind::Input, why)),
        }
    }

    /// Evaluates in this process, and lets others have their turn.
    async fn here(&self, items: &[Input]) -> Reply {
        let (mut replies, mut done) = (Vec::with_capacity(items.len()), 0_u64);
        for item in items {
            replies.push(self.reply(self.filter.judge(&item.payload, &item.key), item));
            done = done.saturating_add(self.filter.work(item).unwrap_or(u64::MAX));
            if done > TURN {
                done = 0;
                tokio::task::yield_now().await;
            }
        }
        Reply::Items(replies)
    }

    /// Has the child evaluate. The items come back as they went.
    async fn there(&self, request: Request) -> Reply {
        let bytes: usize = request.items.iter().map(|item| item.payload.len()).sum();
        if bytes > LARGEST {
            let text = format!("{bytes} bytes are more than the {LARGEST} that a filter looks at");
            return Reply::Whole(Failure::new(Class::Oversized, Kind::Input, text));
        }
        let items = request.items.clone();
        match self.child.call(request).await.reply {
            Reply::Items(replies) => Reply::Items(
                replies.into_iter().zip(&items).map(|(reply, item)| self.told(reply, item)).collect(),
            ),
            Reply::Whole(failure) if failure.class == Class::Crash => {
                let text = format!("evaluating the expression broke off: {}", failure.message());
                Reply::Whole(Failure::new(Class::Crash, failure.kind, text))
            }
            other => other,
        }
    }

    /// What the child's word on an item means here.
    fn told(&self, reply: ItemReply, item: &Input) -> ItemReply {
        match reply {
            ItemReply::Output(_) => self.reply(Judged::Passed, item),
            ItemReply::Failed { failure, .. } if failure.kind == Kind::Handler => {
                self.reply(Judged::Unusable(failure.message().to_owned()), item)
            }
            other => other,
        }
    }
}

#[async_trait]
impl Handler for FilterHandler {
    async fn call(&self, request: Request) -> Answer {
        let is_light = |item: &Input| self.filter.work(item).is_some_and(|work| work <= LIGHT);
        match request.items.iter().all(is_light) {
            true => self.here(&request.items).await.into(),
            false => self.there(request).await.into(),
        }
    }

    /// Where every item is for a child, no more are taken than there are children.
    fn room(&self) -> Option<Room> {
        if self.filter.has_loops() { self.child.room() } else { None }
    }

    fn deaths(&self) -> u64 {
        self.child.deaths()
    }

    async fn close(&self) {
        self.child.close().await;
    }
}

#[cfg(test)]
#[path = "filter/tests.rs"]
mod tests;
