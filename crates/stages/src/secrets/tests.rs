use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};

use super::*;

const KEY: &str = "AbCd/1234+efgh/5678==";

/// Every spelling of a value that a service has been seen to use, and some that none has.
fn spellings(value: &str) -> Vec<(&'static str, String)> {
    let each = |spell: fn(char) -> String| value.chars().map(spell).collect::<String>();
    let punctuation = |spell: fn(char) -> String| {
        value.chars().map(|c| if c.is_alphanumeric() { c.to_string() } else { spell(c) }).collect::<String>()
    };
    let mut turn = 0;
    let mixed = value.chars().map(|c| {
        turn += 1;
        match turn % 6 {
            0 => format!("\\u{:04X}", u32::from(c)),
            1 => format!("%{:02x}", u32::from(c)),
            2 => format!("&#{};", u32::from(c)),
            3 => format!("&#x{:x};", u32::from(c)),
            _ => c.to_string(),
        }
    });
    vec![
        ("plain", value.to_owned()),
        ("upper case", value.to_ascii_uppercase()),
        ("JSON slashes", value.replace('/', "\\/")),
        ("JSON in JSON", value.replace('/', "\\\\\\/")),
        ("JSON numbers", each(|c| format!("\\u{:04x}", u32::from(c)))),
        ("percent", punctuation(|c| format!("%{:02X}", u32::from(c)))),
        ("percent, lower case, all", each(|c| format!("%{:02x}", u32::from(c)))),
        ("percent twice", punctuation(|c| format!("%25{:02X}", u32::from(c)))),
        ("HTML names", value.replace('/', "&sol;").replace('+', "&plus;").replace('=', "&equals;")),
        ("HTML decimal", each(|c| format!("&#{};", u32::from(c)))),
        ("HTML hex", punctuation(|c| format!("&#X{:x};", u32::from(c)))),
        ("HTML in HTML", punctuation(|c| format!("&amp;#{};", u32::from(c)))),
        ("base64", STANDARD.encode(value)),
        ("base64 for URLs", URL_SAFE.encode(value)),
        ("base64 of a login", STANDARD.encode(format!("user:{value}"))),
        ("base64 of another login", URL_SAFE_NO_PAD.encode(format!("me:{value}:x"))),
        ("hex", value.bytes().map(|byte| format!("{byte:02x}")).collect()),
        ("hex, upper case", value.bytes().map(|byte| format!("{byte:02X}")).collect()),
        ("all of it mixed", mixed.collect()),
    ]
}

#[test]
fn a_known_value_is_removed_in_every_spelling() {
    let secrets = Secrets::new([KEY]);
    for (name, spelled) in spellings(KEY) {
        for text in [
            spelled.clone(),
            format!("unknown token {spelled} sent"),
            format!(r#"{{"error":{{"message":"unknown token \"{spelled}\""}}}}"#),
            format!("token={spelled}&x=1"),
            format!("{spelled}{spelled}"),
        ] {
            let cleaned = secrets.clean(text.as_bytes(), 2_000);
            assert!(cleaned.contains(redact::REDACTED), "{name}: {text} became {cleaned}");
            for part in ["AbCd", "ABCD", "1234", "efgh", "5678", &spelled[..6]] {
                assert!(!cleaned.contains(part), "{name}: {text} became {cleaned}");
            }
        }
    }
}

#[test]
fn the_words_around_it_stay() {
    let secrets = Secrets::new([KEY]);
    for (name, spelled) in spellings(KEY) {
        let cleaned = secrets.clean(format!("the word {spelled}, which is wrong").as_bytes(), 2_000);
        assert_eq!(cleaned, "the word [redacted], which is wrong", "{name}");
    }
}

#[test]
fn a_value_of_letters_beyond_ascii_is_removed() {
    let secrets = Secrets::new(["pässwörd-😀-canary"]);
    for text in [
        "pässwörd-😀-canary",
        r"p\u00e4ssw\u00f6rd-\ud83d\ude00-canary",
        "p%C3%A4ssw%c3%b6rd-%F0%9F%98%80-canary",
        "p&#228;ssw&#xf6;rd-&#128512;-canary",
    ] {
        assert_eq!(secrets.clean(text.as_bytes(), 2_000), redact::REDACTED, "{text}");
    }
}

#[test]
fn a_value_that_looks_like_an_escape_is_removed() {
    for value in ["a%25b%2F\\/c&amp;d", "%25%25%25%25%25%25%25%25", "\\\\\\\\\\\\\\\\", "&#65;&#65;&#65;"] {
        let secrets = Secrets::new([value]);
        let escaped = serde_json::Value::from(value).to_string();
        let percent: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let html = value.replace('&', "&amp;");
        for text in [value, &escaped, &value.replace('%', "%25"), &percent, &html] {
            let cleaned = secrets.clean(format!("<{text}>").as_bytes(), 2_000);
            assert!(cleaned.contains(redact::REDACTED), "{value}: {text} became {cleaned}");
        }
    }
}

#[test]
fn a_known_value_is_removed_before_its_form_is_looked_at() {
    let secrets = Secrets::new(["canary&quartz;lantern"]);
    let cleaned = secrets.clean(b"api_key=canary&quartz;lantern", 2_000);
    assert!(!cleaned.contains("quartz") && !cleaned.contains("lantern"), "{cleaned}");
}

#[test]
fn ordinary_text_is_left_alone() {
    let secrets = Secrets::new([KEY, "hunter2!"]);
    for text in ["100% of 25% &c; \\ \\u12 &#; &amp; %", "AbCd/1234", "ü% \\", ""] {
        assert_eq!(secrets.clean(text.as_bytes(), 2_000), text);
    }
}

#[test]
fn words_of_a_value_are_removed_by_themselves() {
    let secrets = Secrets::new(["Bearer canary/\"quoted\"", "plain-canary"]);
    for text in [
        "you sent Bearer canary/\"quoted\"",
        "you sent canary/\"quoted\"",
        r#"{"you sent": "canary/\"quoted\""}"#,
        "xplain-canaryx",
        "plain-\0canary",
    ] {
        let cleaned = secrets.clean(text.as_bytes(), 2_000);
        assert!(!cleaned.contains("canary"), "{cleaned}");
        assert!(cleaned.contains(redact::REDACTED), "{cleaned}");
    }
}

#[test]
fn a_value_at_the_cut_does_not_leak_in_half() {
    let value = "canary".repeat(40);
    let secrets = Secrets::new([value.as_str()]);
    for filler in 0..300 {
        let text = format!("{} {value} {value}", "x ".repeat(filler));
        let cleaned = secrets.clean(text.as_bytes(), 300);
        assert!(!cleaned.contains("can"), "{cleaned}");
    }
}

#[test]
fn a_value_at_the_end_of_what_is_looked_at_does_not_leak_in_half() {
    let value = "canary, \"quartz\", lantern";
    let secrets = Secrets::new([value]);
    // So many of them that what is left after their removal fits into a message.
    let text = value.repeat(20_000);
    for skipped in 0..value.len() {
        let cleaned = secrets.clean(&text.as_bytes()[value.len() - skipped..], 1 << 20);
        let rest = cleaned.split_once(redact::REDACTED).map_or("", |(_, rest)| rest);
        assert!(!rest.contains("quartz") && !rest.contains("lantern"), "{skipped}");
    }
}

#[test]
fn a_text_that_is_made_to_be_looked_at_for_long_is_not() {
    let secrets = Secrets::new([KEY, "%25%25%25%25", "\\\\\\\\\\"]);
    for part in ["\\", "%25", "&amp;", "&", "%", "\\u00", "AbCd/"] {
        let text = part.repeat((64 << 10) / part.len());
        assert!(secrets.clean(text.as_bytes(), 2_000).len() <= 2_000, "{part}");
    }
}

#[test]
fn short_values_are_left_alone() {
    assert_eq!(Secrets::new(["1", ""]).clean(b"status 1", 100), "status 1");
}

#[test]
fn debug_shows_no_value() {
    assert_eq!(format!("{:?}", Secrets::new(["canary-value"])), "Secrets(1)");
}

#[test]
fn a_value_in_pieces_or_with_its_ends_cut_off_is_hidden() {
    let value = "sk-Zq7/Rt+9xW_v2&KpL4=Yb8";
    let secrets = Secrets::new([value]);
    let hex: Vec<String> = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let each = |spell: &dyn Fn(u8) -> String| value.bytes().map(spell).collect::<String>();
    let spelled = [
        hex.join(":"),
        hex.join(" "),
        hex.join("-"),
        hex.iter().map(|byte| format!("0x{byte}")).collect::<Vec<_>>().join(", "),
        format!("{}\n{}", &value[..9], &value[9..]),
        format!("{}\\n{}", &value[..9], &value[9..]),
        value.chars().map(String::from).collect::<Vec<_>>().join(" "),
        value[..value.len() - 1].to_owned(),
        value[..19].to_owned(),
        value[4..].to_owned(),
        each(&|byte| format!("\\U{byte:08x}")),
        each(&|byte| format!("%u{byte:04x}")),
        each(&|byte| format!("\\{byte:03o}")),
        each(&|byte| format!("={byte:02X}")),
        "c2stWnE3L1J0Kzl4\r\nV192MiZLcEw0PVliOA==".to_owned(),
        value.replace('&', "%26amp%3B").replace('+', "%26plus%3B"),
    ];
    for spelled in spelled {
        let shown = secrets.clean(format!("key {spelled} is no good").as_bytes(), 1_000);
        assert!(shown.contains("[redacted]"), "{spelled}: {shown}");
        assert!(shown.starts_with("key ") && shown.ends_with(" is no good"), "{spelled}: {shown}");
    }
    let harmless = "50%20off sk- and 73 6b 2d, a key of 19 letters";
    assert_eq!(secrets.clean(harmless.as_bytes(), 1_000), harmless);
}

#[test]
fn a_value_with_characters_in_it_that_nobody_sees_is_hidden() {
    let value = "hdrSEKRET-9f8e7d6c";
    let short = "pa55wd";
    let secrets = Secrets::new([value, short]);
    let unseen = [
        "\u{200b}",
        "\u{feff}",
        "\u{ad}",
        "\u{2060}\u{200d}",
        "\u{202e}",
        "\u{e0041}",
        "\u{fe0f}",
        "\u{1}",
        "\0",
    ];
    for unseen in unseen {
        let escapes = [
            unseen.to_owned(),
            format!("{unseen:?}").trim_matches('"').to_owned(),
            format!("{unseen:?}").trim_matches('"').replace('\\', "\\\\"),
            unseen.chars().map(|letter| format!("&#{};", u32::from(letter))).collect(),
            unseen.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
            unseen.bytes().map(|byte| format!("%{byte:02X}")).collect(),
            unseen.repeat(300),
        ];
        for spelled in escapes {
            let every = |value: &str| value.chars().map(String::from).collect::<Vec<_>>().join(&spelled);
            let once = |value: &str| format!("{}{spelled}{}", &value[..3], &value[3..]);
            for text in [every(value), once(value), every(short), once(short)] {
                let cleaned = secrets.clean(format!("key {text} is no good").as_bytes(), 20_000);
                assert_eq!(cleaned, "key [redacted] is no good", "{text:?}");
            }
        }
    }
    for name in ["&ZeroWidthSpace;", "&shy;"] {
        assert_eq!(secrets.clean(format!("hdrSEK{name}RET-9f8e7d6c").as_bytes(), 100), redact::REDACTED);
    }
}

#[test]
fn a_text_of_characters_that_nobody_sees_is_not_looked_at_for_long() {
    let secrets = Secrets::new([KEY, "AAAAAAAAAAAAAAAA"]);
    for part in ["A\u{200b}", "\u{200b}", "A\\u{200b}", "AbCd/\u{200b}\u{200b}\u{200b}"] {
        let text = part.repeat((64 << 10) / part.len());
        assert!(secrets.clean(text.as_bytes(), 2_000).len() <= 2_000, "{part}");
    }
}
