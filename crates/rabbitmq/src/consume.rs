//! Messages of a queue are taken, and forgotten by it only once what they say is kept.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use lapin::Consumer;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use redrive_engine::crash;
use redrive_engine::env::Env;
use redrive_operate::bus::{Taken, Taker, Wire};
use tokio::sync::watch;

use crate::LOG;
use crate::address::Address;
use crate::backoff::Backoff;
use crate::bury::{Grave, header};
use crate::link::{Link, Result};
use crate::names;

/// Bytes that are handed on together, where they are many.
const BATCH_BYTES: usize = 16 << 20;

/// Takes the messages of one queue until it is told to stop. What is in hand then goes back to the queue.
pub async fn consume(address: Address, env: Env, taker: Arc<dyn Taker>, mut stop: watch::Receiver<bool>) {
    let mut backoff = Backoff::default();
    while !*stop.borrow() {
        let queue = taker.queue();
        let session = Session { address: &address, env: &env, taker: &*taker };
        match session.run(&mut stop, &mut backoff).await {
            Ok(()) => {}
            Err(why) => tracing::warn!(target: LOG, queue, why, "messages cannot be taken now"),
        }
        let wait = backoff.next(&env);
        tokio::select! {
            () = env.clock.sleep(wait) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
    taker.close().await;
}

/// One connection's life.
struct Session<'a> {
    address: &'a Address,
    env: &'a Env,
    taker: &'a dyn Taker,
}

/// A message in hand.
struct InHand {
    delivery: Delivery,
    wire: Wire,
}

impl Session<'_> {
    async fn run(&self, stop: &mut watch::Receiver<bool>, backoff: &mut Backoff) -> Result<()> {
        let queue = self.taker.queue();
        let link = Link::open(self.address, self.env, queue).await?;
        match self.taker.hears() {
            Some(event) => link.need_work_queue(event).await?,
            None => link.need_queue(queue).await?,
        }
        let most = self.taker.in_hand();
        let channel = link.channel().await?;
        link.ask(channel.basic_qos(most, BasicQosOptions::default())).await?;
        let options = BasicConsumeOptions::default();
        let mut consumer =
            link.ask(channel.basic_consume(queue.into(), "".into(), options, FieldTable::default())).await?;
        tracing::info!(target: LOG, queue, "taking messages");
        let mut grave = Grave::of(queue);
        loop {
            let some = tokio::select! {
                some = gather(&mut consumer, usize::from(most)) => some.map_err(|error| link.words(&error))?,
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            };
            if some.is_empty() {
                return Err("the broker ended it: the queue may be gone".to_owned());
            }
            self.settle(some, &link, &mut grave, stop).await?;
            backoff.reset();
        }
    }

    /// Has messages taken until each is done with; those that cannot be used now are tried again and again.
    async fn settle(
        &self,
        mut some: Vec<InHand>,
        link: &Link,
        grave: &mut Grave,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<()> {
        let queue = self.taker.queue();
        let mut backoff = Backoff::default();
        loop {
            let wires: Vec<Wire> = some.iter_mut().map(|one| std::mem::take(&mut one.wire)).collect();
            let taken = self.taker.take(&wires).await;
            crash::point("bus.before_ack");
            let (mut later, mut reason) = (Vec::new(), None);
            for ((one, wire), taken) in some.into_iter().zip(wires).zip(taken) {
                match taken {
                    Taken::Done => {}
                    Taken::Poison(why) => {
                        grave.bury(link, self.env, &one.delivery, &wire.body, &why).await?;
                        crash::point("bus.after_bury");
                        tracing::warn!(target: LOG, queue, why, failed = names::failed_of(queue), "message put aside");
                    }
                    Taken::Later(why) => {
                        reason = Some(why);
                        later.push(InHand { wire, ..one });
                        continue;
                    }
                }
                link.ask(one.delivery.ack(BasicAckOptions::default())).await?;
            }
            let Some(why) = reason else { return Ok(()) };
            let messages = later.len();
            tracing::warn!(target: LOG, queue, messages, why, "messages wait");
            some = later;
            let wait = backoff.next(self.env);
            tokio::select! {
                () = self.env.clock.sleep(wait) => {}
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            }
            if !link.is_open() {
                return Err("the connection is gone".to_owned());
            }
        }
    }
}

/// The next message, and those that are there already; none at the end.
async fn gather(consumer: &mut Consumer, most: usize) -> lapin::Result<Vec<InHand>> {
    let Some(first) = consumer.next().await else { return Ok(Vec::new()) };
    let mut some = vec![InHand::of(first?)];
    let mut bytes = some[0].wire.body.len();
    while some.len() < most && bytes < BATCH_BYTES {
        let Some(Some(next)) = consumer.next().now_or_never() else { break };
        let next = InHand::of(next?);
        bytes += next.wire.body.len();
        some.push(next);
    }
    Ok(some)
}

impl InHand {
    fn of(mut delivery: Delivery) -> Self {
        let wire = Wire {
            body: std::mem::take(&mut delivery.data),
            key: header(&delivery.properties, names::KEY),
            category: header(&delivery.properties, names::CATEGORY),
        };
        Self { delivery, wire }
    }
}
