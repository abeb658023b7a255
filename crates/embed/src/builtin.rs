//! The model that comes with the binary: one row of a table for each token, added up and brought to length 1.

mod table;

use std::sync::LazyLock;

use redrive_core::vector::normalise;

use crate::embedder::{EmbedError, Embedder, ModelId};
use crate::wordpiece::WordPiece;
use table::Table;

static TABLE: &[u8] = include_bytes!("../model/static256.safetensors");
static VOCABULARY: &str = include_str!("../model/vocab.txt");

/// BLAKE3 of the table followed by the vocabulary. A constant, because hashing eight megabytes at each start would cost
/// more than loading them; a test recounts it.
const CONTENT: &str = "ae7891321b1a79bdbf3ea54f9691149b647758d77bfed741ef80dc7ef8c462f8";

static BUILT_IN: LazyLock<StaticModel> = LazyLock::new(|| {
    let id = ModelId::new("redrive-static-256", CONTENT);
    StaticModel::load(id, TABLE, VOCABULARY).expect("the files in model/ belong together")
});

/// The built-in model: 256 dimensions, English, good for short passages. Prepared at the first call, in a few
/// milliseconds.
#[must_use]
pub fn builtin() -> &'static StaticModel {
    &BUILT_IN
}

/// A table of token vectors with its tokenizer.
#[derive(Debug)]
pub struct StaticModel {
    id: ModelId,
    table: Table<'static>,
    words: WordPiece<'static>,
}

impl StaticModel {
    /// Reads a model in place: nothing of the table is copied.
    ///
    /// `table` is a safetensors file with `embeddings` (I8, rows × dimensions) and `scale` (F32, rows); `vocabulary`
    /// has a token on each line, in the order of the rows.
    ///
    /// # Errors
    /// Says what of the two cannot be used.
    pub fn load(id: ModelId, table: &'static [u8], vocabulary: &'static str) -> Result<Self, String> {
        let table = Table::read(table)?;
        let words = WordPiece::new(vocabulary)?;
        if words.len() != table.rows() {
            return Err(format!("the table has {} rows for {} tokens", table.rows(), words.len()));
        }
        Ok(Self { id, table, words })
    }

    /// The tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &WordPiece<'static> {
        &self.words
    }

    /// About how many tokens a text has, to whatever model it is given: what this one knows no token of is counted by its
    /// characters. To it a line of base64 or a sentence in Thai is one unknown word; to a service it is hundreds of tokens.
    #[must_use]
    pub fn estimate_tokens(&self, text: &str) -> usize {
        let counted = |text: &str| {
            let (mut tokens, mut unknown) = (0, false);
            self.words.each_token(text, |token| {
                tokens += 1;
                unknown |= token == self.words.unknown();
            });
            (tokens, unknown)
        };
        let (tokens, unknown) = counted(text);
        if !unknown {
            return tokens;
        }
        let word = |word: &str| match counted(word) {
            (tokens, false) => tokens,
            (tokens, true) => tokens.max(unknown_tokens(word)),
        };
        text.split_whitespace().map(word).sum()
    }

    /// The vector of one text; `None` when no token of it is known.
    ///
    /// Unknown words count as far as the table has a row for them, but do not make a text by themselves: all texts of
    /// unknown words only would have the same vector.
    #[must_use]
    pub fn embed_one(&self, text: &str) -> Option<Vec<f32>> {
        self.counted(text).0
    }

    /// The vector of one text, and how many tokens it has.
    fn counted(&self, text: &str) -> (Option<Vec<f32>>, usize) {
        let mut sum = vec![0.0; self.table.dimensions()];
        let (mut known, mut tokens) = (false, 0);
        self.words.each_token(text, |token| {
            known |= token != self.words.unknown();
            tokens += 1;
            self.table.add_row(token, &mut sum);
        });
        ((known && normalise(&mut sum)).then_some(sum), tokens)
    }
}

/// How many tokens a word is that nobody knows: two for three characters of ASCII, as for hexadecimal digits and base64; one
/// for other letters, two for what lies beyond them, as emoji do.
fn unknown_tokens(word: &str) -> usize {
    let ascii = word.bytes().filter(u8::is_ascii).count();
    let others = word.chars().filter(|c| !c.is_ascii()).map(|c| if c.len_utf8() > 3 { 2 } else { 1 });
    (ascii * 2).div_ceil(3) + others.sum::<usize>()
}

impl Embedder for StaticModel {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.table.dimensions()
    }

    fn count_tokens(&self, text: &str) -> usize {
        let mut count = 0;
        self.words.each_token(text, |_| count += 1);
        count
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_each(texts).into_iter().collect()
    }

    fn embed_each(&self, texts: &[&str]) -> Vec<Result<Vec<f32>, EmbedError>> {
        self.embed_counted(texts).0
    }

    fn embed_counted(&self, texts: &[&str]) -> (Vec<Result<Vec<f32>, EmbedError>>, usize) {
        let mut total = 0;
        let one = |(index, text): (usize, &&str)| {
            let (vector, tokens) = self.counted(text);
            total += tokens;
            vector.ok_or(EmbedError::Empty { index })
        };
        (texts.iter().enumerate().map(one).collect(), total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_hash_is_that_of_the_files() {
        let mut hasher = blake3::Hasher::new();
        hasher.update(TABLE).update(VOCABULARY.as_bytes());
        assert_eq!(hasher.finalize().to_hex().as_str(), CONTENT);
    }

    #[test]
    fn a_word_that_nobody_knows_is_not_one_token() {
        let estimate = |text: &str| builtin().estimate_tokens(text);
        for text in ["", "the walrus sleeps", "fn parse_header(x: u8) {}", "Größe"] {
            assert_eq!(estimate(text), builtin().count_tokens(text), "{text}");
        }
        let thai = "เมืองหลวงของประเทศไทยคือกรุงเทพมหานคร";
        assert_eq!(estimate(thai), thai.chars().count());
        assert_eq!(estimate(&"x7".repeat(150)), 200);
        assert_eq!(
            estimate(&format!("the {thai} walrus")),
            1 + thai.chars().count() + builtin().count_tokens("walrus")
        );
        assert_eq!(estimate("🎉🎊"), 4);
    }

    #[test]
    fn a_table_and_a_vocabulary_of_different_sizes_are_refused() {
        let wrong = StaticModel::load(ModelId::new("x", "y"), TABLE, "[UNK]\na\n").unwrap_err();
        assert_eq!(wrong, "the table has 30522 rows for 2 tokens");
    }
}
