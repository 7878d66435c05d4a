//! Header fields as spans, with the names that a proxy cares about recognised once.

use crate::Span;

macro_rules! known {
    ($($name:ident = $text:literal;)*) => {
        /// A field name that the gateway treats in its own way.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Known {
            /// Any other name.
            Other,
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Known {
            /// Name in lower case; empty for [`Known::Other`].
            pub fn name(self) -> &'static str {
                match self { Known::Other => "", $(Known::$name => $text,)* }
            }

            const ALL: &'static [(Known, &'static str)] = &[$((Known::$name, $text)),*];
        }
    };
}

known! {
    Connection = "connection";
    KeepAlive = "keep-alive";
    ProxyConnection = "proxy-connection";
    Te = "te";
    Trailer = "trailer";
    Upgrade = "upgrade";
    TransferEncoding = "transfer-encoding";
    ContentLength = "content-length";
    Host = "host";
    Expect = "expect";
    ProxyAuthenticate = "proxy-authenticate";
    ProxyAuthorization = "proxy-authorization";
    Http2Settings = "http2-settings";
    XForwardedFor = "x-forwarded-for";
    XForwardedProto = "x-forwarded-proto";
    XForwardedHost = "x-forwarded-host";
    XRequestId = "x-request-id";
    Via = "via";
    Forwarded = "forwarded";
    Authorization = "authorization";
    Cookie = "cookie";
    SetCookie = "set-cookie";
    Date = "date";
    Server = "server";
    Age = "age";
    CacheControl = "cache-control";
    CdnCacheControl = "cdn-cache-control";
    Pragma = "pragma";
    Expires = "expires";
    Etag = "etag";
    LastModified = "last-modified";
    Vary = "vary";
    Range = "range";
    IfRange = "if-range";
    IfMatch = "if-match";
    IfNoneMatch = "if-none-match";
    IfModifiedSince = "if-modified-since";
    IfUnmodifiedSince = "if-unmodified-since";
    ContentRange = "content-range";
    ContentType = "content-type";
    ContentEncoding = "content-encoding";
    AcceptEncoding = "accept-encoding";
    UserAgent = "user-agent";
    Referer = "referer";
    Origin = "origin";
    Location = "location";
    RetryAfter = "retry-after";
    AccessControlRequestMethod = "access-control-request-method";
    AccessControlRequestHeaders = "access-control-request-headers";
}

/// Longest known name.
const LONGEST: usize = 30;

/// Candidates by length of the name and by its last byte modulo 8: few lengths hold more than two names, so recognising a
/// name costs one table look-up and, mostly, one comparison.
const BUCKETS: usize = (LONGEST + 1) * 8;
static FIRST_BY_LENGTH: [[u8; 4]; BUCKETS] = {
    let mut table = [[u8::MAX; 4]; BUCKETS];
    let mut i = 0;
    while i < Known::ALL.len() {
        let name = Known::ALL[i].1.as_bytes();
        let slot = bucket(name);
        let mut free = 0;
        while table[slot][free] != u8::MAX {
            free += 1; // out of bounds, and so a compile error, if a bucket overflows
        }
        table[slot][free] = i as u8;
        i += 1;
    }
    table
};

const fn bucket(name: &[u8]) -> usize {
    name.len() * 8 + (name[name.len() - 1] & 7) as usize
}

impl Known {
    /// Recognises a name in any case.
    #[inline]
    pub fn of(name: &[u8]) -> Known {
        if name.is_empty() || name.len() > LONGEST {
            return Known::Other;
        }
        for &candidate in &FIRST_BY_LENGTH[bucket(name)] {
            if candidate == u8::MAX {
                break;
            }
            let (known, text) = Known::ALL[candidate as usize];
            if name.eq_ignore_ascii_case(text.as_bytes()) {
                return known;
            }
        }
        Known::Other
    }

    /// Recognises a name that servers which map `_` or `.` to `-` (CGI and its heirs) would take for a known one.
    pub fn of_alias(name: &[u8]) -> Known {
        if name.len() > LONGEST || memchr::memchr2(b'_', b'.', name).is_none() {
            return Known::Other;
        }
        let mut mapped = [0; LONGEST];
        for (to, from) in mapped.iter_mut().zip(name) {
            *to = if matches!(from, b'_' | b'.') { b'-' } else { *from };
        }
        Known::of(&mapped[..name.len()])
    }

    /// Fields of one connection, never forwarded (RFC 9110 section 7.6.1).
    #[inline]
    pub fn is_hop_by_hop(self) -> bool {
        // The declaration puts them first.
        self != Known::Other && (self as u8) <= (Known::TransferEncoding as u8)
    }

    /// Fields that a `Connection` option cannot remove: framing, routing and what the gateway vouches for.
    pub fn is_protected(self) -> bool {
        matches!(
            self,
            Known::Host
                | Known::ContentLength
                | Known::Authorization
                | Known::Cookie
                | Known::XForwardedFor
                | Known::XForwardedProto
                | Known::XForwardedHost
                | Known::XRequestId
                | Known::Forwarded
                | Known::Via
                | Known::Expect
                | Known::CacheControl
                | Known::Origin
        )
    }
}

/// One field line of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name as it was written; also where the line starts.
    pub name: Span,
    /// Value without the white space around it.
    pub value: Span,
    /// One past the line's CRLF.
    pub line_end: u32,
    /// The name, recognised.
    pub known: Known,
    /// Named by a `Connection` option: belongs to this connection only.
    pub named_by_connection: bool,
}

impl Field {
    /// The whole line, CRLF included.
    pub fn line(&self) -> Span {
        Span { start: self.name.start, end: self.line_end }
    }

    /// Whether it ends at this hop.
    #[inline]
    pub fn is_hop_by_hop(&self) -> bool {
        self.named_by_connection || self.known.is_hop_by_hop()
    }
}

/// The fields of a head, in order. The vector is kept from message to message.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    pub(crate) list: Vec<Field>,
}

impl Fields {
    /// All, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.list.iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Values of a known field, in order.
    pub fn values<'a>(&'a self, known: Known, buf: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.list.iter().filter(move |field| field.known == known).map(move |field| field.value.of_buf(buf))
    }

    /// First value of a known field.
    pub fn first<'a>(&self, known: Known, buf: &'a [u8]) -> Option<&'a [u8]> {
        self.list.iter().find(|field| field.known == known).map(|field| field.value.of_buf(buf))
    }

    /// First value of a field by name, in any case.
    pub fn get<'a>(&self, name: &[u8], buf: &'a [u8]) -> Option<&'a [u8]> {
        self.list
            .iter()
            .find(|field| field.name.of_buf(buf).eq_ignore_ascii_case(name))
            .map(|field| field.value.of_buf(buf))
    }
}

/// Elements of a comma-separated list, without the white space around them; empty ones are left out (RFC 9110 section 5.6.1).
pub(crate) fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim).filter(|element| !element.is_empty())
}

/// Without spaces and tabs around it (OWS).
pub(crate) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Whether all bytes are `tchar` (RFC 9110 section 5.6.2), and there is one.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.iter().all(|byte| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
        })
}
