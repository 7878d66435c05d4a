//! The keys that are refused most, for operators.

use std::fmt::Write;
use std::sync::Arc;

use super::Key;
use super::check::{LimitInput, identity_value};
use super::worker::WorkerLimits;
use crate::config::{ClientAddress, LimitKey};
use crate::observe::refused_keys::Text;
use crate::runtime::clock;

impl WorkerLimits {
    /// Notes that a limit refused a request.
    pub(super) fn note_refused(&self, limit: &Arc<str>, key: Key, parts: &[LimitKey], input: &LimitInput<'_>) {
        self.refused.note(limit, key.0, clock::loop_ns(), |text| write_parts(text, parts, input));
    }
}

/// What may be shown of a key: values of fields and of the query may be secrets, and only their names are.
fn write_parts(text: &mut Text, parts: &[LimitKey], input: &LimitInput<'_>) {
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            let _ = text.write_str(", ");
        }
        // What is written is cut, never refused.
        let _ = match part {
            LimitKey::ClientIp => match input.client.to_canonical() {
                ClientAddress::Ip(std::net::IpAddr::V6(address)) => {
                    let [a, b, c, d, ..] = address.segments();
                    write!(text, "{a:x}:{b:x}:{c:x}:{d:x}::/64")
                }
                address => write!(text, "{address}"),
            },
            LimitKey::Header(name) => write!(text, "header {name}"),
            LimitKey::Query(name) => write!(text, "query {name}"),
            LimitKey::Model => text.write_str(input.model.unwrap_or("no model")),
            LimitKey::Route => text.write_str(input.route),
            LimitKey::Global => text.write_str("everyone"),
            _ => match input.identity.and_then(|who| identity_value(part, who)) {
                Some(value) => text.write_str(&value),
                None => text.write_str("nobody"),
            },
        };
    }
}
