//! Reads a document and everything that it refers to, transitively, before any of it is interpreted: what follows
//! then works on an immutable [`Set`] and does no input or output.
//!
//! A file that is named but cannot be read is an error only where something needs it: a `$ref` in an example is data.

use super::{Document, Node, Value, parse};
use crate::diagnostic::{Code, Diagnostic, Problems, Report};
use crate::source::{Limits, Source, is_remote, join, percent_decode};
use std::collections::HashMap;

/// All documents that belong to one description; the first is the one that was requested.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) documents: Vec<Document>,
    by_name: HashMap<String, Result<u32, Diagnostic>>,
    /// `$id` and `$anchor` of JSON Schema 2020-12: places that a reference may name other than by pointer.
    ids: HashMap<String, (u32, u32)>,
    anchors: HashMap<(u32, String), u32>,
    /// JSON that stands as text in RAML, by the value that holds it.
    embedded: HashMap<(u32, u32), u32>,
}

impl Set {
    /// Parses `bytes` as the document `name` and loads what it refers to from `source`.
    pub(crate) fn load(
        source: &dyn Source,
        name: &str,
        bytes: &[u8],
        limits: &Limits,
        report: &mut Report,
    ) -> Result<Self, Problems> {
        let main = parse::parse(name, bytes, limits).map_err(|errors| Problems { errors, warnings: Vec::new() })?;
        let mut set = Set {
            documents: vec![main],
            by_name: HashMap::new(),
            ids: HashMap::new(),
            anchors: HashMap::new(),
            embedded: HashMap::new(),
        };
        set.by_name.insert(name.to_owned(), Ok(0));
        let mut total = bytes.len();
        let mut next = 0;
        while next < set.documents.len() {
            for wanted in set.wanted(next as u32) {
                if set.by_name.contains_key(&wanted) {
                    continue;
                }
                if set.documents.len() >= limits.documents {
                    let text = format!("the description refers to more than {} files", limits.documents);
                    return Err(Diagnostic::whole(Code::TooLarge, name, text).into());
                }
                let found = set.fetch(source, &wanted, limits, &mut total);
                if let Err(Diagnostic { code: Code::TooLarge, .. }) = &found {
                    return Err(found.expect_err("just seen").into());
                }
                set.by_name.insert(wanted, found);
            }
            next += 1;
        }
        if bytes.starts_with(b"#%RAML") || bytes.starts_with(b"\xEF\xBB\xBF#%RAML") {
            set.embed(limits);
        }
        set.index_ids();
        set.check_includes(limits, report)?;
        for document in &set.documents {
            for (line, column, text) in &document.remarks {
                report.warn(Diagnostic::at_line(Code::PassedOver, &document.name, *line, Some(*column), text.clone()));
            }
        }
        Ok(set)
    }

    fn fetch(
        &mut self,
        source: &dyn Source,
        name: &str,
        limits: &Limits,
        total: &mut usize,
    ) -> Result<u32, Diagnostic> {
        let bytes = read(source, name, limits)?;
        *total += bytes.len();
        if *total > limits.total_bytes {
            let text = format!("the files of the description together are larger than {} bytes", limits.total_bytes);
            return Err(Diagnostic::whole(Code::TooLarge, name, text));
        }
        let is_tree = [".yaml", ".yml", ".json", ".raml"].iter().any(|end| name.to_ascii_lowercase().ends_with(end))
            || bytes.starts_with(b"#%RAML");
        let parsed = if is_tree { parse::parse(name, &bytes, limits) } else { parse::plain(name, &bytes) };
        self.documents.push(parsed.map_err(|mut errors| errors.swap_remove(0))?);
        Ok(self.documents.len() as u32 - 1)
    }

    /// Names of the documents that document `doc` refers to, in its order.
    fn wanted(&self, doc: u32) -> Vec<String> {
        let document = &self.documents[doc as usize];
        let mut names = Vec::new();
        for slot in &document.values {
            match &slot.value {
                Value::Include(path) if !is_remote(path) => names.push(join(&document.name, path)),
                Value::Map(map) => {
                    let text = |key: &str| match map
                        .position(key)
                        .map(|i| &document.values[map.entries[i].value as usize].value)
                    {
                        Some(Value::String(text)) => Some(text),
                        _ => None,
                    };
                    for key in ["$ref", "extends"] {
                        if let Some(file) = text(key).and_then(|reference| file_part(reference)) {
                            names.push(join(&document.name, &file));
                        }
                    }
                    if let Some(uses) = map.position("uses")
                        && let Value::Map(uses) = &document.values[map.entries[uses].value as usize].value
                    {
                        let paths =
                            uses.entries.iter().filter_map(|e| match &document.values[e.value as usize].value {
                                Value::String(path) if !is_remote(path) => Some(join(&document.name, path)),
                                _ => None,
                            });
                        names.extend(paths);
                    }
                }
                _ => {}
            }
        }
        names
    }

    /// Parses text that begins as a JSON object does, as RAML's inline schemas do. What is not JSON stays text.
    fn embed(&mut self, limits: &Limits) {
        for doc in 0..self.documents.len() {
            let candidates: Vec<(u32, Box<str>)> = self.documents[doc]
                .values
                .iter()
                .enumerate()
                .filter_map(|(id, slot)| match &slot.value {
                    Value::String(text) if text.trim_start().starts_with('{') => Some((id as u32, text.clone())),
                    _ => None,
                })
                .collect();
            for (id, text) in candidates {
                if self.documents.len() >= 10 * limits.documents {
                    return;
                }
                let name = format!(
                    "{}:{} (text).json",
                    self.documents[doc].name, self.documents[doc].values[id as usize].line
                );
                if let Ok(parsed) = parse::parse(&name, text.as_bytes(), limits) {
                    self.embedded.insert((doc as u32, id), self.documents.len() as u32);
                    self.documents.push(parsed);
                }
            }
        }
    }

    /// The JSON that the text `node` holds, when it holds some.
    pub(crate) fn embedded<'a>(&'a self, node: Node<'a>) -> Option<Node<'a>> {
        let doc = *self.embedded.get(&(node.doc, node.id))?;
        Some(Node::new(self, doc, self.documents[doc as usize].root))
    }

    fn index_ids(&mut self) {
        for (doc, document) in self.documents.iter().enumerate() {
            for (id, slot) in document.values.iter().enumerate() {
                let Value::Map(map) = &slot.value else {
                    continue;
                };
                let text = |key: &str| match map
                    .position(key)
                    .map(|i| &document.values[map.entries[i].value as usize].value)
                {
                    Some(Value::String(text)) => Some(text.to_string()),
                    _ => None,
                };
                if let Some(name) = text("$id") {
                    self.ids.entry(name.trim_end_matches('#').to_owned()).or_insert((doc as u32, id as u32));
                }
                for key in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = text(key) {
                        self.anchors.entry((doc as u32, name)).or_insert(id as u32);
                    }
                }
            }
        }
    }

    /// An include that leads nowhere is an error, as RAML has no place where it could be data; includes that include
    /// each other would never end, and includes that multiply are held to the limits as aliases are.
    fn check_includes(&self, limits: &Limits, report: &mut Report) -> Result<(), Problems> {
        let mut edges: Vec<Vec<u32>> = Vec::with_capacity(self.documents.len());
        for (doc, document) in self.documents.iter().enumerate() {
            let mut out = Vec::new();
            for (id, slot) in document.values.iter().enumerate() {
                let Value::Include(path) = &slot.value else {
                    continue;
                };
                let at = Node { set: self, doc: doc as u32, id: id as u32 };
                match self.included(doc as u32, path) {
                    Some(target) => out.push(target),
                    None if is_remote(path) => {
                        report.error(at.diagnostic(Code::RemoteReference, remote(path)));
                    }
                    None => report.error(at.diagnostic(Code::BadReference, self.why_not(doc as u32, path))),
                }
            }
            edges.push(out);
        }
        // depth-first, children before parents
        let mut sizes: Vec<Option<super::Size>> = vec![None; edges.len()];
        let mut stack: Vec<(u32, usize)> = Vec::new();
        let mut on_stack = vec![false; edges.len()];
        for start in 0..edges.len() as u32 {
            if sizes[start as usize].is_some() {
                continue;
            }
            stack.push((start, 0));
            on_stack[start as usize] = true;
            while let Some((doc, next)) = stack.last_mut() {
                let here = *doc as usize;
                if let Some(&child) = edges[here].get(*next) {
                    *next += 1;
                    let c = child as usize;
                    if on_stack[c] {
                        let text = format!("the file includes '{}', which includes it again", self.documents[c].name);
                        return Err(Diagnostic::whole(Code::BadReference, &self.documents[here].name, text).into());
                    }
                    if sizes[c].is_none() {
                        on_stack[c] = true;
                        stack.push((child, 0));
                    }
                } else {
                    let mut size = self.documents[here].size;
                    let mut deepest = 0;
                    for &child in &edges[here] {
                        let child = sizes[child as usize].expect("children come first");
                        size.values = size.values.saturating_add(child.values);
                        deepest = deepest.max(child.height);
                    }
                    size.height = size.height.saturating_add(deepest);
                    if size.values > limits.values || size.height as usize > 2 * limits.depth {
                        let text = "its includes expand to more values, or nest deeper, than is read";
                        return Err(Diagnostic::whole(Code::TooLarge, &self.documents[here].name, text).into());
                    }
                    sizes[here] = Some(size);
                    on_stack[here] = false;
                    stack.pop();
                }
            }
        }
        Ok(())
    }

    /// Root of the document that was requested.
    pub(crate) fn root(&self) -> Node<'_> {
        Node::new(self, 0, self.documents[0].root)
    }

    /// The document that `path`, written in document `doc`, means, when it could be read.
    pub(crate) fn included(&self, doc: u32, path: &str) -> Option<u32> {
        let name = join(&self.documents[doc as usize].name, path);
        self.by_name.get(&name)?.as_ref().ok().copied()
    }

    /// Root of the document that `path`, written in document `doc`, means.
    pub(crate) fn file(&self, doc: u32, path: &str) -> Result<Node<'_>, (Code, String)> {
        if is_remote(path) {
            return Err((Code::RemoteReference, remote(path)));
        }
        match self.included(doc, path) {
            Some(target) => Ok(Node::new(self, target, self.documents[target as usize].root)),
            None => Err((Code::BadReference, self.why_not(doc, path))),
        }
    }

    fn why_not(&self, doc: u32, path: &str) -> String {
        let name = join(&self.documents[doc as usize].name, path);
        match self.by_name.get(&name) {
            Some(Err(why)) => format!("'{path}' cannot be read: {why}"),
            _ => format!("'{path}' names no file"),
        }
    }

    /// The value that the `$ref` `reference`, written in document `doc`, means.
    pub(crate) fn resolve(&self, doc: u32, reference: &str) -> Result<Node<'_>, (Code, String)> {
        if let Some(&(doc, id)) = self.ids.get(reference.trim_end_matches('#')) {
            return Ok(Node::new(self, doc, id));
        }
        let (file, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let root = match file {
            "" => Node::new(self, doc, self.documents[doc as usize].root),
            file => match self.ids.get(file) {
                Some(&(doc, id)) => Node::new(self, doc, id),
                None => self.file(doc, &percent_decode(file))?,
            },
        };
        if fragment.is_empty() {
            return Ok(root);
        }
        let fragment = percent_decode(fragment);
        let Some(steps) = fragment.strip_prefix('/') else {
            return match self.anchors.get(&(root.doc(), fragment.clone())) {
                Some(&id) => Ok(Node::new(self, root.doc(), id)),
                None => Err((
                    Code::BadReference,
                    format!("'{reference}' leads nowhere: no schema has the anchor '{fragment}'"),
                )),
            };
        };
        let mut node = root;
        for step in steps.split('/') {
            let key = step.replace("~1", "/").replace("~0", "~");
            let next = if node.is_list() {
                key.parse::<usize>().ok().and_then(|i| node.items().nth(i))
            } else {
                node.get(&key)
            };
            node = next.ok_or_else(|| {
                let place = if node.file() == root.file() && file.is_empty() {
                    node.pointer()
                } else {
                    format!("{} {}", node.file(), node.pointer())
                };
                (Code::BadReference, format!("'{reference}' leads nowhere: there is no '{key}' in {place}"))
            })?;
        }
        Ok(node)
    }
}

/// Bytes of `name`, held to the limit.
pub(crate) fn read(source: &dyn Source, name: &str, limits: &Limits) -> Result<Vec<u8>, Diagnostic> {
    let bytes = source
        .read(name, limits.document_bytes)
        .map_err(|e| Diagnostic::whole(Code::Unreadable, name, format!("the file cannot be read: {e}")))?;
    if bytes.len() > limits.document_bytes {
        let text = format!("the file is larger than {} bytes", limits.document_bytes);
        return Err(Diagnostic::whole(Code::TooLarge, name, text));
    }
    Ok(bytes)
}

fn remote(reference: &str) -> String {
    format!(
        "'{reference}' is remote, and nothing is fetched from a network; save it beside the description and refer to the file"
    )
}

/// The local file that a reference names; `None` for a fragment only and for what is remote.
fn file_part(reference: &str) -> Option<String> {
    let file = reference.split('#').next().unwrap_or("");
    (!file.is_empty() && !is_remote(file) && !file.contains('\n') && file.len() < 1024).then(|| percent_decode(file))
}
