//! Field names that a proxy treats in its own way, recognised once.

use crate::Span;
use crate::validate::{is_plain_name_at, same_word};

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

            pub(crate) const ALL: &'static [(Known, &'static str)] = &[$((Known::$name, $text)),*];
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
    Priority = "priority";
    EarlyData = "early-data";
    GrpcTimeout = "grpc-timeout";
    GrpcStatus = "grpc-status";
    GrpcMessage = "grpc-message";
    SecWebSocketKey = "sec-websocket-key";
    SecWebSocketAccept = "sec-websocket-accept";
    SecWebSocketVersion = "sec-websocket-version";
    SecWebSocketProtocol = "sec-websocket-protocol";
    SecWebSocketExtensions = "sec-websocket-extensions";
}

/// Bytes that CGI and its heirs treat as `-`: all but letters, digits, and `-` itself.
static ODD: [bool; 256] = {
    let mut odd = [true; 256];
    let mut byte = 0;
    while byte < 256 {
        odd[byte] = !(byte as u8).is_ascii_alphanumeric() && byte as u8 != b'-';
        byte += 1;
    }
    odd
};

const COUNT: usize = Known::ALL.len();
/// Longest known name.
const LONGEST: usize = 30;
/// Bytes of a name that are compared as one word.
const WORD: usize = 16;

/// A name to compare with.
#[derive(Clone, Copy)]
struct Entry {
    /// Its first [`WORD`] bytes; zeros behind it.
    word: [u8; WORD],
    length: u8,
    known: Known,
}

static ENTRIES: [Entry; COUNT] = {
    let mut entries = [Entry { word: [0; WORD], length: 0, known: Known::Other }; COUNT];
    let mut i = 0;
    while i < COUNT {
        let (known, name) = (Known::ALL[i].0, Known::ALL[i].1.as_bytes());
        let mut word = [0; WORD];
        let mut at = 0;
        while at < name.len() && at < WORD {
            // The comparison sets this bit in every byte, so it must mean nothing in a name.
            assert!(name[at] & 0x20 != 0 && !name[at].is_ascii_uppercase());
            word[at] = name[at];
            at += 1;
        }
        entries[i] = Entry { word, length: name.len() as u8, known };
        i += 1;
    }
    entries
};

/// Slots of the table of names.
const SLOTS: usize = 512;
/// A slot without a name.
const FREE: u8 = u8::MAX;

/// Index of the one name that a name with the same length, first and last byte can be: recognising a name costs one look-up and at most
/// one comparison.
static TABLE: [u8; SLOTS] = table(FACTORS.0, FACTORS.1).0;

/// With these no two names share a slot.
const FACTORS: (usize, usize) = {
    let mut factors = (1, 1);
    while !table(factors.0, factors.1).1 {
        // Out of factors: a compile error, where a larger table is needed.
        assert!(factors.0 < 64);
        factors = if factors.1 < 63 { (factors.0, factors.1 + 2) } else { (factors.0 + 2, 1) };
    }
    factors
};

/// The table that these factors make, and whether it holds all names.
const fn table(of_first: usize, of_last: usize) -> ([u8; SLOTS], bool) {
    let mut table = [FREE; SLOTS];
    let mut i = 0;
    while i < COUNT {
        let name = Known::ALL[i].1.as_bytes();
        let slot = slot((of_first, of_last), name[0], name[name.len() - 1], name.len());
        if table[slot] != FREE {
            return (table, false);
        }
        table[slot] = i as u8;
        i += 1;
    }
    (table, true)
}

/// The slot of a name in any case.
#[inline]
const fn slot(factors: (usize, usize), first: u8, last: u8, length: usize) -> usize {
    ((first & 31) as usize * factors.0 + (last & 31) as usize * factors.1 + length) % SLOTS
}

/// Masks of the first [`WORD`] bytes of a name, by its length.
static MASKS: [[u8; WORD]; WORD + 1] = {
    let mut masks = [[0; WORD]; WORD + 1];
    let mut length = 0;
    while length <= WORD {
        let mut at = 0;
        while at < length {
            masks[length][at] = u8::MAX;
            at += 1;
        }
        length += 1;
    }
    masks
};

/// Whether the name of `length` bytes that `bytes` begin with has the first bytes of an entry, in any case. Exact for names made of
/// `tchar`: no other one of those than the letter's capital becomes a letter, digit or hyphen.
#[inline]
fn begins_like(bytes: &[u8], length: usize, entry: &Entry) -> bool {
    let mask = &MASKS[length.min(WORD)];
    match bytes.first_chunk() {
        Some(block) => same_word(block, mask, &entry.word),
        None => {
            let mut block = [0; WORD];
            block[..bytes.len()].copy_from_slice(bytes);
            same_word(&block, mask, &entry.word)
        }
    }
}

/// What such servers take a byte of a name for.
const READ_AS: [u8; 256] = {
    let mut table = [b'_'; 256];
    let mut byte = 0u8;
    while byte < 0x80 {
        if byte.is_ascii_alphanumeric() {
            table[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    table
};

/// [`Known::is_alias`] of two names of one length.
fn reads_alike(name: &[u8], other: &[u8]) -> bool {
    name.iter().zip(other).all(|(&one, &other)| READ_AS[usize::from(one)] == READ_AS[usize::from(other)])
}

impl Known {
    /// Recognises a name in any case.
    pub fn of(name: &[u8]) -> Known {
        let known = Known::at_start(name, name.len());
        if name.eq_ignore_ascii_case(known.name().as_bytes()) { known } else { Known::Other }
    }

    /// Recognises the name of `length` token bytes that `bytes` begin with.
    #[inline]
    pub fn at_start(bytes: &[u8], length: usize) -> Known {
        let (Some(&first), Some(&last)) = (bytes.first(), bytes.get(length.wrapping_sub(1))) else {
            return Known::Other;
        };
        let Some(entry) = ENTRIES.get(usize::from(TABLE[slot(FACTORS, first, last, length)])) else {
            return Known::Other;
        };
        if usize::from(entry.length) != length || !begins_like(bytes, length, entry) {
            return Known::Other;
        }
        if length > WORD {
            let (tail, expected) = (bytes.get(WORD..length), entry.known.name().as_bytes().get(WORD..));
            if !tail.zip(expected).is_some_and(|(tail, expected)| tail.eq_ignore_ascii_case(expected)) {
                return Known::Other;
            }
        }
        entry.known
    }

    /// Recognises a name that servers which turn everything but letters and digits into `_` (CGI, RFC 3875 section 4.1.18, and its
    /// heirs) would take for a known one: `Content_Length`, `X.Forwarded.For`.
    pub fn of_alias(name: &[u8]) -> Known {
        let is_odd = |byte: &u8| ODD[usize::from(*byte)];
        // Most names are in their usual spelling.
        if name.len() > LONGEST || !name.iter().any(is_odd) {
            return Known::Other;
        }
        let mut mapped = [0; LONGEST];
        for (to, from) in mapped.iter_mut().zip(name) {
            *to = if is_odd(from) { b'-' } else { *from };
        }
        Known::of(&mapped[..name.len()])
    }

    /// [`of_alias`](Self::of_alias) of the name that lies at `name` in `bytes`, a head or a part of one.
    #[inline]
    pub fn of_alias_at(bytes: &[u8], name: Span) -> Known {
        // Most names are in their usual spelling.
        if is_plain_name_at(bytes, name.start as usize, name.end as usize) {
            return Known::Other;
        }
        Known::of_alias(name.of_buf(bytes))
    }

    /// Whether servers that convert everything but letters and digits into `_` and know no case (CGI and its heirs) take `name` for `other`.
    #[inline]
    pub fn is_alias(name: &[u8], other: &[u8]) -> bool {
        name.len() == other.len() && reads_alike(name, other)
    }

    /// Fields of one connection, never forwarded (RFC 9110 section 7.6.1).
    #[inline]
    pub fn is_hop_by_hop(self) -> bool {
        // The declaration puts them first.
        self != Known::Other && (self as u8) <= (Known::TransferEncoding as u8)
    }

    /// Fields that a `Connection` option cannot remove: all that are known and meant for the recipient of the content, whoever that
    /// is. Naming one is a mistake (RFC 9110 section 7.6.1) or the attempt to have it removed behind the back of who set it.
    pub fn is_protected(self) -> bool {
        let is_for_next_hop = self.is_hop_by_hop()
            || matches!(self, Known::ProxyAuthenticate | Known::ProxyAuthorization | Known::Http2Settings);
        self != Known::Other && !is_for_next_hop
    }

    /// The name's bit in a set of names.
    #[inline]
    pub const fn bit(self) -> u64 {
        const { assert!(COUNT < 64) };
        1 << (self as u8)
    }
}

#[cfg(test)]
mod tests;
