//! A page taken apart into blocks, each with the marks in its info string.

use std::ops::Range;

/// What stands in a page and is not prose.
#[derive(Debug)]
pub struct Block {
    /// The line its fence or comment is on, counted from 1.
    pub line: usize,
    /// Its language; `hidden` for commands in a comment, `with` for a comment that names folders.
    pub language: String,
    /// The words after the language.
    pub marks: Marks,
    /// Its lines, in the lines of the page.
    pub body: Range<usize>,
    /// The text of these.
    pub text: String,
}

/// Words of an info string: `name`, `name=value` or `name="several words"`.
#[derive(Debug, Default)]
pub struct Marks(Vec<(String, String)>);

impl Marks {
    /// Reads the words of an info string.
    pub fn read(text: &str) -> Self {
        let mut marks = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let end = rest.find([' ', '=']).unwrap_or(rest.len());
            let name = rest[..end].to_owned();
            rest = &rest[end..];
            let mut value = String::new();
            if let Some(after) = rest.strip_prefix("=\"") {
                let end = after.find('"').unwrap_or(after.len());
                value = after[..end].to_owned();
                rest = after.get(end + 1..).unwrap_or_default();
            } else if let Some(after) = rest.strip_prefix('=') {
                let end = after.find(' ').unwrap_or(after.len());
                value = after[..end].to_owned();
                rest = &after[end..];
            }
            marks.push((name, value));
            rest = rest.trim_start();
        }
        Self(marks)
    }

    /// The value of a mark; empty where it is said without one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a mark is there.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The names of all marks.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

/// The blocks of a page, in their order.
pub fn blocks(text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let (language, marks, end) = if let Some(info) = lines[at].strip_prefix("```") {
            let (language, marks) = info.split_once(' ').unwrap_or((info, ""));
            (language.to_owned(), Marks::read(marks), "```")
        } else if let Some(marks) = lines[at].strip_prefix("<!-- sh") {
            ("hidden".to_owned(), Marks::read(marks), "-->")
        } else if let Some(folders) = lines[at].strip_prefix("<!-- with ") {
            let folders = folders.trim_end_matches("-->").trim().to_owned();
            let (line, language) = (at + 1, "with".to_owned());
            found.push(Block { line, language, marks: Marks::default(), body: at..at, text: folders });
            at += 1;
            continue;
        } else {
            at += 1;
            continue;
        };
        let body = at + 1;
        let length = lines[body..].iter().position(|line| line.trim_end() == end);
        let length = length.unwrap_or_else(|| panic!("line {}: the block has no end", at + 1));
        let body = body..body + length;
        let text = lines[body.clone()].iter().map(|line| format!("{line}\n")).collect();
        found.push(Block { line: at + 1, language, marks, body: body.clone(), text });
        at = body.end + 1;
    }
    found
}

/// The page with every line of its blocks blank, so that what is left is prose on its own lines.
pub fn prose(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for block in blocks(text) {
        let last = block.body.end.min(lines.len() - 1);
        lines[block.line - 1..=last].fill("");
    }
    lines.join("\n")
}

/// A command of a script: its lines, and the exit code that is told of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// Its lines, with those of a here-document.
    pub text: String,
    /// What the comment behind it says: `# … exit code 3`.
    pub code: i32,
}

/// A script taken apart into commands: a line is one, unless the line before ends with a backslash or a here-document
/// is open.
pub fn commands(script: &str) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    let (mut text, mut document) = (String::new(), None::<String>);
    for line in script.lines() {
        text.push_str(line);
        text.push('\n');
        if let Some(end) = &document {
            if line == end.as_str() {
                document = None;
            }
        } else {
            document = line.split_once("<<").map(|(_, rest)| {
                let word: String = rest.trim_start_matches(['-', '\'', '"']).to_owned();
                word.chars().take_while(|c| c.is_ascii_alphanumeric()).collect()
            });
        }
        if document.is_none() && !line.ends_with('\\') {
            let told = line.split_once("# ").and_then(|(_, comment)| comment.split_once("exit code "));
            let digits =
                told.map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
            let code = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
            let text = std::mem::take(&mut text);
            if !text.trim().is_empty() && !text.trim_start().starts_with('#') {
                found.push(Command { text, code });
            }
        }
    }
    assert!(text.is_empty(), "a command without an end: {text}");
    found
}

#[test]
fn a_script_is_taken_apart_into_commands() {
    let script = "a  # exit code 3\n\n# only a word\nb \\\n  c\ncat > f <<'EOF'\nx\n\nEOF\nd\n";
    let found = commands(script);
    let texts: Vec<&str> = found.iter().map(|command| command.text.as_str()).collect();
    assert_eq!(texts, ["a  # exit code 3\n", "b \\\n  c\n", "cat > f <<'EOF'\nx\n\nEOF\n", "d\n"]);
    assert_eq!(found.iter().map(|command| command.code).collect::<Vec<_>>(), [3, 0, 0, 0]);
}

#[test]
fn marks_are_words_with_and_without_values() {
    let marks = Marks::read(" file=p.toml warns not-run=\"needs a key\" ");
    assert_eq!(marks.names().collect::<Vec<_>>(), ["file", "warns", "not-run"]);
    assert_eq!((marks.get("file"), marks.get("not-run")), (Some("p.toml"), Some("needs a key")));
    assert!(marks.has("warns") && !marks.has("exit"));
}
