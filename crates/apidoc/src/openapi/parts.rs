//! Parts that operations are made of: servers, parameters, request bodies.

use super::unknown_keys;
use crate::build::{self, Builder, Origin, Params};
use crate::diagnostic::{Code, Report};
use crate::jsonschema::{JsonSchemas, dereference};
use crate::model::{Body, ListFormat, Parameter, Server, Type};
use crate::shape;
use crate::tree::Node;
use serde_json::Value as Json;
use std::collections::HashSet;

/// The `servers` of an object that has some, with variables replaced (Server Object). Besides the specification's form a
/// single URL and a list of URLs are taken, as the shorthand writes them.
pub(crate) fn servers(parent: Node<'_>, report: &mut Report) -> Vec<Server> {
    let Some(servers) = parent.given("servers") else {
        return Vec::new();
    };
    let listed: Vec<Node<'_>> = if servers.is_list() { servers.items().collect() } else { vec![servers] };
    listed.into_iter().filter_map(|node| one_server(node, report)).collect()
}

fn one_server(node: Node<'_>, report: &mut Report) -> Option<Server> {
    let origin = Origin::Node(node);
    if let Some(url) = node.str() {
        return Some(build::server(url, None, &origin, report));
    }
    let Some(url) = node.given("url").and_then(Node::text) else {
        report.error(node.diagnostic(Code::Invalid, "a server needs a 'url'"));
        return None;
    };
    let variables = node.given("variables");
    let mut replaced = Vec::new();
    let (url, open) = build::substitute(url, |name| {
        let variable = variables?.get(name)?;
        let default = variable.given("default").or_else(|| variable.given("enum").and_then(|e| e.items().next()));
        let value = default.and_then(Node::text).map(str::to_owned)?;
        replaced.push(format!("'{name}' by '{}'", crate::tree::parse::short(&value)));
        Some(value)
    });
    if !replaced.is_empty() {
        let text = format!("variables of the server's URL are replaced by their defaults: {}", replaced.join(", "));
        report.warn(node.diagnostic(Code::Assumed, text));
    }
    for name in open {
        let text = format!("the variable '{name}' of the server's URL has no default; it stays as it is written");
        report.warn(node.diagnostic(Code::Assumed, text));
    }
    Some(build::server(&url, node.given("description").and_then(Node::text), &origin, report))
}

/// Reads `parameters` of a path item or operation into `params`; one that is there already is overridden.
pub(crate) fn parameters<'a>(
    parent: Node<'a>,
    params: &mut Params,
    schemas: &JsonSchemas<'a>,
    builder: &mut Builder<'a, '_>,
) {
    let Some(list) = parent.given("parameters") else {
        return;
    };
    if !list.is_list() {
        builder
            .report
            .error(list.diagnostic(Code::Invalid, format!("'parameters' is a list, but this is {}", list.what())));
        return;
    }
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    for node in list.items() {
        let Some(node) = dereference(node, builder.report) else {
            continue;
        };
        let Some((place, name)) = parameter(node, params, schemas, builder) else {
            continue;
        };
        if !seen.insert((place, name)) {
            builder.report.warn(
                node.diagnostic(
                    Code::Assumed,
                    format!("the {place} parameter '{name}' is there twice; the last counts"),
                ),
            );
        }
    }
}

/// One parameter (Parameter Object); gives its place and name.
fn parameter<'a>(
    node: Node<'a>,
    params: &mut Params,
    schemas: &JsonSchemas<'a>,
    builder: &mut Builder<'a, '_>,
) -> Option<(&'a str, &'a str)> {
    let text = |key: &str| node.given(key).and_then(Node::text);
    let (Some(name), Some(place)) = (text("name"), text("in")) else {
        let why = if node.is_map() {
            "a parameter needs 'name' and 'in'".to_owned()
        } else {
            format!("a parameter is a mapping, but this is {}", node.what())
        };
        builder.report.error(node.diagnostic(Code::Invalid, why));
        return None;
    };
    let into = match place {
        "path" => &mut params.path,
        "query" => &mut params.query,
        "header" => &mut params.header,
        "cookie" => &mut params.cookie,
        other => {
            let mut message = format!(
                "a parameter is in path, query, header or cookie, not in '{}'",
                crate::tree::parse::short(other)
            );
            if matches!(other, "body" | "formData") {
                message.push_str("; that is Swagger 2, in OpenAPI 3 it is the requestBody");
            }
            builder.report.error(node.diagnostic(Code::Invalid, message));
            return None;
        }
    };
    // Parameter Object: such definitions shall be ignored. `Authorization` is kept: where it is described so, it is sent so.
    if place == "header" && (name.eq_ignore_ascii_case("accept") || name.eq_ignore_ascii_case("content-type")) {
        let text = format!("the header '{name}' follows from media types; the parameter is passed over");
        builder.report.warn(node.diagnostic(Code::PassedOver, text));
        return Some((place, name));
    }
    unknown_keys(
        node,
        &[
            "name",
            "in",
            "description",
            "required",
            "deprecated",
            "allowEmptyValue",
            "style",
            "explode",
            "allowReserved",
            "schema",
            "content",
            "example",
            "examples",
            "$ref",
        ],
        builder,
    );
    let required = node.get("required").and_then(Node::bool) == Some(true);
    let mut read = match (node.given("schema"), node.given("content").and_then(|c| c.entries().next())) {
        (Some(schema), _) => shape::parameter(schemas, &schema, required, builder.report),
        (None, Some((media, content))) => {
            let text = format!("the value of '{name}' is sent as {media}; it is taken to be text");
            builder.report.warn(node.diagnostic(Code::PassedOver, text));
            Parameter {
                required,
                example: given_example(content, schemas, builder.report),
                ..Parameter::of(Type::String)
            }
        }
        (None, None) => {
            let text = format!("the parameter '{name}' has no schema; it is taken to be text");
            builder.report.warn(node.diagnostic(Code::Assumed, text));
            Parameter { required, ..Parameter::of(Type::String) }
        }
    };
    if let Some(example) = given_example(node, schemas, builder.report) {
        read.example = Some(example);
    }
    if place == "path" && !required {
        let text = format!(
            "the path parameter '{name}' is not marked 'required: true'; it is taken to be, as a path cannot lack a part"
        );
        builder.report.warn(node.diagnostic(Code::Assumed, text));
    }
    read.multi_segment = place == "path" && node.get("x-multi-segment").and_then(Node::bool) == Some(true);
    if read.kind == Type::Array {
        read.list = Some(list_format(node, place, name, builder.report));
    } else if read.kind == Type::Object {
        let text =
            format!("the parameter '{name}' is an object; how it is written into the {place} is not in the model");
        builder.report.warn(node.diagnostic(Code::PassedOver, text));
    }
    into.insert(name.to_owned(), read);
    Some((place, name))
}

/// How an array is written (Style Values).
fn list_format(node: Node<'_>, place: &str, name: &str, report: &mut Report) -> ListFormat {
    let form = matches!(place, "query" | "cookie");
    let style = node.given("style").and_then(Node::str).unwrap_or(if form { "form" } else { "simple" });
    let explode = node.get("explode").and_then(Node::bool).unwrap_or(style == "form");
    match style {
        "form" if explode => ListFormat::Multi,
        "form" | "simple" => ListFormat::Csv,
        "spaceDelimited" => ListFormat::Ssv,
        "pipeDelimited" => ListFormat::Pipes,
        other => {
            let text = format!(
                "the style '{}' of '{name}' is not in the model; commas are assumed",
                crate::tree::parse::short(other)
            );
            report.warn(node.diagnostic(Code::PassedOver, text));
            ListFormat::Csv
        }
    }
}

/// `example`, or the first of `examples` (a mapping of Example Objects).
pub(crate) fn given_example<'a>(node: Node<'a>, schemas: &JsonSchemas<'a>, report: &mut Report) -> Option<Json> {
    if let Some(example) = node.given("example") {
        return schemas.json(example, report);
    }
    let (_, first) = node.given("examples")?.entries().next()?;
    let first = dereference(first, report)?;
    if let Some(external) = first.given("externalValue") {
        report.warn(external.diagnostic(Code::PassedOver, "an external example is passed over"));
        return None;
    }
    // OpenAPI 3.2 has `dataValue` beside `value`
    first.given("value").or_else(|| first.given("dataValue")).and_then(|v| schemas.json(v, report))
}

/// A request body (Request Body Object).
pub(crate) fn body<'a>(node: Node<'a>, schemas: &JsonSchemas<'a>, builder: &mut Builder<'a, '_>) -> Option<Body> {
    unknown_keys(node, &["description", "content", "required", "$ref"], builder);
    let required = node.get("required").and_then(Node::bool) == Some(true);
    let Some(content) = node.given("content").filter(|c| c.is_map() && c.entries().len() > 0) else {
        builder.report.error(node.diagnostic(Code::Invalid, "a request body needs 'content' with a media type"));
        return None;
    };
    let types: Vec<&str> = content.entries().map(|(media, _)| media).collect();
    let chosen = build::preferred(&types)?;
    let other_media_types = types.iter().filter(|t| **t != chosen).map(|t| (*t).to_owned()).collect();
    let media = dereference(content.get(chosen)?, builder.report)?;
    let given = given_example(media, schemas, builder.report);
    let mut body = Body { media_type: chosen.to_owned(), other_media_types, required, ..Body::default() };
    body.generated = media.get("x-example-generated").and_then(Node::bool) == Some(true);
    match media.given("schema") {
        Some(schema) => {
            let make = build::takes_instances(chosen);
            let read = shape::body(schemas, &schema, given, make, builder.limits.example_values, builder.report);
            let none = read.example.is_none() && read.kind != Type::File && !make;
            (body.kind, body.params, body.example) = (read.kind, read.params, read.example);
            body.generated |= read.generated;
            if none {
                let text = format!("no example of {chosen} can be made; give the description one");
                builder.report.warn(media.diagnostic(Code::Assumed, text));
            }
        }
        None => body.example = given,
    }
    if build::is_form(chosen) {
        let encoding = media.given("encoding");
        for (name, field) in body.params.iter_mut().filter(|(_, p)| p.kind == Type::Array) {
            let styled = encoding.and_then(|e| e.given(name)).unwrap_or(media);
            field.list = Some(list_format(styled, "query", name, builder.report));
        }
    }
    Some(body)
}
