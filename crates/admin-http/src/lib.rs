//! The HTTP server of pages for operators: Weir's admin listener and console, its demo services, and `gauge ui`.
//!
//! [`serve`] is HTTP/1.1 with bounds on connections and on how long a client may take. [`guard`] says which requests a page of another
//! site may have caused.

pub mod guard;
mod listener;
mod places;

pub use listener::{Bounds, HEAD, LocalAddress, serve};
