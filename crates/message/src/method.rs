//! Request methods.

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
    /// Recognises a method; names are case-sensitive (RFC 9110 section 9.1).
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

    /// Whether a name that is not a known method differs from one only by its case. Servers disagree whether `head` is HEAD, and so on
    /// whether its response has a body.
    pub fn is_miscased(name: &[u8]) -> bool {
        const NAMES: [&[u8]; 9] =
            [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT"];
        NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
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
