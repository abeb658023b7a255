//! What somebody probably meant to write.

/// Longest word that is compared; longer ones are no typing mistakes.
const LONGEST: usize = 64;

/// The known word nearest to what was written, if it is near enough to be a slip.
#[must_use]
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let allowed = match written.chars().count() {
        0..=2 => 1,
        3..=5 => 2,
        6..=LONGEST => 3,
        _ => return None,
    };
    known
        .into_iter()
        .map(|word| (distance(written, word), word))
        .filter(|(distance, word)| *distance <= allowed && *distance < word.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// The hint that goes with a nearest word, or the list of all of them.
#[must_use]
pub fn hint(written: &str, known: &[&str]) -> String {
    nearest(written, known.iter().copied())
        .map_or_else(|| format!("known are {}", known.join(", ")), |word| format!("did you mean {word:?}?"))
}

/// The number of insertions, deletions and replacements between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().take(LONGEST).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let known = ["concurrency", "timeout", "name", "url"];
        assert_eq!(nearest("concurency", known), Some("concurrency"));
        assert_eq!(nearest("time_out", known), Some("timeout"));
        assert_eq!(nearest("urls", known), Some("url"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(hint("zzzzzz", &["a", "b"]), "known are a, b");
    }

    #[test]
    fn distances_are_edit_distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
