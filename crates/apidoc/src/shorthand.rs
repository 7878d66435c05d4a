//! The shorthand dialect: paths with methods, `servers`, `parameters`, `requestBody` and `security` as in OpenAPI, without
//! the `openapi` key, and with what people leave out: the paths may be the document itself, servers may be plain URLs,
//! parameters a mapping by name, a body a schema or a mapping of fields, security a name.
//!
//! ```yaml
//! servers: [http://127.0.0.1:14000]
//! /active/bid/{auctionID}:
//!   post:
//!     parameters: {auctionID: {in: path, type: integer}}
//!     requestBody: {value: number}
//!     security: bearer
//! ```

use crate::build::{Builder, Draft, Origin, Params};
use crate::diagnostic::Code;
use crate::jsonschema::{JsonSchemas, dereference};
use crate::model::{Api, Body, ListFormat, Method, Parameter, Security, Server, Type};
use crate::openapi;
use crate::records;
use crate::shape;
use crate::tree::Node;
use std::collections::BTreeMap;

/// Whether `root` is such a document.
pub(crate) fn is_shorthand(root: Node<'_>) -> bool {
    let has_paths = |n: Node<'_>| n.entries().any(|(key, item)| key.starts_with('/') && item.is_map());
    has_paths(root) || root.given("paths").is_some_and(|p| has_paths(p) || (p.is_map() && p.entries().len() == 0))
}

/// Reads the document whose root is `root`.
pub(crate) fn read<'a>(root: Node<'a>, mut builder: Builder<'a, '_>) -> Api {
    let schemas = JsonSchemas::new(builder.limits.example_values);
    let info = root.given("info").unwrap_or(root);
    let text = |key: &str| info.given(key).and_then(Node::text).unwrap_or("").trim().to_owned();
    (builder.api.title, builder.api.version) = (text("title"), text("version"));
    builder.api.servers = openapi::servers(root, builder.report);
    let defined =
        root.given("securitySchemes").or_else(|| root.given("components").and_then(|c| c.given("securitySchemes")));
    builder.api.security_schemes = openapi::schemes(defined, builder.report);
    let all = openapi::loose_requirements(root, &mut builder);
    for (path, item) in root.entries().chain(root.given("paths").into_iter().flat_map(Node::entries)) {
        if path.starts_with('/') && !item.is_null() {
            path_item(path, item, &schemas, all.as_ref(), &mut builder);
        } else if !path.starts_with("x-")
            && ![
                "info",
                "title",
                "version",
                "description",
                "servers",
                "paths",
                "components",
                "securitySchemes",
                "security",
                "tags",
                "schemas",
                "definitions",
            ]
            .contains(&path)
        {
            let text = format!("the key '{}' is not known here and is passed over", crate::tree::parse::short(path));
            builder.report.warn(item.diagnostic(Code::PassedOver, text));
        }
    }
    builder.finish()
}

fn path_item<'a>(
    path: &str,
    item: Node<'a>,
    schemas: &JsonSchemas<'a>,
    all: Option<&Security>,
    builder: &mut Builder<'a, '_>,
) {
    if builder.is_full() {
        return;
    }
    if !item.is_map() {
        let text = format!("a path is a mapping of methods, but this is {}", item.what());
        builder.report.error(item.diagnostic(Code::Invalid, text));
        return;
    }
    let Some(template) = builder.template(path, &Origin::Node(item)) else {
        return;
    };
    let mut shared = Params::default();
    parameters(item, &template.names, &mut shared, schemas, builder);
    let shared_servers = openapi::servers(item, builder.report);
    let shared_security = openapi::loose_requirements(item, builder).or_else(|| all.cloned());
    for (key, node) in item.entries() {
        if matches!(key, "servers" | "parameters" | "security" | "summary" | "description") || key.starts_with("x-") {
            continue;
        }
        let Ok(method) = key.parse::<Method>() else {
            let text = format!("the key '{}' is no method and is passed over", crate::tree::parse::short(key));
            builder.report.warn(item.diagnostic_at_key(key, Code::PassedOver, text));
            continue;
        };
        if !node.is_map() && !node.is_null() {
            let text = format!("an operation is a mapping, but this is {}", node.what());
            builder.report.error(node.diagnostic(Code::Invalid, text));
            continue;
        }
        let known = [
            "operationId",
            "id",
            "servers",
            "parameters",
            "requestBody",
            "security",
            "summary",
            "description",
            "tags",
            "responses",
            "deprecated",
        ];
        openapi::unknown_keys(node, &known, builder);
        let mut params = shared.clone();
        parameters(node, &template.names, &mut params, schemas, builder);
        let own: Vec<Server> = openapi::servers(node, builder.report);
        let servers = if own.is_empty() { shared_servers.clone() } else { own };
        let security =
            openapi::loose_requirements(node, builder).or_else(|| shared_security.clone()).unwrap_or_default();
        let body = node
            .given("requestBody")
            .and_then(|b| dereference(b, builder.report))
            .and_then(|b| body(b, schemas, builder));
        let id = node.given("operationId").or_else(|| node.given("id")).and_then(Node::text).map(str::to_owned);
        builder.push(Draft {
            origin: Origin::Node(node),
            id,
            method,
            template: template.clone(),
            servers,
            params,
            body,
            security,
        });
    }
}

/// A list as in OpenAPI, or a mapping by name: a type's name, or the parameter with the schema's keywords at its own level.
/// Without `in` a name of the path's template is in the path, any other in the query.
fn parameters<'a>(
    parent: Node<'a>,
    names: &[String],
    params: &mut Params,
    schemas: &JsonSchemas<'a>,
    builder: &mut Builder<'a, '_>,
) {
    let Some(listed) = parent.given("parameters") else {
        return;
    };
    let by_name: Vec<(Option<&str>, Node<'a>)> = match listed.is_list() {
        true => listed.items().map(|n| (None, n)).collect(),
        false => listed.entries().map(|(name, n)| (Some(name), n)).collect(),
    };
    for (key, node) in by_name {
        let Some(node) = dereference(node, builder.report) else {
            continue;
        };
        let Some(name) = key.or_else(|| node.given("name").and_then(Node::text)) else {
            builder.report.error(node.diagnostic(Code::Invalid, "a parameter needs a 'name'"));
            continue;
        };
        let assumed = if names.iter().any(|n| n == name) { "path" } else { "query" };
        let place = node.given("in").and_then(Node::text).unwrap_or(assumed);
        let into = match place {
            "path" => &mut params.path,
            "query" => &mut params.query,
            "header" => &mut params.header,
            "cookie" => &mut params.cookie,
            other => {
                let text = format!(
                    "a parameter is in path, query, header or cookie, not in '{}'",
                    crate::tree::parse::short(other)
                );
                builder.report.error(node.diagnostic(Code::Invalid, text));
                continue;
            }
        };
        let mut parameter = field(node, schemas, builder);
        if parameter.kind == Type::Array && parameter.list.is_none() {
            parameter.list = Some(if place == "query" { ListFormat::Multi } else { ListFormat::Csv });
        }
        into.insert(name.to_owned(), parameter);
    }
}

/// A parameter or field: a type's name, a schema, or a mapping with `schema`.
fn field<'a>(node: Node<'a>, schemas: &JsonSchemas<'a>, builder: &mut Builder<'a, '_>) -> Parameter {
    if !node.is_map() {
        return records::type_named(node, builder.report);
    }
    let required = node.get("required").and_then(Node::bool) == Some(true);
    let schema = node.given("schema").unwrap_or(node);
    let mut parameter = if schema.is_map() {
        shape::parameter(schemas, &schema, required, builder.report)
    } else {
        records::type_named(schema, builder.report)
    };
    parameter.required = required;
    if parameter.kind == Type::Any {
        parameter.kind = Type::String;
    }
    if let Some(example) = openapi::given_example(node, schemas, builder.report) {
        parameter.example = Some(example);
    }
    parameter
}

/// A Request Body Object, a schema, or a mapping of fields.
fn body<'a>(node: Node<'a>, schemas: &JsonSchemas<'a>, builder: &mut Builder<'a, '_>) -> Option<Body> {
    if !node.is_map() {
        let text = format!("a request body is a mapping, but this is {}", node.what());
        builder.report.error(node.diagnostic(Code::Invalid, text));
        return None;
    }
    if node.given("content").is_some_and(|c| c.is_map() && c.entries().all(|(media, _)| media.contains('/'))) {
        return openapi::body(node, schemas, builder);
    }
    let required = node.get("required").and_then(Node::bool) != Some(false);
    let is_schema = ["properties", "$ref", "allOf", "oneOf", "anyOf"]
        .iter()
        .any(|key| node.given(key).is_some_and(|n| n.is_map() || n.is_list() || n.str().is_some()))
        || node.given("type").and_then(Node::str).is_some_and(|t| matches!(t, "object" | "array" | "string"));
    let media_type = "application/json".to_owned();
    if is_schema {
        let read = shape::body(schemas, &node, None, true, builder.limits.example_values, builder.report);
        let (kind, params, example, generated) = (read.kind, read.params, read.example, read.generated);
        return Some(Body { media_type, required, kind, params, example, generated, ..Body::default() });
    }
    let fields: BTreeMap<String, Parameter> = node
        .entries()
        .map(|(name, node)| {
            let mut parameter = field(node, schemas, builder);
            parameter.required |= !node.is_map() || node.get("required").is_none();
            (name.to_owned(), parameter)
        })
        .collect();
    Some(records::body_of(fields, required))
}
