//! A page played from its first block to its last.

use std::path::Path;

use super::compare::Close;
use super::page::{self, Block};
use super::stage::{Printed, Stage};

/// What a page was found to be.
#[derive(Default)]
pub struct Played {
    /// What is not as the page says, each with its line.
    pub wrong: Vec<String>,
    /// Lines of the page that what was printed can take the place of, also where it only differs in what need not agree.
    pub renewed: Vec<(std::ops::Range<usize>, Vec<String>)>,
}

/// Marks that a block of a language may have.
fn known_marks(language: &str) -> Option<&'static [&'static str]> {
    Some(match language {
        "with" => &[],
        "hidden" => &["exit", "background", "end"],
        "sh" => &["exit", "background", "not-run"],
        "console" => &["exit", "times", "numbers", "not-run"],
        "text" | "json" => &["file", "times", "numbers", "end", "not-run"],
        "toml" => &["file", "part", "warns", "not-run"],
        "python" | "jsonl" | "csv" => &["file"],
        "mermaid" => &[],
        _ => return None,
    })
}

/// Why a block is not played, where it is not.
pub fn left_out(block: &Block) -> Option<&str> {
    let picture = "a diagram, which crates/core/tests/state_diagram.rs draws and compares";
    if block.language == "mermaid" { Some(picture) } else { block.marks.get("not-run") }
}

/// What is wrong with how a block is written, if anything.
pub fn misspelt(block: &Block) -> Option<String> {
    let Some(known) = known_marks(&block.language) else {
        return Some(format!("`{}` is no language that is played", block.language));
    };
    if let Some(name) = block.marks.names().find(|name| !known.contains(name)) {
        return Some(format!("`{}` has no mark `{name}`", block.language));
    }
    let wanted: &[&str] = match block.language.as_str() {
        "toml" => &["file", "part", "not-run"],
        "python" | "jsonl" | "csv" => &["file"],
        _ => return None,
    };
    let marked = wanted.iter().any(|name| block.marks.has(name));
    (!marked).then(|| format!("`{}` needs one of the marks {}", block.language, wanted.join(", ")))
}

/// A piece of a pipeline made whole: with a name, and a stage that does nothing where it has none.
pub fn completed(part: &str) -> String {
    const STAGE: &str = "[[stage]]\nname = \"part\"\nkind = \"pass\"\n";
    let name = if part.lines().any(|line| line.starts_with("name = ") && !part.starts_with('[')) {
        ""
    } else {
        "name = \"part\"\n"
    };
    if part.contains("[[stage]]") {
        format!("{name}{part}")
    } else if part.starts_with("[stage.") {
        format!("{name}{STAGE}{part}")
    } else {
        format!("{name}{part}\n{STAGE}")
    }
}

struct Player<'a> {
    stage: Stage,
    root: &'a Path,
    last: Option<String>,
    played: Played,
}

/// Plays a page in a folder of its own.
pub fn play(root: &Path, text: &str) -> Played {
    let mut player = Player { stage: Stage::new(), root, last: None, played: Played::default() };
    for block in page::blocks(text) {
        player.block(&block);
    }
    player.played
}

impl Player<'_> {
    fn block(&mut self, block: &Block) {
        if let Some(problem) = misspelt(block) {
            return self.wrong(block.line, problem);
        }
        if left_out(block).is_some() {
            return;
        }
        if let Some(name) = block.marks.get("file") {
            self.stage.write(name, &block.text);
            if name.ends_with(".toml") && block.text.contains("[[stage]]") {
                self.lint(block, name);
            }
            return;
        }
        match block.language.as_str() {
            "with" => block.text.split_whitespace().for_each(|name| self.stage.bring(self.root, name)),
            "toml" => {
                let name = block.marks.get("part").filter(|name| !name.is_empty()).unwrap_or(".part.toml");
                self.stage.write(name, &completed(&block.text));
                self.lint(block, name);
            }
            "console" => self.transcript(block),
            "text" | "json" => self.output(block),
            _ => self.script(block),
        }
    }

    fn wrong(&mut self, line: usize, what: impl std::fmt::Display) {
        self.played.wrong.push(format!("line {line}: {what}"));
    }

    fn lint(&mut self, block: &Block, name: &str) {
        let told = self.stage.run(&format!("redrive policy lint {name}"));
        // What is told besides warnings: how many there are, and notes.
        let is_warning = |line: &&str| !line.starts_with("checked ") && !line.contains(": note: ");
        let warnings = told[0].text.lines().filter(is_warning).count();
        let quiet = warnings == 0 || block.marks.has("warns");
        if told[0].code != 0 || !quiet {
            self.wrong(block.line, format!("`redrive policy lint` says of it:\n{}", told[0].text));
        }
    }

    fn script(&mut self, block: &Block) {
        if block.marks.has("end") {
            self.last = Some(self.stage.end());
            return;
        }
        if let Some(until) = block.marks.get("background") {
            for command in page::commands(&block.text) {
                self.stage.start(command.text.trim_end(), until);
            }
            return;
        }
        let printed = self.stage.run(&block.text);
        self.ended_as_told(block, &printed);
        self.last = printed.into_iter().next_back().map(|printed| printed.text);
    }

    fn ended_as_told(&mut self, block: &Block, printed: &[Printed]) {
        let last = block.marks.get("exit").map(|code| code.parse().expect("an exit code"));
        for (n, one) in printed.iter().enumerate() {
            let told =
                if n + 1 == printed.len() { last.unwrap_or(one.command.code) } else { one.command.code };
            if one.code != told {
                let command = one.command.text.trim_end();
                self.wrong(
                    block.line,
                    format!("`{command}` ends with {}, not with {told}:\n{}", one.code, one.text),
                );
            }
        }
    }

    fn transcript(&mut self, block: &Block) {
        let lines: Vec<&str> = block.text.lines().collect();
        let script: String =
            lines.iter().filter_map(|line| line.strip_prefix("$ ")).map(|line| format!("{line}\n")).collect();
        let printed = self.stage.run(&script);
        self.ended_as_told(block, &printed);
        let mut at = 0;
        for one in &printed {
            at += 1;
            let end =
                lines[at..].iter().position(|line| line.starts_with("$ ")).map_or(lines.len(), |n| at + n);
            self.compare(block, at..end, &lines[at..end], &one.text);
            at = end;
        }
        self.last = printed.into_iter().next_back().map(|printed| printed.text);
    }

    fn output(&mut self, block: &Block) {
        let printed = if block.marks.has("end") { Some(self.stage.end()) } else { self.last.clone() };
        let Some(printed) = printed else {
            return self.wrong(block.line, "it is the output of no command");
        };
        let lines: Vec<&str> = block.text.lines().collect();
        self.compare(block, 0..lines.len(), &lines, &printed);
    }

    fn compare(&mut self, block: &Block, within: std::ops::Range<usize>, shown: &[&str], printed: &str) {
        let close = if block.marks.has("numbers") {
            Close::Numbers
        } else if block.marks.has("times") {
            Close::Times
        } else {
            Close::Exact
        };
        let printed: Vec<&str> = printed.trim_end().lines().collect();
        if !shown.is_empty() && shown.iter().all(|line| *line == "…") {
            self.wrong(block.line, "an output of which nothing is shown says nothing");
        }
        if !close.fits(shown, &printed) {
            self.wrong(
                block.line,
                format!("the page has\n{}\nand it prints\n{}", shown.join("\n"), printed.join("\n")),
            );
        }
        let new = close.renewed(shown, &printed);
        if new != shown {
            let start = block.body.start;
            let lines = start + within.start..start + within.end;
            self.played.renewed.push((lines, new));
        }
    }
}

#[test]
fn a_part_of_a_pipeline_is_made_whole() {
    assert_eq!(
        completed("[stage.retry]\npreset = \"llm\"\n"),
        "name = \"part\"\n[[stage]]\nname = \"part\"\nkind = \"pass\"\n[stage.retry]\npreset = \"llm\"\n"
    );
    assert!(completed("[price.m]\ninput = 1\n").ends_with("kind = \"pass\"\n"));
    assert_eq!(completed("name = \"a\"\n[[stage]]\n"), "name = \"a\"\n[[stage]]\n");
    assert_eq!(completed("[[stage]]\nname = \"a\"\n"), "name = \"part\"\n[[stage]]\nname = \"a\"\n");
}

#[test]
fn a_page_that_is_not_so_is_told_of_it() {
    let right = "```sh\necho one\nfalse  # exit code 1\n```\n<!-- sh\ncat a.txt\n-->\n```text\none …\n```\n";
    let text =
        format!("```text file=a.txt\none two\n```\n{right}```console\n$ echo 1s\n1s\n$ echo b\nb\n```\n");
    assert_eq!(play(Path::new("."), &text).wrong, Vec::<String>::new());
    for (block, why) in [
        ("```console\n$ echo one\ntwo\n```\n", "the page has\ntwo\nand it prints\none"),
        ("```sh\nfalse\ntrue\n```\n", "`false` ends with 1, not with 0"),
        ("```sh exit=3\ntrue\n```\n", "`true` ends with 0, not with 3"),
        ("```console\n$ echo one\n…\n```\n", "an output of which nothing is shown says nothing"),
        ("```text\nx\n```\n", "it is the output of no command"),
        ("```toml\nx = 1\n```\n", "`toml` needs one of the marks file, part, not-run"),
        ("```toml part\nx = 1\n```\n", "`redrive policy lint` says of it"),
        ("```rust\nx\n```\n", "`rust` is no language that is played"),
        ("```sh nor-run\nx\n```\n", "`sh` has no mark `nor-run`"),
    ] {
        let played = play(Path::new("."), block);
        assert!(played.wrong.len() == 1 && played.wrong[0].contains(why), "{block}: {:?}", played.wrong);
    }
    let played = play(Path::new("."), "a\n```console\n$ echo one\n$ echo two\n2\n```\n");
    let lines = |text: &str| vec![text.to_owned()];
    assert_eq!(played.renewed, [(3..3, lines("one")), (4..5, lines("two"))]);
}
