//! A value seen through everything that RAML merges into it: a method over its traits over its resource type's method,
//! each with the arguments that it was applied with. Nothing is copied: a [`View`] is a stack of nodes.
//!
//! RAML 1.0, "Resource Types and Traits": the value nearest to the resource wins, mappings are merged key by key.

use super::words;
use crate::diagnostic::{Code, Diagnostic};
use crate::tree::Node;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// Arguments of a resource type or trait, for its `<<parameters>>`.
pub(super) type Args<'a> = Rc<BTreeMap<String, Arg<'a>>>;

/// One argument.
#[derive(Clone, Debug)]
pub(super) enum Arg<'a> {
    Node(Node<'a>),
    Text(String),
}

/// One value of the stack.
#[derive(Clone, Debug)]
pub(super) struct Layer<'a> {
    pub(super) node: Node<'a>,
    pub(super) args: Option<Args<'a>>,
}

impl PartialEq for Layer<'_> {
    fn eq(&self, other: &Self) -> bool {
        let args = |l: &Layer<'_>| l.args.as_ref().map_or(0, |a| Rc::as_ptr(a).addr());
        self.node == other.node && args(self) == args(other)
    }
}
impl Eq for Layer<'_> {}
impl Hash for Layer<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.node.hash(state);
    }
}

impl<'a> Layer<'a> {
    /// `text` of this layer with its parameters replaced.
    fn fill(&self, text: &'a str) -> Cow<'a, str> {
        match &self.args {
            Some(args) if text.contains("<<") => Cow::Owned(fill(text, args)),
            _ => Cow::Borrowed(text),
        }
    }

    /// A child of this layer: a child that is one parameter and nothing else is replaced by the argument, whatever it is.
    fn child(&self, node: Node<'a>) -> Layer<'a> {
        if let Some(args) = &self.args
            && let Some(name) = node.str().and_then(|t| t.trim().strip_prefix("<<")).and_then(|t| t.strip_suffix(">>"))
            && let Some(Arg::Node(value)) = args.get(name.trim())
        {
            return Layer { node: *value, args: None };
        }
        Layer { node, args: self.args.clone() }
    }
}

/// A merged value. There is always at least one layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View<'a> {
    pub(super) layers: Vec<Layer<'a>>,
}

impl<'a> View<'a> {
    pub(super) fn of(node: Node<'a>) -> Self {
        View { layers: vec![Layer { node, args: None }] }
    }

    /// The value nearest to the resource.
    pub(super) fn node(&self) -> Node<'a> {
        self.layers[0].node
    }

    pub(super) fn diagnostic(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        self.node().diagnostic(code, message)
    }

    /// The layer that decides when this is a scalar or list: the first that says anything.
    fn first(&self) -> &Layer<'a> {
        self.layers.iter().find(|l| !l.node.is_null()).unwrap_or(&self.layers[0])
    }

    pub(super) fn is_map(&self) -> bool {
        self.first().node.is_map()
    }

    pub(super) fn is_null(&self) -> bool {
        self.first().node.is_null()
    }

    pub(super) fn is_list(&self) -> bool {
        self.first().node.is_list()
    }

    pub(super) fn what(&self) -> &'static str {
        self.first().node.what()
    }

    /// Keys and values of the merged mapping, nearest first. An optional method (`get?`) of a resource type counts only
    /// where a nearer layer has it too, and is given out without its mark; other keys keep their marks.
    pub(super) fn entries(&self) -> Vec<(Cow<'a, str>, View<'a>)> {
        let mut found: Vec<(Cow<'a, str>, View<'a>)> = Vec::new();
        let mut at: std::collections::HashMap<Cow<'a, str>, usize> = std::collections::HashMap::new();
        for layer in self.layers.iter().skip_while(|l| l.node.is_null()) {
            if !layer.node.is_map() {
                if found.is_empty() && !layer.node.is_null() {
                    break;
                }
                continue;
            }
            for (key, node) in layer.node.entries() {
                let mut key = layer.fill(key);
                let mut optional = false;
                if layer.args.is_some() && key.strip_suffix('?').is_some_and(super::is_method) {
                    key.to_mut().pop();
                    optional = true;
                }
                let child = layer.child(node);
                match at.get(&key) {
                    Some(&i) => {
                        let view = &mut found[i].1;
                        if view.layers.iter().all(|l| l.node.is_map() || l.node.is_null()) {
                            view.layers.push(child);
                        }
                    }
                    None if optional => {}
                    None => {
                        at.insert(key.clone(), found.len());
                        found.push((key, View { layers: vec![child] }));
                    }
                }
            }
        }
        found
    }

    /// The value of `key`.
    pub(super) fn get(&self, key: &str) -> Option<View<'a>> {
        if self.layers.iter().all(|l| l.args.is_none()) {
            // without parameters keys are what they are
            let mut layers = Vec::new();
            for layer in self.layers.iter().skip_while(|l| l.node.is_null()) {
                if layers.iter().any(|l: &Layer<'_>| !l.node.is_map() && !l.node.is_null()) {
                    break;
                }
                layers.extend(layer.node.get(key).map(|node| layer.child(node)));
            }
            return (!layers.is_empty()).then_some(View { layers });
        }
        self.entries().into_iter().find(|(k, _)| k == key).map(|(_, view)| view)
    }

    /// The value of `key` where it is not null.
    pub(super) fn given(&self, key: &str) -> Option<View<'a>> {
        self.get(key).filter(|v| !v.is_null())
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Vec<View<'a>> {
        let first = self.first();
        first.node.items().map(|node| View { layers: vec![first.child(node)] }).collect()
    }

    /// A scalar as text.
    pub(super) fn text(&self) -> Option<Cow<'a, str>> {
        let first = self.first();
        first.node.text().map(|text| first.fill(text))
    }

    pub(super) fn bool(&self) -> Option<bool> {
        match &*self.text()? {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<serde_json::Number> {
        self.text().and_then(|t| crate::tree::parse::number(&t))
    }

    /// The whole as JSON, of the first layer that says anything.
    pub(super) fn json(&self, limit: usize) -> Option<Json> {
        let first = self.first();
        let mut json = first.node.json(limit)?;
        if let Some(args) = &first.args {
            fill_json(&mut json, args);
        }
        Some(json)
    }
}

fn fill_json(json: &mut Json, args: &Args<'_>) {
    match json {
        Json::String(text) if text.contains("<<") => *text = fill(text, args),
        Json::Array(items) => items.iter_mut().for_each(|item| fill_json(item, args)),
        Json::Object(map) => map.values_mut().for_each(|value| fill_json(value, args)),
        _ => {}
    }
}

/// Replaces `<<name>>` and `<<name | !function>>`; a parameter without argument stays as it is written.
pub(super) fn fill(text: &str, args: &BTreeMap<String, Arg<'_>>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("<<") {
        let Some(end) = rest[start..].find(">>").map(|e| start + e) else {
            break;
        };
        out.push_str(&rest[..start]);
        let mut parts = rest[start + 2..end].split('|').map(str::trim);
        let value = match args.get(parts.next().unwrap_or("")) {
            Some(Arg::Text(text)) => Some(text.clone()),
            Some(Arg::Node(node)) => node.text().map(str::to_owned),
            None => None,
        };
        match value {
            Some(value) => {
                out.push_str(&parts.fold(value, |value, function| words::apply(function, &value)));
            }
            None => out.push_str(&rest[start..end + 2]),
        }
        rest = &rest[end + 2..];
    }
    out.push_str(rest);
    out
}
