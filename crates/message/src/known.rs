//! Field names that a proxy treats in its own way, recognised once.

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

const COUNT: usize = Known::ALL.len();
/// Longest known name.
const LONGEST: usize = 30;
/// Bytes of a name that are compared as one word.
const WORD: usize = 16;

/// The first [`WORD`] bytes of each name, as [`word`] makes them.
static WORDS: [u128; COUNT] = {
    let mut words = [0; COUNT];
    let mut i = 0;
    while i < COUNT {
        let name = Known::ALL[i].1.as_bytes();
        let mut at = 0;
        while at < name.len() && at < WORD {
            // `word` sets this bit in every byte, so it must mean nothing in a name.
            assert!(name[at] & 0x20 != 0 && !name[at].is_ascii_uppercase());
            words[i] |= (name[at] as u128) << (at * 8);
            at += 1;
        }
        i += 1;
    }
    words
};

/// Candidates by length of the name and by its last byte modulo 8: few lengths hold more than two names, so recognising a
/// name costs one table look-up and, mostly, one comparison.
static BUCKETS: [[u8; 4]; (LONGEST + 1) * 8] = {
    let mut table = [[u8::MAX; 4]; (LONGEST + 1) * 8];
    let mut i = 0;
    while i < COUNT {
        let name = Known::ALL[i].1.as_bytes();
        let slot = bucket(name.len(), name[name.len() - 1]);
        let mut free = 0;
        while table[slot][free] != u8::MAX {
            free += 1; // out of bounds, and so a compile error, if a bucket overflows
        }
        table[slot][free] = i as u8;
        i += 1;
    }
    table
};

const fn bucket(length: usize, last: u8) -> usize {
    length * 8 + (last & 7) as usize
}

/// The first bytes of a name of `length` bytes, which `bytes` begin with, in lower case; zeros behind it. Exact for names made of
/// `tchar`: no other one of those than the letter's capital becomes a letter, digit or hyphen.
#[inline]
fn word(bytes: &[u8], length: usize) -> u128 {
    let block = match bytes.first_chunk() {
        Some(block) => *block,
        None => {
            let mut block = [0; WORD];
            block[..bytes.len()].copy_from_slice(bytes);
            block
        }
    };
    let unused = WORD.saturating_sub(length) as u32 * 8;
    (u128::from_le_bytes(block) | 0x2020_2020_2020_2020_2020_2020_2020_2020)
        & u128::MAX.checked_shr(unused).unwrap_or(0)
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
        let Some(&last) = bytes.get(length.wrapping_sub(1)) else { return Known::Other };
        let Some(candidates) = BUCKETS.get(bucket(length, last)) else { return Known::Other };
        if candidates[0] == u8::MAX {
            return Known::Other;
        }
        let word = word(bytes, length);
        for &candidate in candidates {
            let Some(&expected) = WORDS.get(usize::from(candidate)) else { break };
            if word == expected {
                let (known, text) = Known::ALL[usize::from(candidate)];
                let (tail, expected) = (bytes.get(WORD..length), text.as_bytes().get(WORD..));
                if length <= WORD || tail.zip(expected).is_some_and(|(tail, text)| tail.eq_ignore_ascii_case(text)) {
                    return known;
                }
            }
        }
        Known::Other
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

    /// Whether servers that turn everything but letters and digits into `_` and know no case (CGI and its heirs) take `name` for `other`.
    pub fn is_alias(name: &[u8], other: &[u8]) -> bool {
        let is_same = |(one, other): (&u8, &u8)| match (one.is_ascii_alphanumeric(), other.is_ascii_alphanumeric()) {
            (true, true) => one.eq_ignore_ascii_case(other),
            (one, other) => one == other,
        };
        name.len() == other.len() && name.iter().zip(other).all(is_same)
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
    pub fn bit(self) -> u64 {
        const { assert!(COUNT < 64) };
        1 << (self as u8)
    }
}

#[cfg(test)]
mod tests;
