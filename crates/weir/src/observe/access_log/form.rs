//! How fields are written: as members of a JSON object, or as the pairs of a logfmt line.

use std::fmt::Arguments;
use std::io::Write;

use super::json;
use super::line::VIOLATIONS;

/// A form of lines that has a name for each field. Chosen when the log is opened and compiled for each form, so that fields cost no choice.
pub(super) trait Form {
    /// Before the first field.
    const OPEN: &'static [u8];
    /// After the last one, with the line feed.
    const CLOSE: &'static [u8];

    /// What separates a field from the one before, and its name, which needs no escaping; within `group` if that is not empty.
    fn key(out: &mut Vec<u8>, group: &str, name: &str);
    /// Untrusted text, cut after `most` bytes; at most `6 * most + 5` bytes are written, none of them a control character.
    fn text(out: &mut Vec<u8>, value: &[u8], most: usize);
    /// Text that needs no escaping.
    fn plain(out: &mut Vec<u8>, value: Arguments<'_>);
    /// A JSON value that has at most [`VIOLATIONS`] bytes.
    fn value(out: &mut Vec<u8>, value: &[u8]);
    /// Begins the fields that have `name` as their group.
    fn open_group(out: &mut Vec<u8>, name: &str);
    /// Ends them.
    fn close_group(out: &mut Vec<u8>);
}

/// One JSON object (RFC 8259); a group is an object within it.
pub(super) enum Json {}

impl Form for Json {
    const OPEN: &'static [u8] = b"{";
    const CLOSE: &'static [u8] = b"}\n";

    fn key(out: &mut Vec<u8>, _: &str, name: &str) {
        // No value ends with this: strings end with a quotation mark.
        if !out.ends_with(b"{") {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
    }

    fn text(out: &mut Vec<u8>, value: &[u8], most: usize) {
        json::string(out, value, most);
    }

    fn plain(out: &mut Vec<u8>, value: Arguments<'_>) {
        write!(out, "\"{value}\"").expect("a Vec takes what is written");
    }

    fn value(out: &mut Vec<u8>, value: &[u8]) {
        out.extend_from_slice(value);
    }

    fn open_group(out: &mut Vec<u8>, name: &str) {
        Self::key(out, "", name);
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

    fn key(out: &mut Vec<u8>, group: &str, name: &str) {
        // The buffer has the lines before this one.
        if out.last().is_some_and(|&byte| byte != b'\n') {
            out.push(b' ');
        }
        if !group.is_empty() {
            out.extend_from_slice(group.as_bytes());
            out.push(b'_');
        }
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
    }

    fn text(out: &mut Vec<u8>, value: &[u8], most: usize) {
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\' | b'\'' | b'`');
        if !value.is_empty() && value.len() <= most && value.iter().all(is_plain) {
            out.extend_from_slice(value);
        } else {
            json::string(out, value, most);
        }
    }

    fn plain(out: &mut Vec<u8>, value: Arguments<'_>) {
        out.write_fmt(value).expect("a Vec takes what is written");
    }

    fn value(out: &mut Vec<u8>, value: &[u8]) {
        json::string(out, value, VIOLATIONS / 6 - 1);
    }

    fn open_group(_: &mut Vec<u8>, _: &str) {}

    fn close_group(_: &mut Vec<u8>) {}
}
