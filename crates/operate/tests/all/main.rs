//! The floor, over the in-memory store.

mod dead;
mod overview;
mod roles;
mod runs;
mod submit;
mod support;
