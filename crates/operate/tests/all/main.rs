//! The floor, over the in-memory store.

mod dead;
mod frozen;
mod left_behind;
mod overview;
mod roles;
mod rules;
mod runs;
mod sent;
mod submit;
mod support;
