//! From a request to the route that takes it.
//!
//! A request goes through here in three steps: [`path::normalise`] brings its target into the one form that everything else sees,
//! [`Table::lookup`] finds the route, and [`rewrite`] writes the target that the upstream gets. None of them allocates.

mod describe;
pub mod host;
mod method;
pub mod path;
pub mod query;
pub mod rewrite;
pub mod split;
mod table;
mod trie;

pub use describe::{Described, describe};
pub use method::{Allow, MAX_METHODS};
pub use table::{Found, Lookup, Table};
