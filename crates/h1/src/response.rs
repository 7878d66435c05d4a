//! Response heads: the client's side.

use std::mem::MaybeUninit;

use crate::field::Fields;
use crate::framing::{Framing, collect, explain};
use crate::{BodyKind, Limits, Method, ParseError, Span, Version};

/// A parsed response head: spans of the buffer it was parsed from. Kept and refilled from response to response.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// Status, 100 to 999.
    pub status: u16,
    /// Reason phrase; may be empty.
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
    /// The first rule that the head breaks; `self` is then unspecified.
    pub fn parse(
        &mut self,
        buf: &[u8],
        start: usize,
        end: usize,
        method: Method,
        limits: &Limits,
    ) -> Result<(), ParseError> {
        let head = &buf[start..end];
        if matches!(head.first(), Some(b'\r' | b'\n')) {
            return Err(ParseError::StatusLine);
        }
        let mut slots = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; Limits::MAX_FIELDS];
        let mut parsed = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let slots = &mut slots[..limits.fields.min(Limits::MAX_FIELDS)];
        match config.parse_response_with_uninit_headers(&mut parsed, head, slots) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Ok(_) => return Err(ParseError::StatusLine),
            Err(error) => return Err(explain(error, head, false)),
        }
        let (Some(status), Some(version)) = (parsed.code, parsed.version) else {
            return Err(ParseError::StatusLine);
        };
        if status < 100 {
            return Err(ParseError::StatusLine);
        }
        self.status = status;
        // Nothing between "HTTP/1.1 200" and the line's end is an empty reason, wherever it is.
        self.reason = match parsed.reason {
            None | Some("") => Span::new(start, start),
            Some(reason) => Span::of(reason.as_bytes(), buf),
        };
        if self.reason.is_empty() {
            // The parser hands out no reason also where it holds bytes beyond ASCII: keep what is there.
            self.reason = reason_after_status(head, start);
        }
        self.version = if version == 0 { Version::Http10 } else { Version::Http11 };
        self.end = end;
        collect(&mut self.fields, parsed.headers, buf, end)?;

        let framing = Framing::read(&mut self.fields, buf, self.version)?;
        let bodiless = method == Method::Head || status < 200 || status == 204 || status == 304;
        self.content_length = framing.content_length;
        self.body = match (bodiless, framing.chunked, framing.content_length) {
            (true, _, _) | (false, false, Some(0)) => BodyKind::None,
            (false, true, _) => BodyKind::Chunked,
            (false, false, Some(length)) => BodyKind::Length(length),
            (false, false, None) => BodyKind::UntilClose,
        };
        self.keep_alive = framing.persists(self.version) && self.body != BodyKind::UntilClose;
        Ok(())
    }

    /// Whether it is an interim answer (RFC 9110 section 15.2); 101 is final for the exchange.
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }
}

fn reason_after_status(head: &[u8], start: usize) -> Span {
    // "HTTP/1.1 200 reason CRLF": the parser has checked the shape.
    let line = memchr::memchr(b'\r', head).unwrap_or(0);
    if line > 13 { Span::new(start + 13, start + line) } else { Span::new(start, start) }
}
