//! Who was asked to stay away, and until when.

use std::collections::HashMap;

use redrive_core::time::Timestamp;

/// Items whose waits are known one by one.
const ITEMS: usize = 200_000;

/// Who was asked to stay away, and until when.
#[derive(Debug)]
pub(crate) struct Asked {
    everybody: Timestamp,
    items: HashMap<u64, Timestamp>,
}

/// Whether a call came before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Early {
    /// Somebody was asked to wait for longer.
    pub call: bool,
    /// One of its own items was.
    pub item: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Self { everybody: Timestamp(i64::MIN), items: HashMap::new() }
    }
}

impl Asked {
    /// These items are to stay away until then.
    pub(crate) fn ask(&mut self, items: impl IntoIterator<Item = u64>, until: Timestamp) {
        self.everybody = self.everybody.max(until);
        for item in items {
            // Beyond the bound an item's wait is not known, so it cannot be early.
            if self.items.len() < ITEMS || self.items.contains_key(&item) {
                self.items.insert(item, until);
            }
        }
    }

    /// Whether a call of these items comes too early.
    pub(crate) fn early(&self, items: impl IntoIterator<Item = u64>, now: Timestamp) -> Early {
        let waits = |item: u64| self.items.get(&item).is_some_and(|until| now < *until);
        Early { call: now < self.everybody, item: items.into_iter().any(waits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_early_for_its_own_wait_and_a_call_for_anybodys() {
        let mut asked = Asked::default();
        asked.ask([1, 2], Timestamp(1_000));
        asked.ask([3], Timestamp(500));
        let early = |item, now| {
            let Early { call, item } = asked.early([item], Timestamp(now));
            (call, item)
        };
        assert_eq!(early(1, 999), (true, true));
        assert_eq!(early(3, 500), (true, false), "its own wait is over");
        assert_eq!(early(4, 999), (true, false), "it was told nothing");
        assert_eq!(early(1, 1_000), (false, false));
    }
}
