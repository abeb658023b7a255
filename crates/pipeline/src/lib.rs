//! Pipeline files: TOML text to a validated definition.
//!
//! [`parse`] walks the spanned tree by hand, so that every problem is reported at once with its line and key, and
//! keys that nobody reads are errors. Nothing here opens a file, reads a variable or contacts a service.
//!
//! ```
//! let text = r#"
//! name = "classify"
//! [[stage]]
//! name = "llm_call"
//! kind = "http"
//! url = "http://127.0.0.1:9000/work"
//! concurency = 4
//! "#;
//! let problems = redrive_pipeline::parse(text, "classify.toml").unwrap_err();
//! assert_eq!(problems[0].to_string(), "classify.toml:7: stage.llm_call.concurency: unknown key");
//! assert_eq!(problems[0].hint.as_deref(), Some("did you mean \"concurrency\"?"));
//! ```

mod defer;
mod definition;
mod document;
mod file;
mod gate;
mod kind;
mod layout;
mod model;
mod notify;
mod own;
mod plan;
mod price;
mod problem;
mod reader;
mod retention;
mod retry;
mod rule;
mod run;
mod scalar;
mod schedule;
mod source;
mod stage;

use redrive_core::suggest;

pub use definition::{
    Body, Commands, DeferDef, Definition, FilesDef, LineFormat, MailStep, ModelDef, NotifyDef, NotifyOn,
    NotifyTarget, Outbound, PollDef, PriceDef, RetentionDef, RuleDef, SourceDef, SourceKind, StageDef,
    StageKind, When,
};
pub use file::parse;
pub use own::{own_policy, said_policy};
pub use problem::Problem;
pub use scalar::title;
