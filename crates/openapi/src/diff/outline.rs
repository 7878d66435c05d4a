//! The parts of operations that are compared.

use std::collections::BTreeMap;

use apidoc::{Description, Kind, View};
use serde_json::Value;

use crate::compile::{self, Input};
use crate::load::Patterns;
use crate::schema::Schemas;

/// Method, and path without the names of its parameters.
pub(super) type Key = (&'static str, String);

/// All operations of a description.
pub(super) struct Outlines<'d> {
    pub(super) operations: BTreeMap<Key, Outline>,
    pub(super) schemas: Schemas<'d>,
}

/// One operation. Schemas are as [`Schemas::translated`] has them.
pub(super) struct Outline {
    pub(super) title: String,
    /// By place and name.
    pub(super) parameters: BTreeMap<(String, String), Parameter>,
    pub(super) body: Option<Body>,
    /// By status, then media type.
    pub(super) responses: BTreeMap<String, BTreeMap<String, Option<Value>>>,
    pub(super) security: Vec<BTreeMap<String, Vec<String>>>,
}

pub(super) struct Parameter {
    pub(super) required: bool,
    /// Style and the like, in words.
    pub(super) form: String,
    pub(super) schema: Option<Value>,
}

pub(super) struct Body {
    pub(super) required: bool,
    pub(super) media: BTreeMap<String, Option<Value>>,
}

impl<'d> Outlines<'d> {
    pub(super) fn of(description: &'d Description) -> Self {
        let root = description.root();
        let is_swagger2 = description.read().kind == Kind::Swagger2;
        let version = root.get("openapi").and_then(View::text).unwrap_or_default();
        let mut schemas = Schemas::new(compile::dialect(is_swagger2, version), Patterns::Skip);
        let api = &description.read().api;
        let mut operations = BTreeMap::new();
        for (index, model) in api.operations.iter().enumerate() {
            let Some(operation) = description.operation(index) else { continue };
            let items = description.path_items(operation);
            let input = Input { operation, items, root, is_swagger2, model, api, refuses_unknown_query: false };
            let path = model.full_path();
            let key = (model.method.as_str(), anonymous(&path));
            let title = format!("{} {path}", model.method.as_str());
            operations.insert(key, outline(&input, title, &mut schemas));
        }
        Outlines { operations, schemas }
    }

    /// What is wrong with the description.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> + '_ {
        self.schemas.problems.iter().cloned()
    }
}

fn anonymous(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        out.push_str("{}");
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    out + rest
}

fn outline<'d>(input: &Input<'d, '_>, title: String, schemas: &mut Schemas<'d>) -> Outline {
    let found = compile::parameters(input, schemas);
    let mut parameters = BTreeMap::new();
    let path_names: Vec<&str> = input.model.endpoint_path.split('/').collect();
    for &(place, name, view) in found.iter().filter(|(place, ..)| !matches!(*place, "body" | "formData")) {
        let content = view.get("content").and_then(|content| content.entries().next());
        let schema = match content {
            Some((_, media)) => media.get("schema"),
            None => view.get("schema").or_else(|| view.get("type").is_some().then_some(view)),
        };
        let said = |key: &str| view.get(key).and_then(View::text).unwrap_or_default();
        let form = format!("{} {} {}", said("style"), said("explode"), said("collectionFormat"));
        let required = place == "path" || view.get("required").and_then(View::bool) == Some(true);
        // Names of path parameters have no effect on clients: their place does.
        let name = match path_names.iter().position(|segment| *segment == format!("{{{name}}}")) {
            Some(at) if place == "path" => format!("segment {at}"),
            _ if place == "header" => name.to_ascii_lowercase(),
            _ => name.to_owned(),
        };
        let schema = schema.map(|schema| schemas.translated(schema));
        parameters.insert((place.to_owned(), name), Parameter { required, form, schema });
    }
    let mut responses = BTreeMap::new();
    for (status, response) in input.operation.get("responses").into_iter().flat_map(View::entries) {
        let Some(response) = compile::dereference(response, schemas) else { continue };
        let media = if input.is_swagger2 {
            response
                .get("schema")
                .map(|schema| ("*/*".to_owned(), Some(schemas.translated(schema))))
                .into_iter()
                .collect()
        } else {
            media(response, schemas)
        };
        responses.insert(status.to_owned(), media);
    }
    let is_none = input.model.security.0.iter().any(BTreeMap::is_empty);
    Outline {
        title,
        parameters,
        body: body(input, &found, schemas),
        responses,
        security: if is_none { Vec::new() } else { input.model.security.0.clone() },
    }
}

fn body<'d>(input: &Input<'d, '_>, found: &[compile::FoundParameter<'d>], schemas: &mut Schemas<'d>) -> Option<Body> {
    if input.is_swagger2 {
        let (.., view) = found.iter().find(|(place, ..)| *place == "body")?;
        let schema = view.get("schema").map(|schema| schemas.translated(schema));
        let required = view.get("required").and_then(View::bool) == Some(true);
        return Some(Body { required, media: BTreeMap::from([("*/*".to_owned(), schema)]) });
    }
    let view = compile::dereference(input.operation.get("requestBody")?, schemas)?;
    let required = view.get("required").and_then(View::bool) == Some(true);
    Some(Body { required, media: media(view, schemas) })
}

fn media<'d>(holder: View<'d>, schemas: &mut Schemas<'d>) -> BTreeMap<String, Option<Value>> {
    let entries = holder.get("content").into_iter().flat_map(View::entries);
    entries
        .map(|(range, media)| {
            let schema = media.get("schema").map(|schema| schemas.translated(schema));
            (crate::media::essence(range), schema)
        })
        .collect()
}
