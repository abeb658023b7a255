//! Finds passages by what they mean and by the words in them.
//!
//! [`search`] asks the store for two lists, the chunks nearest to the query's vector and those with its words, and
//! [`fuse`] makes one of them. [`snippet`] says which lines of a hit to show and [`show`] writes them for a terminal.
//!
//! Nothing here embeds: the query's vector comes from whoever knows how the collection's model is reached.

mod filter;
pub mod fuse;
mod report;
mod run;
pub mod show;
pub mod snippet;
pub mod words;

pub use filter::Filter;
pub use report::{By, Candidates, MailFilter, Mode, SearchError, SearchHit, SearchReport, SearchRequest};
pub use run::search;
pub use snippet::SnippetLine;
