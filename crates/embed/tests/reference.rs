//! The built-in model against its reference in Python: `tests/data` is written by the scripts in `model/scripts`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use redrive_core::vector::dot;
use redrive_embed::{EmbedError, Embedder, builtin};
use serde::Deserialize;

#[derive(Deserialize)]
struct Tokens {
    text: String,
    tokens: Vec<u32>,
}

#[derive(Deserialize)]
struct Vector {
    text: String,
    vector: String,
}

fn lines<T: for<'a> Deserialize<'a>>(file: &str) -> Vec<T> {
    file.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn tokens_are_those_of_the_reference() {
    let expected: Vec<Tokens> = lines(include_str!("data/tokens.jsonl"));
    assert!(expected.len() >= 300, "{} texts prove little", expected.len());
    for entry in expected {
        assert_eq!(builtin().tokenizer().encode(&entry.text), entry.tokens, "{:?}", entry.text);
        assert_eq!(builtin().count_tokens(&entry.text), entry.tokens.len());
    }
}

#[test]
fn vectors_are_those_of_the_reference() {
    let expected: Vec<Vector> = lines(include_str!("data/vectors.jsonl"));
    assert!(expected.len() >= 25, "{} texts prove little", expected.len());
    for entry in expected {
        let bytes = STANDARD.decode(entry.vector).unwrap();
        let vector = bytes.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number));
        let ours = builtin().embed(&[&entry.text]).unwrap().remove(0);
        assert_eq!(ours.len(), 256);
        let off = ours.iter().zip(vector).map(|(ours, theirs)| (ours - theirs).abs()).fold(0.0, f32::max);
        assert!(off < 1e-6, "off by {off} for {:?}", entry.text);
    }
}

#[test]
fn vectors_come_in_the_order_of_the_texts_whatever_is_beside_them() {
    let texts = ["a lease expired", "the mailbox is full", "a lease expired", "borrow checker"];
    let together = builtin().embed(&texts).unwrap();
    for (text, vector) in texts.iter().zip(&together) {
        assert_eq!(&builtin().embed(&[text]).unwrap()[0], vector, "{text}");
    }
    assert_eq!(together[0], together[2]);
    assert_ne!(together[0], together[1]);
    assert_eq!(builtin().embed(&[]).unwrap(), Vec::<Vec<f32>>::new());
}

#[test]
fn a_text_without_a_known_word_is_an_error_and_names_its_place() {
    for nothing in ["", " \n\t", "\u{0}\u{200b}", "\u{13000}\u{13001}", &"x".repeat(101)] {
        assert_eq!(builtin().embed(&["fine", nothing]), Err(EmbedError::Empty { index: 1 }), "{nothing:?}");
        let each = builtin().embed_each(&[nothing, "fine"]);
        assert_eq!(each[0], Err(EmbedError::Empty { index: 0 }));
        assert!(each[1].is_ok());
    }
    assert!(builtin().embed(&["a \u{13000}"]).is_ok());
}

#[test]
fn the_model_says_which_it_is() {
    let id = builtin().id();
    assert_eq!(id.name(), "redrive-static-256");
    assert_eq!(id.to_string(), format!("redrive-static-256@{}", &id.content()[..16]));
    assert_eq!(builtin().dimensions(), 256);
}

proptest! {
    #[test]
    fn any_text_has_a_vector_of_length_one_or_none(text in "\\PC{0,60}|[ -~]{0,200}|(?s:.{0,60})") {
        let tokens = builtin().tokenizer().encode(&text);
        prop_assert_eq!(tokens.len(), builtin().count_tokens(&text));
        prop_assert!(tokens.iter().all(|token| (*token as usize) < builtin().tokenizer().len()));
        match builtin().embed(&[&text]) {
            Ok(vectors) => {
                prop_assert!((dot(&vectors[0], &vectors[0]) - 1.0).abs() < 1e-5);
                prop_assert_eq!(&builtin().embed(&[&text]).unwrap(), &vectors);
            }
            Err(error) => {
                prop_assert_eq!(error, EmbedError::Empty { index: 0 });
                prop_assert!(tokens.iter().all(|token| *token == builtin().tokenizer().unknown()));
            }
        }
    }

    #[test]
    fn case_and_accents_and_kinds_of_space_make_no_difference(words in prop::collection::vec("[a-z]{1,12}", 1..8)) {
        let plain = builtin().tokenizer().encode(&words.join(" "));
        prop_assert_eq!(&builtin().tokenizer().encode(&words.join("\u{2003}\n").to_uppercase()), &plain);
        let accented: Vec<String> = words.iter().map(|word| format!("{word}\u{301}")).collect();
        prop_assert_eq!(&builtin().tokenizer().encode(&accented.join("\t")), &plain);
    }

    #[test]
    fn tokens_of_two_texts_with_a_space_between_are_those_of_both(a in "\\PC{0,30}", b in "\\PC{0,30}") {
        let words = builtin().tokenizer();
        let mut both = words.encode(&a);
        both.extend(words.encode(&b));
        prop_assert_eq!(words.encode(&format!("{a} {b}")), both);
    }
}
