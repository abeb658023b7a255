//! Bytes to text: Unicode as marked, UTF-8, and what is left of the eight-bit years.

use serde::{Deserialize, Serialize};

/// How a text was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// UTF-8, with or without a mark at its start.
    Utf8,
    /// UTF-8 in which some bytes are not; those were taken for Windows-1252.
    Mixed,
    /// UTF-16 with a mark at its start.
    Utf16,
    /// Not UTF-8; taken for Windows-1252, of which Latin-1 is a part.
    Windows1252,
}

impl Encoding {
    /// A sentence for the reader when the text may not be what was written.
    #[must_use]
    pub fn note(self) -> Option<&'static str> {
        match self {
            Self::Utf8 | Self::Utf16 => None,
            Self::Mixed => Some("some bytes are not UTF-8; they were read as Windows-1252"),
            Self::Windows1252 => Some("not UTF-8; read as Windows-1252"),
        }
    }
}

/// A text and how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The text, without a mark at its start.
    pub text: String,
    /// How it was written.
    pub encoding: Encoding,
}

/// Bytes that are not a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotText(&'static str);

/// Decodes bytes, or says why they are no text. An empty file is an empty text.
///
/// # Errors
///
/// [`NotText`] for NUL bytes, many control characters, broken UTF-16, or mostly bytes that no Western text has.
pub fn decode(bytes: &[u8]) -> Result<Decoded, NotText> {
    let utf16 = match bytes {
        [0xff, 0xfe, rest @ ..] => Some((encoding_rs::UTF_16LE, rest)),
        [0xfe, 0xff, rest @ ..] => Some((encoding_rs::UTF_16BE, rest)),
        _ => None,
    };
    if let Some((encoding, rest)) = utf16 {
        let text = encoding
            .decode_without_bom_handling_and_without_replacement(rest)
            .ok_or(NotText("marked as UTF-16 and is not"))?;
        return checked(text.into_owned(), Encoding::Utf16);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.contains(&0) {
        return Err(NotText("it has NUL bytes"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => checked(text.to_owned(), Encoding::Utf8),
        Err(_) => eight_bit(bytes),
    }
}

/// Decodes what is not UTF-8 as a whole.
fn eight_bit(bytes: &[u8]) -> Result<Decoded, NotText> {
    let (mut good, mut bad) = (0_usize, 0_usize);
    for piece in bytes.utf8_chunks() {
        good += piece.valid().chars().filter(|character| !character.is_ascii()).count();
        bad += piece.invalid().len();
    }
    let high = bytes.iter().filter(|byte| !byte.is_ascii()).count();
    if good >= bad {
        let mut text = String::with_capacity(bytes.len() + bad);
        for piece in bytes.utf8_chunks() {
            text.push_str(piece.valid());
            text.push_str(&encoding_rs::WINDOWS_1252.decode_without_bom_handling(piece.invalid()).0);
        }
        return checked(text, Encoding::Mixed);
    }
    // Western text has few letters beyond ASCII; what has many is another alphabet, or data.
    if high * 10 > bytes.len() * 3 {
        return Err(NotText("neither UTF-8 nor a Western eight-bit text"));
    }
    let text = encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0;
    checked(text.into_owned(), Encoding::Windows1252)
}

/// Refuses texts with more than a few control characters.
fn checked(text: String, encoding: Encoding) -> Result<Decoded, NotText> {
    let (mut all, mut control) = (0_usize, 0_usize);
    for character in text.chars() {
        all += 1;
        // Escape begins colours in logs; form feed is a page in old sources; backspace is bold in old manuals.
        let allowed = matches!(character, '\t' | '\n' | '\r' | '\x0b' | '\x0c' | '\x08' | '\x1b');
        control += usize::from(character.is_control() && !allowed);
        if character == '\0' {
            return Err(NotText("it has NUL characters"));
        }
    }
    if control * 50 > all {
        return Err(NotText("too many control characters"));
    }
    Ok(Decoded { text, encoding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encodings_are_told_apart() {
        for (bytes, text, encoding) in [
            (&b""[..], "", Encoding::Utf8),
            ("grün".as_bytes(), "grün", Encoding::Utf8),
            (b"\xef\xbb\xbfx", "x", Encoding::Utf8),
            (b"\xff\xfeg\0r\0\xfc\0n\0", "grün", Encoding::Utf16),
            (b"\xfe\xff\0g\0r\0\xfc\0n", "grün", Encoding::Utf16),
            (b"gr\xfcn und \x80 5", "grün und € 5", Encoding::Windows1252),
            (b"gr\xc3\xbcn, once more gr\xfcn", "grün, once more grün", Encoding::Mixed),
        ] {
            assert_eq!(decode(bytes), Ok(Decoded { text: text.into(), encoding }), "{bytes:?}");
        }
    }

    #[test]
    fn data_is_no_text() {
        for bytes in [
            &b"abc\0def"[..],
            b"\x7fELF\x02\x01\x01",
            b"\xff\xfe\x00\xd8",
            b"\xff\xfea",
            b"\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0",
            b"\xef\xbb\xbfa\0",
        ] {
            assert!(decode(bytes).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(decoded) = decode(&bytes) {
                prop_assert!(!decoded.text.contains('\0'));
            }
        }

        #[test]
        fn every_ordinary_string_comes_back(text in "[^\\pC]{0,60}") {
            prop_assume!(!text.starts_with('\u{feff}'));
            prop_assert_eq!(decode(text.as_bytes()).unwrap().text, text);
        }
    }
}
