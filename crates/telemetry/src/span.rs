//! Spans as OTLP encodes them (`opentelemetry/proto/trace/v1/trace.proto`).

use crate::context::{SpanId, TraceId};
use crate::protobuf::{bytes, bytes_len, fixed32, fixed64, number, open, varint_len};

/// Longest value of an attribute, in bytes; what is longer is cut at a character.
pub const VALUE_BYTES: usize = 256;

/// What a span stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request that was served.
    Server,
    /// A request that was sent.
    Client,
}

/// How a span ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Nothing is said.
    Unset,
    /// It failed.
    Error,
}

/// What every span has.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Its trace.
    pub trace: TraceId,
    /// Its id.
    pub span: SpanId,
    /// The span that caused it.
    pub parent: Option<SpanId>,
    /// Whether the parent is another process's.
    pub parent_is_remote: bool,
    /// `tracestate` of the trace.
    pub state: &'a [u8],
    /// Server or client.
    pub kind: Kind,
    /// Its name, in two parts that are joined by a blank if both are there.
    pub name: (&'a [u8], &'a [u8]),
    /// Nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// Nanoseconds since the Unix epoch.
    pub end_ns: u64,
}

/// Encoded spans that wait to be sent.
#[derive(Debug, Default)]
pub struct Spans {
    encoded: Vec<u8>,
    count: usize,
    /// The span that is being written.
    span: Vec<u8>,
}

/// Flags of a span beside those of the trace: whether it is known, and true, that the parent is remote.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
const SAMPLED: u32 = 1;

impl Spans {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> &[u8] {
        &self.encoded
    }

    /// Takes the encoded spans out; the memory given takes their place.
    pub fn swap(&mut self, mut empty: Vec<u8>) -> Vec<u8> {
        empty.clear();
        self.count = 0;
        std::mem::replace(&mut self.encoded, empty)
    }

    /// Begins a span. It is there when [`SpanWriter::end`] was called.
    pub fn begin(&mut self, head: &Head<'_>) -> SpanWriter<'_> {
        let out = &mut self.span;
        out.clear();
        bytes(out, 1, &head.trace.0.to_be_bytes());
        bytes(out, 2, &head.span.0.to_be_bytes());
        if !head.state.is_empty() {
            text(out, 3, head.state, usize::MAX);
        }
        if let Some(parent) = head.parent {
            bytes(out, 4, &parent.0.to_be_bytes());
        }
        let (first, second) = head.name;
        let (first, second) = (printable(first, VALUE_BYTES), printable(second, VALUE_BYTES));
        let blank = usize::from(!second.is_empty());
        open(out, 5, first.len() + blank + second.len());
        out.extend_from_slice(first.as_bytes());
        out.extend_from_slice(&b" "[..blank]);
        out.extend_from_slice(second.as_bytes());
        number(
            out,
            6,
            match head.kind {
                Kind::Server => 2,
                Kind::Client => 3,
            },
        );
        fixed64(out, 7, head.start_ns);
        // Clocks that are set back between the two must not make a span of negative length.
        fixed64(out, 8, head.end_ns.max(head.start_ns));
        let remote = if head.parent_is_remote { IS_REMOTE } else { 0 };
        fixed32(out, 16, SAMPLED | HAS_IS_REMOTE | remote);
        SpanWriter { spans: self }
    }
}

/// A span that is being written.
#[derive(Debug)]
pub struct SpanWriter<'s> {
    spans: &'s mut Spans,
}

impl SpanWriter<'_> {
    /// An attribute whose value is text. Empty values are left out; what is not UTF-8 is replaced.
    pub fn text(&mut self, key: &str, value: &[u8]) -> &mut Self {
        if value.is_empty() {
            return self;
        }
        let value = printable(value, VALUE_BYTES);
        self.attribute(key, bytes_len(value.len()), |out| bytes(out, 1, value.as_bytes()));
        self
    }

    /// An attribute whose value is a list of one text.
    pub fn one_of(&mut self, key: &str, value: &[u8]) -> &mut Self {
        let value = printable(value, VALUE_BYTES);
        let any = bytes_len(value.len());
        let list = bytes_len(any);
        self.attribute(key, bytes_len(list), |out| {
            open(out, 5, list);
            open(out, 1, any);
            bytes(out, 1, value.as_bytes());
        });
        self
    }

    /// An attribute whose value is a number.
    pub fn number(&mut self, key: &str, value: u64) -> &mut Self {
        self.attribute(key, 1 + varint_len(value), |out| number(out, 3, value));
        self
    }

    fn attribute(&mut self, key: &str, value_len: usize, value: impl FnOnce(&mut Vec<u8>)) {
        let out = &mut self.spans.span;
        open(out, 9, bytes_len(key.len()) + bytes_len(value_len));
        bytes(out, 1, key.as_bytes());
        open(out, 2, value_len);
        value(out);
    }

    /// Something that happened in between.
    pub fn event(&mut self, name: &str, at_ns: u64) -> &mut Self {
        let out = &mut self.spans.span;
        open(out, 11, 9 + bytes_len(name.len()));
        fixed64(out, 1, at_ns);
        bytes(out, 2, name.as_bytes());
        self
    }

    /// A span of another trace that this one has to do with.
    pub fn link(&mut self, trace: TraceId, span: SpanId) -> &mut Self {
        let out = &mut self.spans.span;
        open(out, 13, bytes_len(16) + bytes_len(8));
        bytes(out, 1, &trace.0.to_be_bytes());
        bytes(out, 2, &span.0.to_be_bytes());
        self
    }

    /// The span is complete.
    pub fn end(self, status: Status) {
        let spans = self.spans;
        if status == Status::Error {
            open(&mut spans.span, 15, 2);
            number(&mut spans.span, 3, 2);
        }
        bytes(&mut spans.encoded, 2, &spans.span);
        spans.count += 1;
    }
}

fn text(out: &mut Vec<u8>, field: u32, value: &[u8], most: usize) {
    bytes(out, field, printable(value, most).as_bytes());
}

/// Text of at most so many bytes. Strings of the protocol are UTF-8.
fn printable(value: &[u8], most: usize) -> std::borrow::Cow<'_, str> {
    let mut end = value.len().min(most);
    // Not within a character: its later bytes begin with the bits 10.
    while end < value.len() && end > 0 && value[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    String::from_utf8_lossy(&value[..end])
}
