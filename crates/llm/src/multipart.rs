//! Forms (`multipart/form-data`, RFC 7578): which model a request names, and where, so that the value can be replaced in the original bytes.
//!
//! Whatever two parsers could read differently is refused: line ends other than CRLF, delimiters with something behind them, folded fields,
//! escapes in names, a preamble or an epilogue, a second `model`. The content of other fields is not looked at.

mod fields;

use crate::request::{Edit, Edits};
use fields::{boundary, part_head};
use memchr::memmem::Finder;
use std::fmt;
use std::ops::Range;

/// The model is read from the first bytes of a form only. Behind files it is not found.
pub const MODEL_WITHIN: usize = 64 * 1024;
/// Longest name of a model.
const LONGEST_MODEL: usize = 1024;
const CRLF: &[u8] = b"\r\n";

/// A form that is refused with 400, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormError {
    /// What is wrong.
    pub defect: FormDefect,
    /// Bytes of the body before it.
    pub at: usize,
}

/// What is wrong with a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormDefect {
    /// The content type is not `multipart/form-data`, or has no valid `boundary`, or two.
    ContentType,
    /// The body does not begin with the boundary.
    Start,
    /// A line begins with the boundary and is no delimiter.
    Delimiter,
    /// The closing delimiter is missing.
    Truncated,
    /// Bytes follow the closing delimiter.
    BytesBehind,
    /// The head of a part cannot be read.
    PartHead,
    /// A part has no `Content-Disposition: form-data` with one `name`.
    Disposition,
    /// The field `model` occurs twice.
    DuplicateModel,
    /// A field's name differs from `model` in case, spaces or brackets only.
    ModelVariant,
    /// The field `model` is a file, is encoded, or is not a line of text in UTF-8.
    ModelValue,
}

impl FormDefect {
    /// Whether the field `model` is at fault.
    pub fn is_of_model(self) -> bool {
        matches!(self, FormDefect::DuplicateModel | FormDefect::ModelVariant | FormDefect::ModelValue)
    }
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.defect {
            FormDefect::ContentType => return f.write_str("expected `multipart/form-data` with one valid `boundary`"),
            FormDefect::Start => "the body does not begin with the boundary",
            FormDefect::Delimiter => "a line begins with the boundary, but is not a delimiter",
            FormDefect::Truncated => "the closing delimiter is missing",
            FormDefect::BytesBehind => "bytes follow the closing delimiter",
            FormDefect::PartHead => "the head of a part cannot be read",
            FormDefect::Disposition => "a part has no `Content-Disposition: form-data` with one plain `name`",
            FormDefect::DuplicateModel => "the field 'model' occurs twice",
            FormDefect::ModelVariant => {
                "a field differs from 'model' in case, spaces or brackets only; parsers disagree about it"
            }
            FormDefect::ModelValue => "the field 'model' is not a line of plain text in UTF-8",
        })?;
        write!(f, " (at byte {})", self.at)
    }
}

impl std::error::Error for FormError {}

fn fail<T>(defect: FormDefect, at: usize) -> Result<T, FormError> {
    Err(FormError { defect, at })
}

/// What a form says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// `--` and the boundary.
    delimiter: Vec<u8>,
    /// The value of the field `model`.
    model: Option<Range<usize>>,
    /// Its field `stream` requests events.
    pub streams: bool,
}

impl Form {
    /// Reads a whole body with the value of its `Content-Type`.
    ///
    /// # Errors
    /// It is malformed, or could be read in two ways.
    pub fn read(content_type: &[u8], body: &[u8]) -> Result<Form, FormError> {
        let Some(boundary) = boundary(content_type) else { return fail(FormDefect::ContentType, 0) };
        let delimiter = [b"--", boundary].concat();
        if !body.starts_with(&delimiter) {
            return fail(FormDefect::Start, 0);
        }
        let lines = Delimiters::new(&delimiter);
        let mut at = delimiter.len();
        let mut model = None;
        let mut streams = false;
        loop {
            match body.get(at..at + 2) {
                Some(CRLF) => at += 2,
                Some(b"--") => {
                    let rest = &body[at + 2..];
                    if !rest.is_empty() && rest != CRLF {
                        return fail(FormDefect::BytesBehind, at + 2);
                    }
                    return Ok(Form { model, delimiter, streams });
                }
                Some(_) => return fail(FormDefect::Delimiter, at),
                None => return fail(FormDefect::Truncated, body.len()),
            }
            let begin = at;
            let head = part_head(body, &mut at)?;
            let end = lines.content_end(body, at)?;
            if head.name == b"model" {
                if model.is_some() {
                    return fail(FormDefect::DuplicateModel, begin);
                }
                if !head.is_plain || !is_model(&body[at..end]) {
                    return fail(FormDefect::ModelValue, begin);
                }
                model = Some(at..end);
            } else if head.name.trim_ascii().eq_ignore_ascii_case(b"stream") {
                let value = body[at..end].trim_ascii();
                streams |= !(value.is_empty() || value == b"0" || value.eq_ignore_ascii_case(b"false"));
            } else if is_variant(head.name) {
                return fail(FormDefect::ModelVariant, begin);
            }
            at = end + CRLF.len() + delimiter.len();
        }
    }

    /// The value of `Content-Type` for this form.
    pub fn content_type(&self) -> Vec<u8> {
        [b"multipart/form-data; boundary=\"", &self.delimiter[2..], b"\""].concat()
    }

    /// The requested model, if its field ends within the first [`MODEL_WITHIN`] bytes.
    pub fn model<'b>(&self, body: &'b [u8]) -> Option<&'b str> {
        self.model.as_ref().filter(|range| range.end <= MODEL_WITHIN)?;
        self.model_anywhere(body)
    }

    /// The value of the field `model`, wherever it stands.
    pub fn model_anywhere<'b>(&self, body: &'b [u8]) -> Option<&'b str> {
        std::str::from_utf8(body.get(self.model.clone()?)?).ok()
    }

    /// What makes the body name this model: also where the field stands behind the bytes that it is read from, so that no provider reads another.
    pub fn edits(&self, body: &[u8], model: &str) -> Edits {
        match &self.model {
            Some(_) if self.model_anywhere(body) == Some(model) => Edits::default(),
            Some(range) => Edits::one(Edit { range: range.clone(), text: model.into() }),
            None => {
                let disposition = b"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n";
                let text = [&self.delimiter, &disposition[..], model.as_bytes(), CRLF].concat();
                Edits::one(Edit { range: 0..0, text })
            }
        }
    }
}

/// Finds the lines of a form that begin with the delimiter. In the middle of a line it is content.
struct Delimiters<'d> {
    delimiter: &'d [u8],
    behind_lf: Finder<'static>,
    /// A parser that takes other line ends would see a delimiter.
    behind_cr: Finder<'static>,
}

impl<'d> Delimiters<'d> {
    fn new(delimiter: &'d [u8]) -> Self {
        let behind = |end: &[u8]| Finder::new(&[end, delimiter].concat()).into_owned();
        Delimiters { delimiter, behind_lf: behind(b"\n"), behind_cr: behind(b"\r") }
    }

    /// The end of a part's content that begins at `start`: the CRLF before a delimiter belongs to it (RFC 2046 section 5.1.1).
    fn content_end(&self, body: &[u8], start: usize) -> Result<usize, FormError> {
        let content = &body[start..];
        if content.starts_with(self.delimiter) {
            return fail(FormDefect::Delimiter, start);
        }
        let line = self.behind_lf.find(content);
        let before = &content[..line.unwrap_or(content.len())];
        if let Some(found) = self.behind_cr.find(before) {
            return fail(FormDefect::Delimiter, start + found + 1);
        }
        match (line, before.strip_suffix(b"\r")) {
            (Some(_), Some(before)) => Ok(start + before.len()),
            (Some(at), None) => fail(FormDefect::Delimiter, start + at + 1),
            (None, _) => fail(FormDefect::Truncated, body.len()),
        }
    }
}

/// Whether some parser takes this name for `model`: by case, spaces, or as a list.
fn is_variant(name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == b'[').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(b"model")
}

fn is_model(value: &[u8]) -> bool {
    let is_text = std::str::from_utf8(value).is_ok_and(|text| !text.chars().any(char::is_control));
    is_text && value.len() <= LONGEST_MODEL
}

#[cfg(test)]
mod tests;
