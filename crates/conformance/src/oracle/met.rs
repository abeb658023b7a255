//! What a game met.

/// What a game met.
#[derive(Debug, Default, Clone)]
pub(super) struct Met([(&'static str, u64); 18]);

impl Met {
    pub(super) fn count(&mut self, what: &'static str) {
        let place = self.0.iter_mut().find(|(name, _)| name.is_empty() || *name == what).expect("room");
        *place = (what, place.1 + 1);
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (what, n) in other.0.iter().filter(|(what, _)| !what.is_empty()) {
            (0..*n).for_each(|_| self.count(what));
        }
    }

    pub(super) fn all(&self) -> bool {
        self.0.iter().all(|(what, _)| !what.is_empty())
    }
}
