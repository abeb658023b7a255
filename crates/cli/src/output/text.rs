//! Text that is safe and short enough for a terminal.

/// Text from outside, so that it cannot drive a terminal: what moves the cursor, changes colours, turns the direction of the
/// line or takes no room is shown as a replacement character.
pub fn safe(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether a character could make a text look other than it is. The two joiners are letters to some scripts, and stay.
fn is_unsafe(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Marks, embeddings, overrides and isolates of direction, and separators of lines.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // What takes no room: spaces, operators, shapes, annotations, tags.
        '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        other => other.is_control(),
    }
}

/// The same JSON, written so that it cannot drive a terminal. What could is beyond ASCII, or the last sign of it, and so stands
/// within strings only.
pub fn safe_json(json: String) -> String {
    let drives = |c: char| c >= '\u{7f}' && is_unsafe(c);
    if !json.contains(drives) {
        return json;
    }
    let mut written = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        match drives(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| written += &format!("\\u{unit:04x}")),
            false => written.push(c),
        }
    }
    written
}

/// How much of an item's key is shown; `--json` has the whole of it.
pub const KEY: usize = 120;

/// The first line of a text, cut at `most` characters.
pub fn short(text: &str, most: usize) -> String {
    let line = safe(text.lines().next().unwrap_or_default());
    if line.chars().count() <= most {
        return line;
    }
    let mut cut: String = line.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// The line of an error that tells most, cut at `most` characters.
pub fn said(message: &str, most: usize) -> String {
    short(redrive_core::failure::headline(message), most)
}

/// A time to the second, in UTC.
pub fn when(time: &str) -> String {
    let seconds = time.split('.').next().unwrap_or(time).trim_end_matches('Z');
    seconds.replacen('T', " ", 1)
}

/// A number with its digits grouped.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// So many things, whose name takes an `s` when they are several.
pub fn things(n: u64, name: &str) -> String {
    format!("{} {name}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A number of bytes, in the largest unit that leaves a whole number before the point.
pub fn bytes(n: u64) -> String {
    let (unit, name) = match n {
        0..1_000 => return format!("{n} bytes"),
        1_000..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    format!("{:.1} {name}", n as f64 / unit)
}

/// A span of milliseconds, in the two largest units that matter, rounded to the smaller of them. What is rounded up to a full
/// larger unit is told in that.
pub fn span(ms: i64) -> String {
    let ms = ms.max(0);
    let rounded = |unit: i64| ms / unit + i64::from(ms % unit >= unit / 2);
    let (tenths, seconds, minutes, hours) =
        (rounded(100), rounded(1_000), rounded(60_000), rounded(3_600_000));
    if ms < 1_000 {
        format!("{ms}ms")
    } else if tenths < 600 {
        format!("{}.{}s", tenths / 10, tenths % 10)
    } else if seconds < 3_600 {
        format!("{}m {:02}s", seconds / 60, seconds % 60)
    } else if minutes < 1_440 {
        format!("{}h {:02}m", minutes / 60, minutes % 60)
    } else {
        format!("{}d {:02}h", hours / 24, hours % 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_cannot_drive_the_terminal_and_is_the_same_json() {
        let hidden =
            "\u{9b}2J\u{202e}b\u{200b}\u{7f}\u{85}\u{2028}\u{feff}\u{e0041} \u{1b}[2J é 日本 \u{1f600}\n";
        let value = serde_json::json!({hidden: [hidden, "plain"]});
        let written = safe_json(serde_json::to_string_pretty(&value).expect("written"));
        assert!(!written.chars().any(is_unsafe), "{written:?}");
        assert!(written.contains("\\u009b2J\\u202eb\\u200b\\u007f") && written.contains("é 日本 \u{1f600}"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).expect("read"), value);
    }

    #[test]
    fn an_error_text_cannot_drive_the_terminal() {
        assert!(!safe("\u{1b}[2J\u{7}ok\r").contains(['\u{1b}', '\u{7}', '\r']));
        let hidden = "a\u{202e}b\u{2066}\u{2069}c\u{200f}\u{200b}\u{feff}\u{2028}\u{2029}\u{e0041}\u{9b}";
        assert_eq!(safe(hidden).replace('\u{fffd}', ""), "abc");
        assert_eq!(safe("\u{645}\u{6cc}\u{200c}\u{631} é 日本"), "\u{645}\u{6cc}\u{200c}\u{631} é 日本");
        assert_eq!(short("one\ntwo", 10), "one");
        assert_eq!(short("abcdefgh", 4), "abc…");
    }

    #[test]
    fn numbers_and_spans_are_readable() {
        assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
        assert_eq!(
            (bytes(7), bytes(1_250), bytes(3_000_000_000)),
            ("7 bytes".into(), "1.2 kB".into(), "3.0 GB".into())
        );
        assert_eq!(span(250), "250ms");
        assert_eq!(span(61_000), "1m 01s");
        assert_eq!(span(90_000_000), "1d 01h");
    }

    #[test]
    fn spans_are_rounded_and_no_unit_is_told_as_sixty_of_the_smaller() {
        let told = [1_668, 1_640, 999, 59_949, 59_950, 61_499, 61_500, 3_599_499, 3_599_500].map(span);
        let rounded = ["1.7s", "1.6s", "999ms", "59.9s", "1m 00s", "1m 01s", "1m 02s", "59m 59s", "1h 00m"];
        assert_eq!(told, rounded);
        assert_eq!([86_369_999, 86_370_000].map(span), ["23h 59m", "1d 00h"]);
        assert_eq!(span(i64::MAX), "106751991167d 07h");
    }
}
