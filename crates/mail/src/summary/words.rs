//! Words that carry meaning.

use std::collections::BTreeSet;

/// Characters of a word that tell it apart: what follows is mostly grammar.
const STEM: usize = 7;

const FUNCTION_WORDS: &str = " a about above after again all also am an and any are as at be because been before being below between both but \
by can could did do does doing down during each few for from further had has have having he her here hers him his how i if in into is it its \
itself just me more most my no nor not now of off on once only or other our ours out over own same she should so some such than that the their \
them then there these they this those through to too under until up very was we were what when where which while who whom why will with would \
you your yours und der die das ist nicht mit für auf ein eine le la les des est pas pour dans une que el los las por con ";

/// The distinct content words of a text, in lower case and cut to their beginnings.
pub(super) fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() > 1)
        .map(str::to_lowercase)
        .filter(|word| !FUNCTION_WORDS.contains(&format!(" {word} ")))
        .map(|word| word.chars().take(STEM).collect())
        .collect()
}

/// How much more a sentence counts that decides, asks or concludes.
pub(super) fn cue(text: &str) -> f64 {
    const CUES: [&str; 17] = [
        "decid",
        "agree",
        "conclu",
        "propos",
        "suggest",
        "plan is",
        "fixed in",
        "resolved",
        "root cause",
        "the cause",
        "because",
        "will ",
        "need to",
        "must ",
        "deadline",
        "in summary",
        "let's",
    ];
    let lower = text.to_lowercase();
    let decides = if CUES.iter().any(|cue| lower.contains(cue)) { 1.2 } else { 1.0 };
    decides * if text.ends_with('?') { 1.05 } else { 1.0 }
}
