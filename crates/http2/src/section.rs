//! Field sections: from decoded lines to a head, with the rules of RFC 9113 section 8.

use message::validate::{is_authority, is_target_byte, is_token};
use message::{
    BodyLength, Expect, Field, Fields, Known, Limits, Method, Protocol, RequestHead, ResponseHead, Span, TargetForm,
};

use crate::config::Config;
use crate::error::Malformed;
use crate::hpack::{FieldKind, Kind, Sink};
use crate::priority::Priority;
use crate::stream::Stream;

/// Where a head is decoded to: an arena of the caller's, reused from message to message.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// Field lines, pseudo-fields among them as lines of their own that no field points to.
    pub text: Vec<u8>,
    /// Head of a request, after [`crate::Event::Request`].
    pub request: RequestHead,
    /// Head of a response, after [`crate::Event::Response`] or [`crate::Event::Interim`].
    pub response: ResponseHead,
    /// Trailers, after [`crate::Event::Trailers`].
    pub trailers: Fields,
}

/// What a section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Request,
    Response,
    Trailers,
    /// Of a stream that has been removed: decoded for the table's sake.
    Discarded,
}

/// Collects lines; keeps to the limits; stores the first rule that is broken.
pub(crate) struct Section<'a> {
    text: &'a mut Vec<u8>,
    fields: Fields,
    pseudo: [Option<Span>; 6],
    role: Role,
    size: usize,
    count: usize,
    max_size: usize,
    max_fields: usize,
    pub(crate) broken: Option<Malformed>,
    pub(crate) is_too_large: bool,
}

const METHOD: usize = 0;
const SCHEME: usize = 1;
const AUTHORITY: usize = 2;
const PATH: usize = 3;
const STATUS: usize = 4;
const PROTOCOL: usize = 5;

impl Sink for Section<'_> {
    #[inline]
    fn text(&mut self) -> &mut Vec<u8> {
        self.text
    }

    #[inline]
    fn line(&mut self, start: usize, name_len: usize, known: Known, FieldKind(kind): FieldKind) {
        let end = self.text.len();
        self.size = self.size.saturating_add(end - start - 4 + 32);
        self.count += 1;
        if self.role == Role::Discarded || self.size > self.max_size || self.count > self.max_fields {
            self.is_too_large |= self.role != Role::Discarded;
            self.text.truncate(start);
            return;
        }
        let value = Span { start: (start + name_len + 2) as u32, end: (end - 2) as u32 };
        let place = match kind {
            Kind::Field => {
                if known.is_hop_by_hop() && known != Known::Trailer {
                    self.check_connection_field(known, value);
                }
                let name = Span { start: start as u32, end: (start + name_len) as u32 };
                return self.fields.push(Field {
                    name,
                    value,
                    line_end: end as u32,
                    known,
                    named_by_connection: false,
                });
            }
            Kind::Method => METHOD,
            Kind::Scheme => SCHEME,
            Kind::Authority => AUTHORITY,
            Kind::Path => PATH,
            Kind::Status => STATUS,
            Kind::Protocol => PROTOCOL,
            Kind::UnknownPseudo => return self.fail(Malformed::PseudoField),
            Kind::BadName => return self.fail(Malformed::FieldName),
            Kind::BadValue => return self.fail(Malformed::FieldValue),
        };
        let is_allowed = match self.role {
            Role::Request => place != STATUS,
            Role::Response => place == STATUS,
            Role::Trailers | Role::Discarded => false,
        };
        if !is_allowed || !self.fields.is_empty() || value.is_empty() || self.pseudo[place].is_some() {
            return self.fail(Malformed::PseudoField);
        }
        self.pseudo[place] = Some(value);
    }
}

impl<'a> Section<'a> {
    pub(crate) fn new(text: &'a mut Vec<u8>, mut fields: Fields, role: Role, config: &Config) -> Self {
        text.clear();
        fields.clear();
        let max_fields = config.fields.min(Limits::MAX_FIELDS);
        Section {
            text,
            fields,
            pseudo: [None; 6],
            role,
            size: 0,
            count: 0,
            max_size: config.section,
            max_fields,
            broken: None,
            is_too_large: false,
        }
    }

    /// Size of all fields, those that were not stored included.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn fail(&mut self, rule: Malformed) {
        self.broken = self.broken.or(Some(rule));
    }

    /// Fields of one connection have no place here (section 8.2.2).
    #[cold]
    fn check_connection_field(&mut self, known: Known, value: Span) {
        let is_te = known == Known::Te && self.role == Role::Request;
        if !(is_te && value.of_buf(self.text).eq_ignore_ascii_case(b"trailers")) {
            self.fail(Malformed::ConnectionField);
        }
    }

    pub(crate) fn into_trailers(mut self) -> (Fields, Result<(), Malformed>) {
        let fields = std::mem::take(&mut self.fields);
        (fields, self.broken.map_or(Ok(()), Err))
    }

    fn of(&self, place: usize) -> Option<&[u8]> {
        self.pseudo[place].map(|span| span.of_buf(self.text))
    }

    fn content_length(&self) -> Result<Option<u64>, Malformed> {
        if self.fields.repeats(Known::ContentLength) {
            return Err(Malformed::ContentLength);
        }
        let Some(value) = self.fields.first(Known::ContentLength, self.text) else { return Ok(None) };
        if value.is_empty() {
            return Err(Malformed::ContentLength);
        }
        let digit = |length: u64, byte: &u8| match byte {
            b'0'..=b'9' => length.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
            _ => None,
        };
        value.iter().try_fold(0, digit).map(Some).ok_or(Malformed::ContentLength)
    }

    /// Fills a request head. Returns the length that it promises, and its priority.
    pub(crate) fn into_request(
        mut self,
        head: &mut RequestHead,
        end_stream: bool,
        extended_connect: bool,
    ) -> Result<(Option<u64>, Priority), Malformed> {
        let result = self.request(head, end_stream, extended_connect);
        if result.is_ok() {
            self.fields.join(Known::Cookie, b"; ", self.text);
        }
        head.end = self.text.len();
        head.fields = self.fields;
        result
    }

    fn request(
        &mut self,
        head: &mut RequestHead,
        end_stream: bool,
        extended_connect: bool,
    ) -> Result<(Option<u64>, Priority), Malformed> {
        if let Some(rule) = self.broken {
            return Err(rule);
        }
        let (Some(method_span), Some(method)) = (self.pseudo[METHOD], self.of(METHOD)) else {
            return Err(Malformed::PseudoField);
        };
        if !is_token(method) || method.len() > Limits::METHOD {
            return Err(Malformed::Method);
        }
        head.method = Method::of(method);
        if method == b"CONNECT" {
            if !extended_connect || self.pseudo[PROTOCOL].is_none() {
                return Err(Malformed::Connect);
            }
        } else if self.pseudo[PROTOCOL].is_some() {
            return Err(Malformed::PseudoField);
        } else if head.method == Method::Other && Method::is_miscased(method) {
            return Err(Malformed::Method);
        }
        if self.of(PROTOCOL).is_some_and(|protocol| !is_token(protocol)) {
            return Err(Malformed::PseudoField);
        }
        let (Some(scheme), Some(path_span), Some(path)) = (self.of(SCHEME), self.pseudo[PATH], self.of(PATH)) else {
            return Err(Malformed::PseudoField);
        };
        let default_port = match scheme {
            b"http" => &b":80"[..],
            b"https" => b":443",
            _ => return Err(Malformed::Scheme),
        };
        head.form = match path {
            b"*" if head.method == Method::Options => TargetForm::Asterisk,
            [b'/', ..] if path.iter().all(|&byte| is_target_byte(byte)) => TargetForm::Origin,
            _ => return Err(Malformed::Path),
        };
        let mark = path.iter().position(|&byte| byte == b'?').map(|mark| path_span.start + mark as u32);
        head.path = Span { start: path_span.start, end: mark.unwrap_or(path_span.end) };
        head.query = mark.map(|mark| Span { start: mark + 1, end: path_span.end });
        head.authority = self.authority(default_port)?;
        head.protocol = Protocol::Http2;
        head.method_name = method_span;
        head.connect_protocol = self.pseudo[PROTOCOL];
        let length = self.content_length()?;
        if end_stream && length.is_some_and(|length| length > 0) {
            return Err(Malformed::ContentLength);
        }
        head.body = match (end_stream, length) {
            (true, _) => BodyLength::None,
            (false, Some(length)) => BodyLength::Exact(length),
            (false, None) => BodyLength::Unknown,
        };
        head.expect = match self.fields.first(Known::Expect, self.text) {
            None => Expect::None,
            Some(value) if value.eq_ignore_ascii_case(b"100-continue") && !self.fields.repeats(Known::Expect) => {
                Expect::Continue
            }
            Some(_) => Expect::Unknown,
        };
        head.accepts_trailers = self.fields.contains(Known::Te);
        let priority = self.fields.first(Known::Priority, self.text).map(Priority::parse).unwrap_or_default();
        Ok((length, priority))
    }

    /// `:authority`, or Host without it; both must name the same host and port (section 8.3.1).
    fn authority(&self, default_port: &[u8]) -> Result<Option<Span>, Malformed> {
        if self.fields.repeats(Known::Host) {
            return Err(Malformed::Authority);
        }
        let host = self.fields.first_span(Known::Host);
        let (Some(chosen), text) = (self.pseudo[AUTHORITY].or(host), &self.text) else {
            return Err(Malformed::Authority);
        };
        if !is_authority(chosen.of_buf(text)) {
            return Err(Malformed::Authority);
        }
        let plain = |span: Span| {
            let bytes = span.of_buf(text);
            let bytes = bytes.strip_suffix(default_port).unwrap_or(bytes);
            bytes.strip_suffix(b":").unwrap_or(bytes)
        };
        match host {
            Some(host) if !plain(host).eq_ignore_ascii_case(plain(chosen)) => Err(Malformed::Authority),
            _ => Ok(Some(chosen)),
        }
    }

    /// Fills a response head. Returns the length of the body that must follow.
    pub(crate) fn into_response(
        mut self,
        head: &mut ResponseHead,
        end_stream: bool,
        stream: &Stream,
    ) -> Result<Option<u64>, Malformed> {
        let result = self.response(head, end_stream, stream);
        head.end = self.text.len();
        head.fields = std::mem::take(&mut self.fields);
        result
    }

    fn response(&self, head: &mut ResponseHead, end_stream: bool, stream: &Stream) -> Result<Option<u64>, Malformed> {
        if let Some(rule) = self.broken {
            return Err(rule);
        }
        let Some(&[a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']) = self.of(STATUS) else {
            return Err(Malformed::Status);
        };
        let digit = |byte: u8| u16::from(byte - b'0');
        head.status = digit(a) * 100 + digit(b) * 10 + digit(c);
        head.reason = Span::default();
        if head.status == 101 {
            return Err(Malformed::Status);
        }
        if head.is_interim() && end_stream {
            return Err(Malformed::Interim);
        }
        // A tunnel has no length, whatever is said of one (RFC 9110 section 9.3.6).
        let is_tunnel = stream.is_connect && (200..300).contains(&head.status);
        head.content_length = if is_tunnel { None } else { self.content_length()? };
        if head.is_interim() {
            head.body = BodyLength::None;
            return if head.content_length.unwrap_or(0) > 0 { Err(Malformed::ContentLength) } else { Ok(None) };
        }
        let is_bodiless = !is_tunnel && (stream.is_head_request || matches!(head.status, 204 | 304));
        let expected = if is_bodiless { Some(0) } else { head.content_length };
        if end_stream && expected.is_some_and(|length| length > 0) {
            return Err(Malformed::ContentLength);
        }
        head.body = match (end_stream, expected) {
            (true, _) | (false, Some(0)) => BodyLength::None,
            (false, Some(length)) => BodyLength::Exact(length),
            (false, None) => BodyLength::Unknown,
        };
        Ok(expected)
    }
}
