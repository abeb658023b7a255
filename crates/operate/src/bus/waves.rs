//! In which order facts are handed over.

use std::collections::BTreeSet;

use redrive_core::fact::Fact;
use redrive_core::id::{FactId, ItemId, RunId};
use redrive_store::KeptFact;

/// What facts are about: those of one subject are passed on in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Item(ItemId),
    Run(RunId),
}

impl Subject {
    pub(super) fn of(fact: &Fact) -> Self {
        fact.item.map_or(Self::Run(fact.run), Self::Item)
    }
}

/// What the bus did not take.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    /// The facts.
    pub(super) facts: BTreeSet<FactId>,
    /// What they are about.
    pub(super) subjects: BTreeSet<Subject>,
}

impl HeldBack {
    /// Whether a fact waits. One by which an item is handed over waits for no other that nobody took: somebody has to do the work.
    fn keeps(&self, kept: &KeptFact, subject: Subject) -> bool {
        let is_owed = kept.fact.route.is_some();
        self.facts.contains(&kept.id) || (self.subjects.contains(&subject) && !is_owed)
    }
}

/// Takes out what can be handed over at one go: the first fact of each subject, and none of those that are held. The others stay,
/// in their order.
///
/// The bus may refuse a fact and take the one that was handed over with it; so no two of a subject are under way together.
pub(super) fn wave(facts: &mut Vec<KeptFact>, held: &HeldBack, most: usize) -> Vec<KeptFact> {
    let mut taken: BTreeSet<Subject> = BTreeSet::new();
    let mut wave = Vec::new();
    let mut rest = Vec::new();
    for kept in facts.drain(..) {
        let subject = Subject::of(&kept.fact);
        // One that has no room any more keeps its subject from going on, too.
        if held.keeps(&kept, subject) || !taken.insert(subject) || wave.len() >= most {
            rest.push(kept);
        } else {
            wave.push(kept);
        }
    }
    *facts = rest;
    wave
}

#[cfg(test)]
mod tests {
    use redrive_core::fact::FactKind;
    use redrive_core::time::Timestamp;

    use super::*;

    fn kept(id: i64, item: Option<u8>) -> KeptFact {
        let created = Fact::of_created(RunId(1), Timestamp(0));
        let fact = match item {
            None => created,
            Some(item) => Fact { kind: FactKind::Admitted, item: Some(ItemId([item; 16])), ..created },
        };
        KeptFact { id: FactId(id), fact }
    }

    fn ids(facts: &[KeptFact]) -> Vec<i64> {
        facts.iter().map(|kept| kept.id.0).collect()
    }

    #[test]
    fn facts_of_one_item_go_one_after_the_other() {
        let mut facts: Vec<KeptFact> =
            [(1, Some(1)), (2, Some(2)), (3, Some(1)), (4, None), (5, Some(1)), (6, None)]
                .map(|(id, item)| kept(id, item))
                .into();
        let none = HeldBack::default();
        assert_eq!(ids(&wave(&mut facts, &none, 100)), [1, 2, 4]);
        assert_eq!(ids(&wave(&mut facts, &none, 100)), [3, 6]);
        assert_eq!(ids(&wave(&mut facts, &none, 100)), [5]);
        assert!(facts.is_empty());
    }

    #[test]
    fn what_is_held_keeps_only_its_own_back() {
        let mut facts: Vec<KeptFact> =
            [(1, Some(1)), (2, Some(2)), (3, Some(1)), (4, Some(2))].map(|(id, item)| kept(id, item)).into();
        let subjects = BTreeSet::from([Subject::Item(ItemId([1; 16]))]);
        let held = HeldBack { subjects, facts: BTreeSet::from([FactId(1)]) };
        assert_eq!(ids(&wave(&mut facts, &held, 100)), [2]);
        assert_eq!(ids(&wave(&mut facts, &held, 100)), [4]);
        assert!(wave(&mut facts, &held, 100).is_empty());
        assert_eq!(ids(&facts), [1, 3]);
    }

    #[test]
    fn a_wave_is_as_large_as_it_may_be_and_no_fact_overtakes_one_of_its_subject() {
        let mut facts: Vec<KeptFact> =
            [(1, Some(1)), (2, Some(2)), (3, Some(3)), (4, Some(3))].map(|(id, item)| kept(id, item)).into();
        let none = HeldBack::default();
        assert_eq!(ids(&wave(&mut facts, &none, 2)), [1, 2]);
        assert_eq!(ids(&wave(&mut facts, &none, 2)), [3]);
        assert_eq!(ids(&wave(&mut facts, &none, 2)), [4]);
    }

    #[test]
    fn what_is_handed_over_waits_for_no_fact_that_nobody_took() {
        let handed = |id| {
            let KeptFact { id, fact } = kept(id, Some(1));
            KeptFact { id, fact: Fact { kind: FactKind::HandedOver, route: Some("a.b".to_owned()), ..fact } }
        };
        let mut facts = vec![kept(1, Some(1)), kept(2, Some(1)), handed(3)];
        let item = BTreeSet::from([Subject::Item(ItemId([1; 16]))]);
        let held = HeldBack { subjects: item.clone(), facts: BTreeSet::from([FactId(1)]) };
        assert_eq!(ids(&wave(&mut facts, &held, 100)), [3]);
        // It is not tried again and again itself; while nothing is held it keeps its place.
        let mut facts = vec![kept(1, Some(1)), handed(3)];
        let held = HeldBack { subjects: item, facts: BTreeSet::from([FactId(1), FactId(3)]) };
        assert!(wave(&mut facts, &held, 100).is_empty());
        assert_eq!(ids(&wave(&mut facts, &HeldBack::default(), 100)), [1]);
    }
}
