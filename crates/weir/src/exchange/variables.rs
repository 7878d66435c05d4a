//! Header fields whose values have variables: what a client says never becomes more than the value of one field.

use std::io::Write;

use h1::encode;

use super::Exchange;
use crate::config::{Part, RouteId, Template, Variable};

impl Exchange<'_> {
    /// Renders the fields that the upstream gets.
    pub(super) fn write_variable_lines(&mut self, templates: &[Template]) {
        self.scratch.variable_lines.clear();
        if !templates.is_empty() {
            let mut lines = std::mem::take(&mut self.scratch.variable_lines);
            write(self, templates, &mut lines);
            self.scratch.variable_lines = lines;
        }
    }

    /// Renders the fields that every response of the route has.
    #[cold]
    pub(super) fn write_variable_response_lines(&mut self, route: RouteId) {
        self.ensure_request_id();
        let snapshot = self.snapshot.clone();
        let templates = &snapshot.config().routes[route.0].headers.response.templates;
        let mut lines = std::mem::take(&mut self.scratch.response_lines);
        write(self, templates, &mut lines);
        self.scratch.response_lines = lines;
    }
}

/// Appends the lines; a field whose value is empty is left out.
fn write(x: &Exchange<'_>, templates: &[Template], out: &mut Vec<u8>) {
    for Template { name, parts } in templates {
        let line_at = out.len();
        encode::begin_field(out, name.as_bytes());
        let value_at = out.len();
        for part in parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Variable(variable) => write_value(x, variable, out),
            }
        }
        confine(out, value_at);
        if out.len() == value_at { out.truncate(line_at) } else { encode::end_field(out) }
    }
}

fn write_value(x: &Exchange<'_>, variable: &Variable, out: &mut Vec<u8>) {
    let buf = x.down.buffer.whole();
    let head = &x.scratch.request;
    let identity = x.identity.as_deref();
    let session = x.down.client.tls.as_deref().map(|tls| &tls.session);
    let value = match variable {
        Variable::ClientIp => {
            // Writing to memory cannot fail.
            let _ = write!(out, "{}", x.down.client.address);
            return;
        }
        Variable::Header(name) => {
            let named = |found: &[u8]| found.eq_ignore_ascii_case(name.as_bytes());
            let fields = head.fields.iter().filter(|field| named(field.name.of_buf(buf)));
            for (index, field) in fields.enumerate() {
                // RFC 9110 section 5.3: several lines are one list.
                out.extend_from_slice(if index == 0 { b"" } else { b", " });
                out.extend_from_slice(field.value.of_buf(buf));
            }
            return;
        }
        Variable::TraceId => {
            if let Some(own) = x.scratch.trace.own() {
                let _ = write!(out, "{:032x}", own.trace.0);
            }
            return;
        }
        Variable::Upstream => x.route.and_then(|route| {
            let choice = x.snapshot.routes[route.0].choices.get(x.log.slot.wrapping_sub(1))?;
            Some(x.snapshot.config().upstreams[choice.upstream.0].name.as_bytes())
        }),
        Variable::Consumer => identity.and_then(|who| who.consumer.as_deref()).map(str::as_bytes),
        Variable::Tier => identity.and_then(|who| who.tier.as_deref()).map(str::as_bytes),
        Variable::Meta(name) => identity.and_then(|who| who.meta.get(&**name)).map(|value| value.as_bytes()),
        Variable::Claim(path) => {
            let text = identity.and_then(|who| who.claim_text(path)).unwrap_or_default();
            out.extend_from_slice(text.as_bytes());
            return;
        }
        Variable::Host => head.authority.map(|authority| authority.of_buf(buf)),
        Variable::Method => Some(head.method_name.of_buf(buf)),
        Variable::Path => Some(&x.scratch.path[..]),
        Variable::Query => x.query(),
        Variable::RequestId => Some(&x.scratch.request_id[..]),
        Variable::Route => x.route.map(|route| x.snapshot.config().routes[route.0].name.as_bytes()),
        Variable::Scheme => Some(x.down.client.scheme().as_bytes()),
        Variable::TlsCipher => session.map(|session| session.cipher.as_bytes()),
        Variable::TlsSni => session.and_then(|session| session.sni.as_deref()).map(str::as_bytes),
        Variable::TlsVersion => session.map(|session| session.version.as_bytes()),
    };
    out.extend_from_slice(value.unwrap_or_default());
}

/// Makes what stands behind `at` a value that cannot end its line, whatever it was made of: no control characters, no blank at either end
/// (rules 1 and 2 of HTTP2-SAFETY, RFC 9110 section 5.5).
fn confine(out: &mut Vec<u8>, at: usize) {
    for byte in &mut out[at..] {
        if byte.is_ascii_control() && *byte != b'\t' {
            *byte = b'?';
        }
    }
    let blanks = out[at..].len() - out[at..].trim_ascii_start().len();
    out.drain(at..at + blanks);
    let length = out[at..].trim_ascii_end().len();
    out.truncate(at + length);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::confine;

    proptest! {
        #[test]
        fn a_value_never_ends_its_line(value: Vec<u8>) {
            let mut out = b"X: ".to_vec();
            out.extend_from_slice(&value);
            confine(&mut out, 3);
            prop_assert!(out.starts_with(b"X: "));
            let value = &out[3..];
            prop_assert!(!value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t'));
            prop_assert_eq!(value, value.trim_ascii());
        }
    }
}
