//! What a description of an API demands of requests: operations with their paths and protections, and a compiled
//! contract of each, against which the parts of a request are checked.
//!
//! [`load`] reads OpenAPI 3.0, OpenAPI 3.1 or Swagger 2.0 through `apidoc` and compiles everything; afterwards nothing is
//! parsed, resolved or read any more. Checking does no input or output and allocates only what it reports.
#![forbid(unsafe_code)]

mod compile;
mod contract;
mod diff;
mod load;
mod media;
mod parameter;
mod schema;
mod steps;
mod text;
mod types;
mod violation;

pub use contract::{BodyCheck, BodyLength, Contract, Head};
pub use diff::{Change, diff};
pub use load::{Api, Operation, Options, Patterns, load};
pub use violation::{Location, MOST, RULES, Violation, Violations, rule};
