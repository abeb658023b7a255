//! What changed, told to those that follow: names of what to look at again, at most four times a second.
//!
//! One task looks, whoever follows, and only while somebody does. What it tells is a number for each subject; a follower
//! that comes back with the last number it saw is told what changed since then, and everything when the process is another.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use redrive_operate::{Error, Floor, Result};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::app::App;
use crate::guard::Bearer;
use crate::limits;
use crate::marks::{self, Marks, SUBJECTS};

/// A look takes at most this share of the time: where it is slow, for very many unfinished runs, followers are told less often.
const ONE_IN: u32 = 40;

/// The newest number of each subject.
#[derive(Clone, Default)]
struct News {
    version: u64,
    subjects: BTreeMap<&'static str, u64>,
}

/// Tells what changed.
#[derive(Clone)]
pub struct Events {
    /// Which process it is, so that numbers of another are not taken for its own.
    process: String,
    news: watch::Sender<News>,
}

/// What a follower is told.
#[derive(Serialize)]
struct Changed<'a> {
    version: &'a str,
    changed: Vec<&'static str>,
}

impl Events {
    /// Nothing changed yet.
    pub fn new(process: String) -> Self {
        Self { process, news: watch::Sender::new(News::default()) }
    }

    /// Looks what changed until the process is told to stop.
    pub async fn watch(self, floor: Floor, mut draining: watch::Receiver<bool>) {
        let (mut stamp, mut marks) = (None, Marks::default());
        while !*draining.borrow() {
            let begun = floor.env.clock.uptime();
            if self.news.receiver_count() > 0 {
                match look(&floor, &mut stamp, marks).await {
                    Ok(Some(found)) if found != marks => {
                        self.tell(marks, found);
                        marks = found;
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(target: "redrive::serve", %error, "the store cannot be looked at")
                    }
                }
            }
            let took = floor.env.clock.uptime().saturating_sub(begun);
            tokio::select! {
                () = floor.env.clock.sleep(limits::EVENT_EVERY.max(took.saturating_mul(ONE_IN))) => {}
                _ = draining.changed() => {}
            }
        }
    }

    fn tell(&self, before: Marks, now: Marks) {
        self.news.send_modify(|news| {
            news.version += 1;
            for (at, subject) in SUBJECTS.iter().enumerate() {
                if before[at] != now[at] {
                    news.subjects.insert(subject, news.version);
                }
            }
        });
    }

    /// The number that a follower has seen; `None` when it saw none of this process.
    fn seen(&self, last: &str) -> Option<u64> {
        let (process, version) = last.split_once('-')?;
        version.parse().ok().filter(|_| process == self.process)
    }

    /// What changed since a number; everything to whoever saw none.
    fn event(&self, seen: Option<u64>, news: &News) -> String {
        let version = format!("{}-{}", self.process, news.version);
        let changed = SUBJECTS.into_iter().filter(|subject| match seen {
            None => true,
            Some(seen) => news.subjects.get(subject).is_some_and(|version| *version > seen),
        });
        let told = Changed { version: &version, changed: changed.collect() };
        let data = serde_json::to_string(&told).unwrap_or_default();
        format!("id: {version}\nevent: changed\ndata: {data}\n\n")
    }
}

/// What the subjects are at; `None` when nothing was written at all.
async fn look(floor: &Floor, stamp: &mut Option<u64>, before: Marks) -> Result<Option<Marks>> {
    let now = floor.store.stamp().await?;
    if *stamp == Some(now) && before != Marks::default() {
        return Ok(None);
    }
    let found = marks::read(floor).await?;
    // Not before: what could not be looked at is looked at again.
    *stamp = Some(now);
    Ok(Some(found))
}

/// What a follower has.
struct Follower {
    app: Arc<App>,
    news: watch::Receiver<News>,
    draining: watch::Receiver<bool>,
    seen: Option<u64>,
    bearer: Option<Bearer>,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    /// Whether the token it came with is still one.
    fn is_let_in(&self) -> bool {
        self.bearer.as_ref().is_some_and(|bearer| bearer.asker(&self.app.tokens).is_some())
    }
}

/// What a follower is told, as it comes, until the process is told to stop.
///
/// # Errors
/// When there are too many followers.
pub fn follow(
    app: &Arc<App>,
    bearer: Option<Bearer>,
    last: Option<&str>,
) -> Result<impl futures_util::Stream<Item = std::result::Result<Bytes, Infallible>> + Send + 'static> {
    let place = app.followers.clone().try_acquire_owned().map_err(|_| {
        Error::busy(format!("{} follow already", limits::FOLLOWERS))
            .hint("try again later, or let one of them go")
    })?;
    let follower = Follower {
        app: app.clone(),
        news: app.events.news.subscribe(),
        draining: app.draining.clone(),
        seen: last.and_then(|last| app.events.seen(last)),
        bearer,
        _place: place,
    };
    Ok(futures_util::stream::unfold(follower, next))
}

async fn next(mut follower: Follower) -> Option<(std::result::Result<Bytes, Infallible>, Follower)> {
    let clock = follower.app.floor.env.clock.clone();
    loop {
        // A token may be taken back while somebody follows by it.
        if !follower.is_let_in() {
            return None;
        }
        let version = follower.news.borrow_and_update().version;
        if follower.seen != Some(version) {
            let news = follower.news.borrow().clone();
            let text = follower.app.events.event(follower.seen, &news);
            follower.seen = Some(news.version);
            return Some((Ok(text.into()), follower));
        }
        if *follower.draining.borrow() {
            return None;
        }
        tokio::select! {
            _ = follower.draining.changed() => return None,
            _ = follower.news.changed() => {}
            () = clock.sleep(limits::HEARTBEAT) => return Some((Ok(": nothing happened\n\n".into()), follower)),
        }
    }
}
