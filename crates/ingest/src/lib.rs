//! Turns a directory into chunks for semantic search.
//!
//! The steps are values in, values out: [`walk`] names the files, [`read`] takes one file's bytes, [`parse`] makes a
//! [`document::Document`] of them, [`chunk`] cuts it to the size a model takes. Only `walk` and `read` touch files;
//! there is no clock, no dice and no async here.
//!
//! What comes from outside may be hostile. Files are parsed by a child process ([`worker`]) under the limits of
//! [`limits`], so that a bomb ends the child and is that file's failure.
pub mod chunk;
pub mod decode;
pub mod document;
pub mod kind;
pub mod limits;
mod outline;
pub mod parse;
pub mod path;
pub mod payload;
pub mod read;
pub mod walk;
pub mod worker;
