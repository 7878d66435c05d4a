//! Lines by the operator's template.
//!
//! All fields are written into memory of the writer, each with its name, and those that the template names are taken from there. Values are escaped
//! as in the combined format, so that no request can end its line or its quotation marks; a field that the request does not have is `-`.

use crate::config::{FieldSet, LogPart};
use crate::observe::clock::Rfc3339;

use super::combined;
use super::form::{Form, Name};
use super::line::Line;

/// Separates fields. Values hold no control characters.
const SEPARATOR: u8 = 0x1e;
/// Between a name and its value.
const EQUALS: u8 = 0x1f;

/// The fields of one line.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<u8>);

impl Fields {
    /// Appends a line and its line feed.
    pub(super) fn render(&mut self, line: &Line<'_>, parts: &[LogPart], out: &mut Vec<u8>, clock: &mut Rfc3339) {
        self.0.clear();
        line.fields::<Raw>(&mut self.0, clock, FieldSet::default(), &[]);
        for part in parts {
            match part {
                LogPart::Text(text) => out.extend_from_slice(text.as_bytes()),
                LogPart::Field(name) => out.extend_from_slice(self.value(name.as_bytes()).unwrap_or(b"-")),
            }
        }
        out.push(b'\n');
    }

    fn value(&self, name: &[u8]) -> Option<&[u8]> {
        let mut fields = self.0.split(|byte| *byte == SEPARATOR);
        fields.find_map(|field| field.strip_prefix(name)?.strip_prefix(&[EQUALS])).filter(|value| !value.is_empty())
    }
}

/// Fields with their names, between control characters.
enum Raw {}

impl Form for Raw {
    const OPEN: &'static [u8] = b"";
    const CLOSE: &'static [u8] = b"";

    fn key(out: &mut Vec<u8>, name: &Name) {
        out.push(SEPARATOR);
        // Without the separator before it, and the sign behind it.
        out.extend_from_slice(&name.logfmt.as_bytes()[1..name.logfmt.len() - 1]);
        out.push(EQUALS);
    }

    fn added_key(out: &mut Vec<u8>, name: &str) {
        out.push(SEPARATOR);
        out.extend_from_slice(name.as_bytes());
        out.push(EQUALS);
    }

    fn text(out: &mut Vec<u8>, value: &[u8], most: usize) {
        combined::escape(out, value, most, b'"');
    }

    fn plain(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        write(out);
    }

    fn value(out: &mut Vec<u8>, value: &[u8]) {
        combined::escape(out, value, value.len(), b'"');
    }

    fn open_group(_: &mut Vec<u8>, _: &Name) {}

    fn close_group(_: &mut Vec<u8>) {}
}
