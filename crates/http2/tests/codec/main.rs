//! The codec from outside: safety rules as raw frames, and against the `h2` crate.

mod corpus;
mod oracle;
mod rules;
mod support;
