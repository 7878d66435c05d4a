//! What readers need to know of a schema, whatever language it is written in: one level, with references followed,
//! `allOf` and inheritance merged and one alternative chosen. Parameters and example bodies are made from it.

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::model::{Parameter, Type};
use crate::sample;
use serde_json::{Number, Value as Json};
use std::hash::Hash;
use std::rc::Rc;

/// A language of schemas (JSON Schema, RAML types, MSON).
pub(crate) trait Schemas {
    /// Names a schema; two schemas that are the same have equal keys, so that cycles are seen.
    type Key: Clone + Eq + Hash;

    /// One level of a schema. Faults go to the report; the shape is then as much as could be read.
    fn shape(&self, key: &Self::Key, report: &mut Report) -> Rc<Shape<Self::Key>>;

    /// The key of the schema that `key` does nothing but refer to, or `key` itself: what cycles are seen by.
    fn canonical(&self, key: &Self::Key) -> Self::Key;

    /// A diagnostic at the place of a schema.
    fn diagnostic(&self, key: &Self::Key, code: Code, message: String) -> Diagnostic;
}

/// One level of a schema.
#[derive(Clone, Debug)]
pub(crate) struct Shape<K> {
    pub(crate) kind: Type,
    pub(crate) format: Option<String>,
    /// Null is allowed, or is the only thing allowed.
    pub(crate) nullable: bool,
    /// Not to be sent.
    pub(crate) read_only: bool,
    pub(crate) constant: Option<Json>,
    pub(crate) example: Option<Json>,
    pub(crate) default: Option<Json>,
    pub(crate) values: Vec<Json>,
    pub(crate) min: Option<Number>,
    pub(crate) max: Option<Number>,
    pub(crate) exclusive_min: bool,
    pub(crate) exclusive_max: bool,
    pub(crate) multiple_of: Option<Number>,
    /// Characters of a string or items of an array.
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) pattern: Option<String>,
    pub(crate) unique: bool,
    pub(crate) items: Option<K>,
    /// Items at fixed places, before `items`.
    pub(crate) prefix_items: Vec<K>,
    pub(crate) properties: Vec<Property<K>>,
    pub(crate) additional: Option<K>,
    pub(crate) min_properties: u64,
    /// Properties whose value is decided, such as a discriminator's.
    pub(crate) fixed: Vec<(String, Json)>,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub(crate) struct Property<K> {
    pub(crate) name: String,
    pub(crate) required: bool,
    /// `None` when it is required but not described.
    pub(crate) schema: Option<K>,
}

impl<K> Default for Shape<K> {
    fn default() -> Self {
        Self {
            kind: Type::Any,
            format: None,
            nullable: false,
            read_only: false,
            constant: None,
            example: None,
            default: None,
            values: Vec::new(),
            min: None,
            max: None,
            exclusive_min: false,
            exclusive_max: false,
            multiple_of: None,
            min_length: None,
            max_length: None,
            pattern: None,
            unique: false,
            items: None,
            prefix_items: Vec::new(),
            properties: Vec::new(),
            additional: None,
            min_properties: 0,
            fixed: Vec::new(),
        }
    }
}

impl<K: Clone> Shape<K> {
    /// Adds what `other` says: both hold (`allOf`, inheritance). What this shape says of its own wins where both say
    /// the same thing differently; bounds become the narrower.
    pub(crate) fn and(&mut self, other: &Shape<K>) {
        if self.kind == Type::Any || (self.kind == Type::Number && other.kind == Type::Integer) {
            self.kind = other.kind;
        }
        fn keep<T: Clone>(own: &mut Option<T>, other: &Option<T>) {
            if own.is_none() {
                own.clone_from(other);
            }
        }
        keep(&mut self.format, &other.format);
        keep(&mut self.constant, &other.constant);
        keep(&mut self.example, &other.example);
        keep(&mut self.default, &other.default);
        keep(&mut self.pattern, &other.pattern);
        keep(&mut self.multiple_of, &other.multiple_of);
        keep(&mut self.items, &other.items);
        keep(&mut self.additional, &other.additional);
        self.nullable |= other.nullable;
        self.read_only |= other.read_only;
        self.unique |= other.unique;
        if self.values.is_empty() {
            self.values.clone_from(&other.values);
        } else if self.values.iter().any(|v| other.values.contains(v)) {
            self.values.retain(|v| other.values.contains(v));
        }
        let float = |n: &Option<Number>| n.as_ref().and_then(Number::as_f64);
        if self.min.is_none() || float(&other.min) > float(&self.min) {
            (self.min, self.exclusive_min) = (other.min.clone(), other.exclusive_min);
        } else if float(&other.min) == float(&self.min) {
            self.exclusive_min |= other.exclusive_min;
        }
        if self.max.is_none() || (other.max.is_some() && float(&other.max) < float(&self.max)) {
            (self.max, self.exclusive_max) = (other.max.clone(), other.exclusive_max);
        } else if float(&other.max) == float(&self.max) {
            self.exclusive_max |= other.exclusive_max;
        }
        self.min_length = self.min_length.max(other.min_length);
        self.max_length = self.max_length.min(other.max_length).or(self.max_length).or(other.max_length);
        self.min_properties = self.min_properties.max(other.min_properties);
        if self.prefix_items.is_empty() {
            self.prefix_items.clone_from(&other.prefix_items);
        }
        let mut at: std::collections::HashMap<String, usize> =
            self.properties.iter().enumerate().map(|(i, p)| (p.name.clone(), i)).collect();
        for property in &other.properties {
            match at.get(&property.name) {
                Some(&i) => {
                    let own = &mut self.properties[i];
                    own.required |= property.required;
                    keep(&mut own.schema, &property.schema);
                }
                None => {
                    at.insert(property.name.clone(), self.properties.len());
                    self.properties.push(property.clone());
                }
            }
        }
        for (name, value) in &other.fixed {
            if !self.fixed.iter().any(|(n, _)| n == name) {
                self.fixed.push((name.clone(), value.clone()));
            }
        }
    }

    /// Bounds as the model has them: inclusive for integers.
    fn bounds(&self) -> (Option<Number>, Option<Number>) {
        let moved = |n: &Option<Number>, exclusive: bool, by: i64| {
            let n = n.clone()?;
            match n.as_i64() {
                Some(i) if exclusive && self.kind == Type::Integer => i.checked_add(by).map(Number::from).or(Some(n)),
                _ => Some(n),
            }
        };
        (moved(&self.min, self.exclusive_min, 1), moved(&self.max, self.exclusive_max, -1))
    }

    /// The shape as a parameter; `items` is the type of an array's items.
    pub(crate) fn parameter(&self, required: bool, items: Option<Type>) -> Parameter {
        let (min, max) = self.bounds();
        let mut values = self.values.clone();
        if let (true, Some(constant)) = (values.is_empty(), &self.constant) {
            values.push(constant.clone());
        }
        Parameter {
            kind: self.kind,
            format: self.format.clone(),
            required,
            example: self.example.clone(),
            default: self.default.clone(),
            values,
            min,
            max,
            min_length: self.min_length,
            max_length: self.max_length,
            pattern: self.pattern.clone(),
            items: items.filter(|items| self.kind == Type::Array && *items != Type::Any),
            list: None,
            multi_segment: false,
        }
    }
}

/// The parameter that a schema describes.
pub(crate) fn parameter<S: Schemas>(schemas: &S, key: &S::Key, required: bool, report: &mut Report) -> Parameter {
    let shape = schemas.shape(key, report);
    let items =
        shape.items.as_ref().filter(|_| shape.kind == Type::Array).map(|items| schemas.shape(items, report).kind);
    shape.parameter(required, items)
}

/// What a body's schema says: type, fields, and an instance made from it with whether that was made (or given).
pub(crate) struct BodyShape {
    pub(crate) kind: Type,
    pub(crate) params: std::collections::BTreeMap<String, Parameter>,
    pub(crate) example: Option<Json>,
    pub(crate) generated: bool,
}

/// Reads a body's schema; `given` is an example that stands beside it, and wins. No instance is made when `make` is false.
pub(crate) fn body<S: Schemas>(
    schemas: &S,
    key: &S::Key,
    given: Option<Json>,
    make: bool,
    limit: usize,
    report: &mut Report,
) -> BodyShape {
    let shape = schemas.shape(key, report);
    let mut params = std::collections::BTreeMap::new();
    for property in &shape.properties {
        let parameter = match &property.schema {
            Some(schema) => {
                if schemas.shape(schema, report).read_only {
                    continue;
                }
                parameter(schemas, schema, property.required, report)
            }
            None => Parameter { required: property.required, ..Parameter::default() },
        };
        params.insert(property.name.clone(), parameter);
    }
    let kind = if shape.kind == Type::Any && !params.is_empty() { Type::Object } else { shape.kind };
    let (example, generated) = match given.or_else(|| shape.example.clone()) {
        Some(example) => (Some(example), false),
        None if make => {
            let example = sample::instance(schemas, key, limit, report);
            let generated = example.is_some();
            (example, generated)
        }
        None => (None, false),
    };
    BodyShape { kind, params, example, generated }
}

#[cfg(test)]
mod tests;
