//! How fields are written: as members of a JSON object, or as the pairs of a logfmt line.

use super::json;
use super::line::VIOLATIONS;

/// The name of a field with what stands before and behind it in each form; made by `name!`. Without its first byte, a separator, for the first field.
pub(super) struct Name {
    pub(super) json: &'static str,
    pub(super) logfmt: &'static str,
    /// Its place among all fields; a group has none.
    pub(super) index: Option<u32>,
}

/// The [`Name`] of a field, which needs no escaping: `name!("status")`, or within a group `name!("ai", "model")`.
macro_rules! name {
    ($name:literal) => {
        &$crate::observe::access_log::form::Name {
            json: concat!(",\"", $name, "\":"),
            logfmt: concat!(" ", $name, "="),
            index: const { $crate::config::FieldSet::index($name) },
        }
    };
    ($group:literal, $name:literal) => {
        &$crate::observe::access_log::form::Name {
            json: concat!(",\"", $name, "\":"),
            logfmt: concat!(" ", $group, "_", $name, "="),
            index: const { $crate::config::FieldSet::index(concat!($group, "_", $name)) },
        }
    };
}
pub(super) use name;

/// A form of lines that has a name for each field. Chosen when the log is opened and compiled for each form, so that fields cost no choice.
pub(super) trait Form {
    /// Before the first field.
    const OPEN: &'static [u8];
    /// After the last one, with the line feed.
    const CLOSE: &'static [u8];

    /// What separates a field from the one before, and its name.
    fn key(out: &mut Vec<u8>, name: &Name);
    /// The same, with a name of the configuration.
    fn added_key(out: &mut Vec<u8>, name: &str);
    /// Untrusted text, cut after `most` bytes; at most `6 * most + 5` bytes are written, none of them a control character.
    fn text(out: &mut Vec<u8>, value: &[u8], most: usize);
    /// Text that needs no escaping, as `write` writes it.
    fn plain(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>));
    /// A JSON value that has at most [`VIOLATIONS`] bytes.
    fn value(out: &mut Vec<u8>, value: &[u8]);
    /// Begins the fields that have `name` as their group.
    fn open_group(out: &mut Vec<u8>, name: &Name);
    /// Ends them.
    fn close_group(out: &mut Vec<u8>);
}

/// One JSON object (RFC 8259); a group is an object within it.
pub(super) enum Json {}

impl Form for Json {
    const OPEN: &'static [u8] = b"{";
    const CLOSE: &'static [u8] = b"}\n";

    fn key(out: &mut Vec<u8>, name: &Name) {
        // No value ends with this: strings end with a quotation mark.
        let is_first = out.ends_with(b"{");
        out.extend_from_slice(&name.json.as_bytes()[usize::from(is_first)..]);
    }

    fn added_key(out: &mut Vec<u8>, name: &str) {
        let separator: &[u8] = if out.ends_with(b"{") { b"\"" } else { b",\"" };
        for part in [separator, name.as_bytes(), b"\":"] {
            out.extend_from_slice(part);
        }
    }

    fn text(out: &mut Vec<u8>, value: &[u8], most: usize) {
        json::string(out, value, most);
    }

    fn plain(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        out.push(b'"');
        write(out);
        out.push(b'"');
    }

    fn value(out: &mut Vec<u8>, value: &[u8]) {
        out.extend_from_slice(value);
    }

    fn open_group(out: &mut Vec<u8>, name: &Name) {
        Self::key(out, name);
        out.push(b'{');
    }

    fn close_group(out: &mut Vec<u8>) {
        out.push(b'}');
    }
}

/// `name=value` pairs with spaces between them; text that holds anything else than letters, digits and plain punctuation is a JSON string. The
/// names of a group have its name before them.
pub(super) enum Logfmt {}

impl Form for Logfmt {
    const OPEN: &'static [u8] = b"";
    const CLOSE: &'static [u8] = b"\n";

    fn key(out: &mut Vec<u8>, name: &Name) {
        // The buffer has the lines before this one.
        let is_first = out.last().is_none_or(|&byte| byte == b'\n');
        out.extend_from_slice(&name.logfmt.as_bytes()[usize::from(is_first)..]);
    }

    fn added_key(out: &mut Vec<u8>, name: &str) {
        let separator: &[u8] = if out.last().is_none_or(|&byte| byte == b'\n') { b"" } else { b" " };
        for part in [separator, name.as_bytes(), b"="] {
            out.extend_from_slice(part);
        }
    }

    fn text(out: &mut Vec<u8>, value: &[u8], most: usize) {
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\' | b'\'' | b'`');
        if !value.is_empty() && value.len() <= most && value.iter().all(is_plain) {
            out.extend_from_slice(value);
        } else {
            json::string(out, value, most);
        }
    }

    fn plain(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        write(out);
    }

    fn value(out: &mut Vec<u8>, value: &[u8]) {
        json::string(out, value, VIOLATIONS / 6 - 1);
    }

    fn open_group(_: &mut Vec<u8>, _: &Name) {}

    fn close_group(_: &mut Vec<u8>) {}
}
