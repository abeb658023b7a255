//! The floor, over the in-memory store.

mod dead;
mod frozen;
mod overview;
mod roles;
mod rules;
mod runs;
mod sent;
mod submit;
mod support;
