//! What daemons remember together.

use std::sync::Arc;

use redrive_core::time::Timestamp;
use redrive_store::{Applied, Memo, Store};

use crate::gate::ODD_NAMES;
use crate::world::START;

fn memo(name: &str, rev: i64, state: &str) -> Memo {
    Memo { name: name.to_owned(), rev, state: state.to_owned(), updated_at: START }
}

async fn save(store: &dyn Store, memo: Memo) -> Applied {
    store.save_memo(memo).await.expect("save a memo")
}

async fn memos(store: &dyn Store, beginning: &str) -> Vec<Memo> {
    store.memos(beginning.to_owned()).await.expect("memos")
}

pub(crate) async fn a_memo_changes_under_its_change_number(store: Arc<dyn Store>) {
    assert_eq!(memos(&*store, "").await, []);
    for rev in 0..5 {
        let row = Memo { updated_at: Timestamp(START.0 - rev), ..memo("a", rev, &format!("state {rev}")) };
        assert_eq!(save(&*store, row.clone()).await, Applied::Done);
        assert_eq!(memos(&*store, "").await, [Memo { rev: rev + 1, ..row }]);
    }
    let before = memos(&*store, "").await;
    for rev in [-1, 0, 1, 4, 6, i64::MAX, i64::MIN] {
        assert_eq!(save(&*store, memo("a", rev, "stale")).await, Applied::Stale, "{rev}");
        assert_eq!(save(&*store, memo("a", rev, "")).await, Applied::Stale, "{rev}");
    }
    assert_eq!(save(&*store, memo("b", 1, "is not there")).await, Applied::Stale);
    assert_eq!(memos(&*store, "").await, before);
}

pub(crate) async fn a_memo_that_says_nothing_is_forgotten(store: Arc<dyn Store>) {
    assert_eq!(save(&*store, memo("a", 0, "")).await, Applied::Done);
    assert_eq!(memos(&*store, "").await, []);
    assert_eq!(save(&*store, memo("a", 0, "one")).await, Applied::Done);
    assert_eq!(save(&*store, memo("a", 1, "")).await, Applied::Done);
    assert_eq!(memos(&*store, "").await, []);
    assert_eq!(save(&*store, memo("a", 1, "late")).await, Applied::Stale, "it is not there any more");
    assert_eq!(save(&*store, memo("a", 0, "anew")).await, Applied::Done);
    assert_eq!(memos(&*store, "").await, [memo("a", 1, "anew")]);
}

pub(crate) async fn memos_are_found_by_the_beginning_of_their_names(store: Arc<dyn Store>) {
    for name in ODD_NAMES {
        assert_eq!(save(&*store, memo(name, 0, "kept")).await, Applied::Done, "{name:?}");
    }
    for beginning in ODD_NAMES.into_iter().chain(["l", "L", "%", "_", "a.", "nothing", "\u{1f6a6}"]) {
        let mut expected: Vec<&str> =
            ODD_NAMES.into_iter().filter(|name| name.starts_with(beginning)).collect();
        expected.sort_unstable();
        let found: Vec<String> = memos(&*store, beginning).await.into_iter().map(|memo| memo.name).collect();
        assert_eq!(found, expected, "{beginning:?}");
    }
}

pub(crate) async fn rivals_for_one_memo_have_one_winner(store: Arc<dyn Store>) {
    for rev in 0..10 {
        let rivals = (0..8).map(|rival| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { save(&*store, memo("a", rev, &format!("{rev} {rival}"))).await })
        });
        let mut won = 0;
        for rival in rivals.collect::<Vec<_>>() {
            won += u32::from(rival.await.expect("a rival") == Applied::Done);
        }
        assert_eq!(won, 1, "change {rev}");
    }
}
