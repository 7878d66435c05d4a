//! RAML 1.0: resources and methods with their resource types and traits, types, security and libraries.
//!
//! Section names in comments are those of <https://github.com/raml-org/raml-spec/blob/master/versions/raml-10/raml-10.md>.
//! Not read, because they describe no request: responses, documentation, annotations of others. Overlays and extensions
//! are refused, not misread.

mod method;
mod scope;
mod security;
mod types;
mod view;
mod words;
pub(crate) mod write;

use crate::build::{self, Builder, Origin};
use crate::diagnostic::Code;
use crate::model::{Api, Method, Server};
use crate::tree::Node;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::Types;
use view::{Arg, Args, Layer, View};

/// Resource types and traits that apply each other, at most.
const DEEPEST: usize = 20;

/// Reads the document whose root is `root`.
pub(crate) fn read<'a>(root: Node<'a>, mut builder: Builder<'a, '_>) -> Api {
    if !root.is_map() {
        let text = format!("a RAML document is a mapping, but this is {}", root.what());
        builder.report.error(root.diagnostic(Code::Invalid, text));
        return builder.finish();
    }
    for (key, _) in root.entries() {
        let known = [
            "title",
            "description",
            "version",
            "baseUri",
            "baseUriParameters",
            "protocols",
            "mediaType",
            "documentation",
            "types",
            "schemas",
            "traits",
            "resourceTypes",
            "annotationTypes",
            "securitySchemes",
            "securedBy",
            "uses",
        ];
        if !known.contains(&key) && !key.starts_with(['/', '(']) {
            let text = format!("the key '{}' is not known here and is passed over", crate::tree::parse::short(key));
            builder.report.warn(root.diagnostic_at_key(key, Code::PassedOver, text));
        }
    }
    let text = |key: &str| root.given(key).and_then(Node::text).unwrap_or("").trim().to_owned();
    (builder.api.title, builder.api.version) = (text("title"), text("version"));
    if builder.api.title.is_empty() {
        builder.report.warn(root.diagnostic(Code::Assumed, "'title' is missing; it is left empty"));
    }
    builder.api.servers = servers(root, &mut builder);
    let mut reader = Reader {
        root,
        types: Types::new(root, builder.limits.example_values),
        builder,
        media_types: media_types(root),
    };
    for (key, node) in root.entries().filter(|(key, _)| key.starts_with('/')) {
        reader.resource(key, node, None, 0);
    }
    reader.declared_schemes();
    reader.builder.finish()
}

/// Default media types.
fn media_types(root: Node<'_>) -> Vec<String> {
    let node = root.given("mediaType");
    let listed = node.into_iter().flat_map(Node::items).filter_map(Node::text);
    node.and_then(Node::text).into_iter().chain(listed).map(str::to_owned).collect()
}

/// The servers that `baseUri` and `protocols` make ("Base URI and Base URI Parameters"), or those of our annotation.
fn servers(root: Node<'_>, builder: &mut Builder<'_, '_>) -> Vec<Server> {
    if let Some(listed) = root.given("(servers)") {
        return annotated_servers(listed, builder);
    }
    let Some(base) = root.given("baseUri") else {
        return Vec::new();
    };
    let value = base.given("value").unwrap_or(base); // a scalar may carry annotations
    let Some(url) = value.text() else {
        builder.report.error(base.diagnostic(Code::Invalid, format!("'baseUri' is text, but this is {}", base.what())));
        return Vec::new();
    };
    let version = root.given("version").and_then(Node::text);
    let parameters = root.given("baseUriParameters");
    let (url, open) = build::substitute(url, |name| {
        let declared = parameters.and_then(|p| p.given(name));
        let text = |key: &str| declared.and_then(|d| d.given(key)).and_then(Node::text);
        let first = || declared.and_then(|d| d.given("enum")).and_then(|e| e.items().next()).and_then(Node::text);
        text("default")
            .or_else(|| (name == "version").then_some(version).flatten())
            .or_else(first)
            .or_else(|| text("example"))
            .map(str::to_owned)
    });
    let origin = Origin::Node(base);
    for name in open {
        let text = format!("the base URI's parameter '{name}' has no default; it stays as it is written");
        builder.report.warn(origin.diagnostic(Code::Assumed, text));
    }
    let server = build::server(&url, None, &origin, builder.report);
    with_protocols(&server, root.given("protocols"), builder)
}

/// The server once per protocol, the one that its URL names first.
fn with_protocols(server: &Server, protocols: Option<Node<'_>>, builder: &mut Builder<'_, '_>) -> Vec<Server> {
    let Some(protocols) = protocols else {
        return vec![server.clone()];
    };
    let mut schemes: Vec<String> = Vec::new();
    for item in protocols.items() {
        match item.text().map(str::to_ascii_lowercase) {
            Some(scheme) if scheme == "http" || scheme == "https" => schemes.push(scheme),
            _ => builder
                .report
                .warn(item.diagnostic(Code::PassedOver, "a protocol is HTTP or HTTPS; this one is passed over")),
        }
    }
    let Some((own, rest)) = server.url.split_once("://") else {
        return vec![server.clone()];
    };
    schemes.sort_by_key(|scheme| scheme != own);
    if schemes.is_empty() {
        return vec![server.clone()];
    }
    schemes.iter().map(|scheme| Server { url: format!("{scheme}://{rest}"), description: None }).collect()
}

fn annotated_servers(listed: Node<'_>, builder: &mut Builder<'_, '_>) -> Vec<Server> {
    let mut found = Vec::new();
    for node in listed.items() {
        let url = node.str().or_else(|| node.given("url").and_then(Node::str)).unwrap_or("");
        found.push(build::server(
            url,
            node.given("description").and_then(Node::text),
            &Origin::Node(node),
            builder.report,
        ));
    }
    found
}

struct Reader<'a, 'r> {
    root: Node<'a>,
    types: Types<'a>,
    builder: Builder<'a, 'r>,
    media_types: Vec<String>,
}

/// A resource on the way to one that is read.
struct Parent<'a> {
    path: String,
    /// `uriParameters` of the resources above and of this one, the nearest last.
    uri_parameters: Vec<View<'a>>,
}

impl<'a> Reader<'a, '_> {
    /// A resource, its methods and the resources below.
    fn resource(&mut self, key: &str, node: Node<'a>, above: Option<&Parent<'a>>, depth: usize) {
        if !node.is_map() && !node.is_null() {
            let text = format!("a resource is a mapping, but this is {}", node.what());
            self.builder.report.error(node.diagnostic(Code::Invalid, text));
            return;
        }
        let path = format!("{}{key}", above.map_or("", |a| a.path.trim_end_matches('/')));
        let layers = self.resource_layers(node, &path);
        let resource = View { layers: layers.clone() };
        let mut uri_parameters = above.map(|a| a.uri_parameters.clone()).unwrap_or_default();
        uri_parameters.extend(resource.given("uriParameters"));
        let here = Parent { path, uri_parameters };
        self.unknown_keys(node);
        for method in self.methods(&resource) {
            if self.builder.is_full() {
                return;
            }
            self.method(method, &resource, &here);
        }
        if depth < 64 {
            for (key, child) in node.entries().filter(|(key, _)| key.starts_with('/')) {
                self.resource(key, child, Some(&here), depth + 1);
            }
        }
    }

    fn unknown_keys(&mut self, node: Node<'a>) {
        let known = ["displayName", "description", "is", "type", "securedBy", "uriParameters"];
        for (key, _) in node.entries() {
            if !known.contains(&key) && !key.starts_with(['/', '(']) && !is_method(key) {
                let text = format!("the key '{}' is not known here and is passed over", crate::tree::parse::short(key));
                self.builder.report.warn(node.diagnostic_at_key(key, Code::PassedOver, text));
            }
        }
    }

    /// The methods that the resource has, of its own or by its resource types.
    fn methods(&mut self, resource: &View<'a>) -> Vec<Method> {
        resource.entries().iter().filter(|(key, _)| is_method(key)).filter_map(|(key, _)| key.parse().ok()).collect()
    }

    /// The resource over its resource type, over that one's ("Declaring Resource Types and Traits").
    fn resource_layers(&mut self, node: Node<'a>, path: &str) -> Vec<Layer<'a>> {
        let mut layers = vec![Layer { node, args: None }];
        for _ in 0..DEEPEST {
            let last = View { layers: vec![layers[layers.len() - 1].clone()] };
            let Some(applied) = last.given("type") else {
                return layers;
            };
            let Some(layer) = self.apply(&applied, "resourceTypes", path, None) else {
                return layers;
            };
            if layers.iter().any(|l| l.node == layer.node) {
                let text = "the resource type leads back to itself";
                self.builder.report.error(applied.diagnostic(Code::BadReference, text));
                return layers;
            }
            layers.push(layer);
        }
        layers
    }

    /// The resource type or trait that `applied` names, with its arguments: `name` or `{name: {argument: value}}`.
    fn apply(&mut self, applied: &View<'a>, section: &str, path: &str, method: Option<Method>) -> Option<Layer<'a>> {
        let (name, given) = match applied.text() {
            Some(name) => (name.into_owned(), None),
            None => match applied.entries().into_iter().next() {
                Some((name, arguments)) => (name.into_owned(), Some(arguments)),
                None => {
                    let text = format!("one of the {section} is named here, but this is {}", applied.what());
                    self.builder.report.error(applied.diagnostic(Code::Invalid, text));
                    return None;
                }
            },
        };
        let node = match self.types.scope.find(&[section], name.trim(), applied.node()) {
            Ok(node) => node,
            Err((code, why)) => {
                self.builder.report.error(applied.diagnostic(code, why));
                return None;
            }
        };
        Some(Layer { node, args: Some(arguments(given.as_ref(), path, method)) })
    }
}

/// The arguments given and the reserved ones ("Resource Type and Trait Parameters").
fn arguments<'a>(given: Option<&View<'a>>, path: &str, method: Option<Method>) -> Args<'a> {
    let mut args = BTreeMap::new();
    for (name, value) in given.into_iter().flat_map(View::entries) {
        let arg = match value.text() {
            Some(text) => Arg::Text(text.into_owned()),
            None => Arg::Node(value.node()),
        };
        args.insert(name.into_owned(), arg);
    }
    let name = path.rsplit('/').find(|part| !part.is_empty() && !part.contains('{')).unwrap_or("");
    args.insert("resourcePath".to_owned(), Arg::Text(path.to_owned()));
    args.insert("resourcePathName".to_owned(), Arg::Text(name.to_owned()));
    if let Some(method) = method {
        args.insert("methodName".to_owned(), Arg::Text(method.lower().to_owned()));
    }
    Rc::new(args)
}

/// RAML has the methods of RFC 2616 and PATCH.
fn is_method(key: &str) -> bool {
    matches!(key, "get" | "head" | "post" | "put" | "patch" | "delete" | "options" | "trace")
}
