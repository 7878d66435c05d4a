//! The HTTP message model that every protocol shares; no input or output.
//!
//! A head is a set of spans over one arena, and the arena holds field lines in HTTP/1 form (`name: value CRLF`), whatever the protocol
//! was: for HTTP/1 it is the read buffer, for HTTP/2 the HPACK decoder writes it. So every reader and both writers work on one
//! representation, and nothing is boxed per field.
//!
//! | type | what it is |
//! |---|---|
//! | [`Span`], [`Field`], [`Fields`] | positions in the arena, one line, the lines of a section |
//! | [`Known`], [`Method`] | names that the gateway treats in its own way, recognised once |
//! | [`RequestHead`], [`ResponseHead`] | a head without connection facts, for every protocol |
//! | [`path`], [`host`] | the one form of every path and host name, which routes, limits, caches and upstreams all see |
//! | [`form`] | names and values of queries, decoded |
//! | [`credentials`] | fields that are secret wherever they occur |
//! | [`validate`] | which bytes may be in names, values and authorities |
//! | [`Limits`] | sizes above which a message is refused |
//!
//! `h1` has heads of its own (`h1::RequestHead`, `h1::ResponseHead`), which also hold the HTTP/1 version, the framing of the body and
//! what the connection does next; `http2` makes the neutral heads of this crate.
//!
//! Invariants of [`Fields`]: names are tokens; values hold no control byte but HTAB and no blank at either end; each field is a whole
//! line of the arena; [`Field::known`] is what [`Known::of`] says of the name. Parsers establish them, [`Fields::verify`] checks them.

#![forbid(unsafe_code)]

pub mod credentials;
mod field;
pub mod form;
mod head;
pub mod host;
mod known;
mod limits;
mod method;
pub mod path;
mod span;
pub mod validate;

pub use field::{Field, Fields, Violation, list_elements, trimmed};
pub use head::{BodyLength, Expect, Protocol, RequestHead, ResponseHead, TargetForm};
pub use known::Known;
pub use limits::Limits;
pub use method::Method;
pub use span::Span;
