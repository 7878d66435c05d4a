//! YAML, JSON and TOML as a tree that knows its lines.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::HashSet;
use std::rc::Rc;

use granit_parser::{Event, Parser, ScalarStyle};
use toml_edit::{Item, Table, TableLike, Value};

use crate::report::{Report, SourceLocation};
use crate::source::{ImportError, Source};

/// Nodes of a document, aliases written out.
const MAX_NODES: u64 = 300_000;
/// Levels of nesting.
const MAX_DEPTH: usize = 64;

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) content: Content,
    weight: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    Null,
    /// A text, number or boolean, as it is written.
    Scalar(String),
    List(Vec<Rc<Node>>),
    Map(Vec<(String, usize, Rc<Node>)>),
}

impl Node {
    fn new(line: usize, content: Content) -> Self {
        let weight = 1 + match &content {
            Content::List(items) => items.iter().map(|item| item.weight).sum::<u64>(),
            Content::Map(entries) => entries.iter().map(|(_, _, value)| value.weight).sum(),
            _ => 0,
        };
        Self { line, content, weight }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.content, Content::Null)
    }

    pub(crate) fn number(&self) -> Option<f64> {
        self.text().and_then(|text| text.parse::<f64>().ok()).filter(|number| number.is_finite())
    }

    /// A number without a fraction, from 0.
    pub(crate) fn whole(&self) -> Option<u64> {
        let number = self.number()?;
        // Exact up to 2^53, and nothing in a configuration is more.
        (number >= 0.0 && number.fract() == 0.0 && number < 9e15).then_some(number as u64)
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        match self.text()? {
            "true" | "True" | "TRUE" | "yes" | "on" => Some(true),
            "false" | "False" | "FALSE" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    /// The items of a list; nothing for anything else.
    pub(crate) fn items(&self) -> &[Rc<Node>] {
        match &self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }

    /// The texts of a list, or of one text alone.
    pub(crate) fn texts(&self) -> Vec<String> {
        match &self.content {
            Content::List(items) => items.iter().filter_map(|item| item.text().map(str::to_owned)).collect(),
            Content::Scalar(text) => vec![text.clone()],
            _ => Vec::new(),
        }
    }

    pub(crate) fn entries(&self) -> &[(String, usize, Rc<Node>)] {
        match &self.content {
            Content::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries()
            .iter()
            .find(|(name, _, _)| name == key)
            .map(|(_, _, value)| value.as_ref())
            .filter(|node| !node.is_null())
    }

    /// What stands below several keys.
    pub(crate) fn at(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }
}

/// A mapping of which every key has to be looked at.
pub(crate) struct Fields<'n> {
    node: &'n Node,
    seen: RefCell<HashSet<&'n str>>,
}

impl<'n> Fields<'n> {
    pub(crate) fn of(node: &'n Node) -> Self {
        Self { node, seen: RefCell::new(HashSet::new()) }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        let (name, _, value) = self.node.entries().iter().find(|(name, _, _)| name == key)?;
        self.seen.borrow_mut().insert(name);
        Some(value.as_ref()).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'n str> {
        self.get(key).and_then(Node::text)
    }

    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        self.get(key).map(Node::texts).unwrap_or_default()
    }

    pub(crate) fn whole(&self, key: &str) -> Option<u64> {
        self.get(key).and_then(Node::whole)
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(Node::flag)
    }

    /// Keys that change nothing that Weir does.
    pub(crate) fn skip(&self, keys: &[&str]) {
        for key in keys {
            self.get(key);
        }
    }

    /// Names the keys that nothing looked at. A key that says nothing (`null`, an empty list) is not worth a line.
    pub(crate) fn name_rest(&self, source: &Source, report: &mut Report, of: &str) {
        for (name, line, value) in self.node.entries() {
            let empty = value.is_null()
                || matches!(&value.content, Content::List(items) if items.is_empty())
                || matches!(&value.content, Content::Map(items) if items.is_empty());
            if !self.seen.borrow().contains(name.as_str()) && !empty {
                report.left_out(&source.at(*line), format!("{name} of {of}"), "has no equivalent");
            }
        }
    }
}

/// Reads a YAML document.
pub(crate) fn yaml(source: &Source) -> Result<Rc<Node>, ImportError> {
    let fail = |line: usize, message: &str| ImportError::new(&source.at(line), message);
    let mut builder = Yaml::default();
    for event in Parser::new_from_str(&source.text) {
        match event {
            Ok((event, span)) => {
                let line = span.start.line();
                builder.take(event, line).map_err(|message| fail(line, message))?;
            }
            Err(error) => return Err(fail(error.marker().line(), &format!("is not valid YAML: {}", error.info()))),
        }
    }
    builder.root.ok_or_else(|| fail(0, "the file is empty"))
}

#[derive(Default)]
struct Yaml {
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    weight: u64,
}

struct Open {
    line: usize,
    anchor: usize,
    map: bool,
    key: Option<(String, usize)>,
    items: Vec<Rc<Node>>,
    entries: Vec<(String, usize, Rc<Node>)>,
    keys: HashSet<String>,
}

impl Yaml {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), &'static str> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                if let Some(open) = self.open.last_mut().filter(|open| open.map && open.key.is_none()) {
                    if !open.keys.insert(text.to_string()) {
                        return Err("a key is given twice");
                    }
                    open.key = Some((text.into_owned(), line));
                    return Ok(());
                }
                let null = style == ScalarStyle::Plain && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL");
                let content = if null { Content::Null } else { Content::Scalar(text.into_owned()) };
                self.attach(Rc::new(Node::new(line, content)), anchor)
            }
            Event::SequenceStart(_, anchor, _) => self.begin(false, line, anchor),
            Event::MappingStart(_, anchor, _) => self.begin(true, line, anchor),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let content = if open.map { Content::Map(open.entries) } else { Content::List(open.items) };
                self.attach(Rc::new(Node::new(open.line, content)), open.anchor)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned().ok_or("an alias stands inside of what it stands for")?;
                self.attach(node, 0)
            }
            Event::DocumentStart(..) if self.root.is_some() => Err("a second document begins here; one is read"),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, map: bool, line: usize, anchor: usize) -> Result<(), &'static str> {
        if self.open.len() >= MAX_DEPTH {
            return Err("values are nested too deeply");
        }
        if self.open.last().is_some_and(|open| open.map && open.key.is_none()) {
            return Err("a key of a mapping is a text");
        }
        self.open.push(Open {
            line,
            anchor,
            map,
            key: None,
            items: Vec::new(),
            entries: Vec::new(),
            keys: HashSet::new(),
        });
        Ok(())
    }

    fn attach(&mut self, node: Rc<Node>, anchor: usize) -> Result<(), &'static str> {
        // Aliases of aliases would make much of little.
        self.weight += node.weight;
        if node.weight > MAX_NODES || self.weight > MAX_NODES * (MAX_DEPTH as u64) {
            return Err("there are too many values");
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(open) if open.map => match open.key.take() {
                Some((key, line)) => open.entries.push((key, line, node)),
                None => return Err("a key of a mapping is a text"),
            },
            Some(open) => open.items.push(node),
        }
        Ok(())
    }
}

/// Reads a JSON document (RFC 8259).
pub(crate) fn json(source: &Source) -> Result<Rc<Node>, ImportError> {
    let mut reader = Json { bytes: source.text.as_bytes(), at: 0, line: 1, nodes: 0 };
    let result = reader.value(0).and_then(|node| {
        reader.space();
        if reader.at == reader.bytes.len() { Ok(node) } else { Err("text follows the end of the document") }
    });
    result.map_err(|message| ImportError::new(&source.at(reader.line), format!("is not valid JSON: {message}")))
}

struct Json<'s> {
    bytes: &'s [u8],
    at: usize,
    line: usize,
    nodes: u64,
}

impl Json<'_> {
    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.line += usize::from(self.bytes[self.at] == b'\n');
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.space();
        let there = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self, depth: usize) -> Result<Rc<Node>, &'static str> {
        self.space();
        self.nodes += 1;
        if depth > MAX_DEPTH {
            return Err("values are nested too deeply");
        }
        if self.nodes > MAX_NODES {
            return Err("there are too many values");
        }
        let line = self.line;
        let content = match self.bytes.get(self.at) {
            None => return Err("the document ends in the middle"),
            Some(b'{') => {
                self.at += 1;
                let mut entries: Vec<(String, usize, Rc<Node>)> = Vec::new();
                let mut keys = HashSet::new();
                if !self.eat(b'}') {
                    loop {
                        self.space();
                        let key_line = self.line;
                        let key = self.string()?;
                        if !self.eat(b':') {
                            return Err("a `:` is missing");
                        }
                        if !keys.insert(key.clone()) {
                            return Err("a key is given twice");
                        }
                        entries.push((key, key_line, self.value(depth + 1)?));
                        if self.eat(b'}') {
                            break;
                        }
                        if !self.eat(b',') {
                            return Err("a `,` or `}` is missing");
                        }
                    }
                }
                Content::Map(entries)
            }
            Some(b'[') => {
                self.at += 1;
                let mut items = Vec::new();
                if !self.eat(b']') {
                    loop {
                        items.push(self.value(depth + 1)?);
                        if self.eat(b']') {
                            break;
                        }
                        if !self.eat(b',') {
                            return Err("a `,` or `]` is missing");
                        }
                    }
                }
                Content::List(items)
            }
            Some(b'"') => Content::Scalar(self.string()?),
            Some(_) => {
                let begin = self.at;
                while self.bytes.get(self.at).is_some_and(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b)) {
                    self.at += 1;
                }
                match std::str::from_utf8(&self.bytes[begin..self.at]).unwrap_or_default() {
                    "null" => Content::Null,
                    word @ ("true" | "false") => Content::Scalar(word.to_owned()),
                    word if word.starts_with(|c: char| c == '-' || c.is_ascii_digit())
                        && word.parse::<f64>().is_ok() =>
                    {
                        Content::Scalar(word.to_owned())
                    }
                    _ => return Err("a value was expected"),
                }
            }
        };
        Ok(Rc::new(Node::new(line, content)))
    }

    fn string(&mut self) -> Result<String, &'static str> {
        self.space();
        let begin = self.at;
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err("a text in quotes was expected");
        }
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                None | Some(b'\n') => return Err("a text is not closed"),
                Some(b'\\') => self.at += 2,
                Some(b'"') => break,
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        // The escapes, surrogate pairs too, are the library's.
        let text = self.bytes.get(begin..self.at).ok_or("a text is not closed")?;
        serde_json::from_slice(text).map_err(|_| "a text has an escape that is not one")
    }
}

/// Reads a TOML document.
pub(crate) fn toml(source: &Source) -> Result<Rc<Node>, ImportError> {
    // Lines are counted once, not anew for each value.
    let starts: Vec<usize> = std::iter::once(0).chain(source.text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let line = |span: Option<std::ops::Range<usize>>| {
        span.map_or(0, |span| starts.partition_point(|&start| start <= span.start))
    };
    let document = toml_edit::Document::parse(&*source.text).map_err(|error| {
        ImportError::new(&source.at(line(error.span())), format!("is not valid TOML: {}", error.message()))
    })?;
    let reader = Toml { line: &line };
    reader.table(document.as_table(), 1, 0).map_err(|message| ImportError::new(&source.at(0), message))
}

struct Toml<'l> {
    line: &'l dyn Fn(Option<std::ops::Range<usize>>) -> usize,
}

impl Toml<'_> {
    fn table(&self, table: &dyn TableLike, line: usize, depth: usize) -> Result<Rc<Node>, &'static str> {
        if depth > MAX_DEPTH {
            return Err("values are nested too deeply");
        }
        let mut entries = Vec::new();
        for (name, item) in table.iter() {
            let span = table.get_key_value(name).and_then(|(key, _)| key.span());
            let line = if span.is_some() { (self.line)(span) } else { line };
            let node = match item {
                Item::None => continue,
                Item::Value(value) => self.value(value, line, depth + 1)?,
                Item::Table(table) => self.table(table, line, depth + 1)?,
                Item::ArrayOfTables(tables) => {
                    let line_of = |table: &Table| table.span().map_or(line, |span| (self.line)(Some(span)));
                    let items = tables.iter().map(|table| self.table(table, line_of(table), depth + 1));
                    Rc::new(Node::new(line, Content::List(items.collect::<Result<_, _>>()?)))
                }
            };
            entries.push((name.to_owned(), line, node));
        }
        let node = Node::new(line, Content::Map(entries));
        if node.weight > MAX_NODES { Err("there are too many values") } else { Ok(Rc::new(node)) }
    }

    fn value(&self, value: &Value, line: usize, depth: usize) -> Result<Rc<Node>, &'static str> {
        if depth > MAX_DEPTH {
            return Err("values are nested too deeply");
        }
        let content = match value {
            Value::String(text) => Content::Scalar(text.value().clone()),
            Value::Integer(number) => Content::Scalar(number.value().to_string()),
            Value::Float(number) => Content::Scalar(number.value().to_string()),
            Value::Boolean(flag) => Content::Scalar(flag.value().to_string()),
            Value::Datetime(time) => Content::Scalar(time.value().to_string()),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.value(item, line, depth + 1));
                Content::List(items.collect::<Result<_, _>>()?)
            }
            Value::InlineTable(table) => return self.table(table, line, depth),
        };
        Ok(Rc::new(Node::new(line, content)))
    }
}

/// The same tree in which keys that are one of `names` but for upper and lower case are written as there. Below keys of `of_users`, the
/// keys are names that users chose, and stay.
pub(crate) fn with_names(node: &Rc<Node>, names: &[&'static str], of_users: &[&str]) -> Rc<Node> {
    // What an alias stands for is translated once.
    type Known = HashMap<(*const Node, bool), Rc<Node>>;
    fn walk(
        node: &Rc<Node>,
        is_of_users: bool,
        names: &[&'static str],
        of_users: &[&str],
        known: &mut Known,
    ) -> Rc<Node> {
        let key = (Rc::as_ptr(node), is_of_users);
        if let Some(made) = known.get(&key) {
            return made.clone();
        }
        let content = match &node.content {
            Content::Map(entries) => Content::Map(
                entries
                    .iter()
                    .map(|(name, line, value)| {
                        let name = if is_of_users {
                            name
                        } else {
                            names.iter().find(|known| known.eq_ignore_ascii_case(name)).copied().unwrap_or(name)
                        };
                        let below = !is_of_users && of_users.contains(&name);
                        (name.to_owned(), *line, walk(value, below, names, of_users, known))
                    })
                    .collect(),
            ),
            Content::List(items) => {
                Content::List(items.iter().map(|item| walk(item, false, names, of_users, known)).collect())
            }
            other => other.clone(),
        };
        let made = Rc::new(Node::new(node.line, content));
        known.insert(key, made.clone());
        made
    }
    walk(node, false, names, of_users, &mut HashMap::new())
}

/// A line of a node.
pub(crate) fn place(source: &Source, node: &Node) -> SourceLocation {
    source.at(node.line)
}
