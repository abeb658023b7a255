//! What a store has to tell, written down beside it as it is written into its outbox, so that what arrives can be held against it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rusqlite::Connection;

use super::broker::Message;
use super::{Place, text};

/// Where facts are written down that are put into the outbox.
pub struct Ledger {
    store: Connection,
}

/// What arrived, held against the ledger.
#[derive(Debug)]
pub struct Arrived {
    /// Different facts.
    pub facts: usize,
    /// Messages that had come before.
    pub twice: usize,
    /// How often each name came, duplicates left out.
    pub events: BTreeMap<String, usize>,
}

impl Ledger {
    /// Begins to write down. The store has to be there, and nothing in its outbox.
    pub fn begin(place: &Place) -> Self {
        let store = Connection::open(place.path(".redrive/state.db")).expect("a store");
        store.busy_timeout(Duration::from_secs(30)).expect("set");
        store
            .execute_batch(
                "CREATE TABLE told (seq INTEGER PRIMARY KEY, what TEXT, subject TEXT);
                 CREATE TRIGGER tell AFTER INSERT ON fact BEGIN
                   INSERT INTO told VALUES (NEW.seq, NEW.what, coalesce(hex(NEW.item), 'run ' || NEW.run));
                 END;",
            )
            .expect("a ledger");
        Self { store }
    }

    /// Facts that wait to be passed on.
    pub fn waiting(&self) -> i64 {
        self.number("SELECT count(*) FROM fact")
    }

    /// Facts that were ever written.
    pub fn written(&self) -> i64 {
        self.number("SELECT count(*) FROM told")
    }

    fn number(&self, query: &str) -> i64 {
        self.store.query_row(query, [], |row| row.get(0)).expect("a number")
    }

    fn told(&self) -> BTreeMap<i64, (String, String)> {
        let mut select = self.store.prepare("SELECT seq, what, subject FROM told").expect("prepared");
        let rows = select.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).expect("rows");
        rows.map(|row| row.expect("a row")).collect()
    }

    /// Every fact arrived at least once, none that is not in the ledger, and those of one item or run in their order.
    pub fn compare(&self, messages: &[Message]) -> Arrived {
        let told = self.told();
        let (mut came, mut last) = (BTreeSet::new(), BTreeMap::new());
        let mut arrived = Arrived { facts: 0, twice: 0, events: BTreeMap::new() };
        for message in messages {
            let (_, number) = message.id.split_once('-').expect("the store's name and a number");
            let number: i64 = number.parse().expect("a number");
            let (what, subject) = told.get(&number).unwrap_or_else(|| panic!("{number} was never written"));
            let body = message.json();
            assert_eq!(
                (text(&body["fact"]), text(&body["event"])),
                (what.clone(), message.routing_key.clone())
            );
            if !came.insert(number) {
                arrived.twice += 1;
                continue;
            }
            let before = last.insert(subject, number).unwrap_or_default();
            assert!(before < number, "{number} of {subject} came after {before}");
            *arrived.events.entry(message.routing_key.clone()).or_default() += 1;
        }
        let lost: Vec<&i64> = told.keys().filter(|number| !came.contains(*number)).collect();
        assert!(lost.is_empty(), "{} of {} facts are lost: {lost:?}", lost.len(), told.len());
        arrived.facts = came.len();
        arrived
    }
}
