//! What the store does when things go wrong around it.

mod crash;
mod file;
mod gate;
mod life;
mod pressure;
