//! API Blueprint, format 1A: groups, resources and actions, URI templates (RFC 6570), parameters, requests with headers,
//! bodies, schemas and attributes.
//!
//! Section names in comments are those of <https://apiblueprint.org/documentation/specification.html>. Blueprint has no
//! word for security: a request whose headers show `Authorization` is taken to need that.

mod lines;
mod mson;
mod payload;
mod signature;

use crate::build::{self, Builder, Draft, Origin, Params};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Api, ListFormat, Method, Parameter, Type};
use lines::{Item, Outline, Section};
use mson::Mson;
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};

/// What a heading declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heading<'t> {
    Group,
    DataStructures,
    /// A name, and a URI template.
    Resource(&'t str, &'t str),
    /// A name, a method, and a URI template of its own.
    Action(&'t str, &'t str, Option<&'t str>),
    Other(&'t str),
}

/// Tells what `title` declares ("Resource section", "Action section").
fn classify(title: &str) -> Heading<'_> {
    if title.strip_prefix("Group ").is_some() {
        return Heading::Group;
    }
    if title.eq_ignore_ascii_case("Data Structures") {
        return Heading::DataStructures;
    }
    let is_method = |word: &str| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase());
    let is_uri = |text: &str| text.starts_with('/') || text.starts_with("{/") || text.starts_with("{?");
    let declares = |text: &str| is_uri(text) || text.split_whitespace().next().is_some_and(is_method);
    let parts = |text| -> (&str, Option<&str>) {
        let text: &str = text;
        match text.split_once(char::is_whitespace) {
            Some((method, uri)) => (method, Some(uri.trim())),
            None => (text, None),
        }
    };
    // `Name [METHOD /uri]`; the template may hold brackets of its own, so the first that declares something counts
    for (open, _) in title.match_indices('[') {
        let Some(inside) = title[open + 1..].trim_end().strip_suffix(']').map(str::trim) else {
            break;
        };
        let name = title[..open].trim();
        if declares(inside) {
            if is_uri(inside) {
                return Heading::Resource(name, inside);
            }
            let (method, uri) = parts(inside);
            if uri.is_none_or(is_uri) {
                return Heading::Action(name, method, uri);
            }
        }
    }
    if is_uri(title) && !title.contains(char::is_whitespace) {
        return Heading::Resource("", title);
    }
    let (method, uri) = parts(title);
    if is_method(method) && (uri.is_some_and(is_uri) || (uri.is_none() && method.parse::<Method>().is_ok())) {
        return Heading::Action("", method, uri);
    }
    Heading::Other(title)
}

/// What an action takes over from its resource.
struct Resource<'t> {
    level: usize,
    uri: &'t str,
    parameters: Vec<Item<'t>>,
}

struct Reader<'t, 'r> {
    file: &'t str,
    builder: Builder<'t, 'r>,
    mson: Mson<'t>,
    /// Bodies of resource models by the resource's name ("Resource model section").
    models: HashMap<&'t str, Item<'t>>,
}

/// Reads the document `text`, called `file`.
pub(crate) fn read<'t>(file: &'t str, text: &'t str, builder: Builder<'t, '_>) -> Api {
    let mut outline = lines::outline(text);
    outline.sections = joined(outline.sections);
    let mut reader = Reader { file, builder, mson: Mson::new(file), models: HashMap::new() };
    reader.metadata(&outline);
    reader.data_structures(&outline.sections);
    reader.sections(&outline.sections);
    if reader.builder.api.operations.is_empty() && !reader.builder.report.has_errors() {
        let text = "the description has no actions: it describes no operations";
        reader.builder.report.warn(Diagnostic::whole(Code::PassedOver, file, text));
    }
    reader.builder.finish()
}

/// Headings that declare nothing, within a resource or action, are a part of its text: lists below them are its lists.
fn joined(sections: Vec<Section<'_>>) -> Vec<Section<'_>> {
    let mut out: Vec<Section<'_>> = Vec::with_capacity(sections.len());
    for section in sections {
        let owner = out.last_mut().filter(|last| {
            section.level > last.level
                && matches!(classify(section.title), Heading::Other(_))
                && matches!(classify(last.title), Heading::Resource(..) | Heading::Action(..))
        });
        match owner {
            Some(owner) => owner.items.extend(section.items),
            None => out.push(section),
        }
    }
    out
}

impl<'t> Reader<'t, '_> {
    fn fault(&self, code: Code, line: u32, text: impl Into<String>) -> Diagnostic {
        Diagnostic::at_line(code, self.file, line, None, text)
    }

    /// `HOST`, and what else the top says.
    fn metadata(&mut self, outline: &Outline<'t>) {
        for (key, value) in &outline.metadata {
            match key.to_ascii_uppercase().as_str() {
                "HOST" => {
                    let server = build::server(value, None, &Origin::Line(self.file, 1), self.builder.report);
                    self.builder.api.servers.push(server);
                }
                "VERSION" => self.builder.api.version = (*value).to_owned(),
                _ => {}
            }
        }
        let title = outline.sections.first().map(|s| (s.title, classify(s.title)));
        if let Some((title, Heading::Other(_))) = title {
            self.builder.api.title = title.to_owned();
        }
    }

    /// Named types and models first, as they may be used before they are declared.
    fn data_structures(&mut self, sections: &[Section<'t>]) {
        let mut inside: Option<usize> = None;
        for section in sections {
            match classify(section.title) {
                Heading::DataStructures => inside = Some(section.level),
                _ if inside.is_some_and(|level| section.level > level) => {
                    let mut item = Item::named(section.title, section.line);
                    item.items.clone_from(&section.items);
                    self.mson.define(section.title, item);
                }
                Heading::Resource(name, _) => {
                    inside = None;
                    for item in &section.items {
                        if item.is("Attributes") && !name.is_empty() {
                            let kind = signature::parse(item.text).kind().map(|k| format!("{name} ({k})"));
                            self.mson.define(kind.as_deref().unwrap_or(name), item.clone());
                        } else if item.is("Model") && !name.is_empty() {
                            self.models.insert(name, item.clone());
                        }
                    }
                }
                _ => inside = None,
            }
        }
    }

    fn sections(&mut self, sections: &[Section<'t>]) {
        let mut resource: Option<Resource<'t>> = None;
        let mut data: Option<usize> = None;
        for section in sections {
            if data.is_some_and(|level| section.level > level) {
                continue;
            }
            data = None;
            match classify(section.title) {
                Heading::DataStructures => data = Some(section.level),
                Heading::Group => resource = None,
                Heading::Resource(_, uri) => {
                    let parameters = section.items.iter().filter(|i| i.is("Parameters")).cloned().collect();
                    for item in &section.items {
                        self.unknown_item(item, &["Parameters", "Attributes", "Model", "Headers"]);
                    }
                    resource = Some(Resource { level: section.level, uri, parameters });
                }
                Heading::Action(name, method, uri) => {
                    // one with a URI of its own beside a resource is a resource itself, not one of its actions
                    if uri.is_some() && resource.as_ref().is_some_and(|r| section.level <= r.level) {
                        let parameters = section.items.iter().filter(|i| i.is("Parameters")).cloned().collect();
                        resource = uri.map(|uri| Resource { level: section.level, uri, parameters });
                    }
                    let uri = uri.or(resource.as_ref().map(|r| r.uri));
                    let Some(uri) = uri else {
                        let text = format!(
                            "the action {method} is in no resource: a heading with a URI template, such as '# Name [/path]', is missing above it"
                        );
                        let fault = self.fault(Code::Invalid, section.line, text);
                        self.builder.report.error(fault);
                        continue;
                    };
                    let shared = resource.as_ref().map(|r| r.parameters.as_slice()).unwrap_or_default();
                    self.action(name, method, uri, shared, section);
                }
                Heading::Other(_) => {}
            }
        }
    }

    /// A list in a resource or action that begins with a capital is most often a keyword with a typing error.
    fn unknown_item(&mut self, item: &Item<'t>, known: &[&str]) {
        let keyword =
            ["Parameter", "Attribute", "Header", "Request", "Response", "Model", "Body", "Schema", "Relation"];
        let first = item.text.split([' ', '(', ':']).next().unwrap_or("");
        if !known.iter().any(|k| item.is(k))
            && keyword.iter().any(|k| first.eq_ignore_ascii_case(k) || first.eq_ignore_ascii_case(&format!("{k}s")))
        {
            let fault =
                self.fault(Code::PassedOver, item.line, format!("'{first}' is not known here and is passed over"));
            self.builder.report.warn(fault);
        }
    }

    fn action(&mut self, name: &'t str, method: &'t str, uri: &'t str, shared: &[Item<'t>], section: &Section<'t>) {
        let origin = Origin::Line(self.file, section.line);
        let method = match method.parse::<Method>() {
            Ok(method) => method,
            Err(why) => {
                self.builder
                    .report
                    .warn(origin.diagnostic(Code::PassedOver, format!("{why}; the action is passed over")));
                return;
            }
        };
        let Some(template) = self.builder.template(uri, &origin) else {
            return;
        };
        for item in &section.items {
            self.unknown_item(item, &["Parameters", "Attributes", "Headers", "Request", "Response", "Relation"]);
        }
        let mut declared: BTreeMap<String, Parameter> = BTreeMap::new();
        let known = |name: &str| {
            let name = template.sent_as(name);
            template.names.iter().any(|n| n == name) || template.query.iter().any(|(n, _)| n == name)
        };
        // what the resource describes for its own template need not be in the action's
        let inherited = shared.iter().flat_map(|list| &list.items).map(parameter).filter(|(name, _)| known(name));
        let own = section.items.iter().filter(|i| i.is("Parameters")).flat_map(|list| &list.items).map(parameter);
        for (name, parameter) in inherited.chain(own) {
            declared.insert(template.sent_as(&name).to_owned(), parameter);
        }
        let mut params = Params::default();
        for (name, mut parameter) in declared {
            let query = template.query.iter().find(|(n, _)| *n == name);
            if let Some((_, exploded)) = query {
                if parameter.kind == Type::Array || *exploded {
                    parameter.kind = Type::Array;
                    parameter.list = Some(if *exploded { ListFormat::Multi } else { ListFormat::Csv });
                }
                params.query.insert(name, parameter);
            } else {
                if parameter.kind == Type::Array {
                    parameter.list = Some(ListFormat::Csv);
                }
                // one that the template lacks is reported by the builder
                params.path.insert(name, parameter);
            }
        }
        for (name, _) in template.query.iter().filter(|(name, _)| !params.query.contains_key(name)) {
            let text = format!("the variable '{name}' of the query is not described; it is taken to be optional text");
            self.builder.report.warn(origin.diagnostic(Code::Assumed, text));
        }
        let (body, header, security) = self.payload(section);
        params.header = header;
        let relation = section.items.iter().find(|i| i.is("Relation")).map(|i| i.after("Relation"));
        let id = [name, relation.unwrap_or("")].into_iter().find(|n| build::is_identifier(n)).map(str::to_owned);
        self.builder.push(Draft { origin, id, method, template, servers: Vec::new(), params, body, security });
    }
}

/// A URI parameter ("URI parameters section"), in its present form or the older one.
fn parameter(item: &Item<'_>) -> (String, Parameter) {
    let signature = signature::parse(item.text);
    let kind = signature.kind().unwrap_or("string");
    let inner = |text: &str| match text {
        "number" => Type::Number,
        "integer" => Type::Integer,
        "boolean" => Type::Boolean,
        _ => Type::String,
    };
    let (kind, items) = if let Some(rest) = kind.strip_prefix("array") {
        (Type::Array, Some(inner(rest.trim_matches(['[', ']']))))
    } else if let Some(rest) = kind.strip_prefix("enum") {
        (inner(rest.trim_matches(['[', ']'])), None)
    } else if kind == "object" {
        (Type::Object, None)
    } else {
        (inner(kind), None)
    };
    let value = |text: &str| typed(text, kind, items);
    let nested = |keyword: &str| {
        let item = item.items.iter().find(|i| i.is(keyword))?;
        let text = signature::unquote(item.after(keyword));
        (!text.is_empty()).then(|| value(&text))
    };
    let members = item.items.iter().filter(|i| i.is("Members") || i.is("Values")).flat_map(|i| &i.items);
    let values: Vec<Json> = members.map(|i| value(&signature::parse(i.text).name)).collect();
    let example =
        signature.value.clone().or_else(|| signature.quoted()).map(|v| value(&v)).or_else(|| nested("Sample"));
    let default = signature.default.as_deref().map(value).or_else(|| nested("Default"));
    let parameter =
        Parameter { required: !signature.has("optional"), example, default, values, items, ..Parameter::of(kind) };
    (signature.name, parameter)
}

/// Text as a value of a type.
fn typed(text: &str, kind: Type, items: Option<Type>) -> Json {
    match kind {
        Type::Number | Type::Integer => crate::tree::parse::number(text).map_or_else(|| text.into(), Json::Number),
        Type::Boolean => text.parse::<bool>().map_or_else(|_| text.into(), Json::Bool),
        Type::Array => {
            Json::Array(signature::split(text).iter().map(|t| typed(t, items.unwrap_or(Type::String), None)).collect())
        }
        _ => text.into(),
    }
}
