//! `redrive search`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args as ClapArgs, ValueEnum};
use redrive_index::canonical_root;
use redrive_index::search::{self, SearchRequest};
use redrive_operate::Error;
use redrive_store::index::Collection;

use super::{Answer, Context};
use crate::output::{json, lines};
use crate::wiring;

/// Options of `search`.
#[derive(Debug, ClapArgs)]
pub struct SearchArgs {
    /// What to look for
    #[arg(required = true, num_args = 1..)]
    pub query: Vec<String>,
    /// At most so many passages
    #[arg(short = 'k', default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// By meaning and words, by meaning, or by words
    #[arg(long, value_enum, default_value_t = Mode::Hybrid, value_name = "HOW")]
    pub mode: Mode,
    /// Only in files that match this glob, for example 'docs/**/*.md'; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub path: Vec<String>,
    /// Only in files of this language or kind, for example rust, markdown, pdf
    #[arg(long, alias = "kind", value_name = "NAME")]
    pub lang: Option<String>,
    /// Only on this page
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub page: Option<u32>,
    /// Only in the index of this directory
    #[arg(long = "in", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The model that the index is expected to be made with
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// By meaning and by words.
    Hybrid,
    /// By meaning.
    Meaning,
    /// By words.
    Words,
}

/// Finds passages.
pub async fn search(context: &Context, args: SearchArgs) -> Answer {
    let stores = wiring::store_to_read(&context.global.store)?;
    let collections = chosen(&stores.index.collections().await?, &args)?;
    let query = args.query.join(" ");
    if query.trim().is_empty() {
        return Err(Error::wrong("the query is empty")
            .hint("for example `redrive search \"how to restore a backup\"`"));
    }
    let mode = match args.mode {
        Mode::Hybrid => search::Mode::Hybrid,
        Mode::Meaning => search::Mode::Meaning,
        Mode::Words => search::Mode::Words,
    };
    let vector = match mode {
        search::Mode::Words => None,
        // The index is being made, or made anew for another model.
        search::Mode::Hybrid if collections[0].spec.dimensions == 0 => None,
        _ => wiring::query_vector(&collections[0], &query).await?,
    };
    let has_words = !search::words::Terms::of(&query).is_empty();
    let mode = match (mode, &vector) {
        (search::Mode::Hybrid, None) if has_words => {
            context.hint("there is no vector to compare; it is searched for by words alone");
            search::Mode::Words
        }
        (search::Mode::Hybrid | search::Mode::Meaning, None) => {
            let unknown = Error::wrong("there is no word in the query that the model knows");
            let words = "`--mode words` searches by words alone";
            return Err(if has_words { unknown.hint(words) } else { unknown });
        }
        (mode, _) => mode,
    };
    let request = SearchRequest {
        query,
        count: args.count as usize,
        mode,
        paths: args.path,
        kind: args.lang,
        page: args.page,
    };
    let report = search::search(&*stores.index, &collections, vector.as_ref(), &request)
        .await
        .map_err(|error| Error::wrong(error.to_string()))?;
    if context.global.json {
        json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if report.hits.is_empty() {
        context.hint("nothing was found; `redrive stats` shows what is in the index");
    } else {
        lines(&search::show::lines(&report, colour).join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The collections to search: all of one model.
fn chosen(all: &[Collection], args: &SearchArgs) -> Result<Vec<Collection>, Error> {
    let index = "`redrive index DIR` makes one";
    let chosen: Vec<Collection> = match &args.dir {
        None => all.to_vec(),
        Some(dir) => {
            let (_, root) = canonical_root(dir).map_err(Error::wrong)?;
            let of_dir: Vec<Collection> = all.iter().filter(|one| one.spec.root == root).cloned().collect();
            if of_dir.is_empty() {
                return Err(Error::wrong(format!("there is no index of {root}")).hint(index));
            }
            of_dir
        }
    };
    if let Some(model) = &args.model {
        let others: Vec<&str> =
            chosen.iter().map(|one| one.spec.model.as_str()).filter(|name| name != model).collect();
        if let Some(other) = others.first() {
            return Err(Error::wrong(format!("the index was made with the model {other}, not with {model}"))
                .hint("leave --model out, or make the index anew: `redrive index DIR --rebuild`"));
        }
    }
    let Some(first) = chosen.first() else {
        return Err(Error::wrong("this store has no index").hint(index));
    };
    let model = first.model_no;
    if args.mode != Mode::Words && chosen.iter().any(|one| one.model_no != model) {
        let roots: Vec<String> =
            chosen.iter().map(|one| format!("{} ({})", one.spec.root, one.spec.model)).collect();
        return Err(Error::wrong(format!(
            "these indexes were made with different models: {}",
            roots.join(", ")
        ))
        .hint("name one with --in DIR"));
    }
    Ok(chosen)
}
