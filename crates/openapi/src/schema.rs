//! Schemas of descriptions become validators: translated to JSON Schema 2020-12 with everything that they refer to, within bounds,
//! and compiled once however often they are used.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use apidoc::View;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::load::Patterns;
use crate::steps;
use crate::types::Types;

/// Nesting of one schema, without what it refers to.
const MOST_DEPTH: usize = 64;
/// Subschemas of one schema with all that it refers to.
const MOST_NODES: usize = 10_000;
/// Values of an `enum` or a `const`.
const MOST_VALUES: usize = 20_000;

/// Formats that are asserted; others say something to people.
const FORMATS: [&str; 14] = [
    "date",
    "date-time",
    "time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
    "uri-reference",
    "json-pointer",
    "byte",
    "int32",
];

/// The rules by which a description's schemas are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Swagger 2.0 and OpenAPI 3.0: siblings of `$ref` are nothing, `exclusive*` are flags, `nullable`.
    Draft4,
    /// OpenAPI 3.1: JSON Schema 2020-12.
    Draft202012,
}

/// A schema that instances can be checked against.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) validator: Validator,
    /// Types that an instance may have.
    pub(crate) types: Types,
    /// Types that the items of an array may have.
    pub(crate) items: Types,
    /// The types of an object's properties and of their items, for forms.
    pub(crate) properties: BTreeMap<String, (Types, Types)>,
    /// Of all that it was compiled from, for telling two generations apart.
    pub(crate) digest: [u8; 32],
}

impl Schema {
    /// Whether an instance of so many bytes is what the schema says; none where that takes too many steps.
    pub(crate) fn holds(&self, instance: &Value, bytes: usize) -> Option<bool> {
        steps::within(steps::of(bytes), || self.validator.is_valid(instance))
    }
}

type Id = (u32, u32);

/// A schema of its own in the bundle that validators are made of.
struct Definition {
    json: Value,
    refers_to: Vec<Id>,
    nodes: usize,
}

/// All schemas of one description.
pub(crate) struct Schemas<'d> {
    dialect: Dialect,
    patterns: Patterns,
    definitions: HashMap<Id, Definition>,
    compiled: HashMap<Id, Option<Arc<Schema>>>,
    /// Whether the linear engine has a pattern.
    known_patterns: HashMap<String, bool>,
    open: Vec<View<'d>>,
    /// Problems and notes, a sentence each with its place.
    pub(crate) problems: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl<'d> Schemas<'d> {
    pub(crate) fn new(dialect: Dialect, patterns: Patterns) -> Self {
        Schemas {
            dialect,
            patterns,
            definitions: HashMap::new(),
            compiled: HashMap::new(),
            known_patterns: HashMap::new(),
            open: Vec::new(),
            problems: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn problem(&mut self, view: View<'_>, what: impl std::fmt::Display) {
        let text = format!("{}: {what}", view.place());
        if !self.problems.contains(&text) {
            self.problems.push(text);
        }
    }

    pub(crate) fn note(&mut self, view: View<'_>, what: impl std::fmt::Display) {
        let text = format!("{}: {what}", view.place());
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// The validator of a schema; none when something is wrong with it, which is then among the problems.
    pub(crate) fn compile(&mut self, view: View<'d>) -> Option<Arc<Schema>> {
        if let Some(compiled) = self.compiled.get(&view.id()) {
            return compiled.clone();
        }
        let compiled = self.build(view).map(Arc::new);
        self.compiled.insert(view.id(), compiled.clone());
        compiled
    }

    /// A schema in JSON Schema 2020-12, without compiling it; what it refers to is found by [`Schemas::definition`].
    pub(crate) fn translated(&mut self, view: View<'d>) -> Value {
        self.define(view);
        while let Some(next) = self.open.pop() {
            self.define(next);
        }
        json!({"$ref": reference(view.id())})
    }

    /// What a reference means that is in a translated schema.
    pub(crate) fn definition(&self, reference: &str) -> Option<&Value> {
        let (doc, value) = reference.strip_prefix("#/$defs/s")?.split_once('_')?;
        self.definitions.get(&(doc.parse().ok()?, value.parse().ok()?)).map(|definition| &definition.json)
    }

    fn build(&mut self, view: View<'d>) -> Option<Schema> {
        let before = self.problems.len();
        self.define(view);
        while let Some(next) = self.open.pop() {
            self.define(next);
        }
        if self.problems.len() > before {
            return None;
        }
        let (mut ids, mut nodes) = (vec![view.id()], 0);
        let mut seen: HashSet<Id> = ids.iter().copied().collect();
        let mut next = 0;
        while let Some(definition) = ids.get(next).and_then(|id| self.definitions.get(id)) {
            next += 1;
            nodes += definition.nodes;
            let new: Vec<Id> = definition.refers_to.iter().copied().filter(|id| seen.insert(*id)).collect();
            ids.extend(new);
        }
        if nodes > MOST_NODES {
            let what = format!(
                "the schema has {nodes} subschemas with all that it refers to; at most {MOST_NODES} are compiled"
            );
            self.problem(view, what);
            return None;
        }
        let mut definitions = Map::new();
        for id in &ids {
            definitions.insert(name(*id), steps::counted(self.definitions[id].json.clone()));
        }
        let types = self.types(view.id());
        let root = json!({"$ref": reference(view.id()), "$defs": definitions});
        let built = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex())
            .with_format("byte", is_base64)
            .with_keyword(steps::KEYWORD, |_, _, _| Ok(steps::keyword()))
            .should_validate_formats(true)
            .should_ignore_unknown_formats(true)
            .build(&root);
        match built {
            Ok(validator) => {
                let (own, items, properties) = types;
                let digest = Sha256::digest(root.to_string()).into();
                Some(Schema { validator, types: own, items, properties, digest })
            }
            Err(error) => {
                self.problem(view, format!("the schema cannot be compiled: {error} (at {})", error.instance_path()));
                None
            }
        }
    }

    fn types(&self, id: Id) -> (Types, Types, BTreeMap<String, (Types, Types)>) {
        let resolve = |reference: &str| self.definition(reference);
        let json = &self.definitions[&id].json;
        let (own, items) = Types::of(json, &resolve);
        let mut properties = BTreeMap::new();
        crate::types::properties(json, &resolve, 0, &mut properties);
        (own, items, properties)
    }

    fn define(&mut self, view: View<'d>) {
        if self.definitions.contains_key(&view.id()) {
            return;
        }
        let mut work = Work { refers_to: Vec::new(), nodes: 0 };
        let json = self.translate(view, 0, &mut work);
        let definition = Definition { json, refers_to: work.refers_to, nodes: work.nodes };
        self.definitions.insert(view.id(), definition);
    }

    fn translate(&mut self, view: View<'d>, depth: usize, work: &mut Work) -> Value {
        work.nodes += 1;
        if let Some(whole) = view.bool() {
            return Value::Bool(whole);
        }
        if !view.is_map() {
            self.problem(view, "a schema is a mapping");
            return Value::Bool(true);
        }
        if depth > MOST_DEPTH || work.nodes > MOST_NODES {
            let what = format!("the schema nests deeper than {MOST_DEPTH}, or has more than {MOST_NODES} subschemas");
            self.problem(view, what);
            return Value::Bool(true);
        }
        let mut out = Map::new();
        if let Some(text) = view.get("$ref").and_then(View::str) {
            match view.resolve(text) {
                Ok(target) => {
                    work.refers_to.push(target.id());
                    self.open.push(target);
                    out.insert("$ref".into(), reference(target.id()).into());
                }
                Err(why) => self.problem(view, why),
            }
            if self.dialect == Dialect::Draft4 {
                return nullable(view, out);
            }
        }
        for (keyword, value) in view.entries() {
            self.keyword(view, keyword, value, depth, work, &mut out);
        }
        if self.dialect == Dialect::Draft4 {
            self.exclusive(view, &mut out);
        }
        if view.get("format").and_then(View::str) == Some("int32") {
            out.remove("format");
            out.entry("minimum").or_insert_with(|| i32::MIN.into());
            out.entry("maximum").or_insert_with(|| i32::MAX.into());
        }
        if self.dialect == Dialect::Draft4 { nullable(view, out) } else { Value::Object(out) }
    }

    fn keyword(
        &mut self,
        holder: View<'d>,
        keyword: &str,
        value: View<'d>,
        depth: usize,
        work: &mut Work,
        out: &mut Map<String, Value>,
    ) {
        let is_new = self.dialect == Dialect::Draft202012;
        match keyword {
            "type" => self.kind(value, out),
            "enum" | "const" => match value.json(MOST_VALUES) {
                Some(json) => {
                    out.insert(keyword.into(), json);
                }
                None => self.problem(value, format!("`{keyword}` has more than {MOST_VALUES} values")),
            },
            "minLength" | "maxLength" | "minItems" | "maxItems" | "uniqueItems" | "minProperties" | "maxProperties"
            | "multipleOf" | "minimum" | "maximum" => {
                copy(keyword, value, out);
            }
            "exclusiveMinimum" | "exclusiveMaximum" if value.number().is_some() => copy(keyword, value, out),
            "minContains" | "maxContains" | "dependentRequired" if is_new => copy(keyword, value, out),
            "format" => {
                if let Some(format) = value.str().filter(|format| FORMATS.contains(format)) {
                    out.insert(keyword.into(), format.into());
                }
            }
            "pattern" => {
                if let Some(pattern) = value.str().filter(|pattern| self.has_pattern(value, pattern)) {
                    out.insert(keyword.into(), pattern.into());
                }
            }
            "required" if value.is_list() => {
                let names = value.items().filter_map(View::str);
                let demanded: Vec<&str> = names.filter(|name| !is_read_only(holder, name)).collect();
                out.insert(keyword.into(), demanded.into());
            }
            "properties" | "dependentSchemas" => {
                let entries: Map<String, Value> = value
                    .entries()
                    .map(|(name, one)| (name.to_owned(), self.translate(one, depth + 1, work)))
                    .collect();
                out.insert(keyword.into(), entries.into());
            }
            "patternProperties" => {
                let mut entries = Map::new();
                for (pattern, one) in value.entries() {
                    if self.has_pattern(value, pattern) {
                        entries.insert(pattern.to_owned(), self.translate(one, depth + 1, work));
                    } else {
                        // What it would have matched must not fall to `additionalProperties`.
                        out.insert("additionalProperties".into(), Value::Bool(true));
                    }
                }
                out.insert(keyword.into(), entries.into());
            }
            "additionalProperties" if out.get(keyword) == Some(&Value::Bool(true)) => {}
            // Draft 4 had lists of items here.
            "items" if value.is_list() => {
                let items: Vec<Value> = value.items().map(|one| self.translate(one, depth + 1, work)).collect();
                out.insert("prefixItems".into(), items.into());
            }
            "items" | "additionalProperties" | "not" => {
                out.insert(keyword.into(), self.translate(value, depth + 1, work));
            }
            "if" | "then" | "else" | "contains" | "propertyNames" | "unevaluatedItems" | "unevaluatedProperties"
                if is_new =>
            {
                out.insert(keyword.into(), self.translate(value, depth + 1, work));
            }
            "allOf" | "anyOf" | "oneOf" => {
                let branches: Vec<Value> = value.items().map(|one| self.translate(one, depth + 1, work)).collect();
                if !branches.is_empty() {
                    out.insert(keyword.into(), branches.into());
                }
            }
            "prefixItems" if is_new => {
                let branches: Vec<Value> = value.items().map(|one| self.translate(one, depth + 1, work)).collect();
                out.insert(keyword.into(), branches.into());
            }
            "$dynamicRef" | "$recursiveRef" => {
                self.note(value, format!("`{keyword}` is not checked"));
            }
            "$schema" if is_new && value.str() != Some("https://json-schema.org/draft/2020-12/schema") => {
                self.problem(value, "only schemas of JSON Schema 2020-12 are compiled");
            }
            _ => {}
        }
    }

    fn kind(&mut self, value: View<'_>, out: &mut Map<String, Value>) {
        let names: Vec<&str> = if value.is_list() {
            value.items().filter_map(View::str).collect()
        } else {
            value.str().into_iter().collect()
        };
        // A file of Swagger 2 is bytes; `any` is seen where people mean no type.
        if names.iter().any(|name| matches!(*name, "file" | "any")) {
            return;
        }
        const KNOWN: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];
        match names.iter().find(|name| !KNOWN.contains(name)) {
            Some(unknown) => self.problem(value, format!("there is no type `{unknown}`")),
            None if names.is_empty() => self.problem(value, "a type is a word or a list of words"),
            None => {
                let json = if value.is_list() { Value::from(names) } else { Value::from(names[0]) };
                out.insert("type".into(), json);
            }
        }
    }

    /// `exclusiveMinimum: true` beside `minimum` (JSON Schema draft 4).
    fn exclusive(&self, view: View<'_>, out: &mut Map<String, Value>) {
        for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            if view.get(flag).and_then(View::bool) == Some(true)
                && let Some(value) = out.remove(bound)
            {
                out.insert(flag.into(), value);
            }
        }
    }

    /// Whether a pattern is checked.
    fn has_pattern(&mut self, view: View<'_>, pattern: &str) -> bool {
        let known = match self.known_patterns.get(pattern) {
            Some(known) => *known,
            None => {
                let probe = json!({ "pattern": pattern });
                let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
                let is_linear = options.build(&probe).is_ok();
                self.known_patterns.insert(pattern.to_owned(), is_linear);
                is_linear
            }
        };
        if !known {
            let short: String = pattern.chars().take(80).collect();
            match self.patterns {
                Patterns::Refuse => {
                    let what = format!(
                        "the pattern `{short}` cannot be matched in linear time (look-around, back reference, or not a regular expression)"
                    );
                    self.problem(view, what + "; change it, or set `patterns: skip` to leave such patterns unchecked");
                }
                Patterns::Skip => self.note(view, format!("the pattern `{short}` is not checked")),
            }
        }
        known
    }
}

struct Work {
    refers_to: Vec<Id>,
    nodes: usize,
}

fn name((doc, value): Id) -> String {
    format!("s{doc}_{value}")
}

fn reference(id: Id) -> String {
    format!("#/$defs/{}", name(id))
}

fn copy(keyword: &str, value: View<'_>, out: &mut Map<String, Value>) {
    if let Some(json) = value.json(1000) {
        out.insert(keyword.into(), json);
    }
}

/// `nullable: true` of OpenAPI 3.0, and `x-nullable` of Swagger 2: null is taken too, whatever else is said.
fn nullable(view: View<'_>, mut out: Map<String, Value>) -> Value {
    let says = |key: &str| view.get(key).and_then(View::bool) == Some(true);
    if !says("nullable") && !says("x-nullable") {
        return Value::Object(out);
    }
    let is_plain = !["$ref", "allOf", "anyOf", "oneOf", "not", "const"].iter().any(|key| out.contains_key(*key));
    match out.get("type").cloned() {
        Some(Value::String(kind)) if is_plain => {
            out.insert("type".into(), json!([kind, "null"]));
            if let Some(Value::Array(values)) = out.get_mut("enum")
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
            Value::Object(out)
        }
        _ => json!({"anyOf": [{"type": "null"}, out]}),
    }
}

/// Properties that only responses have: `required` holds for responses then (OpenAPI 3.0.3, Schema Object).
fn is_read_only(holder: View<'_>, name: &str) -> bool {
    let Some(mut property) = holder.get("properties").and_then(|properties| properties.get(name)) else { return false };
    for _ in 0..16 {
        if property.get("readOnly").and_then(View::bool) == Some(true) {
            return true;
        }
        match property.get("$ref").and_then(View::str).map(|reference| property.resolve(reference)) {
            Some(Ok(target)) => property = target,
            _ => return false,
        }
    }
    false
}

/// Base64 (RFC 4648, section 4): `format: byte`.
fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let content = text.trim_end_matches('=').len();
    bytes.len().is_multiple_of(4)
        && bytes.len() - content <= 2
        && bytes[..content].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}
