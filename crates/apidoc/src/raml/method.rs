//! One method: parameters, body, servers and security, through its traits and resource types.

use super::types::{TypeKey, required_by_name};
use super::view::{Layer, View};
use super::{DEEPEST, Parent, Reader, security, with_protocols};
use crate::build::{self, Draft, Origin, Params};
use crate::diagnostic::Code;
use crate::model::{Body, ListFormat, Method, Parameter, Security, Server, Type};
use crate::shape::{self, Schemas};
use crate::tree::Node;
use std::collections::BTreeMap;

/// Traits and resource types of one method, at most.
const MOST_LAYERS: usize = 200;

impl<'a> Reader<'a, '_> {
    /// Reads a method of `resource` and adds it.
    pub(super) fn method(&mut self, method: Method, resource: &View<'a>, here: &Parent<'a>) {
        let view = self.method_view(method, resource, &here.path);
        let node = view.node();
        if !view.is_map() && !view.is_null() {
            let text = format!("a method is a mapping, but this is {}", view.what());
            self.builder.report.error(view.diagnostic(Code::Invalid, text));
            return;
        }
        let known = [
            "displayName",
            "description",
            "queryParameters",
            "headers",
            "queryString",
            "responses",
            "body",
            "protocols",
            "is",
            "securedBy",
        ];
        for (key, value) in view.entries() {
            let of_trait = key == "usage" && view.layers.len() > 1;
            if !(of_trait || known.contains(&&*key) || key.starts_with('(')) {
                let text =
                    format!("the key '{}' is not known here and is passed over", crate::tree::parse::short(&key));
                self.builder.report.warn(value.diagnostic(Code::PassedOver, text));
            }
        }
        let origin = Origin::Node(node);
        let Some(template) = self.builder.template(&here.path, &origin) else {
            return;
        };
        let mut params = Params::default();
        for declared in &here.uri_parameters {
            self.parameters(declared, &mut params.path, ListFormat::Csv);
        }
        if let Some(declared) = view.given("queryParameters") {
            self.parameters(&declared, &mut params.query, ListFormat::Multi);
        }
        if let Some(declared) = view.given("queryString") {
            self.query_string(declared, &mut params.query);
        }
        if let Some(declared) = view.given("headers") {
            self.parameters(&declared, &mut params.header, ListFormat::Csv);
            params
                .header
                .retain(|name, _| !name.eq_ignore_ascii_case("accept") && !name.eq_ignore_ascii_case("content-type"));
        }
        let body = view.get("body").and_then(|body| self.body(&body));
        let servers = self.servers(&view);
        let security = self.security(&view, resource);
        let named = |key: &str| view.given(key).and_then(|v| v.text()).map(|t| t.trim().to_owned());
        let id = named("(operationId)").or_else(|| named("displayName").filter(|name| build::is_identifier(name)));
        self.builder.push(Draft { origin, id, method, template, servers, params, body, security });
    }

    /// The method over its own traits, over the resource types' method, over the resource's traits.
    fn method_view(&mut self, method: Method, resource: &View<'a>, path: &str) -> View<'a> {
        let mut layers: Vec<Layer<'a>> = Vec::new();
        let own = resource.get(method.lower()).map(|v| v.layers).unwrap_or_default();
        for layer in own {
            layers.push(layer.clone());
            self.traits(&View { layers: vec![layer] }, method, path, &mut layers, 0);
        }
        for layer in &resource.layers {
            self.traits(&View { layers: vec![layer.clone()] }, method, path, &mut layers, 0);
        }
        View { layers }
    }

    fn traits(&mut self, holder: &View<'a>, method: Method, path: &str, layers: &mut Vec<Layer<'a>>, depth: usize) {
        let Some(applied) = holder.given("is") else {
            return;
        };
        let listed = if applied.is_list() { applied.items() } else { vec![applied] };
        for one in listed {
            let Some(layer) = self.apply(&one, "traits", path, Some(method)) else {
                continue;
            };
            if layers.iter().any(|l| l.node == layer.node) {
                continue; // applied nearer already
            }
            if depth >= DEEPEST || layers.len() >= MOST_LAYERS {
                self.builder
                    .report
                    .error(one.diagnostic(Code::BadReference, "too many traits apply, or apply each other too deeply"));
                return;
            }
            layers.push(layer.clone());
            self.traits(&View { layers: vec![layer] }, method, path, layers, depth + 1);
        }
    }

    /// Declarations by name, into `into`; nearer ones come later and win.
    fn parameters(&mut self, declared: &View<'a>, into: &mut BTreeMap<String, Parameter>, list: ListFormat) {
        if !declared.is_map() {
            let text = format!("parameters are a mapping by name, but this is {}", declared.what());
            self.builder.report.error(declared.diagnostic(Code::Invalid, text));
            return;
        }
        for (name, view) in declared.entries() {
            let (name, required) = required_by_name(&name, &view);
            let key = TypeKey::Declared(view.clone(), "string");
            let mut parameter = shape::parameter(&self.types, &key, required, self.builder.report);
            if parameter.kind == Type::Array {
                parameter.list = Some(match view.given("(listFormat)").and_then(|f| f.text()).as_deref() {
                    Some("multi") => ListFormat::Multi,
                    Some("csv") => ListFormat::Csv,
                    Some("ssv") => ListFormat::Ssv,
                    Some("pipes") => ListFormat::Pipes,
                    _ => list,
                });
            }
            into.insert(name, parameter);
        }
    }

    /// `queryString`: the properties of an object are parameters ("The Query String as a Whole").
    fn query_string(&mut self, declared: View<'a>, into: &mut BTreeMap<String, Parameter>) {
        let node = declared.node();
        let shape = self.types.shape(&TypeKey::Declared(declared, "any"), self.builder.report);
        if shape.properties.is_empty() {
            self.builder
                .report
                .warn(node.diagnostic(Code::PassedOver, "a query string that is not an object is passed over"));
        }
        for property in &shape.properties {
            if let Some(key) = &property.schema {
                let mut parameter = shape::parameter(&self.types, key, property.required, self.builder.report);
                parameter.list = (parameter.kind == Type::Array).then_some(ListFormat::Multi);
                into.insert(property.name.clone(), parameter);
            }
        }
    }

    /// A body: by media type, or a type alone for the default media types ("Bodies").
    fn body(&mut self, body: &View<'a>) -> Option<Body> {
        let by_type: Vec<(String, View<'a>)> = match body.is_map() {
            true => body
                .entries()
                .into_iter()
                .filter(|(key, _)| key.contains('/') && !key.starts_with('('))
                .map(|(key, v)| (key.into_owned(), v))
                .collect(),
            false => Vec::new(),
        };
        let (chosen, others, declared) = if by_type.is_empty() {
            if body.is_null() && self.media_types.is_empty() {
                return None;
            }
            let types: Vec<&str> = self.media_types.iter().map(String::as_str).collect();
            let chosen = build::preferred(&types).map(str::to_owned).unwrap_or_else(|| {
                let text = "neither the body nor the document says a media type; application/json is assumed";
                self.builder.report.warn(body.diagnostic(Code::Assumed, text));
                "application/json".to_owned()
            });
            (chosen, self.media_types.clone(), body.clone())
        } else {
            let types: Vec<&str> = by_type.iter().map(|(media, _)| media.as_str()).collect();
            let chosen = build::preferred(&types)?.to_owned();
            let declared = by_type.iter().find(|(media, _)| *media == chosen)?.1.clone();
            (chosen, by_type.into_iter().map(|(media, _)| media).collect(), declared)
        };
        let other_media_types = others.into_iter().filter(|media| *media != chosen).collect();
        let make = build::takes_instances(&chosen);
        let node = declared.node();
        let flag = |key: &str| {
            [&declared, body].iter().find_map(|v| v.is_map().then(|| v.given(key)).flatten()).and_then(|f| f.bool())
        };
        let (required, generated) = (flag("(bodyRequired)").unwrap_or(true), flag("(generated)") == Some(true));
        let key = TypeKey::Declared(declared.clone(), "any");
        let read = shape::body(&self.types, &key, None, make, self.builder.limits.example_values, self.builder.report);
        let mut body = Body {
            media_type: chosen,
            other_media_types,
            required,
            kind: read.kind,
            params: read.params,
            example: read.example,
            generated: read.generated || generated,
        };
        if build::is_form(&body.media_type) {
            let formats = declared.given("properties");
            for (name, field) in body.params.iter_mut().filter(|(_, p)| p.kind == Type::Array) {
                let said = formats
                    .as_ref()
                    .and_then(|f| f.given(name))
                    .and_then(|f| f.given("(listFormat)"))
                    .and_then(|f| f.text());
                field.list = Some(match said.as_deref() {
                    Some("csv") => ListFormat::Csv,
                    Some("ssv") => ListFormat::Ssv,
                    Some("pipes") => ListFormat::Pipes,
                    _ => ListFormat::Multi,
                });
            }
        }
        if body.example.is_none() && !make && body.kind != Type::File {
            let text = format!("no example of {} can be made; give the description one", body.media_type);
            self.builder.report.warn(node.diagnostic(Code::Assumed, text));
        }
        Some(body)
    }

    /// Servers of the method alone: its protocols, or our annotation.
    fn servers(&mut self, view: &View<'a>) -> Vec<Server> {
        if let Some(listed) = view.given("(servers)") {
            return super::annotated_servers(listed.node(), &mut self.builder);
        }
        let Some(protocols) = view.given("protocols") else {
            return Vec::new();
        };
        match self.builder.api.servers.first().cloned() {
            Some(server) => with_protocols(&server, Some(protocols.node()), &mut self.builder),
            None => Vec::new(),
        }
    }

    /// `securedBy` of the method, the resource or the document: the nearest counts ("Applying Security Schemes").
    fn security(&mut self, view: &View<'a>, resource: &View<'a>) -> Security {
        let root = self.root.given("securedBy").map(View::of);
        let Some(secured) = view.given("securedBy").or_else(|| resource.given("securedBy")).or(root) else {
            return Security::NONE;
        };
        let mut alternatives = Vec::new();
        let listed = if secured.is_list() { secured.items() } else { vec![secured] };
        for one in listed {
            alternatives.push(self.requirement(&one).unwrap_or_default());
        }
        Security(alternatives).normalised()
    }

    fn requirement(&mut self, one: &View<'a>) -> Option<BTreeMap<String, Vec<String>>> {
        if one.is_null() {
            return Some(BTreeMap::new());
        }
        let named: Vec<(String, Vec<String>)> = match one.text() {
            Some(name) => vec![(name.into_owned(), Vec::new())],
            None => one
                .entries()
                .into_iter()
                .map(|(name, with)| {
                    let scopes = with.given("scopes").map(|s| s.items()).unwrap_or_default();
                    (name.into_owned(), scopes.iter().filter_map(|s| s.text()).map(|s| s.into_owned()).collect())
                })
                .collect(),
        };
        let mut requirement = BTreeMap::new();
        for (name, scopes) in named {
            if !self.builder.api.security_schemes.contains_key(&name) {
                match self.types.scope.find(&["securitySchemes"], &name, one.node()) {
                    Ok(node) => {
                        let scheme = security::scheme(&name, node, self.builder.report);
                        self.builder.api.security_schemes.insert(name.clone(), scheme);
                    }
                    Err((code, why)) => {
                        self.builder.report.error(one.diagnostic(code, why));
                        continue;
                    }
                }
            }
            requirement.insert(name, scopes);
        }
        Some(requirement)
    }

    /// Schemes that are declared and not used belong to the model too.
    pub(super) fn declared_schemes(&mut self) {
        let Some(section) = self.root.given("securitySchemes") else {
            return;
        };
        let listed: Vec<(&'a str, Node<'a>)> =
            section.entries().chain(section.items().flat_map(Node::entries)).collect();
        for (name, node) in listed {
            if !self.builder.api.security_schemes.contains_key(name) {
                let scheme = security::scheme(name, node, self.builder.report);
                self.builder.api.security_schemes.insert(name.to_owned(), scheme);
            }
        }
    }
}
