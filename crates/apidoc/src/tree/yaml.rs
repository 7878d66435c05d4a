//! YAML to a document, by the event parser that is also under `serde-saphyr`.
//!
//! Scalars follow the core schema of YAML 1.2 (section 10.3.2): `yes` and `0777` are what they look like, text and
//! decimal. Keys are text whatever they look like: `200:` is the key "200". The merge key `<<` of YAML 1.1 is applied,
//! as descriptions in the field use it.

use super::build::{Builder, TextPosition};
use super::parse::{looks_numeric, number, short};
use super::{Document, Map, Value};
use crate::diagnostic::{Code, Diagnostic};
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, Span, Tag};
use std::borrow::Cow;

/// Parses `text` with `builder`.
pub(super) fn parse(text: &str, mut builder: Builder<'_>) -> Result<Document, Vec<Diagnostic>> {
    let depth = builder.depth_limit();
    let options = granit_parser::options! {
        simple_key_max_lookahead: 1 << 16, // paths and expressions as keys may be long
        flow_nesting_limit: depth,
        block_nesting_limit: depth,
        emit_comments: false,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => take(&mut builder, event, at(&span)),
            Err(e) => {
                let place = TextPosition { line: e.marker().line() as u32, column: e.marker().col() as u32 + 1 };
                let code = match e.kind() {
                    ErrorKind::RecursionLimitExceeded => Code::TooLarge,
                    _ => Code::Syntax,
                };
                Err(builder.fault(code, place, e.info()))
            }
        };
        match step {
            Ok(true) => {}
            Ok(false) => break,
            Err(fatal) => return builder.fatal(fatal),
        }
    }
    builder.finish()
}

fn at(span: &Span) -> TextPosition {
    TextPosition { line: span.start.line() as u32, column: span.start.col() as u32 + 1 }
}

/// Takes one event; `false` when what follows is not read.
fn take(builder: &mut Builder<'_>, event: Event<'_>, at: TextPosition) -> Result<bool, Diagnostic> {
    match event {
        Event::DocumentStart(..) if builder.has_root() => {
            builder.remark(at, "the file holds more than one YAML document; only the first is read".to_owned());
            return Ok(false);
        }
        Event::Scalar(text, style, anchor, tag) => {
            if builder.wants_key() {
                if anchor != 0 {
                    // an anchored key may be used as a value elsewhere
                    builder.aside(Value::String(text.as_ref().into()), anchor, at)?;
                }
                builder.key(&text, style == ScalarStyle::Plain && text == "<<", at);
            } else {
                let value = scalar(builder, text, style, tag.as_deref(), at);
                builder.scalar(value, anchor, at)?;
            }
        }
        Event::SequenceStart(_, anchor, tag) => {
            unknown_tag(builder, tag.as_deref(), at);
            builder.begin(Value::List(Vec::new()), anchor, at)?;
        }
        Event::MappingStart(_, anchor, tag) => {
            unknown_tag(builder, tag.as_deref(), at);
            builder.begin(Value::Map(Map::default()), anchor, at)?;
        }
        Event::SequenceEnd | Event::MappingEnd => builder.end(at)?,
        Event::Alias(_) if builder.wants_key() => {
            return Err(builder.fault(Code::Syntax, at, "an alias cannot be a key here; write the key out"));
        }
        Event::Alias(anchor) => builder.alias(anchor, at)?,
        _ => {}
    }
    Ok(true)
}

/// The value that a scalar means.
fn scalar(
    builder: &mut Builder<'_>,
    text: Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    at: TextPosition,
) -> Value {
    let own = |t: Cow<'_, str>| t.into_owned().into_boxed_str();
    if let Some(tag) = tag {
        match (tag.is_yaml_core_schema(), tag.suffix()) {
            (false, "include") => return Value::Include(own(text)),
            (true, "str") => return Value::String(own(text)),
            (true, "int" | "float" | "bool" | "null") | (false, "") => {}
            _ => unknown_tag(builder, Some(tag), at),
        }
    }
    if style != ScalarStyle::Plain {
        return Value::String(own(text));
    }
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        t if looks_numeric(t) => {
            if number(t).is_none() {
                builder.remark(at, format!("the number {} is too large to be held; it is read as null", short(t)));
            }
            Value::Number(own(text))
        }
        _ => Value::String(own(text)),
    }
}

fn unknown_tag(builder: &mut Builder<'_>, tag: Option<&Tag>, at: TextPosition) {
    if let Some(tag) = tag
        && !(tag.is_yaml_core_schema() && matches!(tag.suffix(), "map" | "seq" | "str"))
    {
        builder.remark(at, format!("the YAML tag {} is passed over", short(&tag.original())));
    }
}
