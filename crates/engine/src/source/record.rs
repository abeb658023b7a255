//! A line, or a record of several lines, as an item.

use redrive_core::id::ContentHash;
use redrive_core::item::NewItem;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::refusal;

/// Longest line or record that is taken as an item.
pub const MAX_LINE: usize = 16 << 20;
/// How much of an unusable line is shown; it can be read in full where it came from.
const SHOWN_OF_REFUSED: usize = 200;
/// How deep JSON may be nested.
const DEEPEST: usize = 128;

/// How the items of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// As the file's name says: CSV for `.csv` and `.tsv`, JSON Lines otherwise.
    #[default]
    ByName,
    /// One JSON document a line.
    Jsonl,
    /// Records with a header.
    Csv {
        /// Between two fields; `None`: a tab for `.tsv`, a comma otherwise.
        delimiter: Option<u8>,
    },
}

/// How one file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Jsonl,
    Csv { delimiter: u8 },
}

impl Format {
    /// How the file of that name is read.
    pub(super) fn of(self, name: &str) -> Form {
        let name = name.strip_suffix(".gz").unwrap_or(name).to_ascii_lowercase();
        let usual = if name.ends_with(".tsv") { b'\t' } else { b',' };
        match self {
            Self::Jsonl => Form::Jsonl,
            Self::Csv { delimiter } => Form::Csv { delimiter: delimiter.unwrap_or(usual) },
            Self::ByName if name.ends_with(".csv") || name.ends_with(".tsv") => {
                Form::Csv { delimiter: usual }
            }
            Self::ByName => Form::Jsonl,
        }
    }
}

/// Where a record stands.
pub(super) struct At<'a> {
    /// The file's name, where there are several.
    pub(super) file: Option<&'a str>,
    /// The whole path.
    pub(super) path: &'a str,
    /// Its line in the file, from 1.
    pub(super) line: u64,
    /// Its line over all files, from 1.
    pub(super) ordinal: u64,
    /// Its own bytes, with its end.
    pub(super) length: u64,
}

impl At<'_> {
    fn words(&self) -> String {
        match self.file {
            Some(file) => format!("line {} of {file}", self.line),
            None => format!("line {}", self.line),
        }
    }

    /// An item that cannot be worked on: it is admitted as dead. It is known by what it holds, wherever it stands; its
    /// payload says in which file it can be read again, its origin at which line, and only enough of it is kept to be
    /// recognised.
    pub(super) fn refused(&self, bytes: &[u8], why: &str) -> NewItem {
        let begins = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_OF_REFUSED)]);
        let words = self.words();
        let payload = json!({
            "refused": why.strip_prefix(&words).unwrap_or(why).trim_start(),
            "file": self.path,
            "bytes": self.length,
            "begins": begins,
        });
        let held = ContentHash::of(&[bytes, &self.length.to_le_bytes()]);
        let key = format!("unusable-{}", mark(held));
        let mut item = NewItem::new(key, payload.to_string().into_bytes(), self.ordinal);
        item.refused = Some(refusal(why));
        item
    }

    /// Why a record that has no end is none.
    pub(super) fn unclosed(&self) -> String {
        format!("{} opens a quote that is not closed", self.words())
    }

    /// A line of JSON.
    pub(super) fn json(&self, line: &[u8], key: Option<&str>) -> NewItem {
        match self.try_json(line, key) {
            Ok(item) => item,
            Err(why) => self.refused(line, &why),
        }
    }

    fn too_long(&self) -> Option<String> {
        let long = self.length > MAX_LINE as u64 + 1;
        long.then(|| format!("{} has {} bytes, more than the {MAX_LINE} allowed", self.words(), self.length))
    }

    fn try_json(&self, line: &[u8], pointer: Option<&str>) -> Result<NewItem, String> {
        if let Some(why) = self.too_long() {
            return Err(why);
        }
        if let Err(error) = std::str::from_utf8(line) {
            return Err(format!("{} is not UTF-8: byte {} of it", self.words(), error.valid_up_to() + 1));
        }
        if deepest(line) > DEEPEST {
            return Err(format!("{} is nested deeper than the {DEEPEST} levels allowed", self.words()));
        }
        let Some(pointer) = pointer else {
            serde_json::from_slice::<IgnoredAny>(line).map_err(|error| self.not_json(&error))?;
            return Ok(NewItem::new(ContentHash::of(&[line]).to_string(), line, self.ordinal));
        };
        let value: serde_json::Value = serde_json::from_slice(line).map_err(|error| self.not_json(&error))?;
        let key = key_of(value.pointer(pointer).unwrap_or(&serde_json::Value::Null));
        match key {
            Ok(key) => Ok(NewItem::new(key, line, self.ordinal)),
            Err(NoKey::Inexact) => {
                Err(format!("{} has a key at {pointer} that is {}", self.words(), NoKey::Inexact))
            }
            Err(NoKey::NoScalar) => {
                Err(format!("{} has no string, number or boolean at {pointer} for its key", self.words()))
            }
        }
    }

    fn not_json(&self, error: &serde_json::Error) -> String {
        // The line of the error is always 1: what matters is where in the line.
        let text = error.to_string();
        let text = match text.split(" at line ").next().unwrap_or(&text) {
            // The parser's own word for `true`, `false` and `null`, of which it has seen the first letter.
            "expected ident" => "expected value",
            text => text,
        };
        match error.column() {
            0 => format!("{} is not JSON: {text}", self.words()),
            column => format!("{} is not JSON: {text} at column {column}", self.words()),
        }
    }

    /// A record of a file with a header.
    pub(super) fn csv(&self, record: &[u8], delimiter: u8, header: &[String], key: Option<&str>) -> NewItem {
        let made = || -> Result<NewItem, String> {
            if let Some(why) = self.too_long() {
                return Err(format!("{why}; is a quote left open?"));
            }
            let fields = fields(record, delimiter).map_err(|why| format!("{} {why}", self.words()))?;
            if fields.len() != header.len() {
                let (has, wants) = (fields.len(), header.len());
                return Err(format!("{} has {has} fields, the header has {wants}", self.words()));
            }
            // Written by hand, so that the fields keep the order of the columns.
            let pairs: Vec<String> = header
                .iter()
                .zip(&fields)
                .map(|(name, field)| format!("{}:{}", json!(name), json!(field)))
                .collect();
            self.try_json(format!("{{{}}}", pairs.join(",")).as_bytes(), key)
        };
        made().unwrap_or_else(|why| self.refused(record, &why))
    }
}

/// Why a value cannot be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKey {
    /// It is a number that is read as an approximation: two such numbers could be one key.
    Inexact,
    /// It is no string, number or boolean.
    NoScalar,
}

impl std::fmt::Display for NoKey {
    /// As the end of a sentence that begins with "a key that is".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Inexact => "no whole number of 64 bits; write it as a string",
            Self::NoScalar => "no string, number or boolean",
        })
    }
}

/// The key that a value is: a string, a boolean, or a whole number that fits 64 bits.
///
/// # Errors
/// Why it is none.
pub fn key_of(value: &serde_json::Value) -> Result<String, NoKey> {
    match value {
        serde_json::Value::String(text) => Ok(text.clone()),
        serde_json::Value::Number(number) if number.is_i64() || number.is_u64() => Ok(number.to_string()),
        serde_json::Value::Number(_) => Err(NoKey::Inexact),
        serde_json::Value::Bool(yes) => Ok(yes.to_string()),
        serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
            Err(NoKey::NoScalar)
        }
    }
}

/// One JSON document as an item, by the rules for a line of a source; or why it cannot be one.
///
/// # Errors
/// Why, as the end of a sentence that begins with what it is called.
pub fn document(bytes: &[u8], ordinal: u64, key: Option<&str>) -> Result<NewItem, String> {
    let at = At { file: None, path: "", line: ordinal, ordinal, length: bytes.len() as u64 };
    at.try_json(bytes.trim_ascii(), key).map_err(|why| without_line(&why, ordinal))
}

/// What is kept of a line that cannot be used, as [`At::refused`] writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unread {
    #[serde(rename = "refused")]
    _refused: IgnoredAny,
    file: String,
    #[serde(rename = "bytes")]
    _bytes: IgnoredAny,
    #[serde(rename = "begins")]
    _begins: IgnoredAny,
}

/// The file of a line that could not be used, by the content of its item; `None` where that is a content of its own.
#[must_use]
pub fn unread_in(content: &str) -> Option<String> {
    serde_json::from_str::<Unread>(content).ok().map(|unread| unread.file)
}

/// Why a line of a stream cannot be used, as the end of a sentence that begins with what it is called.
#[must_use]
pub fn without_line(why: &str, line: u64) -> String {
    why.strip_prefix(&format!("line {line} ")).unwrap_or(why).to_owned()
}

/// Enough of a hash to tell two lines apart.
pub(crate) fn mark(hash: ContentHash) -> String {
    hash.to_string()[..12].to_owned()
}

/// The fields of one record.
pub(super) fn fields(record: &[u8], delimiter: u8) -> Result<Vec<String>, String> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(record);
    let mut fields = csv::ByteRecord::new();
    reader.read_byte_record(&mut fields).map_err(|error| format!("cannot be read: {error}"))?;
    let text = |field: &[u8]| String::from_utf8(field.to_vec()).map_err(|_| "is not UTF-8".to_owned());
    fields.iter().map(text).collect()
}

/// How deep brackets are nested, strings apart.
fn deepest(line: &[u8]) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
