//! Text to [`Document`]. JSON is read as the YAML 1.2 that it is, so that both have one reader, one set of limits
//! and one form of error.
//!
//! Scalars follow the core schema of YAML 1.2 (section 10.3.2): `yes` and `0777` are what they look like, text and
//! decimal. Keys are text whatever they look like: `200:` is the key "200". The merge key `<<` of YAML 1.1 is applied,
//! as descriptions in the field use it.

use super::{Document, Entry, Id, Map, Size, Slot, Value};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Limits;
use granit_parser::{Event, Parser, ScalarStyle, Span};
use std::borrow::Cow;
use std::collections::HashMap;

/// Parses `bytes` as the document `name`.
///
/// # Errors
/// Every duplicate key, or the one place where the syntax breaks or a limit is passed.
pub(crate) fn parse(name: &str, bytes: &[u8], limits: &Limits) -> Result<Document, Vec<Diagnostic>> {
    let text = text(name, bytes).map_err(|d| vec![d])?;
    let options = granit_parser::options! {
        simple_key_max_lookahead: 1 << 20, // JSON allows long keys
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
        emit_comments: false,
    };
    let mut builder = Builder::new(name, limits);
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => builder.event(event, span),
            Err(e) => {
                let (line, column) = (e.marker().line() as u32, e.marker().col() as u32 + 1);
                let code = match e.kind() {
                    granit_parser::ErrorKind::RecursionLimitExceeded => Code::TooLarge,
                    _ => Code::Syntax,
                };
                Err(Diagnostic::at_line(code, name, line, Some(column), e.info()))
            }
        };
        match step {
            Ok(true) => {}
            Ok(false) => break,
            Err(fatal) => {
                builder.faults.push(fatal);
                return Err(builder.faults);
            }
        }
    }
    builder.finish()
}

/// A document that is one text, such as an included example that is not YAML.
pub(crate) fn plain(name: &str, bytes: &[u8]) -> Result<Document, Vec<Diagnostic>> {
    let text = text(name, bytes).map_err(|d| vec![d])?;
    let slot = Slot { value: Value::String(text.into()), line: 1, column: 1, parent: 0, nth: 0 };
    Ok(Document {
        name: name.to_owned(),
        values: vec![slot],
        root: 0,
        size: Size { values: 1, height: 1 },
        remarks: Vec::new(),
    })
}

/// UTF-8 without its byte order mark.
pub(crate) fn text<'b>(name: &str, bytes: &'b [u8]) -> Result<&'b str, Diagnostic> {
    if bytes.starts_with(&[0xFE, 0xFF]) || bytes.starts_with(&[0xFF, 0xFE]) {
        return Err(Diagnostic::whole(Code::Syntax, name, "the file is UTF-16; save it as UTF-8"));
    }
    match std::str::from_utf8(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)) {
        Ok(text) => Ok(text),
        Err(e) => {
            let line = 1 + bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count() as u32;
            Err(Diagnostic::at_line(Code::Syntax, name, line, None, "the file is not UTF-8 from here on"))
        }
    }
}

/// The number that a plain scalar of the core schema means, if it means one that JSON can say.
pub(crate) fn number(text: &str) -> Option<serde_json::Number> {
    if !looks_numeric(text) {
        return None;
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(Into::into);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok().map(Into::into);
    }
    if let Ok(n) = text.parse::<u64>() {
        return Some(n.into());
    }
    // -0 is an integer for JSON, and a float would print as -0.0
    if let Ok(n) = text.parse::<i64>() {
        return Some(n.into());
    }
    text.parse::<f64>().ok().and_then(serde_json::Number::from_f64)
}

/// Whether a plain scalar is a number by the core schema; infinities and NaN are not counted, JSON has none.
fn looks_numeric(text: &str) -> bool {
    let all = |s: &str, f: fn(&u8) -> bool| !s.is_empty() && s.bytes().all(|b| f(&b));
    if let Some(digits) = text.strip_prefix("0x") {
        return all(digits, u8::is_ascii_hexdigit);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return all(digits, |b| matches!(b, b'0'..=b'7'));
    }
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((m, e)) => (m, Some(e.strip_prefix(['-', '+']).unwrap_or(e))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| all(e, u8::is_ascii_digit))
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
    line: u32,
    column: u32,
    merge: bool,
}

struct Builder<'l> {
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
    fn new(name: &str, limits: &'l Limits) -> Self {
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

    fn fault(&self, code: Code, span: &Span, message: impl Into<String>) -> Diagnostic {
        let (line, column) = place(span);
        Diagnostic::at_line(code, &self.name, line, Some(column), message)
    }

    /// Takes one event; `false` when what follows is not read.
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<bool, Diagnostic> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                let (line, column) = place(&span);
                self.remarks.push((
                    line,
                    column,
                    "the file holds more than one YAML document; only the first is read".to_owned(),
                ));
                return Ok(false);
            }
            Event::Scalar(text, style, anchor, tag) => {
                if self.open.last().is_some_and(|o| self.is_map(o.id) && o.key.is_none()) {
                    if anchor != 0 {
                        // an anchored key may be used as a value elsewhere
                        let id = self.add(Value::String(text.as_ref().into()), &span)?;
                        self.anchors.insert(anchor, id);
                    }
                    self.take_key(text, style, &span);
                } else {
                    let tag = tag.as_deref();
                    let value = self.scalar(text, style, tag, &span);
                    let id = self.add(value, &span)?;
                    self.anchor(anchor, id);
                    self.place_value(id, &span)?;
                }
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.unknown_tag(tag.as_deref(), &span);
                self.begin(Value::List(Vec::new()), anchor, &span)?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.unknown_tag(tag.as_deref(), &span);
                self.begin(Value::Map(Map::default()), anchor, &span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(&span)?,
            Event::Alias(anchor) => {
                if self.open.last().is_some_and(|o| self.is_map(o.id) && o.key.is_none()) {
                    return Err(self.fault(Code::Syntax, &span, "an alias cannot be a key here; write the key out"));
                }
                match self.anchors.get(&anchor) {
                    Some(&id) => self.place_value(id, &span)?,
                    None => {
                        return Err(self.fault(
                            Code::Syntax,
                            &span,
                            "the alias stands inside of its own anchor and would never end",
                        ));
                    }
                }
            }
            _ => {}
        }
        Ok(true)
    }

    fn is_map(&self, id: Id) -> bool {
        matches!(self.values[id as usize].value, Value::Map(_))
    }

    fn add(&mut self, value: Value, span: &Span) -> Result<Id, Diagnostic> {
        if self.values.len() as u64 >= self.limits.values {
            return Err(self.fault(
                Code::TooLarge,
                span,
                format!("the document holds more than {} values", self.limits.values),
            ));
        }
        let (line, column) = place(span);
        self.values.push(Slot { value, line, column, parent: Id::MAX, nth: 0 });
        self.sizes.push(Size { values: 1, height: 1 });
        Ok(self.values.len() as Id - 1)
    }

    fn anchor(&mut self, anchor: usize, id: Id) {
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
    }

    fn take_key(&mut self, text: Cow<'_, str>, style: ScalarStyle, span: &Span) {
        let (line, column) = place(span);
        let merge = style == ScalarStyle::Plain && text == "<<";
        let open = self.open.last_mut().expect("a key stands in an open mapping");
        open.key = Some(Key { text: text.into_owned().into_boxed_str(), line, column, merge });
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<&granit_parser::Tag>,
        span: &Span,
    ) -> Value {
        let own = |t: Cow<'_, str>| t.into_owned().into_boxed_str();
        if let Some(tag) = tag {
            match (tag.is_yaml_core_schema(), tag.suffix()) {
                (false, "include") => return Value::Include(own(text)),
                (true, "str") => return Value::String(own(text)),
                (true, "int" | "float" | "bool" | "null") | (false, "") => {}
                _ => self.unknown_tag(Some(tag), span),
            }
        }
        if style != ScalarStyle::Plain {
            return Value::String(own(text));
        }
        match &*text {
            "" | "~" | "null" | "Null" | "NULL" => Value::Null,
            "true" | "True" | "TRUE" => Value::Bool(true),
            "false" | "False" | "FALSE" => Value::Bool(false),
            t if looks_numeric(t) => {
                if number(t).is_none() {
                    let (line, column) = place(span);
                    self.remarks.push((
                        line,
                        column,
                        format!("the number {} is too large to be held; it is read as null", short(t)),
                    ));
                }
                Value::Number(own(text))
            }
            _ => Value::String(own(text)),
        }
    }

    fn unknown_tag(&mut self, tag: Option<&granit_parser::Tag>, span: &Span) {
        if let Some(tag) = tag
            && !(tag.is_yaml_core_schema() && matches!(tag.suffix(), "map" | "seq" | "str"))
        {
            let (line, column) = place(span);
            self.remarks.push((line, column, format!("the YAML tag {} is passed over", short(&tag.original()))));
        }
    }

    fn begin(&mut self, value: Value, anchor: usize, span: &Span) -> Result<(), Diagnostic> {
        if self.open.last().is_some_and(|o| self.is_map(o.id) && o.key.is_none()) {
            return Err(self.fault(Code::Syntax, span, "a key must be text, not a list or a mapping"));
        }
        if self.open.len() >= self.limits.depth {
            return Err(self.fault(
                Code::TooLarge,
                span,
                format!("values are nested more than {} deep", self.limits.depth),
            ));
        }
        let id = self.add(value, span)?;
        self.open.push(Open { id, anchor, key: None, merges: Vec::new() });
        Ok(())
    }

    fn end(&mut self, span: &Span) -> Result<(), Diagnostic> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        for merge in &open.merges {
            self.merge(open.id, *merge, span)?;
        }
        // only now, so that an alias inside of its own anchor finds nothing
        self.anchor(open.anchor, open.id);
        self.place_value(open.id, span)
    }

    /// Puts a finished value into the list or mapping that is open, or makes it the root.
    fn place_value(&mut self, id: Id, span: &Span) -> Result<(), Diagnostic> {
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
        self.attach(container, key, id, span)
    }

    fn attach(&mut self, container: Id, key: Option<Key>, id: Id, span: &Span) -> Result<(), Diagnostic> {
        let size = self.sizes[container as usize].with(self.sizes[id as usize]);
        if size.values > self.limits.values {
            let text = format!("aliases expand to more than {} values", self.limits.values);
            return Err(self.fault(Code::TooLarge, span, text));
        }
        if size.height as usize > self.limits.depth {
            let text = format!("values are nested more than {} deep when aliases are followed", self.limits.depth);
            return Err(self.fault(Code::TooLarge, span, text));
        }
        let nth = match &mut self.values[container as usize].value {
            Value::List(items) => {
                items.push(id);
                items.len() - 1
            }
            Value::Map(map) => {
                let key = key.expect("a mapping takes values only after a key");
                if let Some(first) = map.position(&key.text) {
                    let text = format!(
                        "the key '{}' is there twice, first on line {}",
                        short(&key.text),
                        map.entries[first].line
                    );
                    let fault = Diagnostic::at_line(Code::Syntax, &self.name, key.line, Some(key.column), text);
                    if self.faults.len() < 100 {
                        self.faults.push(fault);
                    }
                    return Ok(());
                }
                map.push(Entry { key: key.text, line: key.line, column: key.column, value: id });
                map.entries.len() - 1
            }
            _ => unreachable!("only lists and mappings are open"),
        };
        self.sizes[container as usize] = size;
        let slot = &mut self.values[id as usize];
        if slot.parent == Id::MAX {
            (slot.parent, slot.nth) = (container, nth as u32);
        }
        Ok(())
    }

    /// YAML 1.1's `<<`: keys of the merged mapping, or of each of a list of mappings, that are not there yet.
    fn merge(&mut self, into: Id, from: Id, span: &Span) -> Result<(), Diagnostic> {
        let sources = match &self.values[from as usize].value {
            Value::List(items) => items.clone(),
            _ => vec![from],
        };
        for source in sources {
            let Value::Map(map) = &self.values[source as usize].value else {
                return Err(self.fault(Code::Syntax, span, "'<<' takes a mapping or a list of mappings"));
            };
            let copied: Vec<(Key, Id)> = map
                .entries
                .iter()
                .map(|e| (Key { text: e.key.clone(), line: e.line, column: e.column, merge: false }, e.value))
                .collect();
            for (key, id) in copied {
                let Value::Map(own) = &self.values[into as usize].value else {
                    continue;
                };
                if own.position(&key.text).is_none() {
                    self.attach(into, Some(key), id, span)?;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Document, Vec<Diagnostic>> {
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

fn place(span: &Span) -> (u32, u32) {
    (span.start.line() as u32, span.start.col() as u32 + 1)
}

/// At most forty characters of a name for a message.
pub(crate) fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
