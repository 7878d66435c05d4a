//! Configuration: what a file says, what it means, and how one becomes the other.
//!
//! A configuration goes through three forms. [`raw`] is what the file says, key for key. `resolve` turns it into the
//! [`Config`] of `model`, where names have become indices, units have become numbers and every default is filled in;
//! it is pure and opens no socket. The runtime then builds its state (listeners, pools, limiters) from a `Config` and
//! never looks at the raw form again.
//!
//! Without a file, `env` makes the raw form from environment variables; from there on nothing differs.

mod env;
mod load;
mod model;
pub mod problem;
pub mod raw;
mod resolve;
pub mod schema;
pub mod yaml;

pub use load::*;
pub use model::*;
pub use resolve::api::{load as load_description, pattern as described_path};
