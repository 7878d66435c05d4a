//! Which responses are compressed, and what their heads say then.
//!
//! What is decided here depends on two heads and the route's rules only; the body is the matter of `exchange/coded.rs`.

use std::cell::Cell;
use std::rc::Rc;

use ::compress::{Choice, Coding, Encoder, choose, is_event_stream};
use h1::{BodyKind, Known, Method, RequestHead, ResponseHead, encode};

use super::cache::rules::{Lines, LiveLines, StoredLines, list};
use crate::config::Compression;

/// Most bytes that the encoders of one worker hold; further responses go out as they are.
const MEMORY: usize = 64 << 20;

/// Fields that are about the bytes of a body that is not compressed.
const ABOUT_BYTES: [&[u8]; 5] = [b"accept-ranges", b"content-md5", b"content-digest", b"repr-digest", b"digest"];

/// How a response is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// It goes out as it came.
    Plain,
    /// The same, but another client may get it compressed.
    Varies,
    /// It stands for one that this client has compressed (304).
    Confirms,
    /// It is compressed.
    Coded(Coding),
}

impl Plan {
    /// Decides for a response of an upstream.
    pub fn new(rules: &Compression, request: (&RequestHead, &[u8]), response: (&ResponseHead, &[u8])) -> Plan {
        let (head, buf) = response;
        let length = match (head.body, head.content_length) {
            (BodyKind::Length(length), _) => Some(length),
            (BodyKind::None, length) if request.0.method == Method::Head => length,
            (BodyKind::None, _) if head.status != 304 => return Plan::Plain,
            _ => None,
        };
        let requested = LiveLines::new(&request.0.fields, request.1);
        Plan::of_lines(rules, requested, head.status, LiveLines::new(&head.fields, buf), length)
    }

    /// Decides by the fields of a request and a response; `length` is that of its body, where it is known.
    pub fn of_lines<'a, 'b>(
        rules: &Compression,
        request: impl Lines<'a>,
        status: u16,
        response: impl Lines<'b>,
        length: Option<u64>,
    ) -> Plan {
        let is_left_alone = !matches!(status, 200..=203 | 207 | 208 | 304 | 400..=599)
            || response.first(Known::ContentEncoding).is_some()
            || response.first(Known::ContentRange).is_some()
            || lists(response, Known::CacheControl, b"no-transform")
            || (response.first(Known::SetCookie).is_some() && !rules.with_set_cookie);
        if is_left_alone {
            return Plan::Plain;
        }
        let Choice { coding, takes_identity } = choose(request.values(Known::AcceptEncoding), &rules.codings);
        let wants_as_is = request.first(Known::Range).is_some() || lists(request, Known::CacheControl, b"no-transform");
        let coding = coding.filter(|_| !wants_as_is);
        if status == 304 {
            return if coding.is_some() { Plan::Confirms } else { Plan::Plain };
        }
        let content_type = response.first(Known::ContentType).unwrap_or_default();
        let is_short = length.is_some_and(|length| length < rules.min_bytes.max(1));
        let is_worth_it = rules.types.contain(content_type) && !is_event_stream(content_type);
        match coding {
            _ if !is_worth_it => Plan::Plain,
            Some(_) if length == Some(0) => Plan::Plain,
            // A short body may grow, but this client takes it in no other way.
            _ if is_short && (takes_identity || coding.is_none()) => Plan::Plain,
            Some(coding) => Plan::Coded(coding),
            None => Plan::Varies,
        }
    }

    /// The same for a response that confirms one which would be sent so (304).
    #[must_use]
    pub fn confirming(self) -> Plan {
        if matches!(self, Plan::Coded(_)) { Plan::Confirms } else { self }
    }

    /// Whether the client gets other bytes than the upstream's, or is told that it has some.
    pub fn is_coded(self) -> bool {
        matches!(self, Plan::Confirms | Plan::Coded(_))
    }

    /// Whether a field of the response is left out.
    pub fn drops(self, known: Known, name: &[u8]) -> bool {
        match known {
            Known::Etag => self.is_coded(),
            Known::Other => self.is_coded() && ABOUT_BYTES.iter().any(|other| name.eq_ignore_ascii_case(other)),
            _ => false,
        }
    }

    /// Appends what the head says of it. Fields that `is_edited` are the route's own.
    pub fn write<'a>(self, out: &mut Vec<u8>, response: impl Lines<'a>, is_edited: impl Fn(&[u8]) -> bool) {
        if self == Plan::Plain {
            return;
        }
        if let Plan::Coded(coding) = self {
            encode::field(out, b"Content-Encoding", coding.name().as_bytes());
        }
        if let (true, Some(etag)) = (self.is_coded(), response.first(Known::Etag))
            && !is_edited(Known::Etag.name().as_bytes())
        {
            write_weak_etag(out, etag);
        }
        let says_so = lists(response, Known::Vary, b"*") || lists(response, Known::Vary, b"accept-encoding");
        if !says_so || is_edited(Known::Vary.name().as_bytes()) {
            encode::field(out, b"Vary", b"Accept-Encoding");
        }
    }

    /// The stored `lines` of a response as they are sent then.
    pub fn write_stored(self, out: &mut Vec<u8>, lines: &[u8]) {
        let lines = StoredLines(lines);
        for line in lines.all().filter(|line| !self.drops(line.known, line.name)) {
            encode::field(out, line.name, line.value);
        }
        self.write(out, lines, |_| false);
    }
}

/// Whether a list has a member, in any case.
fn lists<'a>(lines: impl Lines<'a>, name: Known, wanted: &[u8]) -> bool {
    lines.values(name).any(|value| list::elements(value).any(|member| member.eq_ignore_ascii_case(wanted)))
}

/// Appends `ETag` for other bytes of the same meaning (RFC 9110 section 8.8.1).
fn write_weak_etag(out: &mut Vec<u8>, etag: &[u8]) {
    let mut weak = Vec::with_capacity(etag.len() + 2);
    if !etag.starts_with(b"W/") {
        weak.extend_from_slice(b"W/");
    }
    weak.extend_from_slice(etag);
    encode::field(out, b"ETag", &weak);
}

/// What the encoders of a worker hold.
#[derive(Debug, Clone, Default)]
pub struct Memory(Rc<Cell<usize>>);

/// Part of it, until it is dropped.
#[derive(Debug)]
pub struct Held {
    of: Rc<Cell<usize>>,
    bytes: usize,
}

impl Held {
    /// Nothing is held any more.
    pub fn release(&mut self) {
        self.of.set(self.of.get() - std::mem::take(&mut self.bytes));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

impl Memory {
    /// An encoder for one body, unless too much is held already. `length` is that of the body, where it is known.
    pub fn encoder(&self, rules: &Compression, coding: Coding, length: Option<u64>) -> Option<(Encoder, Held)> {
        let bytes = coding.memory();
        if self.0.get() + bytes > MEMORY {
            return None;
        }
        let encoder = Encoder::new(coding, rules.levels[coding.index()], length).ok()?;
        self.0.set(self.0.get() + bytes);
        Some((encoder, Held { of: self.0.clone(), bytes }))
    }
}

#[cfg(test)]
mod tests;
