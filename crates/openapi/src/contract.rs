//! What one operation demands of its requests, compiled.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::media::{self, Range};
use crate::parameter::{Parameter, report, scalar};
use crate::schema::Schema;
use crate::text::{decode, pairs};
use crate::types::Types;
use crate::violation::{Location, Violations, rule, step};

/// What one operation demands.
pub struct Contract {
    pub(crate) parameters: Vec<Parameter>,
    /// Segments of the path in which path parameters stand, counted from 0 behind the first slash; whether it is the rest of the path.
    pub(crate) segments: Vec<(usize, bool, usize)>,
    /// Names in the query that are described, where others are violations.
    pub(crate) known_query: Option<KnownQuery>,
    pub(crate) body: Option<Body>,
    pub(crate) digest: [u8; 32],
}

/// Names that a query may have.
#[derive(Debug, Default)]
pub(crate) struct KnownQuery {
    pub(crate) names: BTreeSet<String>,
    /// Names of objects, whose parts are `name[part]`.
    pub(crate) objects: BTreeSet<String>,
}

impl KnownQuery {
    fn has(&self, name: &str) -> bool {
        self.names.contains(name) || name.split_once('[').is_some_and(|(object, _)| self.objects.contains(object))
    }
}

/// A described body.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) required: bool,
    /// The most exact ranges first.
    pub(crate) media: Vec<Media>,
}

/// A described media type.
#[derive(Debug)]
pub(crate) struct Media {
    pub(crate) range: Range,
    pub(crate) check: Check,
}

#[derive(Debug, Clone)]
pub(crate) enum Check {
    /// Media type and size only: the body passes as it comes.
    Type,
    Json(Arc<Schema>),
    Form(Arc<Schema>),
}

/// The parts of a request that come before its body.
pub struct Head<'r> {
    /// Path, without query.
    pub path: &'r [u8],
    /// Query, without `?`.
    pub query: Option<&'r [u8]>,
    /// Calls the function with every header field, in order.
    #[allow(clippy::type_complexity)]
    // An alias would need the lifetimes of both references spelled out at every use.
    pub fields: &'r dyn Fn(&mut dyn FnMut(&'r [u8], &'r [u8])),
    /// What is known of the body.
    pub body: BodyLength,
}

/// What is known of a body before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// There is none.
    None,
    /// There is one, perhaps an empty one.
    Unknown,
    /// There is one, which is not empty.
    Some,
}

/// How a body is checked: what [`Contract::check_head`] gives, for [`Contract::check_body`].
#[derive(Debug, Clone)]
pub struct BodyCheck {
    /// Without one, the body has no media type, and so has to be empty.
    check: Option<Check>,
    required: bool,
}

impl Contract {
    /// Whether there is nothing to check.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty() && self.known_query.is_none() && self.body.is_none()
    }

    /// Whether some bodies are checked, and so cannot be streamed.
    #[must_use]
    pub fn checks_bodies(&self) -> bool {
        self.body.iter().flat_map(|body| &body.media).any(|media| !matches!(media.check, Check::Type))
    }

    /// Checks everything but the body. When the body has to be checked too, the result says how.
    #[must_use]
    pub fn check_head(&self, head: &Head<'_>) -> (Violations, Option<BodyCheck>) {
        let mut violations = Violations::default();
        self.check_path(head.path, &mut violations);
        self.check_query(head.query.unwrap_or_default(), &mut violations);
        self.check_fields(head, &mut violations);
        let body = self.body.as_ref().and_then(|body| body.plan(head, &mut violations));
        (violations, body)
    }

    fn check_path(&self, path: &[u8], violations: &mut Violations) {
        for &(segment, is_rest, parameter) in &self.segments {
            let mut rest = path.strip_prefix(b"/").unwrap_or(path);
            for _ in 0..segment {
                let slash = rest.iter().position(|&byte| byte == b'/');
                rest = slash.map_or(&[][..], |slash| &rest[slash + 1..]);
            }
            let end = if is_rest { None } else { rest.iter().position(|&byte| byte == b'/') };
            let value = &rest[..end.unwrap_or(rest.len())];
            self.parameters[parameter].check(&[value], violations);
        }
    }

    fn check_query(&self, query: &[u8], violations: &mut Violations) {
        let described = || self.parameters.iter().filter(|parameter| parameter.place == Location::Query);
        if self.known_query.is_none() && described().next().is_none() {
            return;
        }
        let mut given: Vec<(String, &[u8])> = Vec::new();
        for (name, value) in pairs(query) {
            match decode(name, true) {
                Some(name) => given.push((name, value)),
                None => violations.add(Location::Query, String::new(), rule::SYNTAX),
            }
        }
        if let Some(known) = &self.known_query {
            for (name, _) in given.iter().filter(|(name, _)| !known.has(name)) {
                violations.add(Location::Query, step(name), rule::UNKNOWN);
            }
        }
        for parameter in described() {
            let own = given.iter().filter(|(name, _)| *name == parameter.name).map(|(_, value)| *value);
            parameter.check(&own.collect::<Vec<_>>(), violations);
        }
    }

    fn check_fields(&self, head: &Head<'_>, violations: &mut Violations) {
        for parameter in &self.parameters {
            let mut own: Vec<&[u8]> = Vec::new();
            match parameter.place {
                Location::Header => (head.fields)(&mut |name, value| {
                    if name.eq_ignore_ascii_case(parameter.name.as_bytes()) {
                        own.push(value);
                    }
                }),
                Location::Cookie => (head.fields)(&mut |name, value| {
                    if name.eq_ignore_ascii_case(b"cookie") {
                        own.extend(
                            cookies(value)
                                .filter(|(name, _)| *name == parameter.name.as_bytes())
                                .map(|(_, value)| value),
                        );
                    }
                }),
                _ => continue,
            }
            parameter.check(&own, violations);
        }
    }

    /// Checks a whole body.
    #[must_use]
    pub fn check_body(&self, check: &BodyCheck, bytes: &[u8]) -> Violations {
        let mut violations = Violations::default();
        if bytes.is_empty() {
            if check.required {
                violations.add(Location::Body, String::new(), rule::REQUIRED);
            }
            return violations;
        }
        let read = match &check.check {
            None => {
                violations.add(Location::Header, step("Content-Type"), rule::CONTENT_TYPE);
                return violations;
            }
            Some(Check::Type) => return violations,
            Some(Check::Json(schema)) => strict_json::parse(bytes).map(|instance| (schema, instance)).map_err(rule::of),
            Some(Check::Form(schema)) => form(schema, bytes).map(|instance| (schema, instance)),
        };
        match read {
            Ok((schema, instance)) => match schema.holds(&instance, bytes.len()) {
                Some(true) => {}
                Some(false) => {
                    report(schema, (&instance, bytes.len()), Location::Body, "", &mut violations);
                    if violations.is_empty() {
                        violations.add(Location::Body, String::new(), "other");
                    }
                }
                None => violations.add(Location::Body, String::new(), rule::COMPLEXITY),
            },
            Err(rule) => violations.add(Location::Body, String::new(), rule),
        }
        violations
    }
}

impl Body {
    /// How the body of a request is checked.
    fn plan(&self, head: &Head<'_>, violations: &mut Violations) -> Option<BodyCheck> {
        if head.body == BodyLength::None {
            if self.required {
                violations.add(Location::Body, String::new(), rule::REQUIRED);
            }
            return None;
        }
        let (mut types, mut is_coded): (Vec<&[u8]>, bool) = (Vec::new(), false);
        (head.fields)(&mut |name, value| {
            if name.eq_ignore_ascii_case(b"content-type") {
                types.push(value);
            } else if name.eq_ignore_ascii_case(b"content-encoding") {
                is_coded |= !value.trim_ascii().eq_ignore_ascii_case(b"identity");
            }
        });
        // Two of them are read in two ways.
        let [one] = types.as_slice() else {
            if head.body == BodyLength::Some || !types.is_empty() {
                violations.add(Location::Header, step("Content-Type"), rule::CONTENT_TYPE);
                return None;
            }
            return Some(BodyCheck { check: None, required: self.required });
        };
        let text = std::str::from_utf8(one).unwrap_or_default();
        let essence = media::essence(text);
        let Some(found) = self.media.iter().find(|media| media.range.matches(&essence)) else {
            violations.add(Location::Header, step("Content-Type"), rule::CONTENT_TYPE);
            return None;
        };
        // A range says nothing about how other types than JSON are read.
        let check = match &found.check {
            Check::Json(_) if !media::is_json(&essence) => Check::Type,
            Check::Form(_) if !media::is_form(&essence) => Check::Type,
            check => check.clone(),
        };
        if matches!(check, Check::Type) {
            return None;
        }
        if is_coded {
            violations.add(Location::Header, step("Content-Encoding"), rule::CONTENT_TYPE);
            return None;
        }
        if media::has_other_charset(text) {
            violations.add(Location::Header, step("Content-Type"), rule::CONTENT_TYPE);
            return None;
        }
        Some(BodyCheck { check: Some(check), required: self.required })
    }
}

/// The fields of a form (`application/x-www-form-urlencoded`) as an object.
fn form(schema: &Schema, bytes: &[u8]) -> Result<Value, &'static str> {
    let mut object = Map::new();
    for (name, value) in pairs(bytes) {
        let name = decode(name, true).ok_or(rule::SYNTAX)?;
        let value = decode(value, true).ok_or(rule::SYNTAX)?;
        let (types, items) = schema.properties.get(&name).copied().unwrap_or((Types::STRING, Types::STRING));
        match object.get_mut(&name) {
            Some(Value::Array(list)) if types.has(Types::ARRAY) => list.push(scalar(value, items)),
            Some(_) => return Err(rule::DUPLICATE),
            None if types.has(Types::ARRAY) && !types.has_scalars() => {
                object.insert(name, Value::Array(vec![scalar(value, items)]));
            }
            None => {
                object.insert(name, scalar(value, types));
            }
        }
    }
    Ok(Value::Object(object))
}

/// The cookies of one field (RFC 6265, section 4.2.1).
fn cookies(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|&byte| byte == b';').filter_map(|pair| {
        let pair = pair.trim_ascii();
        let at = pair.iter().position(|&byte| byte == b'=')?;
        // Blanks before `=` are no part of the name to applications (RFC 6265, section 5.2).
        Some((pair[..at].trim_ascii_end(), &pair[at + 1..]))
    })
}

impl PartialEq for Contract {
    /// Whether both demand the same.
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl fmt::Debug for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.body.iter().flat_map(|body| &body.media).map(|media| media.range.as_str());
        f.debug_struct("Contract")
            .field("parameters", &self.parameters.iter().map(|one| &one.name).collect::<Vec<_>>())
            .field("body", &ranges.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
