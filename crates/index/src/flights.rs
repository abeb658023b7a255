//! Texts that are being embedded, and those that have just been.
//!
//! The same text often turns up in many files at once, a licence at the head of each. Whoever comes first has it
//! embedded; the others wait for that. What has landed stays known for a while, until the store has it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::id::ContentHash;
use redrive_core::index::KeptVector;
use tokio::sync::watch;

/// How many vectors stay known after they have landed.
const LANDED: usize = 8_192;

/// Who embeds what at the moment.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    away: HashMap<ContentHash, watch::Receiver<()>>,
    landed: HashMap<ContentHash, Arc<KeptVector>>,
    order: VecDeque<ContentHash>,
}

/// How a text stands.
pub(crate) enum Standing {
    /// Its vector is there.
    Landed(Arc<KeptVector>),
    /// Another call has it; this rings when that is over.
    Away(watch::Receiver<()>),
    /// It is this call's.
    Ours,
}

/// The texts that one call embeds. Dropped, in whatever way the call ends, it lets others have them.
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    texts: Vec<ContentHash>,
    bell: watch::Sender<()>,
}

impl Flights {
    /// A call's flight, without a text yet.
    pub(crate) fn depart(&self) -> Flight<'_> {
        Flight { flights: self, texts: Vec::new(), bell: watch::Sender::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight<'_> {
    /// Takes a text along, unless it has landed or is away with another.
    pub(crate) fn take(&mut self, text: ContentHash) -> Standing {
        let mut inner = self.flights.lock();
        if let Some(vector) = inner.landed.get(&text) {
            return Standing::Landed(vector.clone());
        }
        if let Some(away) = inner.away.get(&text) {
            return Standing::Away(away.clone());
        }
        inner.away.insert(text, self.bell.subscribe());
        self.texts.push(text);
        Standing::Ours
    }

    /// A vector has landed.
    pub(crate) fn land(&self, vector: Arc<KeptVector>) {
        let mut inner = self.flights.lock();
        let text = vector.key.text;
        if inner.landed.insert(text, vector).is_none() {
            inner.order.push_back(text);
        }
        while inner.order.len() > LANDED {
            if let Some(oldest) = inner.order.pop_front() {
                inner.landed.remove(&oldest);
            }
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut inner = self.flights.lock();
        for text in &self.texts {
            inner.away.remove(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::index::{ModelNo, VectorKey};
    use redrive_core::vector::Quantised;

    use super::*;

    fn text(n: usize) -> ContentHash {
        ContentHash::of(&[&n.to_le_bytes()])
    }

    fn vector(n: usize) -> Arc<KeptVector> {
        let key = VectorKey { model: ModelNo(1), text: text(n) };
        Arc::new(KeptVector { key, vector: Quantised::new(&[1.0]) })
    }

    #[tokio::test]
    async fn a_text_is_away_with_one_call_until_it_lands_or_is_given_up() {
        let flights = Flights::default();
        let (mut first, mut second) = (flights.depart(), flights.depart());
        assert!(matches!(first.take(text(1)), Standing::Ours));
        assert!(matches!(first.take(text(2)), Standing::Ours));
        let Standing::Away(mut bell) = second.take(text(1)) else { panic!("it is away") };
        first.land(vector(1));
        assert!(matches!(second.take(text(1)), Standing::Landed(_)));
        drop(first);
        assert!(bell.changed().await.is_err(), "the bell's end is the end of the flight");
        assert!(matches!(second.take(text(2)), Standing::Ours), "what was given up can be had");
    }

    #[test]
    fn what_has_landed_is_forgotten_in_the_end() {
        let flights = Flights::default();
        let mut flight = flights.depart();
        (0..=LANDED).for_each(|n| flight.land(vector(n)));
        assert!(matches!(flight.take(text(0)), Standing::Ours));
        assert!(matches!(flight.take(text(1)), Standing::Landed(_)));
        assert_eq!(flights.lock().landed.len(), LANDED);
    }
}
