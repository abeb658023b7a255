//! Finding the longest token that a word begins with.

/// What a piece that continues a word begins with.
const CONTINUES: &str = "##";

/// A hash table over the lines of a vocabulary. The hash of a text is that of its beginning, taken on by one byte, so
/// all beginnings of a word are hashed in one pass.
#[derive(Debug)]
pub(super) struct Vocabulary<'a> {
    tokens: Vec<&'a str>,
    /// Open addressing; a place holds a part of the hash and the token's number, or [`FREE`].
    slots: Vec<(u32, u32)>,
    /// A bit for each hash that a token has. It is small enough to stay near the processor, and nine of ten beginnings
    /// that are no token are told by it alone.
    filter: Vec<u64>,
    longest: usize,
}

/// Longest token, in bytes.
const MAX_TOKEN: usize = 64;
/// How many bits the filter has.
const FILTER_BITS: usize = 1 << 18;

const FREE: (u32, u32) = (0, u32::MAX);

/// Room for the hashes of the beginnings of a word.
pub(super) struct Hashes([Hash; MAX_TOKEN]);

impl Hashes {
    pub(super) fn new() -> Self {
        Self([Hash::START; MAX_TOKEN])
    }
}

#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    const START: Self = Self(0xcbf2_9ce4_8422_2325);

    fn add(self, byte: u8) -> Self {
        Self((self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    fn of(text: &str) -> Self {
        text.bytes().fold(Self::START, Self::add)
    }

    /// Where to look first, and what to compare there.
    fn place(self, slots: usize) -> (usize, u32) {
        let mixed = self.0 ^ (self.0 >> 29);
        ((mixed as usize) & (slots - 1), (self.0 >> 32) as u32)
    }

    /// Its bit in the filter: which number, and which bit of it.
    fn bit(self) -> (usize, u64) {
        let bit = ((self.0 >> 40) ^ self.0) as usize & (FILTER_BITS - 1);
        (bit / 64, 1 << (bit % 64))
    }
}

impl<'a> Vocabulary<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, String> {
        let tokens: Vec<&str> = text.lines().collect();
        let longest = tokens.iter().map(|token| token.len()).max().unwrap_or(0);
        if longest > MAX_TOKEN {
            return Err(format!("the vocabulary has a token of {longest} bytes; {MAX_TOKEN} is the most"));
        }
        let size = (tokens.len() * 2 + 1).next_power_of_two();
        let mut vocabulary =
            Self { tokens, slots: vec![FREE; size], filter: vec![0; FILTER_BITS / 64], longest };
        for number in 0..vocabulary.tokens.len() {
            let token = vocabulary.tokens[number];
            if vocabulary.find(token).is_some() {
                return Err(format!("the vocabulary has {token:?} twice"));
            }
            let (at, bit) = Hash::of(token).bit();
            vocabulary.filter[at] |= bit;
            let (mut place, part) = Hash::of(token).place(size);
            while vocabulary.slots[place] != FREE {
                place = (place + 1) & (size - 1);
            }
            let number = u32::try_from(number).map_err(|_| "the vocabulary is too large")?;
            vocabulary.slots[place] = (part, number);
        }
        Ok(vocabulary)
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn find(&self, token: &str) -> Option<u32> {
        self.look_up(Hash::of(token), "", token.as_bytes())
    }

    /// The longest token that `rest` begins with, and how many bytes of `rest` it takes. `rest` is UTF-8, so that a token
    /// never ends inside a character.
    pub(super) fn longest(&self, rest: &[u8], continues: bool, hashes: &mut Hashes) -> Option<(u32, usize)> {
        let prefix = if continues { CONTINUES } else { "" };
        let mut hash = Hash::of(prefix);
        let reach = rest.len().min(self.longest.saturating_sub(prefix.len()));
        // A bit for each beginning that may be a token.
        let mut maybe = 0_u64;
        for (at, (kept, byte)) in hashes.0.iter_mut().zip(&rest[..reach]).enumerate() {
            hash = hash.add(*byte);
            *kept = hash;
            let (place, bit) = hash.bit();
            maybe |= u64::from(self.filter[place] & bit != 0) << at;
        }
        while maybe != 0 {
            let at = maybe.ilog2() as usize;
            if let Some(token) = self.look_up(hashes.0[at], prefix, &rest[..=at]) {
                return Some((token, at + 1));
            }
            maybe ^= 1 << at;
        }
        None
    }

    /// The token of this hash that is `prefix` and `piece`.
    fn look_up(&self, hash: Hash, prefix: &str, piece: &[u8]) -> Option<u32> {
        let (mut place, part) = hash.place(self.slots.len());
        let same = |token: &str| token.as_bytes().strip_prefix(prefix.as_bytes()) == Some(piece);
        loop {
            match self.slots[place] {
                FREE => return None,
                (other, number) if other == part && same(self.tokens[number as usize]) => {
                    return Some(number);
                }
                _ => place = (place + 1) & (self.slots.len() - 1),
            }
        }
    }
}
