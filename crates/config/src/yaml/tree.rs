//! A YAML document as a tree that stores where everything stands.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::Value;

use super::Environment;
use super::interpolate::interpolate;
use crate::problem::{Origin, Problem};

/// Bytes of a document: far above any configuration, far below what hurts.
const MAX_BYTES: usize = 16 << 20;
/// Nodes of a document with every alias written out, so that a few lines of aliases of aliases cannot fill the memory.
const MAX_NODES: u64 = 1_000_000;
/// Levels of nesting; the configuration itself needs seven.
const MAX_DEPTH: usize = 64;

/// Place of what was not read from a text.
const NOWHERE: (u32, u32) = (1, 1);

/// Index of a node.
pub(super) type NodeId = usize;
/// An entry of a mapping or list: its node and the place in it.
pub(super) type Slot = (NodeId, usize);

/// A document.
pub(super) struct Tree<'t> {
    nodes: Vec<Node<'t>>,
    root: NodeId,
}

/// One node.
pub(super) struct Node<'t> {
    /// Line and column, from 1.
    pub(super) place: (u32, u32),
    pub(super) content: Content<'t>,
    /// Nodes in it, itself included, aliases written out.
    weight: u64,
}

/// What a node holds.
pub(super) enum Content<'t> {
    Scalar {
        text: Cow<'t, str>,
        /// A key without a value, `~` or `null`.
        null: bool,
    },
    List(Vec<NodeId>),
    Mapping(Vec<(Key<'t>, NodeId)>),
}

/// Key of a mapping.
pub(super) struct Key<'t> {
    pub(super) text: Cow<'t, str>,
    pub(super) place: (u32, u32),
}

/// A collection that has not ended yet.
struct Open<'t> {
    id: NodeId,
    /// Key that waits for its value.
    key: Option<Key<'t>>,
    /// Keys so far, with their lines.
    seen: HashMap<Cow<'t, str>, u32>,
}

struct Builder<'t, 'e> {
    nodes: Vec<Node<'t>>,
    open: Vec<Open<'t>>,
    anchors: HashMap<usize, NodeId>,
    root: Option<NodeId>,
    environment: Environment<'e>,
    /// Variables that could not be replaced; they do not stop the building.
    problems: Vec<Problem>,
}

impl<'t> Tree<'t> {
    /// Reads a document and replaces its variables.
    pub(super) fn build(text: &'t str, environment: Environment<'_>) -> Result<Tree<'t>, Vec<Problem>> {
        let builder = Builder::read(text, environment)?;
        match builder.root {
            Some(root) => Ok(Tree { nodes: builder.nodes, root }),
            None => Err(vec![Problem::new(
                Origin::File { line: 1, column: 1 },
                "the file is empty; it needs at least `listen` and `routes`",
            )]),
        }
    }

    /// The mapping of a document, and behind it the entries of `more`, in which nothing is replaced and no place is known. Nothing if it cannot be, for
    /// whatever reason.
    pub(super) fn with_more(text: &'t str, environment: Environment<'_>, more: &'t Value) -> Option<Tree<'t>> {
        let mut builder = Builder::read(text, environment).ok()?;
        let root = match builder.root {
            Some(root) => root,
            None => builder.push(Content::Mapping(Vec::new())),
        };
        let mut added = Vec::new();
        for (key, value) in more.as_object()? {
            added.push((Key { text: Cow::Borrowed(key), place: NOWHERE }, builder.json(value)?));
        }
        let Content::Mapping(entries) = &mut builder.nodes[root].content else { return None };
        if added.iter().any(|(key, _)| entries.iter().any(|(known, _)| known.text == key.text)) {
            return None;
        }
        entries.append(&mut added);
        Some(Tree { nodes: builder.nodes, root })
    }

    pub(super) fn root(&self) -> NodeId {
        self.root
    }

    pub(super) fn node(&self, id: NodeId) -> &Node<'t> {
        &self.nodes[id]
    }

    /// The key under which an entry of a mapping stands.
    pub(super) fn key_of(&self, slot: Slot) -> Option<&str> {
        match &self.nodes[slot.0].content {
            Content::Mapping(entries) => entries.get(slot.1).map(|(key, _)| key.text.as_ref()),
            Content::List(_) | Content::Scalar { .. } => None,
        }
    }
}

impl<'t, 'e> Builder<'t, 'e> {
    fn read(text: &'t str, environment: Environment<'e>) -> Result<Self, Vec<Problem>> {
        if text.len() > MAX_BYTES {
            let message = format!("the file has more than {} MiB", MAX_BYTES >> 20);
            return Err(vec![Problem::new(Origin::Nowhere, message)]);
        }
        let mut builder = Builder {
            nodes: Vec::new(),
            open: Vec::new(),
            anchors: HashMap::new(),
            root: None,
            environment,
            problems: Vec::new(),
        };
        for event in Parser::new_from_str(text) {
            let step = match event {
                Ok((event, span)) => builder.take(event, span),
                Err(error) => Err(syntax_problem(&error, text)),
            };
            if let Err(problem) = step {
                builder.problems.push(problem);
                return Err(builder.problems);
            }
        }
        if builder.problems.is_empty() { Ok(builder) } else { Err(builder.problems) }
    }

    /// A value of JSON as nodes. Nothing if it has too many.
    fn json(&mut self, value: &'t Value) -> Option<NodeId> {
        if self.nodes.len() as u64 > MAX_NODES {
            return None;
        }
        let content = match value {
            Value::Null => Content::Scalar { text: Cow::Borrowed("null"), null: true },
            Value::Bool(true) => Content::Scalar { text: Cow::Borrowed("true"), null: false },
            Value::Bool(false) => Content::Scalar { text: Cow::Borrowed("false"), null: false },
            Value::Number(number) => Content::Scalar { text: Cow::Owned(number.to_string()), null: false },
            Value::String(text) => Content::Scalar { text: Cow::Borrowed(text), null: false },
            Value::Array(items) => Content::List(items.iter().map(|item| self.json(item)).collect::<Option<_>>()?),
            Value::Object(map) => {
                let entry = |(key, value): (&'t String, &'t Value)| {
                    Some((Key { text: Cow::Borrowed(&**key), place: NOWHERE }, self.json(value)?))
                };
                Content::Mapping(map.iter().map(entry).collect::<Option<_>>()?)
            }
        };
        Some(self.push(content))
    }

    fn push(&mut self, content: Content<'t>) -> NodeId {
        self.nodes.push(Node { place: NOWHERE, content, weight: 1 });
        self.nodes.len() - 1
    }

    fn take(&mut self, event: Event<'t>, span: Span) -> Result<(), Problem> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                no_tag(tag.as_deref(), span)?;
                if self.wants_key() {
                    return self.key(text, span);
                }
                let text = match interpolate(text, self.environment) {
                    Ok(text) => text,
                    Err(message) => {
                        self.problems.push(Problem::new(origin(span), message));
                        Cow::Borrowed("")
                    }
                };
                let null = style == ScalarStyle::Plain && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL");
                let id = self.add(Content::Scalar { text, null }, span, anchor);
                self.attach(id, span)
            }
            Event::SequenceStart(_, anchor, tag) => {
                no_tag(tag.as_deref(), span)?;
                self.begin(Content::List(Vec::new()), span, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                no_tag(tag.as_deref(), span)?;
                self.begin(Content::Mapping(Vec::new()), span, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(ended) = self.open.pop() else {
                    return Ok(());
                };
                self.attach(ended.id, span)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                _ if self.wants_key() => Err(Problem::new(origin(span), "an alias cannot be a key")),
                Some(&id) if self.open.iter().all(|open| open.id != id) => self.attach(id, span),
                _ => Err(Problem::new(origin(span), "this alias refers to itself")),
            },
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(Problem::new(origin(span), "a second document begins here; a configuration is one document"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the next node is a key of the innermost mapping.
    fn wants_key(&self) -> bool {
        self.open
            .last()
            .is_some_and(|open| open.key.is_none() && matches!(self.nodes[open.id].content, Content::Mapping(_)))
    }

    fn key(&mut self, text: Cow<'t, str>, span: Span) -> Result<(), Problem> {
        let Some(open) = self.open.last_mut() else {
            return Ok(());
        };
        if let Some(line) = open.seen.insert(text.clone(), place(span).0) {
            let message = format!("the key `{text}` is given twice; line {line} has the first");
            return Err(Problem::new(origin(span), message));
        }
        open.key = Some(Key { text, place: place(span) });
        Ok(())
    }

    fn add(&mut self, content: Content<'t>, span: Span, anchor: usize) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node { place: place(span), content, weight: 1 });
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        id
    }

    fn begin(&mut self, content: Content<'t>, span: Span, anchor: usize) -> Result<(), Problem> {
        if self.wants_key() {
            return Err(Problem::new(origin(span), "a key has to be a word, not a list or mapping"));
        }
        if self.open.len() >= MAX_DEPTH {
            let message = format!("nested more than {MAX_DEPTH} levels deep");
            return Err(Problem::new(origin(span), message));
        }
        let id = self.add(content, span, anchor);
        self.open.push(Open { id, key: None, seen: HashMap::new() });
        Ok(())
    }

    /// Puts a finished node where it belongs.
    fn attach(&mut self, id: NodeId, span: Span) -> Result<(), Problem> {
        let weight = self.nodes[id].weight;
        let Some(open) = self.open.last_mut() else {
            self.root = Some(id);
            return Ok(());
        };
        let parent = &mut self.nodes[open.id];
        parent.weight = parent.weight.saturating_add(weight);
        if parent.weight > MAX_NODES {
            let message = format!("more than {MAX_NODES} values, with aliases expanded");
            return Err(Problem::new(origin(span), message));
        }
        match (&mut parent.content, open.key.take()) {
            (Content::List(items), _) => items.push(id),
            (Content::Mapping(entries), Some(key)) => entries.push((key, id)),
            (Content::Mapping(_) | Content::Scalar { .. }, _) => {}
        }
        Ok(())
    }
}

/// Tags would give types of their own; here the configuration knows every type.
fn no_tag(tag: Option<&Tag>, span: Span) -> Result<(), Problem> {
    match tag {
        None => Ok(()),
        Some(tag) => Err(Problem::new(
            origin(span.tag_span().unwrap_or(span)),
            format!("tags such as `{}` have no meaning here; leave it out", tag.original()),
        )),
    }
}

fn place(span: Span) -> (u32, u32) {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    (count(span.start.line()), count(span.start.col()).saturating_add(1))
}

fn origin(span: Span) -> Origin {
    let (line, column) = place(span);
    Origin::File { line, column }
}

fn syntax_problem(error: &ScanError, text: &str) -> Problem {
    let marker = error.marker();
    let mut message = format!("not valid YAML: {}", error.info());
    let line = text.lines().nth(marker.line().saturating_sub(1)).unwrap_or("");
    if line.contains("${") {
        message.push_str("; inside `[ ]` or `{ }` a value with `${...}` has to be quoted");
    }
    Problem::new(origin(Span::empty(*marker)), message)
}
