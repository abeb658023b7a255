//! Globs and a kind to the documents that may be searched.

use std::collections::BTreeSet;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use redrive_ingest::kind::Lang;
use redrive_store::Index;
use redrive_store::index::{Collection, Doc};

use super::{MailFilter, SearchError};
use crate::mail::MessageFacts;

/// Documents read at a time.
const PAGE: usize = 1_000;

/// How a language is told from other kinds.
const LANGUAGE: &str = "code:";

/// Which files may be searched.
///
/// In a glob `*` and `?` stop at a `/` and `**` does not. A glob without a `/` names files or directories of any
/// depth, as in a `.gitignore`; one with a `/` begins at the root. What names a directory stands for everything below
/// it; with a `/` at its end it can name nothing else.
#[derive(Debug)]
pub struct Filter {
    paths: Option<GlobSet>,
    kind: Option<String>,
    mail: MailFilter,
}

impl Filter {
    /// Reads globs and a kind.
    ///
    /// # Errors
    /// [`SearchError::BadGlob`].
    pub fn new(globs: &[String], kind: Option<&str>) -> Result<Self, SearchError> {
        let paths = if globs.is_empty() { None } else { Some(compiled(globs)?) };
        Ok(Self { paths, kind: kind.map(str::to_lowercase), mail: MailFilter::default() })
    }

    /// The same, for messages like this only.
    #[must_use]
    pub fn of_mail(self, mail: &MailFilter) -> Self {
        let lower = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
        Self { mail: MailFilter { from: lower(&mail.from), list: lower(&mail.list), ..mail.clone() }, ..self }
    }

    fn matches_mail(&self, facts: Option<&str>) -> bool {
        let MailFilter { from, list, since, until } = &self.mail;
        if self.mail == MailFilter::default() {
            return true;
        }
        let Some(MessageFacts { head, .. }) = facts.and_then(|facts| serde_json::from_str(facts).ok()) else {
            return false;
        };
        let is_from =
            |wanted: &String| head.address.contains(wanted) || head.from.to_lowercase().contains(wanted);
        from.as_ref().is_none_or(is_from)
            && list.as_ref().is_none_or(|wanted| head.list.as_ref().is_some_and(|list| list.contains(wanted)))
            && since.is_none_or(|since| head.date_ms.is_some_and(|date| date >= since.0))
            && until.is_none_or(|until| head.date_ms.is_some_and(|date| date < until.0))
    }

    /// Tells whether a path below the root matches a glob.
    #[must_use]
    pub fn matches_path(&self, path: &str) -> bool {
        self.paths.as_ref().is_none_or(|paths| paths.is_match(path))
    }

    /// Tells whether a kind is the wanted one: `rust` and `code:rust` are one, `code` is every language.
    #[must_use]
    pub fn matches_kind(&self, kind: &str) -> bool {
        let Some(wanted) = self.kind.as_deref() else { return true };
        let bare = |name: &str| name.strip_prefix(LANGUAGE).unwrap_or(name).to_owned();
        bare(kind) == bare(wanted) || (wanted == "code" && Lang::named(&bare(kind)).is_some())
    }

    /// Reads which documents may be searched; `None` when all may.
    ///
    /// # Errors
    /// [`SearchError::UnknownKind`] when no document at all is of that kind, and what the store answers.
    pub async fn docs(
        &self,
        index: &dyn Index,
        collections: &[Collection],
    ) -> Result<Option<BTreeSet<i64>>, SearchError> {
        if self.paths.is_none() && self.kind.is_none() && self.mail == MailFilter::default() {
            return Ok(None);
        }
        let (mut docs, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for collection in collections {
            let mut after = 0;
            loop {
                let page = index.docs_after(collection.no, after, PAGE).await?;
                let Some(last) = page.last() else { break };
                after = last.no;
                for doc in page.into_iter().filter(|doc| doc.published.is_some()) {
                    if self.matches(&doc) {
                        docs.insert(doc.no);
                    }
                    kinds.insert(doc.kind);
                }
            }
        }
        match &self.kind {
            Some(given) if !kinds.iter().any(|kind| self.matches_kind(kind)) => {
                let known = kinds.into_iter().filter(|kind| !kind.is_empty());
                let known = known.map(|kind| kind.strip_prefix(LANGUAGE).unwrap_or(&kind).to_owned());
                Err(SearchError::UnknownKind { given: given.clone(), known: known.collect() })
            }
            _ => Ok(Some(docs)),
        }
    }

    fn matches(&self, doc: &Doc) -> bool {
        self.matches_kind(&doc.kind)
            && self.matches_path(&doc.path)
            && self.matches_mail(doc.facts.as_deref())
    }
}

fn compiled(globs: &[String]) -> Result<GlobSet, SearchError> {
    let mut set = GlobSetBuilder::new();
    for given in globs {
        let bad = |why: String| SearchError::BadGlob { glob: given.clone(), why };
        let fault = |error: globset::Error| bad(error.kind().to_string());
        for glob in spelt_out(given).ok_or_else(|| bad("it is empty".to_owned()))? {
            set.add(GlobBuilder::new(&glob).literal_separator(true).build().map_err(fault)?);
        }
    }
    set.build().map_err(|error| SearchError::BadGlob { glob: globs.join(" "), why: error.kind().to_string() })
}

/// The globs, from the root and without directories, that a glob stands for.
fn spelt_out(given: &str) -> Option<Vec<String>> {
    if given.is_empty() {
        return None;
    }
    let from_here = given.strip_prefix("./");
    let anchored = from_here.is_some() || given.starts_with('/');
    let inner = from_here.unwrap_or(given).trim_start_matches('/');
    let glob = inner.trim_end_matches('/');
    if glob.is_empty() || glob == "." {
        return Some(vec!["**".to_owned()]);
    }
    let glob = if anchored || glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
    let below = format!("{glob}/**");
    Some(if inner.ends_with('/') { vec![below] } else { vec![glob, below] })
}

#[cfg(test)]
mod tests {
    use redrive_ingest::kind::{Guess, Kind};

    use super::*;
    use crate::files::indexed;

    #[test]
    fn globs_match_as_in_a_gitignore() {
        for (glob, yes, no) in [
            ("*.rs", &["a.rs", "src/a.rs", "src/deep/a.rs"][..], &["a.rsx", "a.md"][..]),
            ("src", &["src/a.rs", "crates/x/src/b.rs"], &["source/a.rs", "srcs"]),
            ("src/", &["src/a.rs", "x/src/y/z"], &["src", "x/src"]),
            ("/src", &["src/a.rs"], &["x/src/a.rs"]),
            ("./src", &["src/a.rs"], &["x/src/a.rs"]),
            ("src/*.rs", &["src/a.rs"], &["src/x/a.rs", "x/src/a.rs"]),
            ("src/**/*.rs", &["src/a.rs", "src/x/y/a.rs"], &["a.rs"]),
            ("**/tests/**", &["tests/a", "x/tests/y/a"], &["test/a"]),
            ("crates/*/src", &["crates/a/src/b.rs"], &["crates/a/b/src/c.rs"]),
            ("*.{md,txt}", &["a.md", "x/b.txt"], &["a.rs"]),
            ("[ab].rs", &["a.rs", "x/b.rs"], &["c.rs"]),
            ("README.md", &["README.md", "x/README.md"], &["readme.md"]),
            (".", &["a", "x/y"], &[]),
            ("/", &["a", "x/y"], &[]),
        ] {
            let filter = Filter::new(&[glob.to_owned()], None).unwrap();
            yes.iter().for_each(|path| assert!(filter.matches_path(path), "{glob} {path}"));
            no.iter().for_each(|path| assert!(!filter.matches_path(path), "{glob} {path}"));
        }
    }

    #[test]
    fn a_bad_glob_is_named_as_it_was_given() {
        for glob in ["a[", "{x", "x/[z-a]", ""] {
            let error = Filter::new(&["ok".to_owned(), glob.to_owned()], None).unwrap_err();
            assert!(error.to_string().starts_with(&format!("'{glob}' is not a glob: ")), "{error}");
        }
    }

    #[test]
    fn a_language_has_two_spellings() {
        let filter = |kind| Filter::new(&[], Some(kind)).unwrap();
        assert!(filter("Rust").matches_kind("code:rust") && filter("code:rust").matches_kind("rust"));
        assert!(filter("code").matches_kind("code:go"));
        assert!(!filter("rust").matches_kind("markdown") && !filter("rust").matches_kind(""));
    }

    #[test]
    fn code_is_every_language_as_the_index_names_it() {
        let code = Filter::new(&[], Some("code")).unwrap();
        for name in ["main.rs", "main.go", "tool.py", "Makefile", "a.tf", "query.sql"] {
            let Guess::Is(kind) = Kind::guess(name.as_ref()) else { panic!("{name} is of no kind") };
            assert!(code.matches_kind(&indexed(kind)), "{name}");
        }
        for name in ["a.md", "a.txt", "a.html", "a.pdf", "a.eml"] {
            let Guess::Is(kind) = Kind::guess(name.as_ref()) else { panic!("{name} is of no kind") };
            assert!(!code.matches_kind(&indexed(kind)), "{name}");
        }
        assert!(!code.matches_kind(""));
    }
}
