//! The model as text: records, OpenAPI 3.1, Swagger 2.0, RAML 1.0.
//!
//! What a format cannot say is written as an extension of that format where it has such (`x-…`, annotations), so that this
//! crate reads back what it wrote, and is described in a warning either way.

mod out;

pub(crate) use out::{Out, example, list, map};

use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Api, Parameter, Type};
use crate::records::Records;
use crate::{openapi, raml, swagger2};
use std::fmt;
use std::str::FromStr;

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// The internal records, see [`Records`].
    Records,
    /// OpenAPI 3.1.
    OpenApi,
    /// Swagger 2.0.
    Swagger2,
    /// RAML 1.0, which is always YAML.
    Raml,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 4] = [Format::Records, Format::OpenApi, Format::Swagger2, Format::Raml];

    /// The name that [`Format::from_str`] takes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Records => "records",
            Format::OpenApi => "openapi",
            Format::Swagger2 => "swagger2",
            Format::Raml => "raml",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Format::ALL.into_iter().find(|f| f.as_str() == text);
        found.ok_or_else(|| format!("'{text}' is not a format that is written (records, openapi, swagger2, raml)"))
    }
}

/// JSON or YAML.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Syntax {
    Json,
    #[default]
    Yaml,
}

/// A description as text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The text, with a newline at its end.
    pub text: String,
    /// What the format cannot say ([`Code::NotSayable`]).
    pub warnings: Vec<Diagnostic>,
}

/// Writes `api`. The order of keys is fixed, so that equal models give equal texts.
#[must_use]
pub fn write(api: &Api, format: Format, syntax: Syntax) -> Written {
    let mut notes = Notes::default();
    let text = match format {
        Format::Records => out::render(&Records::from(api), syntax),
        Format::OpenApi => out::render(&openapi::write::document(api, &mut notes), syntax),
        Format::Swagger2 => out::render(&swagger2::write::document(api, &mut notes), syntax),
        Format::Raml => format!("#%RAML 1.0\n{}", out::render(&raml::write::document(api, &mut notes), Syntax::Yaml)),
    };
    Written { text, warnings: notes.0 }
}

/// What could not be said.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<Diagnostic>);

impl Notes {
    pub(crate) fn add(&mut self, text: String) {
        self.0.push(Diagnostic::whole(Code::NotSayable, "", text));
    }
}

/// The operations of each path, in the order of first use. A method that a path has twice, for different servers, is
/// dropped the second time with a note.
pub(crate) fn by_path<'a>(api: &'a Api, notes: &mut Notes) -> Vec<(&'a str, Vec<&'a crate::Operation>)> {
    let mut paths: Vec<(&str, Vec<&crate::Operation>)> = Vec::new();
    let mut at = std::collections::HashMap::new();
    for operation in &api.operations {
        let i = *at.entry(operation.endpoint_path.as_str()).or_insert_with(|| {
            paths.push((&operation.endpoint_path, Vec::new()));
            paths.len() - 1
        });
        if paths[i].1.iter().any(|o| o.method == operation.method) {
            notes.add(format!(
                "{} {} is there for several servers; only the first is written",
                operation.method, operation.endpoint_path
            ));
        } else {
            paths[i].1.push(operation);
        }
    }
    paths
}

/// The keywords of JSON Schema that say what a parameter is, without its name, place and example.
pub(crate) fn schema_keywords(parameter: &Parameter) -> Vec<(&'static str, Out)> {
    let mut out = Vec::new();
    match parameter.kind {
        Type::File => out.extend([("type", "string".into()), ("format", "binary".into())]),
        kind => out.extend(kind.json_schema().map(|name| ("type", name.into()))),
    }
    out.extend(
        parameter.format.as_ref().filter(|_| parameter.kind != Type::File).map(|f| ("format", f.as_str().into())),
    );
    if !parameter.values.is_empty() {
        out.push(("enum", list(parameter.values.iter().map(example))));
    }
    out.extend(parameter.default.as_ref().map(|d| ("default", example(d))));
    let number = |n: &serde_json::Number| Out::Json(serde_json::Value::Number(n.clone()));
    out.extend(parameter.min.as_ref().map(|n| ("minimum", number(n))));
    out.extend(parameter.max.as_ref().map(|n| ("maximum", number(n))));
    let (least, most) =
        if parameter.kind == Type::Array { ("minItems", "maxItems") } else { ("minLength", "maxLength") };
    out.extend(parameter.min_length.map(|n| (least, n.into())));
    out.extend(parameter.max_length.map(|n| (most, n.into())));
    out.extend(parameter.pattern.as_ref().map(|p| ("pattern", p.as_str().into())));
    if parameter.kind == Type::Array {
        let item = parameter.items.map(Parameter::of).map(|p| map(schema_keywords(&p)));
        out.push(("items", item.unwrap_or_else(|| map::<&str>([]))));
    }
    out
}
