//! Response heads: the client's side.

use crate::bytes::find_control;
use crate::field::{self, fault, trimmed};
use crate::framing::Framing;
use crate::{BodyKind, Fields, Limits, Method, ParseError, Span, Version};

/// A parsed response head: spans of the buffer it was parsed from. Kept and refilled from response to response.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// Status, 100 to 999.
    pub status: u16,
    /// Reason phrase without white space around it; may be empty.
    pub reason: Span,
    /// Version.
    pub version: Version,
    /// Fields, in order.
    pub fields: Fields,
    /// How the body is framed, given the request's method.
    pub body: BodyKind,
    /// Content-Length as given, also where it frames nothing (HEAD, 304): what a GET would have had.
    pub content_length: Option<u64>,
    /// Whether the upstream lets the connection live on.
    pub keep_alive: bool,
    /// Where the head ends in the buffer.
    pub end: usize,
}

impl Default for ResponseHead {
    fn default() -> Self {
        ResponseHead {
            status: 0,
            reason: Span::default(),
            version: Version::Http11,
            fields: Fields::default(),
            body: BodyKind::None,
            content_length: None,
            keep_alive: false,
            end: 0,
        }
    }
}

impl ResponseHead {
    /// Parses the head at `buf[start..end]`, the reply to a request with `method`; spans are of `buf`.
    ///
    /// # Errors
    /// A rule that the head breaks ([`ParseError::Truncated`] if `start..end` is not exactly a head); `self` is then unspecified.
    pub fn parse(
        &mut self,
        buf: &[u8],
        start: usize,
        end: usize,
        method: Method,
        limits: &Limits,
    ) -> Result<(), ParseError> {
        let head = buf.get(..end).ok_or(ParseError::Truncated)?;
        self.read(head, start, method, limits, true)
    }

    /// Parses the head that `buf[start..]` begins with, if all of it is there and nothing is wrong with it; returns where it ends. `None` says
    /// nothing: see [`RequestHead::parse_whole`](crate::RequestHead::parse_whole).
    pub fn parse_whole(&mut self, buf: &[u8], start: usize, method: Method, limits: &Limits) -> Option<usize> {
        self.read(buf, start, method, limits, false).ok()?;
        (self.end - start <= limits.start_line.min(limits.head)).then_some(self.end)
    }

    /// Parses the head at `head[start..]`, with which `head` ends if it `is_all`.
    fn read(
        &mut self,
        head: &[u8],
        start: usize,
        method: Method,
        limits: &Limits,
        is_all: bool,
    ) -> Result<(), ParseError> {
        if head.len() > Span::MAX {
            return Err(ParseError::HeadTooLarge);
        }
        let buf = head;
        let fields = self.read_status_line(head, start)?;
        self.end = field::parse(&mut self.fields, head, fields, limits)?;
        if is_all && self.end != head.len() {
            return Err(ParseError::Truncated);
        }

        let framing = Framing::read(&mut self.fields, buf, self.version)?;
        let has_body_framing = framing.chunked || framing.content_length.is_some_and(|length| length > 0);
        if self.status < 200 && has_body_framing {
            return Err(ParseError::FramingForbidden);
        }
        let bodiless = method == Method::Head || matches!(self.status, 100..=199 | 204 | 304);
        self.content_length = framing.content_length;
        self.body = match (bodiless, framing.chunked, framing.content_length) {
            (true, _, _) | (false, false, Some(0)) => BodyKind::None,
            (false, true, _) => BodyKind::Chunked,
            (false, false, Some(length)) => BodyKind::Length(length),
            (false, false, None) => BodyKind::UntilClose,
        };
        // A 204 that speaks of a body may be followed by one, as from servers that do not know better (RFC 9112 section 6.3).
        let is_doubtful = self.status == 204 && has_body_framing;
        self.keep_alive = framing.persists(self.version) && self.body != BodyKind::UntilClose && !is_doubtful;
        Ok(())
    }

    /// Whether it is an interim response (RFC 9110 section 15.2); 101 is final for the exchange.
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// `HTTP-version SP status-code SP [reason-phrase] CRLF` (RFC 9112 section 4); many servers leave the second space out with the
    /// reason. Returns where the line ends.
    fn read_status_line(&mut self, head: &[u8], start: usize) -> Result<usize, ParseError> {
        let end = find_control(head, start);
        let behind = head.get(end..).unwrap_or_default();
        if !behind.starts_with(b"\r\n") {
            return Err(fault(behind, ParseError::StatusLine));
        }
        let line = &head[start..end];
        let Some((&[b'H', b'T', b'T', b'P', b'/', major, b'.', minor, b' ', code @ ..], reason)) =
            line.split_first_chunk::<12>()
        else {
            return Err(ParseError::StatusLine);
        };
        let [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] = code else { return Err(ParseError::StatusLine) };
        self.version = match (major, minor) {
            (b'1', b'1') => Version::Http11,
            (b'1', b'0') => Version::Http10,
            (b'0'..=b'9', b'0'..=b'9') => return Err(ParseError::Version),
            _ => return Err(ParseError::StatusLine),
        };
        if !matches!(reason, [] | [b' ', ..]) {
            return Err(ParseError::StatusLine);
        }
        self.status = code.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        self.reason = trimmed(head, end - reason.len(), end);
        Ok(end + 2)
    }
}
