//! What an authorizer changes of a request that it lets pass, and of its response.

use h1::written::{field_lines, fields_end, fields_start};
use h1::{Known, encode};
use message::validate;

use message::form::decoded;

/// Request fields that the gateway itself selects responses by.
const GATEWAYS: [&[u8]; 2] = [b"Accept-Encoding", b"Accept"];

/// Changes that an authorizer wants, beside the fields that it adds to the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Names of request fields that the upstream does not get.
    pub removes: Vec<String>,
    /// Query parameters that take the place of those with the same name.
    pub sets_query: Vec<(String, String)>,
    /// Names of query parameters that the upstream does not get.
    pub removes_query: Vec<String>,
    /// Fields of the response to the client.
    pub response: Vec<ResponseField>,
}

/// A field of a response, and how it is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseField {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Vec<u8>,
    /// How it is added.
    pub action: Action,
}

/// How a field is added; Envoy's `HeaderAppendAction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Beside those that are there.
    Append,
    /// If there is none.
    AddIfAbsent,
    /// In place of those that are there.
    Set,
    /// In place of those that are there; not at all if there is none.
    OverwriteIfPresent,
}

impl Changes {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }

    /// Adds those of a second authorizer.
    pub fn merge(&mut self, other: Changes) {
        self.removes.extend(other.removes);
        self.sets_query.extend(other.sets_query);
        self.removes_query.extend(other.removes_query);
        self.response.extend(other.response);
    }

    /// Whether a client's field of this name does not go to the upstream, in any spelling that a server might take for it.
    pub fn removes_field(&self, known: Known, name: &[u8]) -> bool {
        // What belongs to the connection, or frames the message, is the gateway's own affair. Envoy ignores `Host` here, too.
        let is_framing = known.is_hop_by_hop() || matches!(known, Known::Host | Known::ContentLength);
        !is_framing && self.removes.iter().any(|removed| Known::is_alias(name, removed.as_bytes()))
    }

    /// The query that the upstream gets; none where it stays as it is.
    pub fn query(&self, query: Option<&[u8]>) -> Option<Option<Vec<u8>>> {
        if self.sets_query.is_empty() && self.removes_query.is_empty() {
            return None;
        }
        let sets = |name: &[u8]| self.sets_query.iter().any(|(set, _)| is_named(name, set));
        let removes = |name: &[u8]| self.removes_query.iter().any(|removed| is_named(name, removed));
        let mut out = Vec::new();
        // Some servers take `;` for `&`: what is behind one is not hidden by it.
        let mut rest = query.unwrap_or_default();
        let mut before: Option<u8> = None;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| matches!(byte, b'&' | b';')).unwrap_or(rest.len());
            let parameter = &rest[..end];
            let name = &parameter[..memchr::memchr(b'=', parameter).unwrap_or(end)];
            if !sets(name) && !removes(name) {
                out.extend(before.filter(|_| !out.is_empty()));
                out.extend_from_slice(parameter);
            }
            before = rest.get(end).copied();
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        for (index, (name, value)) in self.sets_query.iter().enumerate() {
            let is_last = !self.sets_query[index + 1..].iter().any(|(later, _)| later == name);
            if is_last && !removes(name.as_bytes()) {
                if !out.is_empty() {
                    out.push(b'&');
                }
                write_escaped(&mut out, name, true);
                out.push(b'=');
                write_escaped(&mut out, value, false);
            }
        }
        Some((query.is_some_and(<[u8]>::is_empty) || !out.is_empty()).then_some(out))
    }

    /// Changes the head of a response; what is behind the head stays.
    pub fn edit_response(&self, out: &mut Vec<u8>) {
        if self.response.is_empty() {
            return;
        }
        let Some(end) = fields_end(out) else { return };
        let rest = out.split_off(end);
        for field in &self.response {
            let name = field.name.as_bytes();
            let is_there = field_lines(out).any(|(_, own)| own.eq_ignore_ascii_case(name));
            let (adds, replaces) = match field.action {
                Action::Append => (true, false),
                Action::AddIfAbsent => (!is_there, false),
                Action::Set => (true, true),
                Action::OverwriteIfPresent => (is_there, true),
            };
            // What the gateway selects by, it still selects by.
            let selects_by: &[&[u8]] = if replaces && Known::of(name) == Known::Vary { &GATEWAYS } else { &[] };
            let selects_by: Vec<_> = selects_by.iter().filter(|by| varies_by(out, by)).collect();
            if replaces && is_there {
                let mut kept = out[..fields_start(out)].to_vec();
                let others = field_lines(out).filter(|(_, own)| !own.eq_ignore_ascii_case(name));
                others.for_each(|(line, _)| kept.extend_from_slice(line));
                *out = kept;
            }
            if adds {
                encode::field(out, name, &field.value);
            }
            for by in selects_by {
                if !varies_by(out, by) {
                    encode::field(out, b"Vary", by);
                }
            }
        }
        out.extend_from_slice(&rest);
    }
}

impl ResponseField {
    /// A field that may be part of a response; none for what HTTP does not allow, and what only the gateway writes.
    pub fn new(name: &str, value: &[u8], action: Action) -> Option<Self> {
        let known = Known::of(name.as_bytes());
        // The coding belongs to the body, which comes from the upstream, or is coded here.
        let is_framing = known.is_hop_by_hop() || matches!(known, Known::ContentLength | Known::ContentEncoding);
        let is_valid = validate::is_token(name.as_bytes()) && value.iter().all(|byte| validate::is_text_byte(*byte));
        (is_valid && !is_framing).then(|| ResponseField { name: name.to_owned(), value: value.to_vec(), action })
    }
}

/// Whether the name of a parameter is this one, as a server reads it.
fn is_named(parameter: &[u8], name: &str) -> bool {
    decoded(parameter).eq(decoded(name.as_bytes()))
}

/// Appends a part of a query. Escapes stay; bytes that a query cannot have, or that would end the part, become escapes (RFC 3986 section 3.4).
fn write_escaped(out: &mut Vec<u8>, text: &str, is_name: bool) {
    const HEX: &[u8] = b"0123456789ABCDEF";
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let is_escape = || bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let stays = match byte {
            b'%' => is_escape(),
            b'=' => !is_name,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b':' | b'@' | b'/'
            | b'?' => true,
            _ => byte.is_ascii_alphanumeric(),
        };
        if stays {
            out.push(byte);
        } else {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Whether `Vary` of a head names this field.
fn varies_by(head: &[u8], by: &[u8]) -> bool {
    let values = field_lines(head).filter(|(_, name)| Known::of(name) == Known::Vary);
    let mut members = values.flat_map(|(line, name)| line[name.len() + 1..].split(|&byte| byte == b','));
    members.any(|member| member.trim_ascii().eq_ignore_ascii_case(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(sets: &[(&str, &str)], removes: &[&str], query: Option<&str>) -> Option<String> {
        let changes = Changes {
            sets_query: sets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            removes_query: removes.iter().map(|name| (*name).to_owned()).collect(),
            ..Changes::default()
        };
        let changed = changes.query(query.map(str::as_bytes)).expect("a change");
        changed.map(|query| String::from_utf8(query).expect("text"))
    }

    #[test]
    fn parameters_are_removed_in_every_spelling_and_no_others() {
        for (before, after) in [
            ("token=1", None),
            ("a=1&token=1&b=2", Some("a=1&b=2")),
            ("token=1&a=1&token=2", Some("a=1")),
            ("%74oken=1&a", Some("a")),
            ("a=1;token=x;b=2", Some("a=1;b=2")),
            ("tokens=1&Token=2&x=token", Some("tokens=1&Token=2&x=token")),
            ("token", None),
            ("a=1&&b=2", Some("a=1&&b=2")),
        ] {
            assert_eq!(query(&[], &["token"], Some(before)).as_deref(), after, "{before}");
        }
        assert_eq!(query(&[], &["token"], None), None);
        assert_eq!(query(&[], &["token"], Some("")).as_deref(), Some(""), "an empty query is not none");
    }

    #[test]
    fn parameters_are_set_in_place_of_those_of_their_name() {
        assert_eq!(query(&[("a", "2")], &[], Some("a=1&b=1&%61=3")).as_deref(), Some("b=1&a=2"));
        assert_eq!(query(&[("a", "2"), ("a", "3")], &[], None).as_deref(), Some("a=3"));
        // As with Envoy, removing comes after setting.
        assert_eq!(query(&[("a", "2")], &["a"], Some("b=1")).as_deref(), Some("b=1"));
    }

    #[test]
    fn no_value_of_a_parameter_becomes_another_parameter_or_another_request() {
        let value = "x&admin=1#y z\r\nX: 1%41%4";
        let expected = "a=x%26admin=1%23y%20z%0D%0AX:%201%41%254";
        assert_eq!(query(&[("a", value)], &[], None).as_deref(), Some(expected));
        assert_eq!(query(&[("a=b&c", "é")], &[], None).as_deref(), Some("a%3Db%26c=%C3%A9"));
    }

    #[test]
    fn fields_of_a_response_are_added_as_their_actions_say() {
        let head = "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\na: 3\r\n\r\nA: body";
        for (action, name, expected) in [
            (Action::Append, "A", "A: 1\r\nB: 2\r\na: 3\r\nA: x\r\n"),
            (Action::AddIfAbsent, "A", "A: 1\r\nB: 2\r\na: 3\r\n"),
            (Action::AddIfAbsent, "C", "A: 1\r\nB: 2\r\na: 3\r\nC: x\r\n"),
            (Action::Set, "A", "B: 2\r\nA: x\r\n"),
            (Action::Set, "C", "A: 1\r\nB: 2\r\na: 3\r\nC: x\r\n"),
            (Action::OverwriteIfPresent, "A", "B: 2\r\nA: x\r\n"),
            (Action::OverwriteIfPresent, "C", "A: 1\r\nB: 2\r\na: 3\r\n"),
        ] {
            let field = ResponseField::new(name, b"x", action).expect("a field");
            let changes = Changes { response: vec![field], ..Changes::default() };
            let mut out = head.as_bytes().to_vec();
            changes.edit_response(&mut out);
            let text = String::from_utf8(out).expect("text");
            assert_eq!(text, format!("HTTP/1.1 200 OK\r\n{expected}\r\nA: body"), "{action:?} {name}");
        }
    }

    #[test]
    fn what_the_gateway_selects_by_stays_in_vary() {
        let edited = |head: &str, action| {
            let field = ResponseField::new("Vary", b"Origin", action).expect("a field");
            let changes = Changes { response: vec![field], ..Changes::default() };
            let mut out = format!("HTTP/1.1 200 OK\r\n{head}\r\n").into_bytes();
            changes.edit_response(&mut out);
            String::from_utf8(out).expect("text")
        };
        for action in [Action::Set, Action::OverwriteIfPresent] {
            for (head, expected) in [
                ("Vary: X, accept-encoding\r\n", "Vary: Origin\r\nVary: Accept-Encoding\r\n"),
                (
                    "Vary: Accept\r\nVary: Accept-Encoding\r\n",
                    "Vary: Origin\r\nVary: Accept-Encoding\r\nVary: Accept\r\n",
                ),
                ("Vary: X\r\n", "Vary: Origin\r\n"),
            ] {
                assert_eq!(edited(head, action), format!("HTTP/1.1 200 OK\r\n{expected}\r\n"), "{action:?} {head}");
            }
        }
    }

    #[test]
    fn fields_that_frame_a_message_or_end_their_line_are_not_added() {
        for name in
            ["Content-Length", "transfer-encoding", "Connection", "Upgrade", "a b", "", "a:b", "content-encoding"]
        {
            assert_eq!(ResponseField::new(name, b"1", Action::Append), None, "{name}");
        }
        assert_eq!(ResponseField::new("A", b"1\r\nB: 2", Action::Append), None);
    }

    #[test]
    fn a_field_is_removed_in_every_spelling_but_what_frames_the_message_stays() {
        let changes =
            Changes { removes: vec!["X-Api-Key".into(), "Content-Length".into(), "host".into()], ..Changes::default() };
        let removes = |name: &str| changes.removes_field(Known::of(name.as_bytes()), name.as_bytes());
        assert!(removes("x-api-key") && removes("X_Api_Key"));
        assert!(!removes("X-Api") && !removes("Content-Length") && !removes("Host"));
    }
}
