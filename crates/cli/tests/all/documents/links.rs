//! Where links lead: files, and headings in them.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use regex_lite::Regex;

use super::page;

/// The names by which the headings of a page can be linked to, as GitHub makes them.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = page::prose(text);
    let headings =
        headings.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let mut found = BTreeSet::new();
    for heading in headings {
        let heading =
            Regex::new(r"\[([^\]]*)\]\([^)]*\)").expect("a pattern").replace_all(heading, "$1").into_owned();
        let kept = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>();
        let slug = kept.replace(' ', "-");
        let times = seen.entry(slug.clone()).or_default();
        found.insert(if *times == 0 { slug } else { format!("{slug}-{times}") });
        *times += 1;
    }
    found
}

/// Links of a page that lead nowhere.
pub fn broken(root: &Path, name: &str) -> Vec<String> {
    let read = |name: &Path| {
        std::fs::read_to_string(name).unwrap_or_else(|error| panic!("{}: {error}", name.display()))
    };
    let text = read(&root.join(name));
    let prose =
        Regex::new(r"`[^`\n]+`").expect("a pattern").replace_all(&page::prose(&text), "").into_owned();
    let folder = root.join(name).parent().expect("in a folder").to_owned();
    let mut wrong = Vec::new();
    for found in Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern").captures_iter(&prose) {
        let target = &found[1];
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { root.join(name) } else { folder.join(file) };
        if !path.exists() {
            wrong.push(format!("{name}: {target} is not there"));
        } else if !anchor.is_empty() && !anchors(&read(&path)).contains(anchor) {
            wrong.push(format!("{name}: {target} has no such heading"));
        }
    }
    wrong
}

#[test]
fn headings_are_linked_to_as_on_github() {
    let found = anchors("# A page\n## `[run]`\n## Is it all there?\n### `kind = \"http\"`\n## A page\n");
    let wanted = ["a-page", "run", "is-it-all-there", "kind--http", "a-page-1"];
    assert_eq!(found, wanted.map(str::to_owned).into());
}
