//! Puts a [`Document`] together from scalars, lists and mappings as they come, within limits.

use super::parse::short;
use super::{Document, Entry, Id, Size, Slot, Value};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Limits;
use std::collections::HashMap;

/// A place in the text: line and column, counted from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextPosition {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// An open list or mapping.
struct Open {
    id: Id,
    anchor: usize,
    /// The key that waits for its value.
    key: Option<Key>,
    /// Values of `<<`, applied when the mapping closes, as its own keys win wherever they stand.
    merges: Vec<Id>,
}

struct Key {
    text: Box<str>,
    at: TextPosition,
    merge: bool,
}

pub(super) struct Builder<'l> {
    name: String,
    limits: &'l Limits,
    values: Vec<Slot>,
    /// Beside `values`: how much each stands for with aliases expanded.
    sizes: Vec<Size>,
    open: Vec<Open>,
    anchors: HashMap<usize, Id>,
    root: Option<Id>,
    faults: Vec<Diagnostic>,
    remarks: Vec<(u32, u32, String)>,
}

impl<'l> Builder<'l> {
    pub(super) fn new(name: &str, limits: &'l Limits) -> Self {
        Self {
            name: name.to_owned(),
            limits,
            values: Vec::new(),
            sizes: Vec::new(),
            open: Vec::new(),
            anchors: HashMap::new(),
            root: None,
            faults: Vec::new(),
            remarks: Vec::new(),
        }
    }

    pub(super) fn fault(&self, code: Code, at: TextPosition, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at_line(code, &self.name, at.line, Some(at.column), message)
    }

    fn is_map(&self, id: Id) -> bool {
        matches!(self.values[id as usize].value, Value::Map(_))
    }

    fn add(&mut self, value: Value, at: TextPosition) -> Result<Id, Diagnostic> {
        if self.values.len() as u64 >= self.limits.values.min(u64::from(Id::MAX - 1)) {
            return Err(self.fault(
                Code::TooLarge,
                at,
                format!("the document holds more than {} values", self.limits.values),
            ));
        }
        self.values.push(Slot { value, line: at.line, column: at.column, parent: Id::MAX, nth: 0 });
        self.sizes.push(Size { values: 1, height: 1 });
        Ok(self.values.len() as Id - 1)
    }

    fn anchor(&mut self, anchor: usize, id: Id) {
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
    }

    /// Takes the key of the next value of the open mapping.
    pub(super) fn key(&mut self, text: &str, merge: bool, at: TextPosition) {
        if let Some(open) = self.open.last_mut() {
            open.key = Some(Key { text: text.into(), at, merge });
        }
    }

    /// Takes a scalar.
    pub(super) fn scalar(&mut self, value: Value, anchor: usize, at: TextPosition) -> Result<(), Diagnostic> {
        let id = self.add(value, at)?;
        self.anchor(anchor, id);
        self.place_value(id, at)
    }

    /// Keeps a value that stands nowhere but may be referred to: an anchored key.
    pub(super) fn aside(&mut self, value: Value, anchor: usize, at: TextPosition) -> Result<(), Diagnostic> {
        let id = self.add(value, at)?;
        self.anchor(anchor, id);
        Ok(())
    }

    /// Takes the value that was anchored as `anchor`.
    pub(super) fn alias(&mut self, anchor: usize, at: TextPosition) -> Result<(), Diagnostic> {
        match self.anchors.get(&anchor) {
            Some(&id) => self.place_value(id, at),
            None => Err(self.fault(Code::Syntax, at, "the alias stands inside of its own anchor and would never end")),
        }
    }

    /// Whether the next scalar is a key.
    pub(super) fn wants_key(&self) -> bool {
        self.open.last().is_some_and(|o| self.is_map(o.id) && o.key.is_none())
    }

    /// Whether the root is there already.
    pub(super) fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// How deep values may be nested.
    pub(super) fn depth_limit(&self) -> usize {
        self.limits.depth
    }

    /// Notes something that is passed over.
    pub(super) fn remark(&mut self, at: TextPosition, text: String) {
        self.remarks.push((at.line, at.column, text));
    }

    /// Ends with an error after which nothing can be read.
    pub(super) fn fatal(mut self, error: Diagnostic) -> Result<Document, Vec<Diagnostic>> {
        self.faults.push(error);
        Err(self.faults)
    }

    /// Opens a list or mapping: an empty one, as `value`.
    pub(super) fn begin(&mut self, value: Value, anchor: usize, at: TextPosition) -> Result<(), Diagnostic> {
        if self.wants_key() {
            return Err(self.fault(Code::Syntax, at, "a key must be text, not a list or a mapping"));
        }
        if self.open.len() >= self.limits.depth {
            return Err(self.fault(
                Code::TooLarge,
                at,
                format!("values are nested more than {} deep", self.limits.depth),
            ));
        }
        let id = self.add(value, at)?;
        self.open.push(Open { id, anchor, key: None, merges: Vec::new() });
        Ok(())
    }

    /// Closes what was opened last.
    pub(super) fn end(&mut self, at: TextPosition) -> Result<(), Diagnostic> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        for merge in &open.merges {
            self.merge(open.id, *merge, at)?;
        }
        // only now, so that an alias inside of its own anchor finds nothing
        self.anchor(open.anchor, open.id);
        self.place_value(open.id, at)
    }

    /// Puts a finished value into the list or mapping that is open, or makes it the root.
    fn place_value(&mut self, id: Id, at: TextPosition) -> Result<(), Diagnostic> {
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(id);
            return Ok(());
        };
        let container = open.id;
        let key = open.key.take();
        if let Some(Key { merge: true, .. }) = key {
            open.merges.push(id);
            return Ok(());
        }
        self.attach(container, key, id, at)
    }

    fn attach(&mut self, container: Id, key: Option<Key>, id: Id, at: TextPosition) -> Result<(), Diagnostic> {
        let size = self.sizes[container as usize].with(self.sizes[id as usize]);
        if size.values > self.limits.values {
            let text = format!("aliases expand to more than {} values", self.limits.values);
            return Err(self.fault(Code::TooLarge, at, text));
        }
        if size.height as usize > self.limits.depth {
            let text = format!("values are nested more than {} deep when aliases are followed", self.limits.depth);
            return Err(self.fault(Code::TooLarge, at, text));
        }
        let nth = match &mut self.values[container as usize].value {
            Value::List(items) => {
                items.push(id);
                items.len() - 1
            }
            Value::Map(map) => {
                let Some(key) = key else { return Ok(()) };
                if let Some(first) = map.position(&key.text) {
                    let text = format!(
                        "the key '{}' is there twice, first on line {}",
                        short(&key.text),
                        map.entries[first].line
                    );
                    let fault = Diagnostic::at_line(Code::Syntax, &self.name, key.at.line, Some(key.at.column), text);
                    if self.faults.len() < 100 {
                        self.faults.push(fault);
                    }
                    return Ok(());
                }
                map.push(Entry { key: key.text, line: key.at.line, column: key.at.column, value: id });
                map.entries.len() - 1
            }
            _ => return Ok(()), // only lists and mappings are ever open
        };
        self.sizes[container as usize] = size;
        let slot = &mut self.values[id as usize];
        if slot.parent == Id::MAX {
            (slot.parent, slot.nth) = (container, nth as u32);
        }
        Ok(())
    }

    /// YAML 1.1's `<<`: keys of the merged mapping, or of each of a list of mappings, that are not there yet.
    fn merge(&mut self, into: Id, from: Id, at: TextPosition) -> Result<(), Diagnostic> {
        let sources = match &self.values[from as usize].value {
            Value::List(items) => items.clone(),
            _ => vec![from],
        };
        for source in sources {
            let Value::Map(map) = &self.values[source as usize].value else {
                return Err(self.fault(Code::Syntax, at, "'<<' takes a mapping or a list of mappings"));
            };
            let copied: Vec<(Key, Id)> = map
                .entries
                .iter()
                .map(|e| {
                    (
                        Key { text: e.key.clone(), at: TextPosition { line: e.line, column: e.column }, merge: false },
                        e.value,
                    )
                })
                .collect();
            for (key, id) in copied {
                let Value::Map(own) = &self.values[into as usize].value else {
                    continue;
                };
                if own.position(&key.text).is_none() {
                    self.attach(into, Some(key), id, at)?;
                }
            }
        }
        Ok(())
    }

    /// The document.
    pub(super) fn finish(mut self) -> Result<Document, Vec<Diagnostic>> {
        if !self.faults.is_empty() {
            return Err(self.faults);
        }
        let Some(root) = self.root else {
            return Err(vec![Diagnostic::whole(Code::Syntax, &self.name, "the file is empty")]);
        };
        self.values[root as usize].parent = root;
        // a value that only a merge or nothing at all uses gets the root as parent, so that pointers always end
        for slot in &mut self.values {
            if slot.parent == Id::MAX {
                slot.parent = root;
                slot.nth = u32::MAX;
            }
        }
        let size = self.sizes[root as usize];
        Ok(Document { name: self.name, values: self.values, root, size, remarks: self.remarks })
    }
}
