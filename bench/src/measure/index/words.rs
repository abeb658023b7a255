//! Made-up text: words of the built-in model's vocabulary, common ones more often, from a seed.

use std::fs;
use std::path::Path;

use crate::Failure;

/// Ranks below this are hardly ever what somebody looks for.
const COMMON: f64 = 100.0;

/// Random numbers from a seed (`SplitMix64`).
pub struct Dice(u64);

impl Dice {
    /// Dice that always fall the same way.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The words, common ones first.
pub struct Words(Vec<String>);

impl Words {
    /// Reads the vocabulary.
    pub fn read() -> Result<Self, Failure> {
        let file = Path::new(crate::python::HERE).join("../crates/embed/model/vocab.txt");
        let is_word = |word: &&str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let words: Vec<String> =
            fs::read_to_string(file)?.lines().filter(is_word).map(str::to_owned).collect();
        if words.len() < 1_000 {
            return Err("the vocabulary has hardly any words".into());
        }
        Ok(Self(words))
    }

    /// A text of so many words; the n-th most common word comes up 1/n as often as the first.
    pub fn text(&self, dice: &mut Dice, count: usize) -> String {
        self.pick(dice, count, 1.0).join(" ")
    }

    /// Words that somebody could look for.
    pub fn query(&self, dice: &mut Dice) -> Vec<String> {
        self.pick(dice, 3, COMMON).into_iter().map(str::to_owned).collect()
    }

    fn pick(&self, dice: &mut Dice, count: usize, from: f64) -> Vec<&str> {
        let most = self.0.len() as f64 / from;
        let one = |dice: &mut Dice| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rank among the words"
            )]
            let rank = (from * most.powf(dice.share())) as usize;
            self.0[rank.min(self.0.len()) - 1].as_str()
        };
        (0..count).map(|_| one(dice)).collect()
    }
}
