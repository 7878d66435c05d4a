//! OpenAPI 3.0 and 3.1 (and what is the same in 3.2): the specification's objects, one function each.
//!
//! Section names in comments are those of <https://spec.openapis.org/oas/v3.1.1.html>.

mod parts;
mod security;
pub(crate) mod write;

pub(crate) use parts::{body, given_example, parameters, servers};
pub(crate) use security::{loose_requirements, requirements, schemes};

use crate::build::{Builder, Draft, Origin, Params};
use crate::diagnostic::Code;
use crate::jsonschema::{JsonSchemas, dereference};
use crate::model::{Api, Method, Server};
use crate::tree::Node;

/// A path item and what its `$ref` leads to; earlier ones win.
type Layers<'a> = Vec<Node<'a>>;

/// Reads the document whose root is `root` (OpenAPI Object).
pub(crate) fn read<'a>(root: Node<'a>, mut builder: Builder<'a, '_>) -> Api {
    let schemas = JsonSchemas::new(builder.limits.example_values);
    let known = [
        "openapi",
        "info",
        "servers",
        "paths",
        "webhooks",
        "components",
        "security",
        "tags",
        "externalDocs",
        "jsonSchemaDialect",
        "$self",
    ];
    unknown_keys(root, &known, &mut builder);
    info(root, &mut builder);
    if let Some(webhooks) = root.given("webhooks").filter(|w| w.entries().len() > 0) {
        builder.report.warn(webhooks.diagnostic(
            Code::PassedOver,
            "webhooks are calls that the API makes, not operations of it; they are passed over",
        ));
    }
    builder.api.servers = servers(root, builder.report);
    let components = root.given("components");
    let defined = components.and_then(|c| c.given("securitySchemes"));
    builder.api.security_schemes = schemes(defined, builder.report);
    let all = requirements(root, &mut builder);
    match root.given("paths") {
        Some(paths) if paths.is_map() => {
            for (path, item) in paths.entries() {
                if path.starts_with("x-") {
                    continue;
                }
                path_item(path, item, &schemas, all.as_ref(), &mut builder);
            }
        }
        Some(other) => {
            let text = format!("'paths' is a mapping of paths, but this is {}", other.what());
            builder.report.error(other.diagnostic(Code::Invalid, text));
        }
        None if root.get("webhooks").is_some() || components.is_some() => {
            builder
                .report
                .warn(root.diagnostic(Code::PassedOver, "the description has no paths: it describes no operations"));
        }
        None => builder.report.error(root.diagnostic(Code::Invalid, "'paths' is missing")),
    }
    builder.finish()
}

/// Title and version (Info Object).
pub(crate) fn info(root: Node<'_>, builder: &mut Builder<'_, '_>) {
    let info = root.given("info");
    for key in ["title", "version"] {
        let value = info.and_then(|i| i.given(key));
        match value.map(|v| (v, v.text())) {
            Some((_, Some(text))) => {
                let field = if key == "title" { &mut builder.api.title } else { &mut builder.api.version };
                *field = text.trim().to_owned();
            }
            Some((node, None)) => {
                let text = format!("'{key}' is text, but this is {}", node.what());
                builder.report.error(node.diagnostic(Code::Invalid, text));
            }
            None => {
                let text = format!("'info.{key}' is missing; it is left empty");
                builder.report.warn(info.unwrap_or(root).diagnostic(Code::Assumed, text));
            }
        }
    }
}

/// Warns of keys that are neither known nor extensions: most often a typing error.
pub(crate) fn unknown_keys(node: Node<'_>, known: &[&str], builder: &mut Builder<'_, '_>) {
    for (key, _) in node.entries() {
        if !known.contains(&key) && !key.starts_with("x-") {
            let text = format!("the key '{}' is not known here and is passed over", crate::tree::parse::short(key));
            builder.report.warn(node.diagnostic_at_key(key, Code::PassedOver, text));
        }
    }
}

/// One path with its methods (Path Item Object).
pub(crate) fn path_item<'a>(
    path: &str,
    item: Node<'a>,
    schemas: &JsonSchemas<'a>,
    all: Option<&crate::model::Security>,
    builder: &mut Builder<'a, '_>,
) {
    if item.is_null() || builder.is_full() {
        return;
    }
    let mut layers: Layers<'a> = vec![item];
    while let Some(reference) = layers.last().and_then(|l| l.given("$ref")) {
        match crate::jsonschema::follow(reference, builder.report) {
            Some(target) if layers.contains(&target) => {
                builder.report.error(reference.diagnostic(Code::BadReference, "the references lead in a circle"));
                return;
            }
            Some(target) => layers.push(target),
            None => return,
        }
    }
    if let Some(wrong) = layers.iter().find(|l| !l.is_map()) {
        let text = format!("a path item is a mapping of methods, but this is {}", wrong.what());
        builder.report.error(wrong.diagnostic(Code::Invalid, text));
        return;
    }
    let origin = Origin::Node(item);
    let Some(template) = builder.template(path, &origin) else {
        return;
    };
    let own_servers: Vec<Server> =
        layers.iter().find(|l| l.given("servers").is_some()).map(|l| servers(*l, builder.report)).unwrap_or_default();
    let mut shared = Params::default();
    for layer in layers.iter().rev() {
        parameters(*layer, &mut shared, schemas, builder);
    }
    let mut done: Vec<Method> = Vec::new();
    for layer in &layers {
        for (key, operation) in layer.entries() {
            match key {
                "$ref" | "summary" | "description" | "servers" | "parameters" | "query" | "additionalOperations" => {
                    if matches!(key, "query" | "additionalOperations") {
                        let text = format!(
                            "'{key}' of OpenAPI 3.2 is passed over: only the methods of RFC 9110 and PATCH are read"
                        );
                        builder.report.warn(operation.diagnostic(Code::PassedOver, text));
                    }
                }
                key if key.starts_with("x-") => {}
                key => match key.parse::<Method>() {
                    Ok(_) if operation.is_null() => {}
                    Ok(method) if layer.get(method.lower()).is_some() && key != method.lower() => {
                        let text = format!("'{key}' is passed over: the path has '{}' too", method.lower());
                        builder.report.warn(layer.diagnostic_at_key(key, Code::PassedOver, text));
                    }
                    Ok(method) if done.contains(&method) => {}
                    Ok(method) => {
                        if key != method.lower() {
                            let text = format!("'{key}' should be written '{}'; it is read as such", method.lower());
                            builder.report.warn(layer.diagnostic_at_key(key, Code::Assumed, text));
                        }
                        done.push(method);
                        let context = Context { template: &template, shared: &shared, servers: &own_servers, all };
                        read_operation(method, operation, &context, schemas, builder);
                    }
                    Err(_) => {
                        let text =
                            format!("the key '{}' is no method and is passed over", crate::tree::parse::short(key));
                        builder.report.warn(layer.diagnostic_at_key(key, Code::PassedOver, text));
                    }
                },
            }
        }
    }
}

/// What an operation takes over from its path and the document.
struct Context<'c> {
    template: &'c crate::template::Template,
    shared: &'c Params,
    servers: &'c [Server],
    all: Option<&'c crate::model::Security>,
}

/// One method (Operation Object).
fn read_operation<'a>(
    method: Method,
    operation: Node<'a>,
    context: &Context<'_>,
    schemas: &JsonSchemas<'a>,
    builder: &mut Builder<'a, '_>,
) {
    if !operation.is_map() {
        let text = format!("an operation is a mapping, but this is {}", operation.what());
        builder.report.error(operation.diagnostic(Code::Invalid, text));
        return;
    }
    let known = [
        "tags",
        "summary",
        "description",
        "externalDocs",
        "operationId",
        "parameters",
        "requestBody",
        "responses",
        "callbacks",
        "deprecated",
        "security",
        "servers",
    ];
    unknown_keys(operation, &known, builder);
    if let Some(callbacks) = operation.given("callbacks").filter(|c| c.entries().len() > 0) {
        builder.report.warn(
            callbacks.diagnostic(Code::PassedOver, "callbacks are calls that the API makes; they are passed over"),
        );
    }
    let mut params = context.shared.clone();
    parameters(operation, &mut params, schemas, builder);
    let body = operation
        .given("requestBody")
        .and_then(|b| dereference(b, builder.report))
        .and_then(|b| body(b, schemas, builder));
    let servers = match operation.given("servers") {
        Some(_) => servers(operation, builder.report),
        None => context.servers.to_vec(),
    };
    let security = requirements(operation, builder).or_else(|| context.all.cloned()).unwrap_or_default();
    let id =
        operation.given("operationId").and_then(Node::text).map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
    builder.push(Draft {
        origin: Origin::Node(operation),
        id,
        method,
        template: context.template.clone(),
        servers,
        params,
        body,
        security,
    });
}
