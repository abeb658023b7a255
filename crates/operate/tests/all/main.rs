//! The floor, over the in-memory store.

mod dead;
mod runs;
mod submit;
mod support;
