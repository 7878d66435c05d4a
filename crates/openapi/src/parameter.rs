//! Parameters of the path, the query, header fields and cookies.

use std::sync::Arc;

use serde_json::Value;

use crate::schema::Schema;
use crate::steps;
use crate::text::{decode, split_encoded};
use crate::types::Types;
use crate::violation::{Location, MOST, Violations, push_step, rule, rule_named, step};

/// A described parameter.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) place: Location,
    pub(crate) required: bool,
    /// `allowEmptyValue`.
    pub(crate) may_be_empty: bool,
    pub(crate) form: Form,
    /// What its value has to be; without one, only whether it is there is checked.
    pub(crate) schema: Option<Arc<Schema>>,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Lists with commas: `simple`, and `form` without `explode`.
    Comma,
    /// Lists by repetition: `form` with `explode`.
    Repeated,
    /// Lists with spaces: `spaceDelimited`.
    Space,
    /// Lists with bars: `pipeDelimited`.
    Pipe,
    /// JSON.
    Json,
    /// In a way that is not checked: objects, `label`, `matrix`, `deepObject`.
    Opaque,
}

impl Parameter {
    /// Checks the values that a request has for it, as they came.
    pub(crate) fn check(&self, values: &[&[u8]], violations: &mut Violations) {
        if values.is_empty() {
            if self.required {
                violations.add(self.place, step(&self.name), rule::REQUIRED);
            }
            return;
        }
        let Some(schema) = self.schema.as_ref().filter(|_| self.form != Form::Opaque) else { return };
        if self.may_be_empty && values.iter().all(|value| value.is_empty()) {
            return;
        }
        let is_list = schema.types.has(Types::ARRAY);
        // Lines of one header field are one list (RFC 9110, section 5.3).
        let may_repeat = is_list && (self.form == Form::Repeated || self.place == Location::Header);
        if values.len() > 1 && !may_repeat {
            return violations.add(self.place, step(&self.name), rule::DUPLICATE);
        }
        let candidates = match self.candidates(schema, values, is_list) {
            Ok(candidates) => candidates,
            Err(rule) => return violations.add(self.place, step(&self.name), rule),
        };
        let bytes = values.iter().map(|value| value.len()).sum();
        for candidate in &candidates {
            match schema.holds(candidate, bytes) {
                Some(true) => return,
                Some(false) => {}
                None => return violations.add(self.place, step(&self.name), rule::COMPLEXITY),
            }
        }
        match candidates.first() {
            Some(first) => report(schema, (first, bytes), self.place, &step(&self.name), violations),
            None => violations.add(self.place, step(&self.name), "type"),
        }
    }

    /// What the text can stand for, the most likely first.
    fn candidates(&self, schema: &Schema, values: &[&[u8]], is_list: bool) -> Result<Vec<Value>, &'static str> {
        let text = |bytes: &[u8]| self.decode(bytes).ok_or(rule::SYNTAX);
        if self.form == Form::Json {
            return Ok(vec![strict_json::parse(text(values[0])?.as_bytes()).map_err(rule::of)?]);
        }
        let mut candidates = Vec::new();
        if schema.types.has_scalars() && values.len() == 1 {
            scalars(&text(values[0])?, schema.types, &mut candidates);
        }
        if is_list {
            let mut parts = Vec::new();
            for value in values {
                for part in self.split(value) {
                    parts.push(scalar(text(part)?, schema.items));
                }
            }
            candidates.push(Value::Array(parts));
        }
        Ok(candidates)
    }

    fn split<'v>(&self, value: &'v [u8]) -> Vec<&'v [u8]> {
        match self.form {
            Form::Repeated => vec![value],
            _ if value.is_empty() => Vec::new(),
            Form::Space if value.contains(&b'+') => value.split(|&byte| byte == b'+').collect(),
            Form::Space => split_encoded(value, b' ', b"%20"),
            Form::Pipe => split_encoded(value, b'|', b"%7c"),
            _ => value.split(|&byte| byte == b',').collect(),
        }
    }

    fn decode(&self, bytes: &[u8]) -> Option<String> {
        match self.place {
            Location::Header => String::from_utf8(bytes.trim_ascii().to_vec()).ok(),
            Location::Query => decode(bytes, true),
            _ => decode(bytes, false),
        }
    }
}

/// The scalars that a text can stand for.
pub(crate) fn scalars(text: &str, types: Types, out: &mut Vec<Value>) {
    if types.has(Types::NUMBER)
        && let Some(number) = number(text)
    {
        out.push(number);
    }
    match text {
        "true" | "false" if types.has(Types::BOOLEAN) => out.push(Value::Bool(text == "true")),
        "" | "null" if types.has(Types::NULL) => out.push(Value::Null),
        _ => {}
    }
    if types.has(Types::STRING) {
        out.push(Value::String(text.to_owned()));
    }
}

/// The one scalar that a text most likely stands for.
pub(crate) fn scalar(text: String, types: Types) -> Value {
    let mut candidates = Vec::new();
    scalars(&text, types, &mut candidates);
    if candidates.is_empty() { Value::String(text) } else { candidates.swap_remove(0) }
}

/// A number as JSON writes it, and nothing else: `+1`, `01` and `0x1` are read in more than one way.
fn number(text: &str) -> Option<Value> {
    let begins = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
    // JSON allows blanks and line ends around a number; in a parameter they are part of the value.
    if !begins || !text.ends_with(|last: char| last.is_ascii_digit()) || text.len() > 64 {
        return None;
    }
    serde_json::from_str(text).ok().filter(Value::is_number)
}

/// Reports what is wrong with an instance of so many bytes.
pub(crate) fn report(
    schema: &Schema,
    (instance, bytes): (&Value, usize),
    place: Location,
    base: &str,
    violations: &mut Violations,
) {
    use jsonschema::error::ValidationErrorKind as Kind;
    // What is beyond the steps is not told: that something is wrong is known.
    steps::within(steps::of_telling(bytes), || {
        for error in schema.validator.iter_errors(instance).take(MOST).take_while(|_| !steps::are_used_up()) {
            let mut pointer = format!("{base}{}", error.instance_path());
            let keyword = rule_named(error.kind().keyword());
            match error.kind() {
                Kind::Required { property } => {
                    push_step(&mut pointer, property.as_str().unwrap_or_default());
                    violations.add(place, pointer, keyword);
                }
                Kind::AdditionalProperties { unexpected } => {
                    for name in unexpected.iter().take(MOST) {
                        let mut pointer = pointer.clone();
                        push_step(&mut pointer, name);
                        violations.add(place, pointer, keyword);
                    }
                }
                Kind::FalseSchema => violations.add(place, pointer, "false"),
                _ => violations.add(place, pointer, keyword),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn only_what_json_writes_without_blanks_is_a_number() {
        for text in ["0", "-1", "12.5", "1e3", "-0.5E-2"] {
            assert!(number(text).is_some(), "{text}");
        }
        for text in ["", "-", "+1", "01", "0x1", " 1", "1 ", "1\r\n", "1\t", "1.", "1e", "1 2", "NaN"] {
            assert!(number(text).is_none(), "{text:?}");
        }
    }
}
