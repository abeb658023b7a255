//! One entry of the table of routes.

use std::pin::Pin;
use std::sync::Arc;

use axum::http::Method;
use redrive_operate::{Result, Role};

use crate::call::Call;
use crate::reply::Reply;

/// What a request comes to.
pub type Answering = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;
/// What is called.
pub type Handler = Arc<dyn Fn(Call) -> Answering + Send + Sync>;

/// What a parameter of a query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A number from 1 to this.
    Count(usize),
    /// A number of milliseconds, or of whatever the summary says.
    Number,
    /// A share from 0 to 1.
    Share,
    /// `true` or `false`.
    Flag,
    /// One of these; several are parted by commas where the summary says so.
    Schema(&'static str),
}

/// A parameter of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it means.
    pub about: &'static str,
    /// Whether it has to be there.
    pub required: bool,
}

/// A parameter that may be left out.
pub const fn param(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param { name, kind, about, required: false }
}

/// What a route answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One JSON document of this name.
    Json(&'static str),
    /// A JSON document that somebody else wrote.
    AnyJson,
    /// JSON Lines of this shape.
    Lines(&'static str),
    /// Server-sent events.
    Events,
    /// Metrics, in the text format of Prometheus.
    Metrics,
}

/// One route.
#[derive(Clone)]
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path, with names in braces.
    pub path: &'static str,
    /// The least role that may ask; `None`: nobody has to say who asks.
    pub role: Option<Role>,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The parameters of its query.
    pub query: Vec<Param>,
    /// The name of the shape of its body.
    pub body: Option<&'static str>,
    /// Whether the body may be left out.
    pub body_optional: bool,
    /// What it answers with.
    pub answer: Shape,
    /// The status of an answer: 200, or 201 where something is made.
    pub status: u16,
    /// Whether it answers with 200 as well, where nothing was to be made.
    pub may_make: bool,
    /// Whether it waits for something to happen, and can be broken off and made again.
    pub waits: bool,
    /// What is called.
    pub call: Handler,
}

impl Route {
    /// A route that looks at something.
    pub fn get<F>(path: &'static str, summary: &'static str, answer: Shape, call: fn(Call) -> F) -> Self
    where
        F: Future<Output = Result<Reply>> + Send + 'static,
    {
        Self {
            method: Method::GET,
            path,
            role: Some(Role::Viewer),
            summary,
            query: Vec::new(),
            body: None,
            body_optional: false,
            answer,
            status: 200,
            may_make: false,
            waits: false,
            call: Arc::new(move |asked| Box::pin(call(asked))),
        }
    }

    /// A route that changes something.
    pub fn post<F>(path: &'static str, summary: &'static str, answer: Shape, call: fn(Call) -> F) -> Self
    where
        F: Future<Output = Result<Reply>> + Send + 'static,
    {
        Self { method: Method::POST, role: Some(Role::Operator), ..Self::get(path, summary, answer, call) }
    }

    /// The same with these parameters.
    #[must_use]
    pub fn query(self, query: &[Param]) -> Self {
        Self { query: query.to_vec(), ..self }
    }

    /// The same with a body of this shape.
    #[must_use]
    pub fn body(self, shape: &'static str) -> Self {
        Self { body: Some(shape), ..self }
    }

    /// The same with a body of this shape that may be left out.
    #[must_use]
    pub fn may_have_body(self, shape: &'static str) -> Self {
        Self { body: Some(shape), body_optional: true, ..self }
    }

    /// The same for whoever has this role at least.
    #[must_use]
    pub fn least(self, role: Role) -> Self {
        Self { role: Some(role), ..self }
    }

    /// The same for anybody.
    #[must_use]
    pub fn for_anybody(self) -> Self {
        Self { role: None, ..self }
    }

    /// The same, and something is made by it.
    #[must_use]
    pub fn makes(self) -> Self {
        Self { status: 201, ..self }
    }

    /// The same, and something is made by it, unless it is there already or it is only asked what would be.
    #[must_use]
    pub fn may_make(self) -> Self {
        Self { may_make: true, ..self.makes() }
    }

    /// The same, and it waits for something to happen.
    #[must_use]
    pub fn waits(self) -> Self {
        Self { waits: true, ..self }
    }

    /// The names in its path.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}
