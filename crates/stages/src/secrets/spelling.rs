//! How a value can be spelled in a text: as it is, with escapes of JSON, URLs, mail and HTML in any mixture, in base64, in
//! hex; broken into lines or pieces, or by characters that nobody sees; and with its beginning or its end cut off.

use super::unseen;

/// Escapes of escapes of escapes are seen through up to here; deeper ones are a trap for whoever looks.
const DEEPEST: usize = 16;
/// More looks than this at one place are no spelling but a trap.
const MOST_LOOKS: usize = 4_096;
/// Shortest run of base64 that is taken for a part of a value; fewer letters occur by chance.
const SHORTEST_BASE64: usize = 8;
/// Shortest value that is looked for in hex, and whatever the case of its letters.
const SHORTEST_LOOSE: usize = 8;
/// Shortest part of a value that is looked for by itself, and how much of it may be missing: a quarter.
const SHORTEST_PART: usize = 12;
/// Most parts that are looked for at either end.
const MOST_PARTS: usize = 16;
/// Most bytes between two letters of a value that is written in pieces.
const LONGEST_GAP: usize = 8;
/// Names of characters in HTML that a key or password may have.
const NAMED: [(&str, u8); 36] = [
    ("amp", b'&'),
    ("lt", b'<'),
    ("gt", b'>'),
    ("quot", b'"'),
    ("apos", b'\''),
    ("sol", b'/'),
    ("bsol", b'\\'),
    ("plus", b'+'),
    ("equals", b'='),
    ("colon", b':'),
    ("semi", b';'),
    ("num", b'#'),
    ("percnt", b'%'),
    ("dollar", b'$'),
    ("excl", b'!'),
    ("commat", b'@'),
    ("lowbar", b'_'),
    ("hyphen", b'-'),
    ("dash", b'-'),
    ("period", b'.'),
    ("comma", b','),
    ("quest", b'?'),
    ("ast", b'*'),
    ("midast", b'*'),
    ("lpar", b'('),
    ("rpar", b')'),
    ("lsqb", b'['),
    ("lbrack", b'['),
    ("rsqb", b']'),
    ("rbrack", b']'),
    ("lcub", b'{'),
    ("rcub", b'}'),
    ("verbar", b'|'),
    ("vert", b'|'),
    ("hat", b'^'),
    ("grave", b'`'),
];

/// One value in one spelling.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Needle {
    bytes: Vec<u8>,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As it is.
    Exact,
    /// Whatever the case of its letters.
    AnyCase,
    /// In hex, whatever stands between its bytes.
    Hex,
    /// A part of the base64 of something that contains it, with either alphabet.
    Base64,
}

/// Every way to spell a value.
pub(super) fn needles(value: &str) -> Vec<Needle> {
    let bytes = value.as_bytes();
    let long = bytes.len() >= SHORTEST_LOOSE;
    let form = if long { Form::AnyCase } else { Form::Exact };
    let mut all = vec![Needle { bytes: bytes.to_vec(), form }];
    if long {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        all.push(Needle { bytes: hex.into_bytes(), form: Form::Hex });
    }
    let missing = (bytes.len() / 4).min(bytes.len().saturating_sub(SHORTEST_PART)).min(MOST_PARTS);
    for missing in 1..=missing {
        let parts = [&bytes[..bytes.len() - missing], &bytes[missing..]];
        all.extend(parts.map(|part| Needle { bytes: part.to_vec(), form }));
    }
    // What stands before the value (a user name) moves it against the groups of base64: three ways to begin.
    for before in 0..3_usize {
        let mut moved = vec![0; before];
        moved.extend_from_slice(bytes);
        let letters = base64(&moved);
        // Letters that hold bits of what is before or after it differ.
        let from = (before * 8).div_ceil(6);
        let to = moved.len() * 8 / 6;
        if to.saturating_sub(from) >= SHORTEST_BASE64 {
            all.push(Needle { bytes: letters[from..to].to_vec(), form: Form::Base64 });
        }
    }
    all
}

impl Needle {
    /// The length of the text in which it is spelled at most.
    pub(super) fn longest(&self) -> usize {
        // A letter takes up to ten bytes: `&#x00041;`, `\\\\u0041`; one that nobody sees may stand before it.
        self.bytes.len().saturating_mul(20)
    }

    /// Where the spelling that begins at `at` ends.
    pub(super) fn ends(&self, text: &[u8], at: usize) -> Option<usize> {
        let first = text[at];
        if !self.is(0, first) && !matches!(first, b'\\' | b'%' | b'&' | b'=') {
            return None;
        }
        let mut open = vec![(at, 0)];
        for _ in 0..MOST_LOOKS {
            let (place, known) = open.pop()?;
            if known == self.bytes.len() {
                return Some(place);
            }
            if place >= text.len() {
                continue;
            }
            if self.is(known, text[place]) {
                open.push((place + 1, known + 1));
            }
            if let Some(next) = self.gap(text, place).filter(|_| known > 0) {
                open.push((next, known));
            }
            if known > 0
                && let Some(next) = skip_unseen(text, place)
            {
                open.push((next, known));
            }
            for (spelled, next) in escapes(text, place).into_iter().flatten() {
                let spelled = spelled.bytes();
                if spelled.iter().enumerate().all(|(n, byte)| self.is(known + n, *byte)) {
                    open.push((next, known + spelled.len()));
                }
            }
        }
        None
    }

    /// Where what stands between two pieces of a value ends: line breaks and blanks, and in hex what separates bytes.
    fn gap(&self, text: &[u8], at: usize) -> Option<usize> {
        if self.form == Form::Exact {
            return None;
        }
        let is_hex = self.form == Form::Hex;
        let between = |byte: u8| byte.is_ascii_whitespace() || (is_hex && matches!(byte, b':' | b'-' | b','));
        let mut end = at + text[at..].iter().take(LONGEST_GAP).take_while(|byte| between(**byte)).count();
        if end == at && text[at] == b'\\' {
            // A line that goes on, or a line break that was escaped.
            let run = text[at..].iter().take(DEEPEST).take_while(|byte| **byte == b'\\').count();
            let breaks = matches!(text.get(at + run), Some(b'n' | b'r' | b't' | b'\n' | b'\r'));
            return breaks.then_some(at + run + 1);
        }
        if is_hex && text.get(end..end + 2).is_some_and(|two| two.eq_ignore_ascii_case(b"0x")) {
            end += 2;
        }
        (end > at).then_some(end)
    }

    /// Whether the text around it is the rest of the same word of base64, and belongs to it.
    pub(super) fn takes_its_word(&self) -> bool {
        self.form == Form::Base64
    }

    fn is(&self, place: usize, byte: u8) -> bool {
        self.bytes.get(place).is_some_and(|own| match self.form {
            Form::Exact => *own == byte,
            Form::AnyCase | Form::Hex => own.eq_ignore_ascii_case(&byte),
            Form::Base64 => {
                *own == match byte {
                    b'-' => b'+',
                    b'_' => b'/',
                    other => other,
                }
            }
        })
    }
}

/// Where characters that nobody sees end, as they are or escaped.
fn skip_unseen(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while let Some(next) = unseen::ends(text, end).or_else(|| escaped_unseen(text, end)) {
        end = next;
    }
    (end > at).then_some(end)
}

fn escaped_unseen(text: &[u8], at: usize) -> Option<usize> {
    if !matches!(text.get(at)?, b'\\' | b'%' | b'&' | b'=') {
        return None;
    }
    let is_unseen = |spelled: &Spelled| match spelled {
        Spelled::Byte(byte) => byte.is_ascii() && unseen::is_unseen(char::from(*byte)),
        Spelled::Letter(letter) => unseen::is_unseen(*letter),
    };
    let spelled = escapes(text, at).into_iter().flatten().find(|(spelled, _)| is_unseen(spelled));
    if let Some((_, end)) = spelled {
        return Some(end);
    }
    match text[at] {
        b'&' => unseen::named(text, at + 1),
        b'\\' => short_escape(text, at),
        _ => bytes_unseen(text, at),
    }
}

/// The end of a character of several bytes, each with its sign: `%E2%80%8B`.
fn bytes_unseen(text: &[u8], at: usize) -> Option<usize> {
    let first = at;
    let byte = |n: usize| {
        let at = first + 3 * n;
        let digits = text.get(at).filter(|sign| **sign == text[first]).and_then(|_| hex(text, at + 1, 2))?;
        u8::try_from(digits).ok()
    };
    let bytes: Vec<u8> = (0..4).map_while(byte).collect();
    unseen::ends(&bytes, 0).map(|length| at + 3 * length)
}

/// The end of an escape of a control character that has a letter of its own.
fn short_escape(text: &[u8], at: usize) -> Option<usize> {
    let run = text[at..].iter().take(DEEPEST).take_while(|byte| **byte == b'\\').count();
    let is_short = run > 0 && matches!(text.get(at + run), Some(b'0' | b'a' | b'b' | b'e' | b'f' | b'v'));
    is_short.then_some(at + run + 1)
}

/// Whether a byte can be part of a word of base64.
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
}

/// What an escape stands for.
enum Spelled {
    Byte(u8),
    Letter(char),
}

impl Spelled {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Byte(byte) => vec![*byte],
            Self::Letter(letter) => letter.to_string().into_bytes(),
        }
    }
}

/// What the escape that begins here stands for, and where it ends: as it is, and seen through where it escapes an escape.
fn escapes(text: &[u8], at: usize) -> [Option<(Spelled, usize)>; 2] {
    match text[at] {
        b'\\' => [backslash(text, at), None],
        b'%' => {
            let deep = at + 1 + 2 * repeats(text, at + 1, b"25");
            if matches!(text.get(at + 1), Some(b'u' | b'U')) {
                let letter = hex(text, at + 2, 4).and_then(char::from_u32);
                return [letter.map(|letter| (Spelled::Letter(letter), at + 6)), None];
            }
            [percent(text, at + 1), percent(text, deep).filter(|_| deep > at + 1)]
        }
        // As in mail.
        b'=' => [percent(text, at + 1), None],
        b'&' => {
            let deep = at + 1 + 4 * repeats(text, at + 1, b"amp;");
            [entity(text, at + 1), entity(text, deep).filter(|_| deep > at + 1)]
        }
        _ => [None, None],
    }
}

/// How often a text is repeated from here on.
fn repeats(text: &[u8], at: usize, part: &[u8]) -> usize {
    text.get(at..)
        .map_or(0, |rest| rest.chunks(part.len()).take(DEEPEST).take_while(|chunk| *chunk == part).count())
}

fn percent(text: &[u8], at: usize) -> Option<(Spelled, usize)> {
    Some((Spelled::Byte(u8::try_from(hex(text, at, 2)?).ok()?), at + 2))
}

/// `\/`, `\"`, `\\`, `\u0041`, `\u{41}`, `\x41`, with any number of backslashes before them.
fn backslash(text: &[u8], at: usize) -> Option<(Spelled, usize)> {
    let run = text[at..].iter().take(DEEPEST).take_while(|byte| **byte == b'\\').count();
    let next = at + run;
    match text.get(next) {
        Some(mark @ (b'/' | b'"' | b'\'')) => Some((Spelled::Byte(*mark), next + 1)),
        Some(b'u') => {
            if text.get(next + 1) == Some(&b'{') {
                let digits = text[next + 2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
                let letter = char::from_u32(hex(text, next + 2, digits)?)?;
                let closed = text.get(next + 2 + digits) == Some(&b'}');
                return closed.then_some((Spelled::Letter(letter), next + 3 + digits));
            }
            let unit = hex(text, next + 1, 4)?;
            if let Some(letter) = char::from_u32(unit) {
                return Some((Spelled::Letter(letter), next + 5));
            }
            // The second half of a pair follows with as many backslashes.
            let second = next + 5 + run;
            let low = (text.get(second) == Some(&b'u')).then(|| hex(text, second + 1, 4)).flatten()?;
            let letter = 0x1_0000 + ((unit & 0x3ff) << 10) + (low & 0x3ff);
            Some((Spelled::Letter(char::from_u32(letter)?), second + 5))
        }
        Some(b'U') => {
            let zeros = text.get(next + 1..next + 3) == Some(b"00");
            let letter = char::from_u32(hex(text, next + 3, 6).filter(|_| zeros)?)?;
            Some((Spelled::Letter(letter), next + 9))
        }
        Some(b'0'..=b'3') => {
            let digits = text.get(next..next + 3)?;
            let octal = std::str::from_utf8(digits).ok()?;
            Some((Spelled::Byte(u8::from_str_radix(octal, 8).ok()?), next + 3))
        }
        Some(b'x') => Some((Spelled::Byte(u8::try_from(hex(text, next + 1, 2)?).ok()?), next + 3)),
        _ => (run >= 2).then_some((Spelled::Byte(b'\\'), at + 2)),
    }
}

/// `sol;`, `#47;`, `#x2f;`.
fn entity(text: &[u8], at: usize) -> Option<(Spelled, usize)> {
    numbered(text, at).or_else(|| named(text, at))
}

fn numbered(text: &[u8], at: usize) -> Option<(Spelled, usize)> {
    if text.get(at) != Some(&b'#') {
        return None;
    }
    let radix = if matches!(text.get(at + 1), Some(b'x' | b'X')) { 16 } else { 10 };
    let from = at + if radix == 16 { 2 } else { 1 };
    let digits = text[from..].iter().take(8).take_while(|byte| char::from(**byte).is_digit(radix)).count();
    let number = std::str::from_utf8(&text[from..from + digits]).ok()?;
    let letter = char::from_u32(u32::from_str_radix(number, radix).ok()?)?;
    let end = from + digits;
    Some((Spelled::Letter(letter), if text.get(end) == Some(&b';') { end + 1 } else { end }))
}

fn named(text: &[u8], at: usize) -> Option<(Spelled, usize)> {
    NAMED.iter().find_map(|(name, byte)| {
        let end = at + name.len();
        let is = text.get(at..end).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        (is && text.get(end) == Some(&b';')).then_some((Spelled::Byte(*byte), end + 1))
    })
}

fn hex(text: &[u8], at: usize, digits: usize) -> Option<u32> {
    let digits = text.get(at..at + digits)?;
    if digits.is_empty() || digits.len() > 6 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes).into_bytes()
}
