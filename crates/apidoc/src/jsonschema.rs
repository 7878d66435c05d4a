//! Shapes of JSON Schema in the dialects of OpenAPI 3.0, OpenAPI 3.1 (draft 2020-12), Swagger 2 and RAML's included
//! schemas (draft 4 and later). The dialects differ little in what matters here, so one reader takes all of them.

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::model::Type;
use crate::shape::{Property, Schemas, Shape};
use crate::tree::Node;
use serde_json::Value as Json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// JSON Schemas of a set of documents. A schema is computed once, however often it is referred to.
pub(crate) struct JsonSchemas<'a> {
    cache: RefCell<HashMap<Node<'a>, Rc<Shape<Node<'a>>>>>,
    open: RefCell<Vec<Node<'a>>>,
    /// Values in one example.
    limit: usize,
}

/// Levels of `$ref`, `allOf` and `oneOf` in each other.
const DEEPEST: usize = 60;

impl<'a> JsonSchemas<'a> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { cache: RefCell::default(), open: RefCell::default(), limit }
    }

    /// `node` as JSON, or a warning that it is too large.
    pub(crate) fn json(&self, node: Node<'a>, report: &mut Report) -> Option<Json> {
        let json = node.json(self.limit);
        if json.is_none() {
            report.warn(node.diagnostic(
                Code::PassedOver,
                format!("the value has more than {} parts and is passed over", self.limit),
            ));
        }
        json
    }

    fn compute(&self, node: Node<'a>, report: &mut Report) -> Shape<Node<'a>> {
        let mut shape = Shape::default();
        if node.bool().is_some() {
            return shape; // `true`: anything; `false`: nothing, of which there is no example either
        }
        if !node.is_map() {
            report.error(node.diagnostic(Code::Invalid, format!("a schema is a mapping, but this is {}", node.what())));
            return shape;
        }
        self.keywords(node, &mut shape, report);
        if let Some(reference) = node.given("$ref")
            && let Some(target) = follow(reference, report)
        {
            shape.and(&self.shape(&target, report));
        }
        if let Some(reference) = node.given("$dynamicRef") {
            report.warn(
                reference
                    .diagnostic(Code::PassedOver, "$dynamicRef is passed over: the schema is taken to allow anything"),
            );
        }
        let discriminator = node.get("discriminator");
        for part in node.get("allOf").into_iter().flat_map(Node::items) {
            let shaped = self.shape(&part, report);
            shape.and(&shaped);
            if let Some((property, value)) = self.child_of(node, part) {
                shape.fixed.retain(|(name, _)| *name != property);
                shape.fixed.push((property, Json::String(value)));
            }
        }
        let branches = node.given("oneOf").or_else(|| node.given("anyOf"));
        if let Some(branch) = branches.and_then(|b| self.branch(b, &mut shape)) {
            let shaped = self.shape(&branch, report);
            shape.and(&shaped);
            if let Some(discriminator) = discriminator
                && let Some((property, value)) = discriminated(discriminator, branch)
            {
                shape.fixed.retain(|(name, _)| *name != property);
                shape.fixed.push((property, Json::String(value)));
            }
        } else if let Some((property, value)) = discriminator.and_then(|d| discriminated(d, node))
            && !shape.fixed.iter().any(|(name, _)| *name == property)
        {
            shape.fixed.push((property, Json::String(value)));
        }
        shape
    }

    /// Keywords of this level alone.
    fn keywords(&self, node: Node<'a>, shape: &mut Shape<Node<'a>>, report: &mut Report) {
        let text = |key: &str| node.get(key).and_then(Node::str).map(str::to_owned);
        let flag = |key: &str| node.get(key).and_then(Node::bool) == Some(true);
        shape.nullable = flag("nullable") || flag("x-nullable");
        shape.read_only = flag("readOnly");
        shape.format = text("format");
        shape.constant = node.get("const").and_then(|n| self.json(n, report));
        if let Some(kind) = node.given("type") {
            self.kind(kind, shape, report);
        }
        if shape.kind == Type::String && shape.format.as_deref() == Some("binary") {
            (shape.kind, shape.format) = (Type::File, None);
        }
        if shape.kind == Type::String && shape.format.is_none() && text("contentEncoding").as_deref() == Some("base64")
        {
            shape.format = Some("byte".to_owned());
        }
        let example = node
            .get("example")
            .or_else(|| node.get("x-example"))
            .or_else(|| node.get("examples").and_then(|e| e.items().next()));
        shape.example = example.filter(|n| !n.is_null()).and_then(|n| self.json(n, report));
        shape.default = node.given("default").and_then(|n| self.json(n, report));
        shape.values =
            node.get("enum").into_iter().flat_map(Node::items).filter_map(|n| self.json(n, report)).collect();
        (shape.min, shape.exclusive_min) = bound(node, "minimum", "exclusiveMinimum");
        (shape.max, shape.exclusive_max) = bound(node, "maximum", "exclusiveMaximum");
        shape.multiple_of = node.get("multipleOf").and_then(Node::number);
        let count = |key: &str| node.get(key).and_then(Node::u64);
        let list = shape.kind == Type::Array;
        shape.min_length = count(if list { "minItems" } else { "minLength" });
        shape.max_length = count(if list { "maxItems" } else { "maxLength" });
        shape.min_properties = count("minProperties").unwrap_or(0);
        shape.pattern = text("pattern");
        shape.unique = flag("uniqueItems");
        match node.given("items") {
            Some(items) if items.is_list() => shape.prefix_items = items.items().collect(), // draft 4
            items => shape.items = items,
        }
        if let Some(prefix) = node.get("prefixItems") {
            shape.prefix_items = prefix.items().collect();
        }
        shape.additional = node.get("additionalProperties").filter(|n| n.is_map());
        let required: Vec<&str> =
            node.get("required").into_iter().flat_map(Node::items).filter_map(Node::text).collect();
        let wanted: std::collections::HashSet<&str> = required.iter().copied().collect();
        for (name, schema) in node.get("properties").into_iter().flat_map(Node::entries) {
            // draft 3, still seen in the field: `required: true` in the property itself
            let own = schema.get("required").and_then(Node::bool) == Some(true);
            shape.properties.push(Property {
                name: name.to_owned(),
                required: own || wanted.contains(name),
                schema: Some(schema),
            });
        }
        let known: std::collections::HashSet<String> = shape.properties.iter().map(|p| p.name.clone()).collect();
        for name in required {
            if !known.contains(name) && !shape.properties.iter().any(|p| p.name == name) {
                shape.properties.push(Property { name: name.to_owned(), required: true, schema: None });
            }
        }
        if shape.kind == Type::Any {
            shape.kind = implied(shape);
        }
    }

    fn kind(&self, node: Node<'a>, shape: &mut Shape<Node<'a>>, report: &mut Report) {
        let mut names: Vec<&str> = if node.is_list() {
            node.items().filter_map(Node::str).collect()
        } else {
            node.str().into_iter().collect()
        };
        if names.contains(&"null") {
            shape.nullable = true;
            names.retain(|n| *n != "null");
        }
        shape.kind = match names.first() {
            Some(&"string") => Type::String,
            Some(&"integer") => Type::Integer,
            Some(&"number") => Type::Number,
            Some(&"boolean") => Type::Boolean,
            Some(&"array") => Type::Array,
            Some(&"object") => Type::Object,
            Some(&"file") => Type::File,
            Some(&"any") => Type::Any,
            None if shape.nullable => {
                shape.constant.get_or_insert(Json::Null);
                Type::Any
            }
            None => {
                report.error(node.diagnostic(
                    Code::Invalid,
                    format!("a type is text or a list of text, but this is {}", node.what()),
                ));
                Type::Any
            }
            Some(other) => {
                let text = format!(
                    "there is no type '{}'; the schema is taken to allow anything",
                    crate::tree::parse::short(other)
                );
                report.warn(node.diagnostic(Code::PassedOver, text));
                Type::Any
            }
        };
    }

    /// The alternative that is read: the first that is not null and not already open, as that would never end.
    fn branch(&self, branches: Node<'a>, shape: &mut Shape<Node<'a>>) -> Option<Node<'a>> {
        let null = |n: &Node<'a>| n.get("type").and_then(Node::str) == Some("null");
        shape.nullable |= branches.items().any(|n| null(&n));
        let open = self.open.borrow();
        let leads_back = |n: &Node<'a>| {
            open.contains(n)
                || n.given("$ref")
                    .and_then(Node::str)
                    .is_some_and(|r| n.set().resolve(n.doc(), r).is_ok_and(|t| open.contains(&t)))
        };
        branches.items().find(|n| !null(n) && !leads_back(n))
    }

    /// When `part` of an `allOf` is a base schema with a discriminator, the property and the name of `node` in it.
    fn child_of(&self, node: Node<'a>, part: Node<'a>) -> Option<(String, String)> {
        let reference = part.given("$ref")?.str()?;
        let base = part.set().resolve(part.doc(), reference).ok()?;
        discriminated(base.get("discriminator")?, node)
    }
}

impl<'a> Schemas for JsonSchemas<'a> {
    type Key = Node<'a>;

    fn shape(&self, node: &Node<'a>, report: &mut Report) -> Rc<Shape<Node<'a>>> {
        if let Some(shape) = self.cache.borrow().get(node) {
            return shape.clone();
        }
        if self.open.borrow().contains(node) || self.open.borrow().len() >= DEEPEST {
            let text = "the schema refers to itself, or through too many others, without anything between; it is taken to allow anything";
            report.warn(node.diagnostic(Code::PassedOver, text));
            return Rc::default();
        }
        self.open.borrow_mut().push(*node);
        let shape = Rc::new(self.compute(*node, report));
        self.open.borrow_mut().pop();
        self.cache.borrow_mut().insert(*node, shape.clone());
        shape
    }

    fn canonical(&self, node: &Node<'a>) -> Node<'a> {
        let mut at = *node;
        for _ in 0..DEEPEST {
            let target = at.given("$ref").and_then(Node::str).map(|r| at.set().resolve(at.doc(), r));
            match target {
                Some(Ok(target)) => at = target,
                _ => break,
            }
        }
        at
    }

    fn diagnostic(&self, node: &Node<'a>, code: Code, message: String) -> Diagnostic {
        node.diagnostic(code, message)
    }
}

/// The target of a `$ref`, or an error in the report.
pub(crate) fn follow<'a>(reference: Node<'a>, report: &mut Report) -> Option<Node<'a>> {
    let Some(text) = reference.str() else {
        report.error(reference.diagnostic(Code::Invalid, format!("a $ref is text, but this is {}", reference.what())));
        return None;
    };
    match reference.set().resolve(reference.doc(), text) {
        Ok(target) => Some(target),
        Err((code, why)) => {
            report.error(reference.diagnostic(code, why));
            None
        }
    }
}

/// Follows `$ref`s from `node` to a value that is none; an error and `None` where they lead nowhere or in a circle.
pub(crate) fn dereference<'a>(node: Node<'a>, report: &mut Report) -> Option<Node<'a>> {
    let mut at = node;
    let mut seen = vec![node];
    while let Some(reference) = at.given("$ref") {
        at = follow(reference, report)?;
        if seen.contains(&at) {
            report.error(reference.diagnostic(Code::BadReference, "the references lead in a circle"));
            return None;
        }
        seen.push(at);
    }
    Some(at)
}

/// A bound and whether it excludes itself: a number of its own (draft 6 and later) or a flag beside it (draft 4).
fn bound(node: Node<'_>, inclusive: &str, exclusive: &str) -> (Option<serde_json::Number>, bool) {
    let own = node.get(inclusive).and_then(Node::number);
    match node.get(exclusive) {
        Some(flag) if flag.bool().is_some() => (own, flag.bool() == Some(true)),
        Some(bound) if own.is_none() => (bound.number(), true),
        Some(bound) => {
            // both: the narrower counts
            let (a, b) = (own.as_ref().and_then(serde_json::Number::as_f64), bound.number().and_then(|n| n.as_f64()));
            let narrower = if inclusive == "minimum" { b >= a } else { b.is_some() && b <= a };
            if narrower { (bound.number(), true) } else { (own, false) }
        }
        None => (own, false),
    }
}

/// The type that keywords imply where none is named.
fn implied(shape: &Shape<Node<'_>>) -> Type {
    if !shape.properties.is_empty() || shape.additional.is_some() {
        return Type::Object;
    }
    if shape.items.is_some() || !shape.prefix_items.is_empty() {
        return Type::Array;
    }
    let value = shape.constant.as_ref().or(shape.values.iter().find(|v| !v.is_null()));
    match value {
        Some(Json::String(_)) => Type::String,
        Some(Json::Bool(_)) => Type::Boolean,
        Some(Json::Number(n)) if n.is_f64() => Type::Number,
        Some(Json::Number(_)) => Type::Integer,
        _ if shape.pattern.is_some()
            || shape.format.as_deref().is_some_and(|f| f.starts_with("date") || f == "uuid") =>
        {
            Type::String
        }
        _ => Type::Any,
    }
}

/// Property and value by which a discriminator (OpenAPI's, or Swagger 2's plain name) knows `schema`.
fn discriminated(discriminator: Node<'_>, schema: Node<'_>) -> Option<(String, String)> {
    let target = match schema.given("$ref").and_then(Node::str) {
        Some(reference) => schema.set().resolve(schema.doc(), reference).ok()?,
        None => schema,
    };
    let name = target.key()?;
    if let Some(property) = discriminator.str() {
        return Some((property.to_owned(), name.to_owned()));
    }
    let property = discriminator.get("propertyName")?.str()?;
    let mapped = discriminator
        .get("mapping")
        .into_iter()
        .flat_map(Node::entries)
        .find(|(_, to)| to.str().is_some_and(|to| to == name || to.rsplit('/').next() == Some(name)));
    let value = mapped.map_or(name, |(key, _)| key);
    // inside of a list of alternatives there is no name to go by
    let inline = target.pointer().rsplit('/').nth(1).is_some_and(|p| matches!(p, "schema" | "items"));
    (!inline).then(|| (property.to_owned(), value.to_owned()))
}
