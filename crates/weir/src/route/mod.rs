//! From a request to the route that takes it.
//!
//! A request goes through here in three steps: [`path::normalise`] writes its target in the one form that everything else sees,
//! [`Table::lookup`] finds the route, and [`rewrite`] writes the target that the upstream gets. None of them allocates.

mod describe;
pub mod explain;
mod method;
pub mod query;
pub mod rewrite;
pub mod split;
mod table;
mod trie;

pub use message::{host, path};

pub use describe::{Described, describe};
pub use method::Allow;
pub use table::{Lookup, RouteMatch, Table};
