//! What this program tells itself when it is its own child.

use serde::{Deserialize, Serialize};

/// What a child that parses is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct ParseSettings {
    pub max_tokens: usize,
    pub min_tokens: usize,
    pub overlap: usize,
    pub max_pages: u32,
    pub max_bytes: u64,
    pub max_container_bytes: u64,
    pub follow_symlinks: bool,
    pub hidden: bool,
    pub ignore_rules: bool,
    pub memory: u64,
}

/// What a child that reads mail is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct MailSettings {
    pub max_tokens: usize,
    pub min_tokens: usize,
    pub overlap: usize,
    pub max_pages: u32,
    pub memory: u64,
}

/// What a child that embeds is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct EmbedSettings {
    /// Where in a payload the text is.
    pub input: String,
    /// Whether a vector is written as a list of numbers.
    pub numbers: bool,
    pub memory: u64,
}

/// What a child that evaluates for a filter is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct FilterSettings {
    /// The expression.
    pub keep: String,
    pub memory: u64,
}
