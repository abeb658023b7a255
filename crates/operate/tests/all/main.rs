//! The floor, over the in-memory store.

mod dead;
mod frozen;
mod hidden;
mod left_behind;
mod old_runs;
mod overview;
mod roles;
mod rules;
mod runs;
mod sent;
mod submit;
mod support;
