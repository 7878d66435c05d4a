//! Request heads: the server's side.

use crate::bytes::{find_control, find_target_stop, is_token_byte};
use crate::field::{self, fault};
use crate::framing::Framing;
use crate::target::Target;
use crate::{BodyKind, Expect, Fields, Known, Limits, Method, ParseError, Span, TargetForm, Version};
use message::validate::is_authority_at;

/// A parsed request head: spans of the buffer it was parsed from. Kept and refilled from request to request.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// Method, recognised.
    pub method: Method,
    /// Method as written.
    pub method_name: Span,
    /// Form of the target.
    pub form: TargetForm,
    /// Path as written, not normalised; empty for an absolute form without path.
    pub path: Span,
    /// Query without `?`; `None` where there is no `?`.
    pub query: Option<Span>,
    /// Effective authority (RFC 9110 section 7.1): of the target, else Host; absent only in HTTP/1.0.
    pub authority: Option<Span>,
    /// Version.
    pub version: Version,
    /// Fields, in order.
    pub fields: Fields,
    /// How the body is framed.
    pub body: BodyKind,
    /// Whether the client lets the connection live on.
    pub keep_alive: bool,
    /// Expectation.
    pub expect: Expect,
    /// Requests an upgrade: `Connection: upgrade` and an `Upgrade` field, in HTTP/1.1.
    pub upgrade: bool,
    /// Where the head ends in the buffer.
    pub end: usize,
}

impl Default for RequestHead {
    fn default() -> Self {
        RequestHead {
            method: Method::Other,
            method_name: Span::default(),
            form: TargetForm::Origin,
            path: Span::default(),
            query: None,
            authority: None,
            version: Version::Http11,
            fields: Fields::default(),
            body: BodyKind::None,
            keep_alive: false,
            expect: Expect::None,
            upgrade: false,
            end: 0,
        }
    }
}

impl RequestHead {
    /// Parses the head at `buf[start..end]`, where [`HeadScanner`](crate::HeadScanner) found its end; spans are of `buf`.
    ///
    /// # Errors
    /// A rule that the head breaks ([`ParseError::Truncated`] if `start..end` is not exactly a head); `self` is then unspecified.
    pub fn parse(&mut self, buf: &[u8], start: usize, end: usize, limits: &Limits) -> Result<(), ParseError> {
        let head = buf.get(..end).ok_or(ParseError::Truncated)?;
        self.read(head, start, limits, true)
    }

    /// Parses the head that `buf[start..]` begins with, if all of it is there and nothing is wrong with it; returns where it ends. `None` says
    /// nothing: whether the head is not complete, or what it is refused for, is for [`HeadScanner`](crate::HeadScanner) and [`parse`](Self::parse)
    /// to say. They would find the same end and the same head as this does, in two passes.
    pub fn parse_whole(&mut self, buf: &[u8], start: usize, limits: &Limits) -> Option<usize> {
        self.read(buf, start, limits, false).ok()?;
        // A head within both limits breaks neither.
        (self.end - start <= limits.start_line.min(limits.head)).then_some(self.end)
    }

    /// Parses the head at `head[start..]`, with which `head` ends if it `is_all`.
    fn read(&mut self, head: &[u8], start: usize, limits: &Limits, is_all: bool) -> Result<(), ParseError> {
        if head.len() > Span::MAX {
            return Err(ParseError::HeadTooLarge);
        }
        let buf = head;
        let (target, fields) = self.read_request_line(head, start)?;
        self.end = field::parse(&mut self.fields, head, fields, limits)?;
        if is_all && self.end != head.len() {
            return Err(ParseError::Truncated);
        }

        let framing = Framing::read(&mut self.fields, buf, self.version)?;
        self.body = match (framing.chunked, framing.content_length) {
            (true, _) => BodyKind::Chunked,
            (false, Some(0) | None) => BodyKind::None,
            (false, Some(length)) => BodyKind::Length(length),
        };
        self.keep_alive = framing.persists(self.version);
        self.upgrade = framing.upgrade && self.fields.contains(Known::Upgrade) && self.version == Version::Http11;
        self.expect = expectation(&self.fields, buf, self.version);

        let name = self.method_name.of_buf(buf);
        if self.method == Method::Other && Method::is_miscased(name) {
            return Err(if name == b"CONNECT" { ParseError::Connect } else { ParseError::Method });
        }
        let target = Target::read(head, target)?;
        if target.form == TargetForm::Asterisk && self.method != Method::Options {
            return Err(ParseError::AsteriskForm);
        }
        self.form = target.form;
        self.path = target.path;
        self.query = target.query;
        self.read_host(target.authority, buf)
    }

    /// Whether `Content-Length`, if there is one, is written as nearly everybody writes it: without leading zeros, behind one blank or none. The
    /// grammar allows more (RFC 9110 sections 5.5 and 8.6), of which some servers take only a part.
    pub fn has_plain_length(&self, buf: &[u8]) -> bool {
        self.fields.iter().filter(|field| field.known == Known::ContentLength).all(|field| {
            let value = field.value.of_buf(buf);
            let line = field.line().of_buf(buf).strip_suffix(b"\r\n").unwrap_or_default();
            let behind_colon = line.get(field.name.range().len() + 1..).unwrap_or_default();
            let has_zero = value.len() > 1 && value.starts_with(b"0");
            behind_colon.strip_prefix(b" ").unwrap_or(behind_colon) == value && !has_zero
        })
    }

    /// `method SP request-target SP HTTP-version CRLF` (RFC 9112 section 3). Returns where the target is and where the line ends.
    fn read_request_line(&mut self, head: &[u8], start: usize) -> Result<(RawTarget, usize), ParseError> {
        let line = head.get(start..).unwrap_or_default();
        let length = line.iter().take(Limits::METHOD + 1).take_while(|&&byte| is_token_byte(byte)).count();
        match line.get(length) {
            _ if length > Limits::METHOD => return Err(ParseError::Method),
            Some(b' ') if length > 0 => {}
            Some(b'\r') if length == 0 && line.starts_with(b"\r\n") => return Err(ParseError::EmptyLines),
            Some(b' ' | b'\t' | b'\r' | b'\n') | None => return Err(fault(&line[length..], ParseError::RequestLine)),
            Some(_) => return Err(ParseError::Method),
        }
        let name = &line[..length];
        self.method = Method::of(name);
        self.method_name = Span::new(start, start + length);

        let target = start + length + 1;
        let mut query = None;
        let mut end = find_target_stop(head, target);
        while head.get(end) == Some(&b'?') {
            query = query.or(Some(end));
            end = find_target_stop(head, end + 1);
        }
        match head.get(end) {
            Some(b' ') if end > target => {}
            Some(b' ' | b'\t' | b'\r' | b'\n') | None => {
                return Err(fault(head.get(end..).unwrap_or_default(), ParseError::RequestLine));
            }
            Some(_) => return Err(ParseError::Target),
        }

        let version = &head[end + 1..];
        self.version = if version.starts_with(b"HTTP/1.1\r\n") {
            Version::Http11
        } else if version.starts_with(b"HTTP/1.0\r\n") {
            Version::Http10
        } else {
            return Err(wrong_version(version));
        };
        Ok((RawTarget { start: target, query, end }, end + 1 + b"HTTP/1.1\r\n".len()))
    }

    /// Exactly one valid Host in HTTP/1.1, at most one in HTTP/1.0; the authority of an absolute form wins.
    fn read_host(&mut self, authority: Option<Span>, buf: &[u8]) -> Result<(), ParseError> {
        if self.fields.repeats(Known::Host) {
            return Err(ParseError::HostRepeated);
        }
        let host = self.fields.first_span(Known::Host);
        match host {
            None if self.version == Version::Http11 => return Err(ParseError::HostMissing),
            Some(host) if !is_authority_at(buf, host.start as usize, host.end as usize) => {
                return Err(ParseError::HostInvalid);
            }
            _ => {}
        }
        self.authority = authority.or(host);
        Ok(())
    }
}

/// Where a target lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawTarget {
    pub(crate) start: usize,
    /// Its first `?`.
    pub(crate) query: Option<usize>,
    pub(crate) end: usize,
}

/// What is wrong with what stands where `HTTP/1.1` should: `HTTP/` DIGIT `.` DIGIT is a version that is not spoken here, anything else
/// no version at all (RFC 9112 section 2.3).
#[cold]
fn wrong_version(rest: &[u8]) -> ParseError {
    let (line, behind) = rest.split_at(find_control(rest, 0));
    match line {
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] if behind.starts_with(b"\r\n") => {
            ParseError::Version
        }
        _ => fault(behind, ParseError::RequestLine),
    }
}

/// HTTP/1.0 knows no expectations (RFC 9110 section 10.1.1).
fn expectation(fields: &Fields, buf: &[u8], version: Version) -> Expect {
    match fields.first(Known::Expect, buf) {
        Some(value) if version == Version::Http11 => {
            if value.eq_ignore_ascii_case(b"100-continue") && !fields.repeats(Known::Expect) {
                Expect::Continue
            } else {
                Expect::Unknown
            }
        }
        _ => Expect::None,
    }
}
