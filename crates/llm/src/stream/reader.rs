//! Reads one event after another: its fields, and the JSON of its data.

use crate::Api;
use crate::response::{Facts, ResponseReader};

const DONE: &[u8] = b"[DONE]";
/// Names of fields and events that are distinguished are shorter.
const LONGEST_NAME: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// The name is being read.
    Name,
    /// Behind the colon: one space is no part of the value.
    Space,
    /// In the value.
    Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    None,
    /// So many bytes were like `[DONE]`.
    Done(usize),
    Json,
}

/// Reads events, fed in any split, with constant memory.
#[derive(Debug)]
pub struct EventReader {
    json: ResponseReader,
    field: Field,
    name: Vec<u8>,
    event: Vec<u8>,
    data: Data,
    after_cr: bool,
    /// Bytes of a byte order mark that the stream may start with.
    mark: usize,
}

impl EventReader {
    /// For streams of this API.
    pub fn new(api: Api) -> Self {
        EventReader {
            json: ResponseReader::new(api),
            field: Field::Name,
            name: Vec::new(),
            event: Vec::new(),
            data: Data::None,
            after_cr: false,
            mark: 0,
        }
    }

    /// Reads bytes of an event.
    pub fn read(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.mark < 3 && !rest.is_empty() {
            if rest[0] != b"\xEF\xBB\xBF"[self.mark] {
                // no mark: its bytes so far were part of a field name that nobody knows
                self.mark = 3;
                break;
            }
            self.mark += 1;
            rest = &rest[1..];
        }
        while let Some(&byte) = rest.first() {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                rest = &rest[1..];
                continue;
            }
            if matches!(byte, b'\n' | b'\r') {
                self.after_cr = byte == b'\r';
                self.end_line();
                rest = &rest[1..];
                continue;
            }
            match self.field {
                Field::Name => {
                    rest = &rest[1..];
                    if byte == b':' {
                        self.field = Field::Space;
                        self.start_value();
                    } else if self.name.len() <= LONGEST_NAME {
                        self.name.push(byte);
                    }
                }
                Field::Space => {
                    self.field = Field::Value;
                    if byte == b' ' {
                        rest = &rest[1..];
                    }
                }
                Field::Value => {
                    let (value, behind) = rest.split_at(memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()));
                    rest = behind;
                    self.value(value);
                }
            }
        }
    }

    fn start_value(&mut self) {
        match self.name.as_slice() {
            b"event" => self.event.clear(),
            // lines of data are joined by line ends
            b"data" if self.data != Data::None => self.data(b"\n"),
            _ => {}
        }
    }

    fn value(&mut self, value: &[u8]) {
        match self.name.as_slice() {
            b"data" => self.data(value),
            b"event" => {
                let room = LONGEST_NAME.saturating_sub(self.event.len());
                self.event.extend_from_slice(&value[..value.len().min(room)]);
            }
            _ => {}
        }
    }

    fn data(&mut self, mut value: &[u8]) {
        if self.data == Data::None {
            self.data = Data::Done(0);
        }
        while let Data::Done(matched) = self.data {
            match (value.first(), DONE.get(matched)) {
                (None, _) => return,
                (Some(byte), Some(expected)) if byte == expected => {
                    self.data = Data::Done(matched + 1);
                    value = &value[1..];
                }
                (Some(b' ' | b'\t' | b'\n'), None) => value = &value[1..],
                _ => {
                    self.data = Data::Json;
                    self.json.read(&DONE[..matched]);
                }
            }
        }
        self.json.read(value);
    }

    fn end_line(&mut self) {
        self.field = Field::Name;
        self.name.clear();
    }

    /// The end of an event: what it said. Events without data (comments, blank lines) say nothing.
    pub fn finish(&mut self) -> Facts {
        self.end_line();
        let mut facts = match std::mem::replace(&mut self.data, Data::None) {
            Data::None | Data::Done(0) => {
                self.json.reset();
                Facts::default()
            }
            Data::Done(matched) if matched == DONE.len() => {
                self.json.reset();
                Facts { done: true, ..Facts::default() }
            }
            Data::Done(matched) => {
                self.json.read(&DONE[..matched]);
                self.json.finish()
            }
            Data::Json => self.json.finish(),
        };
        // `event: error` with data of another form is an error all the same
        if self.event == b"error" && facts.error.is_none() {
            facts.error = Some(crate::response::UpstreamError::default());
        }
        self.event.clear();
        facts
    }
}
