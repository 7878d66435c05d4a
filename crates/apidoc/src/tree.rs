//! Documents as trees of values that know their place: file, line, column and JSON pointer.
//!
//! [`parse`] turns text into a [`Document`], [`load`] reads a document with everything that it refers to into a
//! [`Set`], and [`Node`] is how readers walk it: a `Copy` cursor that follows `!include` by itself.

mod build;
mod de;
mod json;
pub(crate) mod load;
pub(crate) mod parse;
#[cfg(test)]
mod tests;
mod yaml;

pub(crate) use de::decode;
pub(crate) use load::Set;

use crate::diagnostic::{Code, Diagnostic};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// Index of a value in its document.
pub(crate) type Id = u32;

/// One parsed file.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) values: Vec<Slot>,
    pub(crate) root: Id,
    /// Size of the root.
    pub(crate) size: Size,
    /// What the parser passed over: line, column, message.
    pub(crate) remarks: Vec<(u32, u32, String)>,
}

/// How large a value is when aliases and includes count as often as they are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) values: u64,
    pub(crate) height: u32,
}

impl Size {
    /// The size of a container of this size when `child` is put into it.
    pub(crate) fn with(self, child: Size) -> Size {
        let height = self.height.max(child.height.saturating_add(1));
        Size { values: self.values.saturating_add(child.values), height }
    }
}

/// A value and where it stands. An alias is a second edge to the same slot, so an alias bomb costs no memory.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) value: Value,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) parent: Id,
    /// Which entry of the parent this is.
    pub(crate) nth: u32,
}

#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As it was written: `version: 1.10` must not become 1.1.
    Number(Box<str>),
    String(Box<str>),
    /// RAML's `!include path`.
    Include(Box<str>),
    List(Vec<Id>),
    Map(Map),
}

/// A mapping in the order of the document.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) entries: Vec<Entry>,
    /// Only for large mappings; a scan is quicker for small ones.
    index: Option<HashMap<Box<str>, u32>>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Box<str>,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) value: Id,
}

impl Map {
    const INDEXED_FROM: usize = 12;

    pub(crate) fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).map(|&i| i as usize),
            None => self.entries.iter().position(|e| &*e.key == key),
        }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        let nth = self.entries.len();
        if let Some(index) = &mut self.index {
            index.insert(entry.key.clone(), nth as u32);
        }
        self.entries.push(entry);
        if self.index.is_none() && self.entries.len() >= Self::INDEXED_FROM {
            self.index = Some(self.entries.iter().enumerate().map(|(i, e)| (e.key.clone(), i as u32)).collect());
        }
    }
}

/// A value of a document of a set.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    set: &'a Set,
    doc: u32,
    id: Id,
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.doc, self.id) == (other.doc, other.id)
    }
}
impl Eq for Node<'_> {}
impl Hash for Node<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.doc, self.id).hash(state);
    }
}
impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.file(), self.pointer())
    }
}

impl<'a> Node<'a> {
    /// The value `id` of document `doc`, with includes followed. A chain of includes is finite: [`load`] refuses cycles.
    pub(crate) fn new(set: &'a Set, doc: u32, id: Id) -> Self {
        let mut node = Self { set, doc, id };
        while let Value::Include(path) = node.value() {
            match set.included(node.doc, path) {
                Some(target) => node = Self { set, doc: target, id: set.documents[target as usize].root },
                None => break,
            }
        }
        node
    }

    fn document(self) -> &'a Document {
        &self.set.documents[self.doc as usize]
    }

    fn slot(self) -> &'a Slot {
        &self.document().values[self.id as usize]
    }

    fn value(self) -> &'a Value {
        &self.slot().value
    }

    fn at(self, id: Id) -> Self {
        Self::new(self.set, self.doc, id)
    }

    /// The set that this value belongs to.
    pub(crate) fn set(self) -> &'a Set {
        self.set
    }

    /// Root of the document in which this value stands.
    pub(crate) fn document_root(self) -> Node<'a> {
        self.at(self.document().root)
    }

    /// Which document of the set this value is in.
    pub(crate) fn doc(self) -> u32 {
        self.doc
    }

    /// Document and value, by which [`Node::new`] finds it again.
    pub(crate) fn place(self) -> (u32, Id) {
        (self.doc, self.id)
    }

    /// Name of the document.
    pub(crate) fn file(self) -> &'a str {
        &self.document().name
    }

    /// What a message calls this value.
    pub(crate) fn what(self) -> &'static str {
        match self.value() {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::Include(_) => "an !include",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    pub(crate) fn is_null(self) -> bool {
        matches!(self.value(), Value::Null)
    }

    pub(crate) fn is_map(self) -> bool {
        matches!(self.value(), Value::Map(_))
    }

    pub(crate) fn is_list(self) -> bool {
        matches!(self.value(), Value::List(_))
    }

    /// The value of `key`; `None` also when this is not a mapping.
    pub(crate) fn get(self, key: &str) -> Option<Node<'a>> {
        match self.value() {
            Value::Map(map) => map.position(key).map(|i| self.at(map.entries[i].value)),
            _ => None,
        }
    }

    /// The value of `key` where it is there and not null.
    pub(crate) fn given(self, key: &str) -> Option<Node<'a>> {
        self.get(key).filter(|n| !n.is_null())
    }

    /// Keys and values in order; none when this is not a mapping.
    pub(crate) fn entries(self) -> impl ExactSizeIterator<Item = (&'a str, Node<'a>)> {
        let entries: &[Entry] = match self.value() {
            Value::Map(map) => &map.entries,
            _ => &[],
        };
        entries.iter().map(move |e| (&*e.key, self.at(e.value)))
    }

    /// The items of a list; none when this is not a list.
    pub(crate) fn items(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        let items: &[Id] = match self.value() {
            Value::List(items) => items,
            _ => &[],
        };
        items.iter().map(move |&id| self.at(id))
    }

    /// Text, but not a number or boolean.
    pub(crate) fn str(self) -> Option<&'a str> {
        match self.value() {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// A scalar as it was written, for values such as versions where quotes are often forgotten.
    pub(crate) fn text(self) -> Option<&'a str> {
        match self.value() {
            Value::String(s) | Value::Number(s) => Some(s),
            Value::Bool(true) => Some("true"),
            Value::Bool(false) => Some("false"),
            _ => None,
        }
    }

    pub(crate) fn bool(self) -> Option<bool> {
        match self.value() {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// A number, also one in quotes; `None` when it is infinite or not a number.
    pub(crate) fn number(self) -> Option<serde_json::Number> {
        self.text().and_then(parse::number)
    }

    pub(crate) fn u64(self) -> Option<u64> {
        self.number().and_then(|n| n.as_u64())
    }

    /// The whole subtree as JSON; `None` when it has more than `limit` values. A number that JSON cannot say
    /// (infinite, not a number) becomes null.
    pub(crate) fn json(self, limit: usize) -> Option<Json> {
        let mut left = limit;
        self.json_within(&mut left)
    }

    fn json_within(self, left: &mut usize) -> Option<Json> {
        *left = left.checked_sub(1)?;
        Some(match self.value() {
            Value::Null => Json::Null,
            Value::Bool(b) => Json::Bool(*b),
            Value::Number(_) => self.number().map_or(Json::Null, Json::Number),
            Value::String(s) | Value::Include(s) => Json::String(s.to_string()),
            Value::List(_) => Json::Array(self.items().map(|n| n.json_within(left)).collect::<Option<_>>()?),
            Value::Map(_) => {
                let entry = |(k, n): (&str, Node<'a>)| Some((k.to_owned(), n.json_within(left)?));
                Json::Object(self.entries().map(entry).collect::<Option<_>>()?)
            }
        })
    }

    /// The key under which this value stands; `None` for a root or an item of a list.
    pub(crate) fn key(self) -> Option<&'a str> {
        let slot = self.slot();
        match &self.document().values[slot.parent as usize].value {
            Value::Map(map) if self.id != self.document().root => map.entries.get(slot.nth as usize).map(|e| &*e.key),
            _ => None,
        }
    }

    /// JSON pointer of this value in its file, as a fragment: `#/paths/~1users/get`. A value behind an alias has the
    /// pointer of its anchor.
    pub(crate) fn pointer(self) -> String {
        let document = self.document();
        let mut steps = Vec::new();
        let mut id = self.id;
        while id != document.root {
            let slot = &document.values[id as usize];
            steps.push(match &document.values[slot.parent as usize].value {
                Value::Map(map) => map
                    .entries
                    .get(slot.nth as usize)
                    .map_or(String::new(), |e| e.key.replace('~', "~0").replace('/', "~1")),
                _ => slot.nth.to_string(),
            });
            id = slot.parent;
        }
        let mut pointer = String::from("#");
        for step in steps.iter().rev() {
            pointer.push('/');
            pointer.push_str(step);
        }
        pointer
    }

    /// A diagnostic about this value.
    pub(crate) fn diagnostic(self, code: Code, message: impl Into<String>) -> Diagnostic {
        let slot = self.slot();
        Diagnostic {
            code,
            file: self.file().to_owned(),
            line: Some(slot.line),
            column: Some(slot.column),
            pointer: Some(self.pointer()),
            message: message.into(),
        }
    }

    /// A diagnostic about the key `key` of this mapping.
    pub(crate) fn diagnostic_at_key(self, key: &str, code: Code, message: impl Into<String>) -> Diagnostic {
        let mut diagnostic = self.get(key).map_or_else(|| self.diagnostic(code, ""), |n| n.diagnostic(code, ""));
        if let Value::Map(map) = self.value()
            && let Some(entry) = map.position(key).map(|i| &map.entries[i])
        {
            diagnostic.file = self.file().to_owned();
            diagnostic.line = Some(entry.line);
            diagnostic.column = Some(entry.column);
        }
        diagnostic.message = message.into();
        diagnostic
    }
}
