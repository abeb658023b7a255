//! What the store does when things go wrong around it.

mod copy;
mod crash;
mod damage;
mod file;
mod gate;
mod index;
mod index_crash;
mod life;
mod pressure;
mod read_only;
mod shelf;
