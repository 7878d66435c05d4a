//! A caller of the codec: keeps a buffer, scans, parses, decodes, goes on with the next message.

use h1::{
    BodyDecoder, BodyEvent, BodyKind, Expect, HeadScanner, Known, Limits, Method, ParseError, RequestHead,
    ResponseHead, TargetForm, Version,
};

/// Which side of a connection is read.
#[derive(Debug, Clone)]
pub enum Role {
    /// What a client sends.
    Requests,
    /// What an upstream responds to requests with these methods, in this order; to GETs after that.
    Responses(Vec<Method>),
}

/// A field as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: Vec<u8>,
    pub value: Vec<u8>,
    /// The whole line, CRLF included.
    pub line: Vec<u8>,
    pub known: Known,
    pub is_hop_by_hop: bool,
}

/// What a start line said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    Request {
        method: Vec<u8>,
        form: TargetForm,
        authority: Option<Vec<u8>>,
        path: Vec<u8>,
        query: Option<Vec<u8>>,
        expect: Expect,
        upgrade: bool,
    },
    Response {
        status: u16,
        reason: Vec<u8>,
        content_length: Option<u64>,
        is_interim: bool,
    },
}

/// A message, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub start: Start,
    pub version: Version,
    pub fields: Vec<Field>,
    pub kind: BodyKind,
    pub keep_alive: bool,
    pub body: Vec<u8>,
    /// Whether its body's end was seen.
    pub is_complete: bool,
}

impl Message {
    /// First value of a field.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name.as_bytes())).map(|field| &field.value[..])
    }
}

/// Why reading stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With the last message.
    Clean,
    /// Within a head: this much of it came.
    InHead(usize),
    /// Within a body.
    InBody,
    /// A rule was broken.
    Refused(ParseError),
}

/// All that was read from a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub messages: Vec<Message>,
    pub end: End,
    /// Where in the stream the last complete message ended.
    pub consumed: usize,
}

/// Feeds a connection's bytes in pieces, then closes it. With `compact`, the buffer forgets what is consumed between messages; without, the
/// heads lie ever further from its start.
pub fn feed<'a>(role: &Role, limits: &Limits, pieces: impl IntoIterator<Item = &'a [u8]>, compact: bool) -> Outcome {
    let scanner = match role {
        Role::Requests => HeadScanner::new(),
        Role::Responses(_) => HeadScanner::for_response(),
    };
    let mut caller = Caller {
        role,
        limits,
        compact,
        buf: Vec::new(),
        at: 0,
        forgotten: 0,
        scanner,
        request: RequestHead::default(),
        response: ResponseHead::default(),
        body: None,
        outcome: Outcome { messages: Vec::new(), end: End::Clean, consumed: 0 },
    };
    for piece in pieces {
        caller.buf.extend_from_slice(piece);
        if let Err(error) = caller.take() {
            // Whatever follows on this connection, it stays refused.
            if let Some(decoder) = &mut caller.body {
                assert_eq!(decoder.decode(b"0\r\n\r\n"), Err(error));
                assert_eq!(decoder.close(), Err(ParseError::Truncated));
            }
            caller.outcome.end = End::Refused(error);
            return caller.outcome;
        }
    }
    caller.close()
}

struct Caller<'a> {
    role: &'a Role,
    limits: &'a Limits,
    compact: bool,
    buf: Vec<u8>,
    /// First byte that is not consumed.
    at: usize,
    /// Bytes that the buffer has forgotten.
    forgotten: usize,
    scanner: HeadScanner,
    request: RequestHead,
    response: ResponseHead,
    body: Option<BodyDecoder>,
    outcome: Outcome,
}

impl Caller<'_> {
    /// Takes what can be taken.
    fn take(&mut self) -> Result<(), ParseError> {
        loop {
            let goes_on = if self.body.is_some() { self.take_body()? } else { self.take_head()? };
            if !goes_on {
                return Ok(());
            }
        }
    }

    fn take_head(&mut self) -> Result<bool, ParseError> {
        if self.compact && self.at > 0 {
            self.forgotten += self.at;
            self.buf.drain(..std::mem::take(&mut self.at));
        }
        // Where a caller would try it; at every byte it takes too long.
        let whole = if self.scanner.is_fresh() { self.parse_whole() } else { None };
        let result = self.scan_and_parse();
        match (&result, whole) {
            (_, None) => {}
            (Ok(Some(end)), Some(whole)) => {
                let message = self.outcome.messages.last();
                assert_eq!((Some(&whole.0), whole.1), (message, *end), "{}", self.buf.escape_ascii());
            }
            _ => panic!("{result:?}, but whole it is a head: {}", self.buf.escape_ascii()),
        }
        result.map(|end| end.is_some())
    }

    fn method(&self) -> Method {
        let Role::Responses(methods) = self.role else { return Method::Get };
        let responded = self.outcome.messages.iter().filter(|message| !is_interim(message)).count();
        methods.get(responded).copied().unwrap_or(Method::Get)
    }

    /// What parsing without a scan says: a message, and where its head ends.
    fn parse_whole(&self) -> Option<(Message, usize)> {
        let (buf, at) = (&self.buf[..], self.at);
        match self.role {
            Role::Requests => {
                let mut head = RequestHead::default();
                let end = head.parse_whole(buf, at, self.limits)?;
                Some((of_request(&head, buf), end))
            }
            Role::Responses(_) => {
                let mut head = ResponseHead::default();
                let end = head.parse_whole(buf, at, self.method(), self.limits)?;
                Some((of_response(&head, buf), end))
            }
        }
    }

    /// Takes a head, if it is there; returns where it ends.
    fn scan_and_parse(&mut self) -> Result<Option<usize>, ParseError> {
        let Some(end) = self.scanner.scan(&self.buf[self.at..], self.limits)? else { return Ok(None) };
        assert_eq!(self.scanner.scan(&self.buf[self.at..], self.limits), Ok(Some(end)), "asked again it says the same");
        let (start, end) = (self.at + self.scanner.skipped(), self.at + end);
        let message = match self.role {
            Role::Requests => {
                self.request.parse(&self.buf, start, end, self.limits)?;
                of_request(&self.request, &self.buf)
            }
            Role::Responses(_) => {
                let method = self.method();
                self.response.parse(&self.buf, start, end, method, self.limits)?;
                of_response(&self.response, &self.buf)
            }
        };
        check_spans(&message, &self.buf[start..end]);
        if self.scanner.skipped() == 0 && end - start <= self.limits.start_line.min(self.limits.head) {
            assert!(self.parse_whole().is_some(), "no head if whole: {}", self.buf.escape_ascii());
        }
        self.scanner.reset();
        self.at = end;
        self.body = Some(BodyDecoder::new(message.kind));
        self.outcome.messages.push(message);
        Ok(Some(end))
    }

    fn take_body(&mut self) -> Result<bool, ParseError> {
        let (Some(decoder), Some(message)) = (&mut self.body, self.outcome.messages.last_mut()) else {
            return Ok(false);
        };
        let input = &self.buf[self.at..];
        let before = decoder.remaining();
        let (consumed, event) = decoder.decode(input)?;
        assert!(consumed <= input.len());
        match event {
            BodyEvent::Data(range) => {
                assert!(!range.is_empty() && range.end <= consumed, "{range:?} of {consumed}");
                if let (Some(before), Some(after)) = (before, decoder.remaining()) {
                    assert_eq!(before - after, range.len() as u64);
                }
                message.body.extend_from_slice(&input[range]);
                self.at += consumed;
                Ok(true)
            }
            BodyEvent::NeedMore => {
                assert_eq!(consumed, input.len(), "what is not consumed would be looked at twice");
                assert!(!decoder.is_done());
                self.at += consumed;
                Ok(false)
            }
            BodyEvent::End => {
                assert!(decoder.is_done());
                assert_eq!(decoder.close(), Ok(()));
                self.at += consumed;
                message.is_complete = true;
                self.body = None;
                self.outcome.consumed = self.forgotten + self.at;
                Ok(true)
            }
        }
    }

    fn close(mut self) -> Outcome {
        if let Some(decoder) = &self.body {
            if decoder.close().is_ok() {
                self.outcome.consumed = self.forgotten + self.at;
                if let Some(message) = self.outcome.messages.last_mut() {
                    message.is_complete = true;
                }
            } else {
                self.outcome.end = End::InBody;
            }
        } else if self.buf.len() > self.at {
            self.outcome.end = End::InHead(self.buf.len() - self.at);
        }
        self.outcome
    }
}

fn is_interim(message: &Message) -> bool {
    matches!(message.start, Start::Response { is_interim: true, .. })
}

fn of_request(head: &RequestHead, buf: &[u8]) -> Message {
    Message {
        start: Start::Request {
            method: head.method_name.of_buf(buf).to_vec(),
            form: head.form,
            authority: head.authority.map(|authority| authority.of_buf(buf).to_vec()),
            path: head.path.of_buf(buf).to_vec(),
            query: head.query.map(|query| query.of_buf(buf).to_vec()),
            expect: head.expect,
            upgrade: head.upgrade,
        },
        version: head.version,
        fields: of_fields(&head.fields, buf),
        kind: head.body,
        keep_alive: head.keep_alive,
        body: Vec::new(),
        is_complete: false,
    }
}

fn of_response(head: &ResponseHead, buf: &[u8]) -> Message {
    Message {
        start: Start::Response {
            status: head.status,
            reason: head.reason.of_buf(buf).to_vec(),
            content_length: head.content_length,
            is_interim: head.is_interim(),
        },
        version: head.version,
        fields: of_fields(&head.fields, buf),
        kind: head.body,
        keep_alive: head.keep_alive,
        body: Vec::new(),
        is_complete: false,
    }
}

fn of_fields(fields: &h1::Fields, buf: &[u8]) -> Vec<Field> {
    assert_eq!(fields.len(), fields.iter().count());
    assert_eq!(fields.is_empty(), fields.is_empty());
    fields
        .iter()
        .map(|field| {
            let (name, value) = (field.name.of_buf(buf), field.value.of_buf(buf));
            // All ways to request a field agree.
            let first = fields.iter().find(|other| other.name.of_buf(buf).eq_ignore_ascii_case(name)).unwrap();
            assert_eq!(fields.get(name, buf), Some(first.value.of_buf(buf)));
            assert_eq!(field.known, Known::of(name));
            assert!(fields.contains(field.known));
            if field.known != Known::Other {
                assert_eq!(fields.first(field.known, buf), fields.get(name, buf));
                let same =
                    fields.iter().filter(|other| other.known == field.known).map(|other| other.value.of_buf(buf));
                assert!(fields.values(field.known, buf).eq(same));
            }
            Field {
                name: name.to_vec(),
                value: value.to_vec(),
                line: field.line().of_buf(buf).to_vec(),
                known: field.known,
                is_hop_by_hop: field.is_hop_by_hop(),
            }
        })
        .collect()
}

/// The start line, the fields' lines and an empty line are the head, byte for byte.
fn check_spans(message: &Message, head: &[u8]) {
    let lines: Vec<u8> = message.fields.iter().flat_map(|field| field.line.clone()).collect();
    let end = head.len() - 2;
    assert!(head[..end].ends_with(&lines) && head.ends_with(b"\r\n"), "{}", head.escape_ascii());
    let start_line = &head[..end - lines.len()];
    assert!(start_line.ends_with(b"\r\n") && start_line.iter().filter(|&&byte| byte == b'\n').count() == 1);
    for field in &message.fields {
        let line = field.line.strip_suffix(b"\r\n").unwrap();
        let value = line.strip_prefix(&field.name[..]).unwrap().strip_prefix(b":").unwrap();
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let start = value.iter().position(|byte| !blank(byte)).unwrap_or(value.len());
        let end = value.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
        assert_eq!(field.value, value[start..end]);
    }
}

/// A generator of splits that repeats (xorshift).
pub struct Splits(u64);

impl Splits {
    pub fn new(seed: u64) -> Self {
        Splits(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Cuts `bytes` into pieces of one to `longest` bytes.
    pub fn cut<'a>(&mut self, bytes: &'a [u8], longest: u64) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = (self.next() % longest + 1).min(rest.len() as u64) as usize;
            let (piece, behind) = rest.split_at(length);
            pieces.push(piece);
            rest = behind;
        }
        pieces
    }
}

/// Feeds `bytes` whole, byte by byte and in random pieces, with consumed bytes kept or forgotten; all must come to the same.
pub fn outcome_with(role: &Role, limits: &Limits, bytes: &[u8]) -> Outcome {
    let whole = feed(role, limits, [bytes], true);
    let same = |how: &str, outcome: Outcome| {
        assert_eq!(whole, outcome, "whole (left) and {how} (right) differ for {}", bytes.escape_ascii());
    };
    same("whole, consumed bytes kept", feed(role, limits, [bytes], false));
    same("byte by byte", feed(role, limits, bytes.chunks(1), true));
    let mut splits = Splits::new(bytes.len() as u64);
    for longest in [3, 64, 200] {
        same("in random pieces", feed(role, limits, splits.cut(bytes, longest), longest == 3));
    }
    whole
}

/// [`outcome_with`] the gateway's limits.
pub fn outcome(role: &Role, bytes: &[u8]) -> Outcome {
    outcome_with(role, &Limits::default(), bytes)
}

/// [`outcome`], also cut in two at every place where that is not too many.
pub fn outcome_of_all_cuts(role: &Role, bytes: &[u8]) -> Outcome {
    let outcome = outcome(role, bytes);
    let places = if bytes.len() <= 512 { bytes.len() } else { 0 };
    for place in 1..places {
        let (front, back) = bytes.split_at(place);
        for compact in [false, true] {
            let cut = feed(role, &Limits::default(), [front, back], compact);
            assert_eq!(outcome, cut, "cut at {place}: {}", bytes.escape_ascii());
        }
    }
    outcome
}
