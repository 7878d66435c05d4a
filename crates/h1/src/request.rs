//! Request heads: the server's side.

use std::mem::MaybeUninit;

use crate::field::{Fields, Known};
use crate::framing::{Framing, collect, explain};
use crate::{BodyKind, Limits, ParseError, Span, Version};

/// Request methods that a proxy treats by their properties (RFC 9110 section 9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// PATCH
    Patch,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// Any other token.
    Other,
}

impl Method {
    /// Recognises a method; names are case-sensitive.
    pub fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"PATCH" => Method::Patch,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            _ => Method::Other,
        }
    }

    /// Whether sending it twice is the same as sending it once (RFC 9110 section 9.2.2).
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Method::Post | Method::Patch | Method::Other)
    }

    /// Whether it only reads (RFC 9110 section 9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options | Method::Trace)
    }
}

/// Form of the request target (RFC 9112 section 3.2); authority form belongs to CONNECT and is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `*`
    Asterisk,
}

/// What the client expects before it sends its body (RFC 9110 section 10.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    None,
    /// `100-continue`.
    Continue,
    /// Something else: 417.
    Unknown,
}

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
    /// Asks for an upgrade: `Connection: upgrade` and an `Upgrade` field, in HTTP/1.1.
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
    /// The first rule that the head breaks; `self` is then unspecified.
    pub fn parse(&mut self, buf: &[u8], start: usize, end: usize, limits: &Limits) -> Result<(), ParseError> {
        let head = &buf[start..end];
        if matches!(head.first(), Some(b'\r' | b'\n')) {
            return Err(ParseError::EmptyLines);
        }
        let mut slots = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; Limits::MAX_FIELDS];
        let mut parsed = httparse::Request::new(&mut []);
        match parsed.parse_with_uninit_headers(head, &mut slots[..limits.fields.min(Limits::MAX_FIELDS)]) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Ok(_) => return Err(ParseError::RequestLine),
            Err(error) => return Err(explain(error, head, true)),
        }
        let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
            return Err(ParseError::RequestLine);
        };
        if method.len() > Limits::METHOD {
            return Err(ParseError::Method);
        }
        self.method = Method::of(method.as_bytes());
        self.method_name = Span::of(method.as_bytes(), buf);
        self.version = if version == 0 { Version::Http10 } else { Version::Http11 };
        self.end = end;
        collect(&mut self.fields, parsed.headers, buf, end)?;

        let framing = Framing::read(&mut self.fields, buf, self.version)?;
        self.body = match (framing.chunked, framing.content_length) {
            (true, _) => BodyKind::Chunked,
            (false, Some(0) | None) => BodyKind::None,
            (false, Some(length)) => BodyKind::Length(length),
        };
        self.keep_alive = framing.persists(self.version);
        self.upgrade = framing.upgrade_option && framing.upgrade_field && self.version == Version::Http11;
        self.expect = expectation(&self.fields, buf, self.version);

        let target = Span::of(target.as_bytes(), buf);
        self.read_target(target, buf)?;
        self.read_host(buf)
    }

    fn read_target(&mut self, target: Span, buf: &[u8]) -> Result<(), ParseError> {
        let bytes = target.of_buf(buf);
        if !bytes.iter().all(|&byte| (0x21..=0x7e).contains(&byte) && byte != b'#') {
            return Err(ParseError::Target);
        }
        self.authority = None;
        let start = target.start as usize;
        let path_start = match bytes.first() {
            _ if self.method_name.of_buf(buf) == b"CONNECT" => return Err(ParseError::Connect),
            Some(b'/') => {
                self.form = TargetForm::Origin;
                start
            }
            Some(b'*') if bytes.len() == 1 => {
                if self.method != Method::Options {
                    return Err(ParseError::AsteriskForm);
                }
                self.form = TargetForm::Asterisk;
                self.path = target;
                self.query = None;
                return Ok(());
            }
            _ => {
                let scheme = absolute_scheme(bytes).ok_or(ParseError::Target)?;
                let rest = &bytes[scheme..];
                let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
                let authority = Span::new(start + scheme, start + scheme + length);
                if !is_authority(authority.of_buf(buf)) {
                    return Err(ParseError::HostInvalid);
                }
                self.form = TargetForm::Absolute;
                self.authority = Some(authority);
                start + scheme + length
            }
        };
        let end = target.end as usize;
        let rest = &buf[path_start..end];
        match memchr::memchr(b'?', rest) {
            Some(mark) => {
                self.path = Span::new(path_start, path_start + mark);
                self.query = Some(Span::new(path_start + mark + 1, end));
            }
            None => {
                self.path = Span::new(path_start, end);
                self.query = None;
            }
        }
        Ok(())
    }

    /// Exactly one valid Host in HTTP/1.1, at most one in HTTP/1.0; the authority of an absolute form wins.
    fn read_host(&mut self, buf: &[u8]) -> Result<(), ParseError> {
        let mut host = None;
        for field in self.fields.iter().filter(|field| field.known == Known::Host) {
            if host.replace(field.value).is_some() {
                return Err(ParseError::HostRepeated);
            }
        }
        match host {
            None if self.version == Version::Http11 => return Err(ParseError::HostMissing),
            None => {}
            Some(span) if !is_authority(span.of_buf(buf)) => return Err(ParseError::HostInvalid),
            Some(span) => self.authority = self.authority.or(Some(span)),
        }
        Ok(())
    }
}

/// Length of `http://` or `https://`, in any case.
fn absolute_scheme(target: &[u8]) -> Option<usize> {
    let starts_with =
        |scheme: &[u8]| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    [&b"http://"[..], b"https://"].into_iter().find(|scheme| starts_with(scheme)).map(<[u8]>::len)
}

/// `host [":" port]` without userinfo (RFC 9110 sections 4.2.4 and 7.2); a host must be there.
fn is_authority(bytes: &[u8]) -> bool {
    let (host_is_valid, port) = match bytes {
        [b'[', rest @ ..] => match memchr::memchr(b']', rest) {
            Some(close) => {
                let address = &rest[..close];
                let valid = std::str::from_utf8(address).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok());
                (valid, &rest[close + 1..])
            }
            None => return false,
        },
        _ => {
            let length = memchr::memchr(b':', bytes).unwrap_or(bytes.len());
            let (host, port) = bytes.split_at(length);
            let valid = !host.is_empty()
                && host.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~'));
            (valid, port)
        }
    };
    host_is_valid
        && match port {
            [] => true,
            [b':', digits @ ..] => {
                digits.len() <= 5
                    && digits.iter().all(u8::is_ascii_digit)
                    && digits.iter().fold(0u32, |port, digit| port * 10 + u32::from(digit - b'0')) <= 65_535
            }
            _ => false,
        }
}

/// HTTP/1.0 knows no expectations (RFC 9110 section 10.1.1).
fn expectation(fields: &Fields, buf: &[u8], version: Version) -> Expect {
    let mut expect = Expect::None;
    for value in fields.values(Known::Expect, buf) {
        expect = match version {
            Version::Http10 => Expect::None,
            Version::Http11 if value.eq_ignore_ascii_case(b"100-continue") && expect == Expect::None => {
                Expect::Continue
            }
            Version::Http11 => Expect::Unknown,
        };
    }
    expect
}
