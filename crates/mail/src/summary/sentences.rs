//! What a message says itself, sentence by sentence.

/// Characters of a sentence; a longer one is cut at a word.
const LONGEST: usize = 320;
/// Bytes of a message that are looked at.
const LOOKED_AT: usize = 64 << 10;

/// A message without quotations, signature, and the lines above it.
#[must_use]
pub fn own_text(text: &str) -> String {
    let mut end = text.len().min(LOOKED_AT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let lines: Vec<&str> = text[..end].lines().collect();
    let mut kept: Vec<&str> = Vec::new();
    let mut at = head_lines(&lines);
    while at < lines.len() {
        let line = lines[at].trim_end();
        let bare = line.trim_start();
        if line == "--"
            || line == "-- "
            || bare.starts_with("-----Original Message")
            || bare.starts_with("_______________")
        {
            break;
        }
        let announces = bare.ends_with(':')
            && (bare.contains("wrote") || bare.contains("schrieb") || bare.contains("écrit"));
        let begins_announcement = bare.starts_with("On ")
            && lines.get(at + 1).is_some_and(|next| next.trim_end().ends_with("wrote:"));
        if begins_announcement && !announces {
            at += 2;
            continue;
        }
        if !announces && !bare.starts_with('>') && !bare.starts_with("Attached: ") {
            kept.push(bare);
        }
        at += 1;
    }
    kept.join("\n")
}

/// How many lines of a mail program stand above the text.
fn head_lines(lines: &[&str]) -> usize {
    const NAMES: [&str; 5] = ["Subject: ", "From: ", "To: ", "Cc: ", "Date: "];
    lines
        .iter()
        .take_while(|line| NAMES.iter().any(|name| line.starts_with(name)) || line.trim().is_empty())
        .count()
}

/// The sentences of a text, each in one line.
#[must_use]
pub fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in text.split("\n\n") {
        let mut sentence = String::new();
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            if !sentence.is_empty() {
                sentence.push(' ');
            }
            sentence.push_str(word);
            let ends = word.ends_with(['.', '!', '?', '。', '！', '？'])
                && !is_abbreviation(word)
                && words.get(at + 1).is_none_or(|next| !next.starts_with(char::is_lowercase));
            if ends {
                push(&mut found, std::mem::take(&mut sentence));
            }
        }
        push(&mut found, sentence);
    }
    found
}

fn is_abbreviation(word: &str) -> bool {
    let bare = word.trim_start_matches(['(', '"', '\'']);
    matches!(
        bare,
        "e.g." | "i.e." | "etc." | "vs." | "cf." | "Dr." | "Mr." | "Mrs." | "Ms." | "No." | "approx."
    ) || (bare.len() == 2 && bare.starts_with(char::is_uppercase))
}

/// Keeps a sentence, unless it is a greeting, thanks, or too short to say anything.
fn push(found: &mut Vec<String>, sentence: String) {
    const GREETINGS: [&str; 12] = [
        "hi",
        "hello",
        "dear",
        "hey",
        "thanks",
        "thank",
        "regards",
        "cheers",
        "best",
        "kind",
        "sincerely",
        "greetings",
    ];
    let mut words = sentence.split_whitespace();
    let first: String = words.next().unwrap_or_default().chars().filter(|c| c.is_alphabetic()).collect();
    let count = 1 + words.count();
    let is_greeting = count <= 5 && GREETINGS.contains(&first.to_lowercase().as_str());
    if count < 3 || is_greeting {
        return;
    }
    if sentence.chars().count() <= LONGEST {
        found.push(sentence);
        return;
    }
    let cut: String = sentence.chars().take(LONGEST).collect();
    let at = cut.rfind(' ').unwrap_or(cut.len());
    found.push(format!("{} …", &cut[..at]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_signatures_and_heads_are_not_a_messages_own() {
        let text = "Subject: x\nFrom: a\n\nHi all,\n\nOn Monday, Bob\nBob <b@x> wrote:\n> quoted text here\nI agree with this.\n\nAnn wrote:\n> more\n-- \nAnn\nThe signature of Ann.";
        assert_eq!(sentences(&own_text(text)), ["I agree with this."]);
    }

    #[test]
    fn sentences_end_where_they_end() {
        let text =
            "We saw e.g. this one. It took 3.5 s!\nWas it slow? yes it was\n\nA new paragraph without an end";
        let found = sentences(text);
        assert_eq!(
            found,
            [
                "We saw e.g. this one.",
                "It took 3.5 s!",
                "Was it slow? yes it was",
                "A new paragraph without an end"
            ]
        );
    }
}
