//! MSON, the language of `Attributes`, as shapes: named types, inheritance, arrays, enumerations, includes. Of `One Of` the
//! first is read.

use super::lines::Item;
use super::signature::{self, Signature, unquote};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::model::Type;
use crate::shape::{Property, Schemas, Shape};
use serde_json::Value as Json;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Names a type: a declaration, or a name written somewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum MsonKey {
    Declared(usize),
    Named(String, u32),
}

/// A declaration with what is nested in it.
#[derive(Debug)]
struct Declaration<'t> {
    signature: Signature,
    item: Item<'t>,
}

/// All data structures of a document.
#[derive(Debug)]
pub(super) struct Mson<'t> {
    file: &'t str,
    declared: RefCell<Vec<Rc<Declaration<'t>>>>,
    named: HashMap<String, usize>,
    open: RefCell<Vec<MsonKey>>,
    cache: RefCell<HashMap<MsonKey, Rc<Shape<MsonKey>>>>,
}

/// Types that inherit from each other, at most.
const DEEPEST: usize = 40;

impl<'t> Mson<'t> {
    pub(super) fn new(file: &'t str) -> Self {
        Mson {
            file,
            declared: RefCell::default(),
            named: HashMap::new(),
            open: RefCell::default(),
            cache: RefCell::default(),
        }
    }

    /// Declares the type of a heading `Name (Base)`.
    pub(super) fn define(&mut self, title: &str, item: Item<'t>) {
        let signature = signature::parse(title);
        let name = signature.name.clone();
        let id = self.add(signature, item);
        self.named.entry(name).or_insert(id);
    }

    /// Declares a type that may have no name: `Attributes (Base)`.
    pub(super) fn attributes(&self, item: &Item<'t>) -> MsonKey {
        MsonKey::Declared(self.add(signature::parse(item.text), item.clone()))
    }

    fn add(&self, signature: Signature, item: Item<'t>) -> usize {
        let mut declared = self.declared.borrow_mut();
        declared.push(Rc::new(Declaration { signature, item }));
        declared.len() - 1
    }

    fn declaration(&self, declaration: &Declaration<'t>, report: &mut Report) -> Shape<MsonKey> {
        let Declaration { signature, item } = declaration;
        let base = signature.kind().unwrap_or("");
        let mut shape = Shape::default();
        self.members(&item.items, &mut shape, base, report);
        let inherited = match base {
            "" if !shape.properties.is_empty() => Shape { kind: Type::Object, ..Shape::default() },
            "" if signature.value.is_some() || item.items.is_empty() => {
                Shape { kind: Type::String, ..Shape::default() }
            }
            "" => Shape { kind: Type::Object, ..Shape::default() },
            base => (*self.shape(&MsonKey::Named(base.to_owned(), item.line), report)).clone(),
        };
        shape.kind = inherited.kind;
        shape.and(&inherited);
        shape.nullable |= signature.has("nullable");
        let value = signature.value.as_deref().map(|v| value(v, &shape, base));
        let sample = self.nested(&item.items, "Sample").map(|v| self::value(&v, &shape, base));
        let default = self.nested(&item.items, "Default").map(|v| self::value(&v, &shape, base));
        match value {
            Some(value) if signature.has("fixed") => shape.constant = Some(value),
            Some(value) if signature.has("default") => shape.default = Some(value),
            Some(value) => shape.example = Some(value),
            None => {}
        }
        shape.example = shape.example.or(sample);
        shape.default = default.or(shape.default);
        shape
    }

    /// `+ Sample: value`, or with the value below it.
    fn nested(&self, items: &[Item<'t>], keyword: &str) -> Option<String> {
        let item = items.iter().find(|i| i.is(keyword))?;
        let text = item.after(keyword);
        let text = if text.is_empty() { item.items.first().map_or("", |i| i.text) } else { text };
        let text = unquote(text);
        (!text.is_empty()).then_some(text)
    }

    /// Nested items: properties of an object, values of an enumeration, items of an array.
    fn members(&self, items: &[Item<'t>], shape: &mut Shape<MsonKey>, base: &str, report: &mut Report) {
        let is_enum = base.starts_with("enum");
        let is_array = base.starts_with("array");
        let mut seen: HashSet<String> = shape.properties.iter().map(|p| p.name.clone()).collect();
        for item in items {
            if item.is("Sample") || item.is("Default") {
                continue;
            }
            if ["Members", "Properties", "Items"]
                .iter()
                .any(|keyword| item.is(keyword) && item.after(keyword).is_empty())
            {
                self.members(&item.items, shape, base, report);
            } else if item.is("One Of") {
                if let Some(first) = item.items.first() {
                    let one = if first.is("Properties") { first.items.as_slice() } else { std::slice::from_ref(first) };
                    self.members(one, shape, base, report);
                }
            } else if item.is("Include") {
                let included = self.shape(&MsonKey::Named(item.after("Include").to_owned(), item.line), report);
                shape.and(&included);
            } else if is_enum {
                let text = unquote(&signature::parse(item.text).name);
                shape.values.push(if base.contains("number") { number(&text) } else { Json::String(text) });
            } else if is_array {
                let mut signature = signature::parse(item.text);
                // an item has no name: what stands there is its value, or a type
                if self.named.contains_key(&signature.name) && signature.attributes.is_empty() {
                    signature = Signature { attributes: vec![signature.name], ..Signature::default() };
                } else if !signature.name.is_empty() {
                    signature.value = Some(std::mem::take(&mut signature.name));
                }
                let id = self.add(signature, item.clone());
                shape.items.get_or_insert(MsonKey::Declared(id));
            } else {
                let signature = signature::parse(item.text);
                if signature.name.is_empty() {
                    continue;
                }
                let (name, required) = (signature.name.clone(), signature.has("required") || signature.has("fixed"));
                let id = self.add(signature, item.clone());
                if !seen.insert(name.clone()) {
                    shape.properties.retain(|p| p.name != name); // the later counts
                }
                shape.properties.push(Property { name, required, schema: Some(MsonKey::Declared(id)) });
            }
        }
    }

    fn named(&self, name: &str, line: u32, report: &mut Report) -> Shape<MsonKey> {
        let of = |kind| Shape { kind, ..Shape::default() };
        if let Some(inner) = inside(name, "array") {
            let first = signature::split(inner).into_iter().next();
            return Shape { items: first.map(|item| MsonKey::Named(item, line)), ..of(Type::Array) };
        }
        if let Some(inner) = inside(name, "enum") {
            return of(if inner == "number" { Type::Number } else { Type::String });
        }
        match name {
            "string" => of(Type::String),
            "number" => of(Type::Number),
            "boolean" => of(Type::Boolean),
            "object" => of(Type::Object),
            name => {
                let plain = name.trim_start_matches('[').split(']').next().unwrap_or("").trim();
                match self.named.get(name).or_else(|| self.named.get(plain)) {
                    Some(&id) => (*self.shape(&MsonKey::Declared(id), report)).clone(),
                    None => {
                        let text = format!("there is no data structure '{}'", crate::tree::parse::short(name));
                        report.error(Diagnostic::at_line(Code::BadReference, self.file, line, None, text));
                        Shape::default()
                    }
                }
            }
        }
    }
}

impl Schemas for Mson<'_> {
    type Key = MsonKey;

    fn shape(&self, key: &MsonKey, report: &mut Report) -> Rc<Shape<MsonKey>> {
        if let Some(shape) = self.cache.borrow().get(key) {
            return shape.clone();
        }
        if self.open.borrow().contains(key) || self.open.borrow().len() >= DEEPEST {
            report.error(self.diagnostic(
                key,
                Code::BadReference,
                "the data structure is based on itself, or on too many others".to_owned(),
            ));
            return Rc::default();
        }
        self.open.borrow_mut().push(key.clone());
        let shape = match key {
            MsonKey::Declared(id) => {
                let declaration = self.declared.borrow()[*id].clone();
                self.declaration(&declaration, report)
            }
            MsonKey::Named(name, line) => self.named(name, *line, report),
        };
        self.open.borrow_mut().pop();
        let shape = Rc::new(shape);
        self.cache.borrow_mut().insert(key.clone(), shape.clone());
        shape
    }

    fn canonical(&self, key: &MsonKey) -> MsonKey {
        let id = match key {
            MsonKey::Named(name, _) => self.named.get(name).copied(),
            // a member that says nothing but its type
            MsonKey::Declared(id) => {
                let declaration = self.declared.borrow()[*id].clone();
                let plain = declaration.item.items.is_empty() && declaration.signature.value.is_none();
                declaration.signature.kind().filter(|_| plain).and_then(|name| self.named.get(name)).copied()
            }
        };
        id.map_or_else(|| key.clone(), MsonKey::Declared)
    }

    fn diagnostic(&self, key: &MsonKey, code: Code, message: String) -> Diagnostic {
        let line = match key {
            MsonKey::Declared(id) => self.declared.borrow()[*id].item.line,
            MsonKey::Named(_, line) => *line,
        };
        Diagnostic::at_line(code, self.file, line, None, message)
    }
}

/// `array[…]`, or `array` alone as an empty text.
fn inside<'n>(name: &'n str, outer: &str) -> Option<&'n str> {
    let rest = name.strip_prefix(outer)?.trim();
    if rest.is_empty() { Some("") } else { rest.strip_prefix('[')?.strip_suffix(']') }
}

/// A value as the type means it.
fn value(text: &str, shape: &Shape<MsonKey>, base: &str) -> Json {
    match shape.kind {
        Type::Number | Type::Integer => number(text),
        Type::Boolean => text.parse::<bool>().map_or_else(|_| text.into(), Json::Bool),
        Type::Array => {
            let numbers = base.contains("number");
            Json::Array(
                signature::split(text)
                    .iter()
                    .map(|item| if numbers { number(&unquote(item)) } else { unquote(item).into() })
                    .collect(),
            )
        }
        Type::Object | Type::Any => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        _ => text.into(),
    }
}

fn number(text: &str) -> Json {
    crate::tree::parse::number(text.trim()).map_or_else(|| text.into(), Json::Number)
}
