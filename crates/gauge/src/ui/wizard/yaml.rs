//! A YAML document as a tree whose scalars stay as they were written: `1.50` does not become `1.5`, and a quoted number stays a text. So an evaluation
//! that is written from the tree has the same commands and variables as the one that was read.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle};

/// Nodes of a document, with aliases written out.
const NODES: usize = 100_000;
/// Levels of nesting.
const DEPTH: usize = 64;

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// A scalar without quotes: a text, a number, or a word such as `true`.
    Plain(String),
    /// A scalar that is a text.
    Text(String),
    List(Vec<Node>),
    /// Keys are scalars.
    Map(Vec<(Node, Node)>),
}

impl Node {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Node::Plain(text.into())
    }

    pub(super) fn map<const N: usize>(entries: [(&str, Node); N]) -> Self {
        Node::Map(entries.into_iter().map(|(key, value)| (Node::plain(key), value)).collect())
    }

    /// A scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Node::Plain(text) | Node::Text(text) => Some(text),
            Node::List(_) | Node::Map(_) => None,
        }
    }

    fn entries(&self) -> &[(Node, Node)] {
        if let Node::Map(entries) = self { entries } else { &[] }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(known, _)| known.text() == Some(key)).map(|(_, value)| value)
    }

    /// The list of a key.
    pub(super) fn list_mut(&mut self, key: &str) -> Option<&mut Vec<Node>> {
        let Node::Map(entries) = self else { return None };
        match entries.iter_mut().find(|(known, _)| known.text() == Some(key)) {
            Some((_, Node::List(items))) => Some(items),
            _ => None,
        }
    }

    /// Gives a key of a mapping another value, in the same place where it is there.
    pub(super) fn set(&mut self, key: &str, value: Node) {
        let Node::Map(entries) = self else { return };
        match entries.iter_mut().find(|(known, _)| known.text() == Some(key)) {
            Some((_, old)) => *old = value,
            None => entries.push((Node::plain(key), value)),
        }
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Node::Map(entries) = self {
            entries.retain(|(known, _)| known.text() != Some(key));
        }
    }

    /// Nodes in it, itself included.
    fn weight(&self) -> usize {
        1 + match self {
            Node::Plain(_) | Node::Text(_) => 0,
            Node::List(items) => items.iter().map(Node::weight).sum(),
            Node::Map(entries) => entries.iter().map(|(_, value)| 1 + value.weight()).sum(),
        }
    }

    /// The document of this mapping.
    pub(super) fn document(&self) -> String {
        let mut out = String::new();
        write_entries(&mut out, self.entries(), 0, "");
        out
    }
}

fn write_entries(out: &mut String, entries: &[(Node, Node)], indent: usize, first: &str) {
    for (index, (key, value)) in entries.iter().enumerate() {
        let pad = if index == 0 { first.to_owned() } else { " ".repeat(indent) };
        out.push_str(&pad);
        out.push_str(&scalar(key));
        out.push(':');
        write_value(out, value, indent + 2);
    }
}

/// What is behind a key.
fn write_value(out: &mut String, value: &Node, indent: usize) {
    match value {
        Node::Map(entries) if !entries.is_empty() => {
            out.push('\n');
            write_entries(out, entries, indent, &" ".repeat(indent));
        }
        Node::List(items) if items.iter().any(|item| item.text().is_none()) => {
            out.push('\n');
            write_items(out, items, indent);
        }
        short => {
            out.push(' ');
            out.push_str(&flow(short));
            out.push('\n');
        }
    }
}

fn write_items(out: &mut String, items: &[Node], indent: usize) {
    let dash = format!("{}- ", " ".repeat(indent));
    for item in items {
        match item {
            Node::Map(entries) if !entries.is_empty() => write_entries(out, entries, indent + 2, &dash),
            item => {
                out.push_str(&dash);
                out.push_str(&flow(item));
                out.push('\n');
            }
        }
    }
}

/// On one line.
fn flow(node: &Node) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match node {
        Node::Plain(_) | Node::Text(_) => scalar(node),
        Node::List(items) => format!("[{}]", list(items.iter().map(flow).collect())),
        Node::Map(entries) => {
            let entry = |(key, value): &(Node, Node)| format!("{}: {}", scalar(key), flow(value));
            format!("{{{}}}", list(entries.iter().map(entry).collect()))
        }
    }
}

/// A scalar. Numbers, truth values and null have none but these characters, so whatever has others is a text, and a JSON text is one of YAML too. Where
/// that is possible a text has no escapes, so that a secret in it is recognised.
fn scalar(node: &Node) -> String {
    let is_safe = |text: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || "_./+-=~".contains(c);
        !text.is_empty() && text.chars().all(known) && !text.chars().all(|c| c == '-' || c == '.')
    };
    let has_escapes = |text: &str| text.contains(['"', '\\']);
    match node {
        Node::Plain(text) if is_safe(text) => text.clone(),
        Node::Plain(text) | Node::Text(text)
            if has_escapes(text) && !text.contains(|c: char| c == '\'' || c.is_control()) =>
        {
            format!("'{text}'")
        }
        other => serde_json::Value::from(other.text().unwrap_or_default()).to_string(),
    }
}

/// A list or a mapping that has not ended. Of a mapping, keys and values alternate.
struct Open {
    is_map: bool,
    anchor: usize,
    nodes: Vec<Node>,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
}

/// Reads the first document of a text.
pub(super) fn read(text: &str) -> Result<Node, String> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        builder.take(event).map_err(|why| format!("line {}: {why}", span.start.line()))?;
    }
    builder.root.ok_or_else(|| "it is empty".to_owned())
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        const TAG: &str = "a tag, which cannot be kept; leave it out";
        match event {
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, _, Some(_))
            | Event::MappingStart(_, _, Some(_)) => Err(TAG.to_owned()),
            Event::Scalar(text, ScalarStyle::Plain, anchor, None) => {
                self.attach(Node::Plain(text.into_owned()), anchor)
            }
            Event::Scalar(text, _, anchor, None) => self.attach(Node::Text(text.into_owned()), anchor),
            Event::SequenceStart(_, anchor, None) => self.begin(false, anchor),
            Event::MappingStart(_, anchor, None) => self.begin(true, anchor),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let node = if open.is_map { mapping(open.nodes)? } else { Node::List(open.nodes) };
                // Its parts have been counted.
                self.anchors.extend((open.anchor != 0).then(|| (open.anchor, node.clone())));
                self.place(node)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                self.attach(node.ok_or("an alias inside of what it names")?, 0)
            }
            Event::DocumentStart(..) if self.root.is_some() => Err("a second document".to_owned()),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, is_map: bool, anchor: usize) -> Result<(), String> {
        if self.open.len() == DEPTH {
            return Err(format!("more than {DEPTH} levels"));
        }
        self.open.push(Open { is_map, anchor, nodes: Vec::new() });
        Ok(())
    }

    fn attach(&mut self, node: Node, anchor: usize) -> Result<(), String> {
        self.nodes = self.nodes.saturating_add(node.weight());
        if self.nodes > NODES {
            return Err(format!("more than {NODES} values"));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node)
    }

    fn place(&mut self, node: Node) -> Result<(), String> {
        match self.open.last_mut() {
            Some(open) => open.nodes.push(node),
            None => self.root = Some(node),
        }
        Ok(())
    }
}

/// A mapping of keys and values in turn; what `<<` names is written out, and loses to keys that are there.
fn mapping(nodes: Vec<Node>) -> Result<Node, String> {
    let mut own: Vec<(Node, Node)> = Vec::new();
    let mut merged = Vec::new();
    let mut nodes = nodes.into_iter();
    while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
        match (key, value) {
            (Node::Plain(key), Node::List(maps)) if key == "<<" => merged.extend(maps),
            (Node::Plain(key), map) if key == "<<" => merged.push(map),
            (Node::List(_) | Node::Map(_), _) => return Err("a key that is not a scalar".to_owned()),
            entry => own.push(entry),
        }
    }
    for map in merged {
        let Node::Map(entries) = map else { return Err("`<<` names no mapping".to_owned()) };
        for (key, value) in entries {
            if !own.iter().any(|(known, _)| known.text() == key.text()) {
                own.push((key, value));
            }
        }
    }
    Ok(Node::Map(own))
}

#[cfg(test)]
mod tests;
