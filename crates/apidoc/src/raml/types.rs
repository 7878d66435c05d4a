//! RAML's type system as shapes: declarations, type expressions (`User[] | nil`), inheritance, and JSON Schemas in their
//! place. RAML 1.0, "RAML Data Types".

use super::scope::Scope;
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::jsonschema::JsonSchemas;
use crate::model::Type;
use crate::shape::{Property, Schemas, Shape};
use crate::tree::Node;
use serde_json::Value as Json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What names a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TypeKey<'a> {
    /// A declaration; where it names no type it is the one given (a parameter is a string, a body anything).
    Declared(View<'a>, &'static str),
    /// A type expression and the place where it is written, whose document says what its names mean.
    Expression(String, Node<'a>),
    /// A JSON Schema.
    Json(Node<'a>),
}

/// Types of a description.
pub(super) struct Types<'a> {
    pub(super) scope: Scope<'a>,
    json: JsonSchemas<'a>,
    cache: RefCell<HashMap<TypeKey<'a>, Rc<Shape<TypeKey<'a>>>>>,
    open: RefCell<Vec<TypeKey<'a>>>,
    limit: usize,
}

/// Levels of types that inherit from each other.
const DEEPEST: usize = 40;

impl<'a> Types<'a> {
    pub(super) fn new(root: Node<'a>, limit: usize) -> Self {
        Types {
            scope: Scope { root },
            json: JsonSchemas::new(limit),
            cache: RefCell::default(),
            open: RefCell::default(),
            limit,
        }
    }

    /// The example that a declaration gives: `example`, or the first of `examples`; a value may be wrapped with its
    /// `strict` and so on. Text that holds JSON is JSON where the type is not text.
    pub(super) fn example(&self, declared: &View<'a>, kind: Type, report: &mut Report) -> Option<Json> {
        let first = |examples: View<'a>| match examples.is_list() {
            true => examples.items().into_iter().next(),
            false => examples.entries().into_iter().next().map(|(_, example)| example),
        };
        let example = declared.given("example").or_else(|| declared.given("examples").and_then(first))?;
        let known = ["value", "strict", "displayName", "description"];
        let wrapped = example.entries().iter().all(|(key, _)| known.contains(&&**key) || key.starts_with('('));
        let value = if wrapped { example.get("value").unwrap_or(example) } else { example };
        self.value(&value, kind, report).filter(|v| !v.is_null())
    }

    /// A value of a document for a type.
    fn value(&self, value: &View<'a>, kind: Type, report: &mut Report) -> Option<Json> {
        let Some(json) = value.json(self.limit) else {
            let text = format!("the value has more than {} parts and is passed over", self.limit);
            report.warn(value.diagnostic(Code::PassedOver, text));
            return None;
        };
        match &json {
            Json::String(text)
                if matches!(kind, Type::Object | Type::Array | Type::Any)
                    && text.trim_start().starts_with(['{', '[']) =>
            {
                Some(serde_json::from_str(text).unwrap_or(json))
            }
            _ => Some(json),
        }
    }

    fn declared(&self, declared: &View<'a>, otherwise: &'static str, report: &mut Report) -> Shape<TypeKey<'a>> {
        if declared.is_list() {
            return self.all_of(&declared.items(), report);
        }
        if !declared.is_map() {
            let node = declared.node();
            return match declared.text() {
                Some(text) => (*self.shape(&self.expression(&text, node), report)).clone(),
                None if declared.is_null() => builtin(otherwise).unwrap_or_default(),
                None => {
                    report.error(declared.diagnostic(
                        Code::Invalid,
                        format!("a type is a name, an expression or a mapping, but this is {}", declared.what()),
                    ));
                    Shape::default()
                }
            };
        }
        let mut shape = Shape::default();
        self.facets(declared, &mut shape, report);
        let named = declared.given("type").or_else(|| declared.given("schema"));
        let base = match named {
            Some(base) if base.is_list() => self.all_of(&base.items(), report),
            Some(base) if base.is_map() => {
                let key = if is_json_schema(base.node()) {
                    TypeKey::Json(base.node())
                } else {
                    TypeKey::Declared(base, "string")
                };
                (*self.shape(&key, report)).clone()
            }
            Some(base) => match base.text() {
                Some(text) => (*self.shape(&self.expression(&text, base.node()), report)).clone(),
                None => Shape::default(),
            },
            None if !shape.properties.is_empty() || declared.get("properties").is_some() => {
                builtin("object").unwrap_or_default()
            }
            None if shape.items.is_some() => builtin("array").unwrap_or_default(),
            None => builtin(otherwise).unwrap_or_default(),
        };
        shape.kind = base.kind;
        shape.and(&base);
        if let Some(format) = declared.given("(format)").and_then(|f| f.text()) {
            shape.format = Some(format.into_owned());
        }
        self.values(declared, &mut shape, report);
        self.lengths(declared, &mut shape);
        self.discriminator(declared, &mut shape);
        shape
    }

    /// Multiple inheritance.
    fn all_of(&self, parts: &[View<'a>], report: &mut Report) -> Shape<TypeKey<'a>> {
        let mut shape = Shape::default();
        for part in parts {
            let base = self.shape(&TypeKey::Declared(part.clone(), "any"), report);
            shape.and(&base);
        }
        shape
    }

    /// Facets that need no type.
    fn facets(&self, declared: &View<'a>, shape: &mut Shape<TypeKey<'a>>, report: &mut Report) {
        let number = |key: &str| declared.given(key).and_then(|v| v.number());
        (shape.min, shape.max, shape.multiple_of) = (number("minimum"), number("maximum"), number("multipleOf"));
        shape.format = declared.given("format").and_then(|v| v.text()).map(|t| t.into_owned());
        shape.pattern = declared.given("pattern").and_then(|v| v.text()).map(|t| t.into_owned());
        shape.unique = declared.given("uniqueItems").and_then(|v| v.bool()) == Some(true);
        shape.min_properties = number("minProperties").and_then(|n| n.as_u64()).unwrap_or(0);
        shape.items = declared.given("items").map(|items| TypeKey::Declared(items, "any"));
        shape.additional =
            declared.given("additionalProperties").filter(|v| v.bool().is_none()).map(|v| TypeKey::Declared(v, "any"));
        let Some(properties) = declared.given("properties") else {
            return;
        };
        if !properties.is_map() {
            report.error(
                properties
                    .diagnostic(Code::Invalid, format!("'properties' is a mapping, but this is {}", properties.what())),
            );
        }
        for (name, property) in properties.entries() {
            if name.len() > 1 && name.starts_with('/') && name.ends_with('/') {
                continue; // a pattern for names: nothing that an example needs
            }
            let (name, required) = required_by_name(&name, &property);
            shape.properties.push(Property { name, required, schema: Some(TypeKey::Declared(property, "string")) });
        }
    }

    /// Facets whose meaning depends on the type.
    fn lengths(&self, declared: &View<'a>, shape: &mut Shape<TypeKey<'a>>) {
        let keys = if shape.kind == Type::Array { ("minItems", "maxItems") } else { ("minLength", "maxLength") };
        let number = |key: &str| declared.given(key).and_then(|v| v.number()).and_then(|n| n.as_u64());
        shape.min_length = number(keys.0).or(shape.min_length);
        shape.max_length = number(keys.1).or(shape.max_length);
    }

    fn values(&self, declared: &View<'a>, shape: &mut Shape<TypeKey<'a>>, report: &mut Report) {
        // in parentheses: our own annotations for what RAML does not take
        let either = |key: &str| declared.given(key).or_else(|| declared.given(&format!("({key})")));
        if let Some(values) = either("enum") {
            shape.values = values.items().iter().filter_map(|v| self.value(v, shape.kind, report)).collect();
        }
        if let Some(default) = either("default") {
            shape.default = self.value(&default, shape.kind, report);
        }
        let annotated = declared.given("(example)").and_then(|e| self.value(&e, shape.kind, report));
        if let Some(example) = self.example(declared, shape.kind, report).or(annotated) {
            shape.example = Some(example);
        }
    }

    /// The discriminator's property gets the type's own name, or its `discriminatorValue`.
    fn discriminator(&self, declared: &View<'a>, shape: &mut Shape<TypeKey<'a>>) {
        let own = declared.given("discriminatorValue").and_then(|v| v.json(10));
        let name = own.or_else(|| declared.node().key().map(Json::from));
        if let Some(property) = declared.given("discriminator").and_then(|d| d.text()) {
            shape.fixed.push((property.into_owned(), name.unwrap_or(Json::Null)));
        } else if let (Some(name), Some((_, value))) = (name, shape.fixed.first_mut())
            && self.scope.is_named_type(declared.node())
        {
            *value = name;
        }
    }

    /// The key of the type that `text`, written at `node`, means.
    fn expression(&self, text: &str, node: Node<'a>) -> TypeKey<'a> {
        if let Some(schema) = node.set().embedded(node) {
            return TypeKey::Json(schema);
        }
        TypeKey::Expression(text.trim().to_owned(), node)
    }

    fn expressed(&self, text: &str, node: Node<'a>, report: &mut Report) -> Shape<TypeKey<'a>> {
        let part = |text: &str| TypeKey::Expression(text.trim().to_owned(), node);
        if text.starts_with('<') && !text.starts_with("<<") {
            report.warn(
                node.diagnostic(Code::PassedOver, "an XML schema is passed over: the type is taken to allow anything"),
            );
            return Shape::default();
        }
        if text.starts_with('{') {
            report.error(
                node.diagnostic(Code::Syntax, "the text is meant to be a JSON schema, but it is not well-formed JSON"),
            );
            return Shape::default();
        }
        if let Some(members) = split_union(text) {
            let nullable = members.contains(&"nil");
            let chosen = members.iter().find(|m| **m != "nil").copied().unwrap_or("nil");
            let mut shape = (*self.shape(&part(chosen), report)).clone();
            shape.nullable |= nullable;
            return shape;
        }
        if let Some(inner) = text.strip_suffix("[]") {
            return Shape { kind: Type::Array, items: Some(part(inner)), ..Shape::default() };
        }
        if let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
            return (*self.shape(&part(inner), report)).clone();
        }
        if let Some(shape) = builtin(text) {
            return shape;
        }
        match self.scope.find(&["types", "schemas"], text, node) {
            Ok(found) if is_json_schema(found) => (*self.shape(&TypeKey::Json(found), report)).clone(),
            Ok(found) => (*self.shape(&TypeKey::Declared(View::of(found), "string"), report)).clone(),
            Err((code, why)) => {
                report.error(node.diagnostic(code, why));
                Shape::default()
            }
        }
    }
}

impl<'a> Schemas for Types<'a> {
    type Key = TypeKey<'a>;

    fn shape(&self, key: &TypeKey<'a>, report: &mut Report) -> Rc<Shape<TypeKey<'a>>> {
        if let Some(shape) = self.cache.borrow().get(key) {
            return shape.clone();
        }
        if self.open.borrow().contains(key) || self.open.borrow().len() >= DEEPEST {
            report.error(self.diagnostic(
                key,
                Code::BadReference,
                "the type inherits from itself, or through too many others".to_owned(),
            ));
            return Rc::default();
        }
        self.open.borrow_mut().push(key.clone());
        let shape = match key {
            TypeKey::Declared(view, _) if is_json_schema(view.node()) => {
                (*self.shape(&TypeKey::Json(view.node()), report)).clone()
            }
            TypeKey::Declared(view, otherwise) => self.declared(view, otherwise, report),
            TypeKey::Expression(text, node) => self.expressed(text, *node, report),
            TypeKey::Json(node) => of_json(&self.json.shape(node, report)),
        };
        self.open.borrow_mut().pop();
        let shape = Rc::new(shape);
        self.cache.borrow_mut().insert(key.clone(), shape.clone());
        shape
    }

    fn canonical(&self, key: &TypeKey<'a>) -> TypeKey<'a> {
        let mut key = key.clone();
        for _ in 0..DEEPEST {
            let name = match &key {
                TypeKey::Expression(text, node) => Some((text.clone(), *node)),
                TypeKey::Declared(view, _) if !view.is_map() && !view.is_list() => {
                    view.text().map(|text| (text.trim().to_owned(), view.node()))
                }
                _ => None,
            };
            let found = name.and_then(|(name, node)| self.scope.find(&["types", "schemas"], &name, node).ok());
            match found {
                Some(found) => key = TypeKey::Declared(View::of(found), "string"),
                None => break,
            }
        }
        key
    }

    fn diagnostic(&self, key: &TypeKey<'a>, code: Code, message: String) -> Diagnostic {
        match key {
            TypeKey::Declared(view, _) => view.diagnostic(code, message),
            TypeKey::Expression(_, node) | TypeKey::Json(node) => node.diagnostic(code, message),
        }
    }
}

/// `name?` is optional unless `required` says otherwise; everything is required by default.
pub(super) fn required_by_name(name: &str, declared: &View<'_>) -> (String, bool) {
    match declared.given("required").and_then(|r| r.bool()) {
        // with an explicit `required` the question mark is a part of the name
        Some(required) => (name.to_owned(), required),
        None => match name.strip_suffix('?') {
            Some(name) => (name.to_owned(), false),
            None => (name.to_owned(), true),
        },
    }
}

/// Whether a mapping where a type is expected is a JSON Schema: from an included or embedded JSON file.
fn is_json_schema(node: Node<'_>) -> bool {
    node.is_map()
        && (node.get("$schema").is_some()
            || node.get("$ref").is_some()
            || node.file().to_ascii_lowercase().ends_with(".json"))
}

fn builtin(name: &str) -> Option<Shape<TypeKey<'static>>> {
    let (kind, format) = match name {
        "any" => (Type::Any, None),
        "object" => (Type::Object, None),
        "array" => (Type::Array, None),
        "string" => (Type::String, None),
        "number" => (Type::Number, None),
        "integer" => (Type::Integer, None),
        "boolean" => (Type::Boolean, None),
        "file" => (Type::File, None),
        "date-only" => (Type::String, Some("date")),
        "time-only" => (Type::String, Some("time")),
        "datetime-only" => (Type::String, Some("datetime-only")),
        "datetime" => (Type::String, Some("date-time")),
        "nil" | "null" => {
            return Some(Shape { nullable: true, constant: Some(Json::Null), ..Shape::default() });
        }
        _ => return None,
    };
    Some(Shape { kind, format: format.map(str::to_owned), ..Shape::default() })
}

/// Members of a union at the top level of an expression.
fn split_union(text: &str) -> Option<Vec<&str>> {
    let mut depth = 0i32;
    let mut start = 0;
    let mut members = Vec::new();
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b'|' if depth == 0 => {
                members.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if members.is_empty() {
        return None;
    }
    members.push(text[start..].trim());
    Some(members)
}

/// A shape of JSON Schema as a shape of RAML.
fn of_json<'a>(shape: &Shape<Node<'a>>) -> Shape<TypeKey<'a>> {
    let key = |node: &Node<'a>| TypeKey::Json(*node);
    Shape {
        kind: shape.kind,
        format: shape.format.clone(),
        nullable: shape.nullable,
        read_only: shape.read_only,
        constant: shape.constant.clone(),
        example: shape.example.clone(),
        default: shape.default.clone(),
        values: shape.values.clone(),
        min: shape.min.clone(),
        max: shape.max.clone(),
        exclusive_min: shape.exclusive_min,
        exclusive_max: shape.exclusive_max,
        multiple_of: shape.multiple_of.clone(),
        min_length: shape.min_length,
        max_length: shape.max_length,
        pattern: shape.pattern.clone(),
        unique: shape.unique,
        items: shape.items.as_ref().map(key),
        prefix_items: shape.prefix_items.iter().map(key).collect(),
        properties: shape
            .properties
            .iter()
            .map(|p| Property { name: p.name.clone(), required: p.required, schema: p.schema.as_ref().map(key) })
            .collect(),
        additional: shape.additional.as_ref().map(key),
        min_properties: shape.min_properties,
        fixed: shape.fixed.clone(),
    }
}
