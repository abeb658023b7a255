//! What a daemon does on the bus until it is told to stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_operate::bus::{Held, Intake, Relay, Replies, Round, Sent, Taker, Unrouted, services};
use redrive_operate::catalog::Catalog;
use redrive_operate::{Asker, Floor};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::LOG;
use crate::address::Address;
use crate::backoff::Backoff;
use crate::consume::consume;
use crate::names;
use crate::post::RabbitPost;

/// In whose name facts are passed on.
const NAME: &str = "relay";
/// How often it is looked whose turn it is, by those whose turn it is not.
const TURN_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked which queues pipelines name.
const QUEUES_EVERY: Duration = Duration::from_secs(1);

/// Passes facts on and takes messages until it is told to stop.
pub async fn serve(
    floor: Floor,
    catalog: Arc<Catalog>,
    (address, unrouted): (Address, Unrouted),
    stop: watch::Receiver<bool>,
) {
    tokio::join!(
        relay(floor.clone(), (address.clone(), unrouted), stop.clone()),
        answers(floor.clone(), address.clone(), stop.clone()),
        consumers(floor, catalog, address, stop),
    );
}

/// Takes answers of items that were handed over until it is told to stop.
pub async fn answers(floor: Floor, address: Address, stop: watch::Receiver<bool>) {
    let env = floor.env.clone();
    consume(address, env, Arc::new(Replies::of(&floor, names::ANSWERS)), stop).await;
}

/// Stands by work on pipelines whose stages are told as events: passes facts on and takes answers until it is told to stop, and passes on
/// what there is then. Facts of these pipelines that lead to no queue are dropped, but not what is handed over.
pub async fn stand_by(floor: Floor, pipelines: &[&str], address: Address, stop: watch::Receiver<bool>) {
    let unrouted = Unrouted::DropOf(pipelines.iter().map(ToString::to_string).collect());
    tokio::join!(
        relay(floor.clone(), (address.clone(), unrouted), stop.clone()),
        answers(floor, address, stop),
    );
}

/// Does the work of these events until it is told to stop; what is in hand then is finished.
pub async fn work(floor: Floor, events: &[String], address: Address, stop: watch::Receiver<bool>) {
    let takers = services(&floor, events, names::work_of).into_iter();
    let env = &floor.env;
    let takers = takers.map(|taker| consume(address.clone(), env.clone(), taker, stop.clone()));
    futures_util::future::join_all(takers).await;
}

/// Passes facts on until it is told to stop.
pub async fn relay(floor: Floor, (address, unrouted): (Address, Unrouted), mut stop: watch::Receiver<bool>) {
    let env = floor.env.clone();
    let floor = Floor { asker: Asker::admin(NAME), ..floor };
    let mut backoff = Backoff::default();
    let mut relay = loop {
        match Relay::open(floor.clone(), unrouted.clone()).await {
            Ok(relay) => break relay,
            Err(error) => tracing::warn!(target: LOG, %error, "facts cannot be kept now"),
        }
        let wait = backoff.next(&env);
        tokio::select! {
            () = env.clock.sleep(wait) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    };
    let mut post = RabbitPost::to(address.clone(), env.clone());
    let (mut down, mut waits) = (false, false);
    while !*stop.borrow() {
        let stamp = relay.stamp().await;
        let round = relay.round(&mut post).await;
        if matches!(round, Ok(Round::Elsewhere)) != waits && round.is_ok() {
            waits = !waits;
            match waits {
                true => {
                    tracing::info!(target: LOG, "another process passes facts on; this one waits for its turn")
                }
                false => {
                    tracing::info!(target: LOG, bus = %address, "it is this process's turn to pass facts on")
                }
            }
        }
        let wait = match round {
            Ok(Round::Done { more: true, .. }) => continue,
            Ok(Round::Done { held, waiting, .. }) => {
                backoff.reset();
                if std::mem::take(&mut down) {
                    tracing::info!(target: LOG, bus = %address, "facts are passed on again");
                }
                held.iter().for_each(|held| told(held, waiting));
                tokio::select! {
                    () = relay.news(stamp) => {}
                    _ = stop.wait_for(|stop| *stop) => {}
                }
                continue;
            }
            Ok(Round::Elsewhere) => TURN_EVERY,
            Ok(Round::Down { why, .. }) => {
                down = true;
                tracing::warn!(target: LOG, bus = %address, why, "facts wait in the store");
                backoff.next(&env)
            }
            Err(error) => {
                tracing::warn!(target: LOG, %error, "facts cannot be read or forgotten now");
                backoff.next(&env)
            }
        };
        tokio::select! {
            () = env.clock.sleep(wait) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
    if matches!(unrouted, Unrouted::DropOf(_))
        && let Err(error) = relay.round(&mut post).await
    {
        tracing::warn!(target: LOG, %error, "the last facts stay in the store");
    }
    if let Err(error) = relay.close().await {
        tracing::warn!(target: LOG, %error, "the next relay has to wait for the end of this one's turn");
    }
}

fn told(held: &Held, waiting: usize) {
    let Held { event, why, facts } = held;
    match why {
        Sent::Unroutable => tracing::warn!(
            target: LOG, event, facts, waiting,
            "facts lead to no queue and stay in the store: bind a queue for them, or say --bus-unrouted drop"
        ),
        Sent::Refused | Sent::Taken => {
            tracing::warn!(target: LOG, event, facts, waiting, "the broker refused facts; they stay in the store");
        }
    }
}

/// Takes from every queue that a pipeline of the folder names, as long as it does.
async fn consumers(floor: Floor, catalog: Arc<Catalog>, address: Address, mut stop: watch::Receiver<bool>) {
    let mut taking: BTreeMap<String, (watch::Sender<bool>, JoinHandle<()>)> = BTreeMap::new();
    let mut ending = JoinSet::new();
    while !*stop.borrow() {
        let wanted = Intake::queues(&catalog);
        let gone: Vec<String> = taking.keys().filter(|queue| !wanted.contains(*queue)).cloned().collect();
        for (told, task) in gone.iter().filter_map(|queue| taking.remove(queue)) {
            told.send_replace(true);
            ending.spawn(task);
        }
        for queue in wanted {
            taking.entry(queue.clone()).or_insert_with(|| {
                let (told, stop) = watch::channel(false);
                let taker: Arc<dyn Taker> = Arc::new(Intake::of(&floor, &catalog, queue));
                (told, tokio::spawn(consume(address.clone(), floor.env.clone(), taker, stop)))
            });
        }
        tokio::select! {
            () = floor.env.clock.sleep(QUEUES_EVERY) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
    for (told, task) in taking.into_values() {
        told.send_replace(true);
        ending.spawn(task);
    }
    while ending.join_next().await.is_some() {}
}
