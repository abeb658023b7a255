//! Names of things: newtypes, so that a run can never be passed for an item.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name that does not have the form it should have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not {expected}")]
pub struct BadId {
    given: String,
    expected: &'static str,
}

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix($prefix)
                    .filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
                    .and_then(|digits| digits.parse().ok())
                    .map(Self)
                    .ok_or_else(|| BadId { given: text.chars().take(64).collect(), expected: $expected })
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

numbered!(
    /// One execution of a pipeline; numbered by the store, shown as `r12`.
    RunId, "r", "a run (they look like r12; see `redrive runs`)"
);
numbered!(
    /// One worker process; numbered by the store, shown as `w3`.
    WorkerId, "w", "a worker (they look like w3)"
);
numbered!(
    /// One operation on many items; numbered by the store, shown as `op4`.
    OperationId, "op", "an operation (they look like op4)"
);

/// An item's place in the order of submission; the store's own row number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemSeq(pub i64);

/// The number of a fact that the world is told; numbers of concurrent writers need not become visible in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FactId(pub i64);

/// The name of a store among all stores, for the world: with a fact's number it names that fact for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u64);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A stage's index in its pipeline, counted depth first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StageNo(pub u16);

impl StageNo {
    /// The index as a `usize`.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The number of an item's change. Claiming an item gives it a new one, which then is the lease's fencing token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rev(pub i64);

impl Rev {
    /// The number of the next change.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// 128 bits of a content's BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 16]);

impl ContentHash {
    /// Hashes the parts, each preceded by its length so that no two lists collide.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(bytes)
    }

    /// The first 64 bits as a number, for places where a short mark is enough.
    #[must_use]
    pub fn short(self) -> i64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        i64::from_be_bytes(bytes)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ContentHash {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        match hex_range(text) {
            Some((low, high)) if low == high => Ok(Self(low)),
            _ => Err(BadId {
                given: text.chars().take(64).collect(),
                expected: "a hash of 32 hexadecimal digits",
            }),
        }
    }
}

/// The lowest and the highest 16 bytes that begin with these hex digits, or `None` when they are not hex digits.
fn hex_range(prefix: &str) -> Option<([u8; 16], [u8; 16])> {
    if prefix.is_empty() || prefix.len() > 32 {
        return None;
    }
    let (mut low, mut high) = ([0_u8; 16], [0xff_u8; 16]);
    for (place, digit) in prefix.chars().enumerate() {
        let value = u8::try_from(digit.to_digit(16)?).ok()?;
        let (shift, keep) = if place % 2 == 0 { (4, 0x0f) } else { (0, 0xf0) };
        low[place / 2] = (low[place / 2] & keep) | (value << shift);
        high[place / 2] = (high[place / 2] & keep) | (value << shift);
    }
    Some((low, high))
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How many bytes of an [`ItemId`] name the key; the rest names the version.
pub const KEY_BYTES: usize = 12;

/// An item's public name: 96 bits for where it belongs and its key, 32 bits for the version of its content.
///
/// It is derived, never drawn: the same line of the same source of the same run has the same id on every machine
/// and after every crash, which is what makes submission idempotent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(pub [u8; 16]);

impl ItemId {
    /// Derives the id of the item `key` with content `version` below `parent` (or at the top) of `run`.
    #[must_use]
    pub fn derive(run: RunId, parent: Option<ItemId>, key: &str, version: ContentHash) -> Self {
        let place = ContentHash::of(&[
            &run.0.to_le_bytes(),
            parent.as_ref().map_or(&[][..], |parent| &parent.0),
            key.as_bytes(),
        ]);
        let mut bytes = [0; 16];
        bytes[..KEY_BYTES].copy_from_slice(&place.0[..KEY_BYTES]);
        bytes[KEY_BYTES..].copy_from_slice(&version.0[..16 - KEY_BYTES]);
        Self(bytes)
    }

    /// The lowest and the highest id that any version of the same key can have.
    #[must_use]
    pub fn versions(self) -> (Self, Self) {
        let (mut low, mut high) = (self.0, self.0);
        low[KEY_BYTES..].fill(0);
        high[KEY_BYTES..].fill(0xff);
        (Self(low), Self(high))
    }

    /// The range of ids that begin with these hex digits, or `None` when they are not hex digits.
    #[must_use]
    pub fn with_prefix(prefix: &str) -> Option<(Self, Self)> {
        hex_range(prefix).map(|(low, high)| (Self(low), Self(high)))
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ItemId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        match Self::with_prefix(text) {
            Some((low, high)) if low == high => Ok(low),
            _ => {
                Err(BadId { given: text.chars().take(64).collect(), expected: "an item id (32 hex digits)" })
            }
        }
    }
}

impl Serialize for ItemId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ItemId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_as_they_parse() {
        assert_eq!("r12".parse::<RunId>(), Ok(RunId(12)));
        assert_eq!(RunId(12).to_string(), "r12");
        for bad in ["12", "r", "r-1", "rx", "r99999999999999999999"] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
        let id = ItemId::derive(RunId(1), None, "a", ContentHash::of(&[b"x"]));
        assert_eq!(id.to_string().parse::<ItemId>(), Ok(id));
    }

    #[test]
    fn versions_of_one_key_are_neighbours() {
        let one = ItemId::derive(RunId(1), None, "a", ContentHash::of(&[b"x"]));
        let two = ItemId::derive(RunId(1), None, "a", ContentHash::of(&[b"y"]));
        let other = ItemId::derive(RunId(1), None, "b", ContentHash::of(&[b"x"]));
        assert_ne!(one, two);
        assert_eq!(one.versions(), two.versions());
        assert_ne!(one.versions(), other.versions());
        let child = ItemId::derive(RunId(1), Some(one), "a", ContentHash::of(&[b"x"]));
        assert_ne!(child.versions(), one.versions());
    }

    #[test]
    fn a_prefix_is_a_range() {
        let id = ItemId::derive(RunId(1), None, "a", ContentHash::of(&[b"x"]));
        let (low, high) = ItemId::with_prefix(&id.to_string()[..7]).expect("hex");
        assert!(low <= id && id <= high);
        assert!(ItemId::with_prefix("xyz").is_none());
    }
}
