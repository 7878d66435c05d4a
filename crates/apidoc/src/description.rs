//! The description itself beside its model, for those who need what the model leaves out: schemas, styles, extensions.

use crate::diagnostic::{Code, Diagnostic, Problems, Report};
use crate::model::Method;
use crate::source::{Limits, Source};
use crate::tree::{self, Node, Set};
use crate::{Kind, Read, conclude, model, sniff};
use serde_json::{Number, Value as Json};
use std::collections::HashMap;
use std::fmt;

/// An OpenAPI or Swagger description: its model, and the values that the model was made of.
#[derive(Debug)]
pub struct Description {
    set: Set,
    read: Read,
    /// By operation of the model.
    places: Vec<Option<(u32, u32)>>,
    /// The path items of an operation, by its place; what a `$ref` leads to comes behind it.
    items: HashMap<(u32, u32), Vec<(u32, u32)>>,
}

impl Description {
    /// Reads the OpenAPI or Swagger description `name` and what it refers to from `source`.
    ///
    /// # Errors
    /// As [`crate::read`]; and descriptions of another kind.
    pub fn load(source: &dyn Source, name: &str, limits: &Limits) -> Result<Self, Problems> {
        let bytes = tree::load::read(source, name, limits)?;
        let text = tree::parse::text(name, &bytes)?;
        let by_text = sniff::by_text(name, text)?;
        let mut report = Report::default();
        if by_text == Some(Kind::Blueprint) {
            return Err(wrong_kind(name, Kind::Blueprint));
        }
        let set = Set::load(source, name, &bytes, limits, &mut report)?;
        let (api, kind) = model(&set, by_text, limits, &mut report)?;
        let places = std::mem::take(&mut report.places);
        let read = conclude(api, kind, report)?;
        if !matches!(kind, Kind::OpenApi | Kind::Swagger2) {
            return Err(wrong_kind(name, kind));
        }
        let items = items(&set);
        Ok(Description { set, read, places, items })
    }

    /// The model, and what was passed over or assumed while it was made.
    #[must_use]
    pub fn read(&self) -> &Read {
        &self.read
    }

    /// The root of the document that was requested.
    #[must_use]
    pub fn root(&self) -> View<'_> {
        View(self.set.root())
    }

    /// The value that operation number `index` of the model was read from.
    #[must_use]
    pub fn operation(&self, index: usize) -> Option<View<'_>> {
        self.places.get(index).copied().flatten().map(|place| self.at(place))
    }

    /// The path items that hold an operation, the most specific first: more than one where a path item refers to another.
    #[must_use]
    pub fn path_items(&self, operation: View<'_>) -> Vec<View<'_>> {
        let items = self.items.get(&operation.0.place());
        items.into_iter().flatten().map(|place| self.at(*place)).collect()
    }

    /// Names of all documents that were read.
    pub fn documents(&self) -> impl Iterator<Item = &str> {
        self.set.documents.iter().map(|document| document.name.as_str())
    }

    fn at(&self, (doc, id): (u32, u32)) -> View<'_> {
        View(Node::new(&self.set, doc, id))
    }
}

fn wrong_kind(name: &str, kind: Kind) -> Problems {
    let text = format!("this is {kind}; expected OpenAPI 3.0, OpenAPI 3.1 or Swagger 2.0");
    Diagnostic::whole(Code::UnknownKind, name, text).into()
}

fn items(set: &Set) -> HashMap<(u32, u32), Vec<(u32, u32)>> {
    let mut found: HashMap<(u32, u32), Vec<(u32, u32)>> = HashMap::new();
    for (_, item) in set.root().given("paths").into_iter().flat_map(Node::entries) {
        let mut layers = vec![item];
        while let Some(reference) = layers.last().and_then(|layer| layer.given("$ref")).and_then(Node::str) {
            let last = layers[layers.len() - 1];
            match set.resolve(last.doc(), reference) {
                Ok(target) if !layers.contains(&target) => layers.push(target),
                _ => break,
            }
        }
        let places: Vec<(u32, u32)> = layers.iter().map(|layer| layer.place()).collect();
        for (_, operation) in
            layers.iter().flat_map(|layer| layer.entries()).filter(|(key, _)| key.parse::<Method>().is_ok())
        {
            found.entry(operation.place()).or_insert_with(|| places.clone());
        }
    }
    found
}

/// A value of a description, with its place. Copies are cheap.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct View<'a>(Node<'a>);

impl<'a> View<'a> {
    /// The value of `key`, where it is there and not null; none of what is no mapping.
    #[must_use]
    pub fn get(self, key: &str) -> Option<View<'a>> {
        self.0.given(key).map(View)
    }

    /// Keys and values in order; none of what is no mapping.
    pub fn entries(self) -> impl ExactSizeIterator<Item = (&'a str, View<'a>)> {
        self.0.entries().map(|(key, node)| (key, View(node)))
    }

    /// The items of a list; none of what is no list.
    pub fn items(self) -> impl ExactSizeIterator<Item = View<'a>> {
        self.0.items().map(View)
    }

    /// Whether it is a mapping.
    #[must_use]
    pub fn is_map(self) -> bool {
        self.0.is_map()
    }

    /// Whether it is a list.
    #[must_use]
    pub fn is_list(self) -> bool {
        self.0.is_list()
    }

    /// Text, but not a number or boolean.
    #[must_use]
    pub fn str(self) -> Option<&'a str> {
        self.0.str()
    }

    /// A scalar as it was written.
    #[must_use]
    pub fn text(self) -> Option<&'a str> {
        self.0.text()
    }

    /// A boolean.
    #[must_use]
    pub fn bool(self) -> Option<bool> {
        self.0.bool()
    }

    /// A number, also one in quotes.
    #[must_use]
    pub fn number(self) -> Option<Number> {
        self.0.number()
    }

    /// The whole as JSON; `None` when it has more than `limit` values.
    #[must_use]
    pub fn json(self, limit: usize) -> Option<Json> {
        self.0.json(limit)
    }

    /// What the reference `reference`, written here, means.
    ///
    /// # Errors
    /// Why it leads nowhere; references to other machines always do.
    pub fn resolve(self, reference: &str) -> Result<View<'a>, String> {
        self.0.set().resolve(self.0.doc(), reference).map(View).map_err(|(_, why)| why)
    }

    /// Document and value: the same for the same value, and for no other of the description.
    #[must_use]
    pub fn id(self) -> (u32, u32) {
        self.0.place()
    }

    /// The key under which it stands; `None` for a root or an item of a list.
    #[must_use]
    pub fn key(self) -> Option<&'a str> {
        self.0.key()
    }

    /// `file:line:column`.
    #[must_use]
    pub fn place(self) -> String {
        let told = self.0.diagnostic(Code::Invalid, "");
        format!("{}:{}:{}", told.file, told.line.unwrap_or(0), told.column.unwrap_or(0))
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
