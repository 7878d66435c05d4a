//! Swagger 2.0. Section names in comments are those of <https://spec.openapis.org/oas/v2.0.html>.

pub(crate) mod write;

use crate::build::{self, Builder, Draft, Origin, Params};
use crate::diagnostic::Code;
use crate::jsonschema::{JsonSchemas, dereference, follow};
use crate::model::{Api, Body, ListFormat, Method, Parameter, Security, Server, Type};
use crate::openapi;
use crate::shape;
use crate::tree::Node;
use std::collections::BTreeMap;

/// Reads the document whose root is `root` (Swagger Object).
pub(crate) fn read<'a>(root: Node<'a>, mut builder: Builder<'a, '_>) -> Api {
    let schemas = JsonSchemas::new(builder.limits.example_values);
    let known = [
        "swagger",
        "info",
        "host",
        "basePath",
        "schemes",
        "consumes",
        "produces",
        "paths",
        "definitions",
        "parameters",
        "responses",
        "securityDefinitions",
        "security",
        "tags",
        "externalDocs",
    ];
    openapi::unknown_keys(root, &known, &mut builder);
    openapi::info(root, &mut builder);
    builder.api.servers = servers(root, root, &mut builder);
    builder.api.security_schemes = openapi::schemes(root.given("securityDefinitions"), builder.report);
    let all = openapi::requirements(root, &mut builder);
    match root.given("paths") {
        Some(paths) if paths.is_map() => {
            for (path, item) in paths.entries().filter(|(path, item)| !path.starts_with("x-") && !item.is_null()) {
                path_item(path, item, root, &schemas, all.as_ref(), &mut builder);
            }
        }
        Some(other) => {
            let text = format!("'paths' is a mapping of paths, but this is {}", other.what());
            builder.report.error(other.diagnostic(Code::Invalid, text));
        }
        None => builder.report.error(root.diagnostic(Code::Invalid, "'paths' is missing")),
    }
    builder.finish()
}

/// The servers that `host`, `basePath` of the document and `schemes` of `holder` (document or operation) make; or those
/// of the extension `x-servers`, by which Swagger 2 documents name several.
fn servers(holder: Node<'_>, root: Node<'_>, builder: &mut Builder<'_, '_>) -> Vec<Server> {
    if let Some(listed) = holder.given("x-servers").filter(|n| n.is_list()) {
        let url = |n: Node<'_>| n.str().or_else(|| n.given("url").and_then(Node::str)).map(str::to_owned);
        let found: Vec<(Node<'_>, String)> = listed.items().filter_map(|n| Some((n, url(n)?))).collect();
        return found
            .into_iter()
            .map(|(n, url)| {
                build::server(&url, n.given("description").and_then(Node::text), &Origin::Node(n), builder.report)
            })
            .collect();
    }
    let origin = Origin::Node(holder);
    let base = root.given("basePath").and_then(Node::text).unwrap_or("");
    let base = if base.is_empty() || base.starts_with('/') { base.to_owned() } else { format!("/{base}") };
    let Some(host) = root.given("host").and_then(Node::text) else {
        return if base.trim_matches('/').is_empty() {
            Vec::new()
        } else {
            vec![build::server(&base, None, &origin, builder.report)]
        };
    };
    let mut found = Vec::new();
    for scheme in holder.given("schemes").into_iter().flat_map(Node::items) {
        match scheme.text() {
            Some(name @ ("http" | "https")) => {
                found.push(build::server(&format!("{name}://{host}{base}"), None, &origin, builder.report));
            }
            other => {
                let text = format!(
                    "the scheme '{}' is passed over: only http and https are read",
                    crate::tree::parse::short(other.unwrap_or(""))
                );
                builder.report.warn(scheme.diagnostic(Code::PassedOver, text));
            }
        }
    }
    if found.is_empty() {
        builder.report.warn(origin.diagnostic(Code::Assumed, "no 'schemes' that can be used: http is assumed"));
        found.push(build::server(&format!("http://{host}{base}"), None, &origin, builder.report));
    }
    found
}

/// Parameters as Swagger 2 has them: those of the body are separate until all are known, as an operation overrides its path.
#[derive(Clone, Default)]
struct SwaggerParameters<'a> {
    params: Params,
    body: Option<Node<'a>>,
    form: BTreeMap<&'a str, Node<'a>>,
}

fn path_item<'a>(
    path: &str,
    item: Node<'a>,
    root: Node<'a>,
    schemas: &JsonSchemas<'a>,
    all: Option<&Security>,
    builder: &mut Builder<'a, '_>,
) {
    if builder.is_full() {
        return;
    }
    let Some(item) = (match item.given("$ref") {
        Some(reference) => follow(reference, builder.report),
        None => Some(item),
    }) else {
        return;
    };
    if !item.is_map() {
        let text = format!("a path item is a mapping of methods, but this is {}", item.what());
        builder.report.error(item.diagnostic(Code::Invalid, text));
        return;
    }
    let Some(template) = builder.template(path, &Origin::Node(item)) else {
        return;
    };
    let mut shared = SwaggerParameters::default();
    parameters(item, &mut shared, schemas, builder);
    for (key, node) in item.entries() {
        if matches!(key, "$ref" | "parameters") || key.starts_with("x-") || node.is_null() {
            continue;
        }
        let Ok(method) = key.parse::<Method>() else {
            let text = format!("the key '{}' is no method and is passed over", crate::tree::parse::short(key));
            builder.report.warn(item.diagnostic_at_key(key, Code::PassedOver, text));
            continue;
        };
        if !node.is_map() {
            let text = format!("an operation is a mapping, but this is {}", node.what());
            builder.report.error(node.diagnostic(Code::Invalid, text));
            continue;
        }
        let known = [
            "tags",
            "summary",
            "description",
            "externalDocs",
            "operationId",
            "consumes",
            "produces",
            "parameters",
            "responses",
            "schemes",
            "deprecated",
            "security",
        ];
        openapi::unknown_keys(node, &known, builder);
        let mut found = shared.clone();
        parameters(node, &mut found, schemas, builder);
        let own = ["schemes", "x-servers"].iter().any(|key| node.given(key).is_some());
        let servers = if own { servers(node, root, builder) } else { Vec::new() };
        let body = body(&found, node, root, schemas, builder);
        let security = openapi::requirements(node, builder).or_else(|| all.cloned()).unwrap_or_default();
        let id =
            node.given("operationId").and_then(Node::text).map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
        builder.push(Draft {
            origin: Origin::Node(node),
            id,
            method,
            template: template.clone(),
            servers,
            params: found.params,
            body,
            security,
        });
    }
}

/// Reads `parameters` (Parameter Object); one that is there already is overridden.
fn parameters<'a>(
    parent: Node<'a>,
    found: &mut SwaggerParameters<'a>,
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
    for node in list.items() {
        let Some(node) = dereference(node, builder.report) else {
            continue;
        };
        let text = |key: &str| node.given(key).and_then(Node::text);
        let (Some(name), Some(place)) = (text("name"), text("in")) else {
            let why = if node.is_map() {
                "a parameter needs 'name' and 'in'".to_owned()
            } else {
                format!("a parameter is a mapping, but this is {}", node.what())
            };
            builder.report.error(node.diagnostic(Code::Invalid, why));
            continue;
        };
        let into = match place {
            "body" => {
                found.body = Some(node);
                continue;
            }
            "formData" => {
                found.form.insert(name, node);
                continue;
            }
            "path" => &mut found.params.path,
            "query" => &mut found.params.query,
            "header" => &mut found.params.header,
            other => {
                let why = format!(
                    "a parameter is in path, query, header, body or formData, not in '{}'",
                    crate::tree::parse::short(other)
                );
                builder.report.error(node.diagnostic(Code::Invalid, why));
                continue;
            }
        };
        if place == "header" && (name.eq_ignore_ascii_case("accept") || name.eq_ignore_ascii_case("content-type")) {
            let text = format!("the header '{name}' follows from media types; the parameter is passed over");
            builder.report.warn(node.diagnostic(Code::PassedOver, text));
            continue;
        }
        let parameter = field(node, name, place, schemas, builder);
        into.insert(name.to_owned(), parameter);
    }
}

/// A parameter that is not the body: its keywords are a schema's, at the same level.
fn field<'a>(
    node: Node<'a>,
    name: &str,
    place: &str,
    schemas: &JsonSchemas<'a>,
    builder: &mut Builder<'a, '_>,
) -> Parameter {
    let required = node.get("required").and_then(Node::bool) == Some(true);
    if node.given("type").is_none() && node.given("schema").is_none() {
        builder.report.warn(
            node.diagnostic(Code::Assumed, format!("the parameter '{name}' has no type; it is taken to be text")),
        );
        return Parameter { required, ..Parameter::of(Type::String) };
    }
    let schema = match node.given("schema") {
        Some(schema) if node.given("type").is_none() => schema, // as OpenAPI 3 has it; common by mistake
        _ => node,
    };
    let mut parameter = shape::parameter(schemas, &schema, required, builder.report);
    if parameter.kind == Type::Array {
        parameter.list = Some(match node.given("collectionFormat").and_then(Node::text) {
            Some("multi") => ListFormat::Multi,
            Some("ssv") => ListFormat::Ssv,
            Some("pipes") => ListFormat::Pipes,
            None | Some("csv") => ListFormat::Csv,
            Some(other) => {
                let text = format!(
                    "the collectionFormat '{}' of '{name}' in the {place} is not in the model; commas are assumed",
                    crate::tree::parse::short(other)
                );
                builder.report.warn(node.diagnostic(Code::PassedOver, text));
                ListFormat::Csv
            }
        });
    }
    parameter.multi_segment = place == "path" && node.get("x-multi-segment").and_then(Node::bool) == Some(true);
    parameter
}

/// The request body: the body parameter, or the form.
fn body<'a>(
    found: &SwaggerParameters<'a>,
    operation: Node<'a>,
    root: Node<'a>,
    schemas: &JsonSchemas<'a>,
    builder: &mut Builder<'a, '_>,
) -> Option<Body> {
    let consumes = operation.given("consumes").or_else(|| root.given("consumes"));
    let types: Vec<&str> = consumes.into_iter().flat_map(Node::items).filter_map(Node::text).collect();
    if let Some(node) = found.body {
        if !found.form.is_empty() {
            let text = "an operation has either a body or form fields; the form fields are passed over";
            builder.report.warn(operation.diagnostic(Code::PassedOver, text));
        }
        let chosen = build::preferred(&types).unwrap_or("application/json");
        let other_media_types = types.iter().filter(|t| **t != chosen).map(|t| (*t).to_owned()).collect();
        let required = node.get("required").and_then(Node::bool) == Some(true);
        let mut body = Body { media_type: chosen.to_owned(), other_media_types, required, ..Body::default() };
        let given = node
            .get("x-example")
            .or_else(|| example_by_type(node, chosen))
            .and_then(|n| schemas.json(n, builder.report));
        body.generated = node.get("x-example-generated").and_then(Node::bool) == Some(true);
        match node.given("schema") {
            Some(schema) => {
                let make = build::takes_instances(chosen);
                let read = shape::body(schemas, &schema, given, make, builder.limits.example_values, builder.report);
                (body.kind, body.params, body.example) = (read.kind, read.params, read.example);
                body.generated |= read.generated;
                if body.example.is_none() && !make && body.kind != Type::File {
                    builder.report.warn(node.diagnostic(
                        Code::Assumed,
                        format!("no example of {chosen} can be made; give the description one"),
                    ));
                }
            }
            None => {
                builder.report.error(node.diagnostic(Code::Invalid, "a parameter in the body needs a 'schema'"));
                body.example = given;
            }
        }
        return Some(body);
    }
    if found.form.is_empty() {
        return None;
    }
    let params: BTreeMap<String, Parameter> = found
        .form
        .iter()
        .map(|(name, node)| ((*name).to_owned(), field(*node, name, "form", schemas, builder)))
        .collect();
    let has_file = params.values().any(|p| p.kind == Type::File);
    let forms: Vec<&str> = types.iter().copied().filter(|t| build::is_form(t)).collect();
    let chosen = match forms.iter().find(|t| build::bare(t) == "multipart/form-data") {
        Some(multipart) if has_file => multipart,
        None if has_file => "multipart/form-data",
        _ => build::preferred(&forms).unwrap_or("application/x-www-form-urlencoded"),
    };
    let none_required = !params.values().any(|p| p.required);
    let sent = params.iter().filter(|(_, p)| p.required || (none_required && p.kind != Type::File));
    let example = sent.map(|(name, p)| (name.clone(), p.sample())).collect();
    Some(Body {
        media_type: chosen.to_owned(),
        other_media_types: forms.iter().filter(|t| **t != chosen).map(|t| (*t).to_owned()).collect(),
        required: params.values().any(|p| p.required),
        kind: Type::Object,
        params,
        example: Some(serde_json::Value::Object(example)),
        generated: true,
    })
}

/// `x-examples: {application/json: …}`, or the first entry of another form of it.
fn example_by_type<'a>(node: Node<'a>, media_type: &str) -> Option<Node<'a>> {
    let examples = node.given("x-examples")?;
    examples.get(media_type).or_else(|| examples.entries().next().map(|(_, n)| n))
}
