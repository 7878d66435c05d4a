//! Priorities (RFC 9218 section 4); those of RFC 7540 are read over.

/// Urgency and incremental delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 (first) to 7.
    pub urgency: u8,
    /// Whether the response is useful in pieces, so that it shares with others.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Reads a `Priority` field value; what cannot be read keeps its default, as the RFC wants.
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::default();
        for member in value.split(|&byte| byte == b',').map(message::validate::trim) {
            match member.split(|&byte| byte == b';').next().unwrap_or_default() {
                [b'u', b'=', urgency @ b'0'..=b'7'] => priority.urgency = urgency - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}
