//! API descriptions as one model: OpenAPI 3.0 and 3.1, Swagger 2.0, RAML 1.0, API Blueprint, an OpenAPI shorthand and
//! endpoint records are read into an [`Api`], and an [`Api`] is written as records, OpenAPI 3.1, Swagger 2.0 or RAML 1.0.
//!
//! ```
//! let text = b"openapi: 3.1.0\ninfo: {title: Hello, version: '1'}\npaths:\n  /hello/{name}:\n    get: {responses: {}}\n";
//! let read = apidoc::read_bytes("hello.yaml", text).unwrap();
//! assert_eq!(read.api.operations[0].id, "get_hello_name");
//! assert_eq!(read.warnings[0].to_string(),
//!     "hello.yaml:5:10: the variable 'name' of the path is not described for GET; it is taken to be text (at #/paths/~1hello~1{name}/get)");
//! ```
//!
//! The kind is told from the content, not from the name of the file. Nothing is ever fetched from a network. Whatever is
//! not in the model is said in a warning; whatever would make the model wrong is an error, and all errors are reported at
//! once. A document may be hostile: size, depth and expansion are limited ([`Limits`]), and no input panics.
//!
//! The way through the crate: [`sniff`] tells the kind, [`tree`] turns YAML and JSON with everything they refer to into
//! values that know their line, one module a format ([`openapi`], [`swagger2`], [`raml`], [`blueprint`], [`shorthand`],
//! [`records`]) finds operations, [`shape`] and [`sample`] make parameters and example bodies of schemas, [`build`] checks
//! operations against each other and makes the [`model`].
#![allow(rustdoc::private_intra_doc_links)]

mod blueprint;
mod build;
mod description;
mod diagnostic;
mod jsonschema;
mod model;
mod openapi;
mod raml;
mod records;
mod sample;
mod shape;
mod shorthand;
mod sniff;
mod source;
mod swagger2;
mod template;
mod tree;
mod write;

pub use description::{Description, View};
pub use diagnostic::{Code, Diagnostic, Problems};
pub use model::{
    Api, Body, Grant, KeyLocation, ListFormat, Method, OauthFlow, Operation, Parameter, Requirement, Security,
    SecurityScheme, Server, Type,
};
pub use records::{Record, RecordBody, Records};
pub use sniff::Kind;
pub use source::{Files, Limits, Source};
pub use write::{Format, Syntax, Written, write};

use diagnostic::Report;
use std::collections::BTreeMap;
use std::path::Path;

/// What was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Read {
    /// The model.
    pub api: Api,
    /// The kind that the description turned out to be.
    pub kind: Kind,
    /// What was passed over or assumed, in the order in which it was found.
    pub warnings: Vec<Diagnostic>,
}

/// Reads the description in a local file, and the local files that it refers to.
///
/// # Errors
/// All errors found; see [`Code`] for the sorts.
pub fn read_file(path: impl AsRef<Path>) -> Result<Read, Problems> {
    read(&Files::anywhere(), &path.as_ref().to_string_lossy(), &Limits::default())
}

/// Reads a description from memory. It may refer to itself but to no other document.
///
/// # Errors
/// As [`read_file`].
pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Read, Problems> {
    read(&BTreeMap::from([(name.to_owned(), bytes.to_vec())]), name, &Limits::default())
}

/// Reads the description `name` and what it refers to from `source`.
///
/// # Errors
/// As [`read_file`].
pub fn read(source: &dyn Source, name: &str, limits: &Limits) -> Result<Read, Problems> {
    let bytes = tree::load::read(source, name, limits)?;
    let text = tree::parse::text(name, &bytes)?;
    let mut report = Report::default();
    let by_text = sniff::by_text(name, text)?;
    if by_text == Some(Kind::Blueprint) {
        let api = blueprint::read(name, text, build::Builder::new(limits, &mut report));
        return conclude(api, Kind::Blueprint, report);
    }
    let set = tree::Set::load(source, name, &bytes, limits, &mut report)?;
    let (api, kind) = model(&set, by_text, limits, &mut report)?;
    conclude(api, kind, report)
}

/// Makes the model of a tree.
fn model(
    set: &tree::Set,
    by_text: Option<Kind>,
    limits: &Limits,
    report: &mut Report,
) -> Result<(Api, Kind), Problems> {
    let root = set.root();
    let kind = match by_text {
        Some(kind) => kind,
        None => sniff::by_tree(root)?,
    };
    let builder = build::Builder::new(limits, report);
    let api = match kind {
        Kind::OpenApi => openapi::read(root, builder),
        Kind::Swagger2 => swagger2::read(root, builder),
        Kind::Raml => raml::read(root, builder),
        Kind::Shorthand => shorthand::read(root, builder),
        Kind::Records | Kind::Blueprint => records::read(root, builder),
    };
    Ok((api, kind))
}

fn conclude(api: Api, kind: Kind, report: Report) -> Result<Read, Problems> {
    report.conclude(api).map(|(api, warnings)| Read { api, kind, warnings })
}
