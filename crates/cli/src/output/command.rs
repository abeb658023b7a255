//! Commands that are named in hints: they work as they are printed.

/// Commands that open no store.
const WITHOUT_STORE: [&str; 4] = ["policy", "rehearse", "completions", "man"];

/// Adds the store that was named on the command line to every command within backticks.
pub fn with_store(text: &str, store: Option<&str>) -> String {
    let Some(store) = store else { return text.to_owned() };
    let parts = text.split('`').enumerate();
    let part = |(at, part): (usize, &str)| match at % 2 == 1 && opens_a_store(part) {
        true => format!("{part} --store {}", quoted(store)),
        false => part.to_owned(),
    };
    parts.map(part).collect::<Vec<_>>().join("`")
}

fn opens_a_store(command: &str) -> bool {
    let mut words = command.split_whitespace();
    words.next() == Some("redrive")
        && words.next().is_some_and(|verb| !WITHOUT_STORE.contains(&verb))
        && !command.split_whitespace().any(|word| ["--help", "--store", "--version"].contains(&word))
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_store_that_was_given() {
        let hint = "`redrive show r1` shows it, `redrive policy list` does not; `reuse = true` keeps it";
        assert_eq!(with_store(hint, None), hint);
        assert_eq!(
            with_store(hint, Some("sqlite:s.db")),
            "`redrive show r1 --store sqlite:s.db` shows it, `redrive policy list` does not; `reuse = true` keeps it"
        );
        assert_eq!(with_store("`redrive index --help`", Some("x")), "`redrive index --help`");
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_apart() {
        assert_eq!(quoted("sqlite:/a/b.db"), "sqlite:/a/b.db");
        assert_eq!(quoted("sqlite:my file"), "'sqlite:my file'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
