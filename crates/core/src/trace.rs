//! Names of traces and spans: derived from what they are about, so that every process that has to do with an item adds to one
//! trace without asking anybody.

use std::fmt;

use crate::id::{ContentHash, ItemId, StageNo};
use crate::item::Item;
use crate::time::Timestamp;

/// The trace of an item: everything that is ever done for it, in whichever process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// One span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// The trace of an item. The moment of its admission is a part of it: ids of items are derived from the numbers of runs,
    /// and those of two stores are the same.
    #[must_use]
    pub fn of(item: &Item) -> Self {
        Self::derive(item.id, item.created_at)
    }

    /// The trace of the item of this id that was admitted then.
    #[must_use]
    pub fn derive(item: ItemId, created_at: Timestamp) -> Self {
        let mut id = ContentHash::of(&[b"trace", &item.0, &created_at.0.to_le_bytes()]).0;
        // All zeros stand for no trace.
        id[15] |= u8::from(id == [0; 16]);
        Self(id)
    }

    /// The span of the item itself, from its admission to its end in this generation.
    #[must_use]
    pub fn item_span(self, generation: u32) -> SpanId {
        self.span(&[b"item", &generation.to_le_bytes()])
    }

    /// The span of an attempt.
    #[must_use]
    pub fn attempt_span(self, stage: StageNo, generation: u32, attempt: u32) -> SpanId {
        self.span(&[b"attempt", &stage.0.to_le_bytes(), &generation.to_le_bytes(), &attempt.to_le_bytes()])
    }

    fn span(self, of: &[&[u8]]) -> SpanId {
        let parts: Vec<&[u8]> = std::iter::once(&self.0[..]).chain(of.iter().copied()).collect();
        let mut id = [0; 8];
        id.copy_from_slice(&ContentHash::of(&parts).0[..8]);
        id[7] |= u8::from(id == [0; 8]);
        SpanId(id)
    }
}

/// Which traces are kept. Who asks about the same trace is told the same in every process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampler {
    /// Of the 2⁶³ values that the end of a trace's name can have, those below are kept.
    below: u64,
}

impl Sampler {
    /// All of them.
    pub const ALL: Self = Self { below: 1 << 63 };
    /// None.
    pub const NONE: Self = Self { below: 0 };

    /// This share of them, from 0 to 1; `None` when it is no such share. It looks at the part of the name that other
    /// implementations look at, so that services that keep the same share keep the same traces.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2⁶³")]
    pub fn share(share: f64) -> Option<Self> {
        const WHOLE: f64 = 9_223_372_036_854_775_808.0;
        (0.0..=1.0).contains(&share).then_some(Self { below: (share * WHOLE) as u64 })
    }

    /// Whether a trace is kept.
    #[must_use]
    pub fn keeps(self, trace: TraceId) -> bool {
        let mut end = [0; 8];
        end.copy_from_slice(&trace.0[8..]);
        u64::from_be_bytes(end) >> 1 < self.below
    }
}

/// What a service is told, so that its own spans join the trace: the header `traceparent` of the W3C.
#[must_use]
pub fn traceparent(trace: TraceId, span: SpanId, kept: bool) -> String {
    format!("00-{trace}-{span}-{:02x}", u8::from(kept))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn trace(n: u8) -> TraceId {
        TraceId::derive(ItemId([n; 16]), Timestamp(1_700_000_000_000))
    }

    #[test]
    fn a_trace_is_named_by_its_item_and_by_when_that_was_admitted() {
        assert_eq!(trace(1), trace(1));
        assert_ne!(trace(1), trace(2));
        assert_ne!(trace(1), TraceId::derive(ItemId([1; 16]), Timestamp(1_700_000_000_001)), "another store");
    }

    #[test]
    fn every_attempt_and_every_generation_has_a_span_of_its_own() {
        let mut seen = BTreeSet::new();
        for (stage, generation, attempt) in
            [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 1), (1, 1, 1), (256, 0, 1)]
        {
            assert!(seen.insert(trace(1).attempt_span(StageNo(stage), generation, attempt)));
        }
        assert!(seen.insert(trace(1).item_span(0)) && seen.insert(trace(1).item_span(1)));
        assert!(seen.insert(trace(2).item_span(0)));
    }

    #[test]
    fn the_header_has_the_form_of_the_w3c() {
        let told = traceparent(trace(1), trace(1).item_span(0), true);
        let parts: Vec<&str> = told.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2]);
        assert!(
            told.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        );
        assert_eq!((parts[0], parts[3]), ("00", "01"));
        assert!(traceparent(trace(1), trace(1).item_span(0), false).ends_with("-00"));
    }

    #[test]
    fn a_share_of_the_traces_is_kept_and_a_larger_one_keeps_those_too() {
        let all: Vec<TraceId> = (0..4_000).map(|n| TraceId::derive(ItemId([7; 16]), Timestamp(n))).collect();
        let kept = |share: f64| {
            let sampler = Sampler::share(share).expect("a share");
            all.iter().filter(|trace| sampler.keeps(**trace)).collect::<BTreeSet<_>>()
        };
        assert_eq!(kept(0.0).len(), 0);
        assert_eq!(kept(1.0).len(), all.len());
        assert!((800..1_200).contains(&kept(0.25).len()), "{}", kept(0.25).len());
        assert!(kept(0.25).is_subset(&kept(0.5)));
        assert!(all.iter().all(|trace| Sampler::ALL.keeps(*trace) && !Sampler::NONE.keeps(*trace)));
        for wrong in [-0.1, 1.1, f64::NAN] {
            assert_eq!(Sampler::share(wrong), None);
        }
    }
}
