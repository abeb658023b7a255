//! Who gives way when there is no place left.
//!
//! A connection costs nothing to make and can be kept open without a word, so that many of them would keep out whoever has
//! something to say. A token that has more than its share of them gives way first; then whoever has shown none, of the address
//! that has the most of them; then one that is not used now, of the token that has the most.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::limits;

/// Connections, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub struct Seats(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Grows with every arrival and every use.
    next: u64,
    seated: BTreeMap<u64, Sitter>,
}

/// Whose connection it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    /// Somebody at this address who has shown no token.
    Stranger(IpAddr),
    /// Whoever has the token of this name.
    Known(String),
}

/// What is done on a connection; what comes first gives way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// Nothing: it is kept for the next request.
    Kept,
    /// A request waits for something to happen, and can be made again.
    Waits,
    /// A request is answered.
    Asks,
}

/// How a seat is to be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    No,
    /// After the request that is under way.
    Soon,
    Now,
}

#[derive(Debug)]
struct Sitter {
    who: Who,
    used_for: Use,
    used_at: u64,
    leave: watch::Sender<Leave>,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seats somebody who came just now from this address. In the reserve only that is answered which needs no token.
    pub fn seat(&self, address: IpAddr, is_reserve: bool) -> Arc<Seat> {
        let mut inner = self.lock();
        let (number, leave) = (inner.next, watch::Sender::new(Leave::No));
        inner.next += 1;
        let who = Who::Stranger(address.to_canonical());
        let told = leave.subscribe();
        inner.seated.insert(number, Sitter { who, used_for: Use::Kept, used_at: number, leave });
        Arc::new(Seat { seats: self.clone(), number, told, is_reserve })
    }

    /// Has one leave; whether there is one that can be asked to.
    pub fn dismiss_one(&self) -> bool {
        let mut inner = self.lock();
        let found = inner.gives_way().and_then(|number| inner.seated.remove(&number));
        found.is_some_and(|sitter| {
            sitter.leave.send_replace(match sitter.who {
                Who::Stranger(_) => Leave::Now,
                Who::Known(_) => Leave::Soon,
            });
            true
        })
    }
}

impl Inner {
    /// The one that leaves next.
    fn gives_way(&self) -> Option<u64> {
        let mut known: BTreeMap<&Who, usize> = BTreeMap::new();
        let mut strangers = known.clone();
        for sitter in self.seated.values() {
            let of = if matches!(sitter.who, Who::Known(_)) { &mut known } else { &mut strangers };
            *of.entry(&sitter.who).or_default() += 1;
        }
        let (known, stranger) = (most(known), most(strangers));
        let above = known.filter(|(_, count)| *count > limits::SHARE);
        let (who, kept_only) = match (above, stranger, known) {
            (Some((who, _)), _, _) | (None, Some((who, _)), _) => (who, false),
            (None, None, Some((who, _))) => (who, true),
            (None, None, None) => return None,
        };
        let of_one = self.seated.iter().filter(|(_, sitter)| sitter.who == *who);
        let may = of_one.filter(|(_, sitter)| !kept_only || sitter.used_for == Use::Kept);
        may.min_by_key(|(_, sitter)| (sitter.used_for, sitter.used_at)).map(|(number, _)| *number)
    }
}

/// Who has the most of them.
fn most(of: BTreeMap<&Who, usize>) -> Option<(&Who, usize)> {
    of.into_iter().max_by_key(|(_, count)| *count)
}

/// The seat of one connection.
#[derive(Debug)]
pub struct Seat {
    seats: Seats,
    number: u64,
    told: watch::Receiver<Leave>,
    is_reserve: bool,
}

impl Seat {
    /// Whether only that is answered here which needs no token.
    pub fn is_reserve(&self) -> bool {
        self.is_reserve
    }

    /// Writes down whose it is: a token of this name was shown.
    pub fn known_as(&self, name: &str) {
        self.change(|sitter| sitter.who = Who::Known(name.to_owned()));
    }

    /// A request begins.
    pub fn asks(&self) {
        self.change(|sitter| sitter.used_for = Use::Asks);
    }

    /// The request waits for something from now on, and can be made again.
    pub fn waits(&self) {
        self.change(|sitter| sitter.used_for = Use::Waits);
    }

    /// The request is answered.
    pub fn is_kept(&self) {
        self.change(|sitter| sitter.used_for = Use::Kept);
    }

    fn change(&self, change: impl FnOnce(&mut Sitter)) {
        let mut inner = self.seats.lock();
        inner.next += 1;
        let now = inner.next;
        if let Some(sitter) = inner.seated.get_mut(&self.number) {
            change(sitter);
            if matches!(sitter.who, Who::Known(_)) {
                sitter.used_at = now;
            }
        }
    }

    /// Waits until it is to be left at once.
    pub async fn dismissed(&self) {
        self.until(|leave| leave == Leave::Now).await;
    }

    /// Waits until it is to be left, at once or after the request that is under way.
    pub async fn asked_to_leave(&self) {
        self.until(|leave| leave != Leave::No).await;
    }

    async fn until(&self, is: impl Fn(Leave) -> bool) {
        let mut told = self.told.clone();
        if told.wait_for(|leave| is(*leave)).await.is_err() {
            // Whoever could have said so is gone without a word: it stays.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().seated.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn known(seats: &Seats, name: &str, how_many: usize) -> Vec<Arc<Seat>> {
        let sit = |_| {
            let seat = seats.seat(HERE, false);
            seat.known_as(name);
            seat
        };
        (0..how_many).map(sit).collect()
    }

    fn told(seat: &Seat) -> Leave {
        *seat.told.borrow()
    }

    #[test]
    fn of_strangers_the_address_with_the_most_gives_way_and_there_whoever_came_first() {
        let seats = Seats::default();
        let ann = known(&seats, "ann", 1);
        let (lone, first, second) =
            (seats.seat(THERE, false), seats.seat(HERE, false), seats.seat(HERE, false));
        assert!(seats.dismiss_one());
        assert_eq!(
            [told(&ann[0]), told(&lone), told(&first), told(&second)],
            [Leave::No, Leave::No, Leave::Now, Leave::No]
        );
        drop(second);
        assert!(seats.dismiss_one() && seats.dismiss_one(), "then the others, and last whoever is known");
        assert_eq!((told(&lone), told(&ann[0])), (Leave::Now, Leave::Soon));
        assert!(!seats.dismiss_one(), "nobody is left");
    }

    #[test]
    fn a_token_with_more_than_its_share_gives_way_before_strangers_and_first_what_it_does_not_use() {
        let seats = Seats::default();
        let (stranger, ann) = (seats.seat(HERE, false), known(&seats, "ann", limits::SHARE + 3));
        ann.iter().for_each(|seat| seat.asks());
        ann[7].waits();
        ann[9].is_kept();
        for leaves in [9, 7, 0] {
            assert!(seats.dismiss_one());
            assert_eq!((told(&ann[leaves]), told(&stranger)), (Leave::Soon, Leave::No), "{leaves}");
        }
        assert!(seats.dismiss_one());
        assert_eq!(told(&stranger), Leave::Now, "a token that has its share is none that has too much");
        assert!(!seats.dismiss_one(), "what is under way within a share is not broken off");
        ann[20].is_kept();
        assert!(seats.dismiss_one());
        assert_eq!(told(&ann[20]), Leave::Soon);
    }

    #[tokio::test]
    async fn whoever_is_to_leave_hears_of_it() {
        let seats = Seats::default();
        let seat = seats.seat(HERE, false);
        seats.dismiss_one();
        seat.dismissed().await;
        seat.asked_to_leave().await;
    }
}
