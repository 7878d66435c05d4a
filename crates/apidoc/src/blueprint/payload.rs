//! Requests of an action: which body is sent, which headers, and what they say of security.

use super::lines::{Item, Section};
use super::{Reader, signature};
use crate::build;
use crate::diagnostic::Code;
use crate::jsonschema::JsonSchemas;
use crate::model::{Body, KeyLocation, Parameter, Requirement, Security, SecurityScheme, Type};
use crate::shape;
use crate::source::Limits;
use crate::tree::Set;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A request as it is written.
struct Request<'t> {
    item: Item<'t>,
    media_type: Option<String>,
    headers: Vec<(String, String)>,
}

type Headers = BTreeMap<String, Parameter>;

impl<'t> Reader<'t, '_> {
    /// Body, headers and security of the action ("Request section"). Of several requests the first with a body is sent;
    /// a header that not all of them have is optional.
    pub(super) fn payload(&mut self, section: &Section<'t>) -> (Option<Body>, Headers, Security) {
        let shared: Vec<(String, String)> =
            section.items.iter().filter(|i| i.is("Headers")).flat_map(headers).collect();
        let requests: Vec<Request<'t>> = section
            .items
            .iter()
            .filter(|i| i.is("Request"))
            .map(|item| {
                let mut found: Vec<(String, String)> =
                    item.items.iter().filter(|i| i.is("Headers")).flat_map(headers).collect();
                found.extend(shared.iter().cloned());
                let named = found
                    .iter()
                    .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
                    .map(|(_, value)| value.clone());
                Request { item: item.clone(), media_type: media_type(item.text).or(named), headers: found }
            })
            .collect();
        let attributes = section.items.iter().find(|i| i.is("Attributes"));
        let bodies: Vec<Body> = requests.iter().filter_map(|r| self.body(r, attributes)).collect();
        let mut bodies = bodies.into_iter();
        let mut body = bodies.next();
        if let Some(body) = &mut body {
            for other in bodies {
                if other.media_type != body.media_type && !body.other_media_types.contains(&other.media_type) {
                    body.other_media_types.push(other.media_type);
                }
            }
        }
        let all = requests.len();
        let mut sets: Vec<Vec<(String, String)>> = requests.into_iter().map(|r| r.headers).collect();
        if all == 0 {
            sets.push(shared);
        }
        let (header, security) = self.headers(&sets);
        (body, header, security)
    }

    /// Header parameters of several requests, and what `Authorization` among them requests.
    fn headers(&mut self, sets: &[Vec<(String, String)>]) -> (Headers, Security) {
        let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
        for set in sets {
            let mut seen: Vec<String> = Vec::new();
            for (name, value) in set {
                if !seen.iter().any(|n| n.eq_ignore_ascii_case(name)) {
                    found.entry(name.clone()).or_insert_with(|| (value.clone(), 0)).1 += 1;
                    seen.push(name.clone());
                }
            }
        }
        let mut headers = Headers::new();
        let mut security = Security::NONE;
        for (name, (value, times)) in found {
            let required = times == sets.len();
            if name.eq_ignore_ascii_case("content-type") || name.eq_ignore_ascii_case("accept") {
                continue;
            }
            if !name.eq_ignore_ascii_case("authorization") {
                let example = (!value.is_empty()).then_some(Json::String(value));
                headers.insert(name, Parameter { required, example, ..Parameter::of(Type::String) });
                continue;
            }
            let (scheme, kind) = match value.split_whitespace().next().map(str::to_ascii_lowercase).as_deref() {
                Some("bearer") => ("bearer", SecurityScheme::bearer()),
                Some("basic") => ("basic", SecurityScheme::basic()),
                _ => (
                    "authorization",
                    SecurityScheme::ApiKey { location: KeyLocation::Header, name: "Authorization".to_owned() },
                ),
            };
            self.builder.api.security_schemes.entry(scheme.to_owned()).or_insert(kind);
            security = Security::scheme(scheme);
            if !required {
                security.0.push(Requirement::new());
            }
        }
        (headers, security)
    }

    fn body(&mut self, request: &Request<'t>, action_attributes: Option<&Item<'t>>) -> Option<Body> {
        let item = self.with_model(&request.item);
        let nested = |keyword: &str| item.items.iter().find(|i| i.is(keyword));
        let has_sections = ["Body", "Headers", "Schema", "Attributes"].iter().any(|keyword| nested(keyword).is_some());
        let text = nested("Body").and_then(|b| b.asset(true)).or_else(|| item.asset(!has_sections));
        let attributes = nested("Attributes").or(action_attributes);
        let schema = nested("Schema").and_then(|s| s.asset(true));
        if text.is_none() && attributes.is_none() && schema.is_none() && request.media_type.is_none() {
            return None;
        }
        let media_type = request.media_type.clone().unwrap_or_else(|| {
            let json = text.as_deref().is_none_or(|t| t.trim_start().starts_with(['{', '[']));
            if json { "application/json" } else { "text/plain" }.to_owned()
        });
        let given = text.map(|text| {
            if !build::is_json(&media_type) {
                return Json::String(text);
            }
            serde_json::from_str(&text).unwrap_or_else(|why| {
                let fault = self.fault(
                    Code::Assumed,
                    item.line,
                    format!("the body is not well-formed JSON ({why}); it is sent as text"),
                );
                self.builder.report.warn(fault);
                Json::String(text)
            })
        });
        let mut body = Body { media_type, required: true, ..Body::default() };
        let make = build::takes_instances(&body.media_type);
        let limit = self.builder.limits.example_values;
        let read = if let Some(attributes) = attributes {
            let key = self.mson.attributes(attributes);
            Some(shape::body(&self.mson, &key, given.clone(), make, limit, self.builder.report))
        } else {
            schema.and_then(|text| self.schema(&text, given.clone(), make, item.line))
        };
        match read {
            Some(read) => {
                (body.kind, body.params, body.example, body.generated) =
                    (read.kind, read.params, read.example, read.generated);
                if body.kind == Type::Any && attributes.is_some() {
                    body.kind = Type::Object;
                }
            }
            None => {
                body.kind = match &given {
                    Some(Json::Object(_)) => Type::Object,
                    Some(Json::Array(_)) => Type::Array,
                    Some(Json::String(_)) => Type::String,
                    _ => Type::Any,
                };
                body.example = given;
            }
        }
        Some(body)
    }

    /// A request that is `[Name][]` is the model of that resource.
    fn with_model(&self, item: &Item<'t>) -> Item<'t> {
        let reference = item.asset(true).unwrap_or_default();
        let name = reference
            .trim()
            .strip_prefix('[')
            .and_then(|t| t.strip_suffix("][]").or_else(|| t.strip_suffix(']')))
            .map(str::trim);
        match name.and_then(|name| self.models.get(name)) {
            Some(model) => model.clone(),
            None => item.clone(),
        }
    }

    /// A JSON Schema that is in the text.
    fn schema(&mut self, text: &str, given: Option<Json>, make: bool, line: u32) -> Option<shape::BodyShape> {
        let name = format!("{}:{line} (schema)", self.file);
        let nothing: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let limits = Limits::default();
        match Set::load(&nothing, &name, text.as_bytes(), &limits, self.builder.report) {
            Ok(set) => {
                let schemas = JsonSchemas::new(self.builder.limits.example_values);
                Some(shape::body(
                    &schemas,
                    &set.root(),
                    given,
                    make,
                    self.builder.limits.example_values,
                    self.builder.report,
                ))
            }
            Err(problems) => {
                let why = problems.errors.first().map(|e| e.message.clone()).unwrap_or_default();
                let fault = self.fault(Code::Invalid, line, format!("the schema cannot be read: {why}"));
                self.builder.report.error(fault);
                None
            }
        }
    }
}

/// `(application/json)` at the end of `Request Name (application/json)`.
fn media_type(text: &str) -> Option<String> {
    let inside = text.trim().strip_suffix(')')?.rsplit_once('(')?.1.trim();
    inside.contains('/').then(|| inside.to_owned())
}

/// `Name: value` lines below `Headers`; also as items, as is often written.
fn headers(item: &Item<'_>) -> Vec<(String, String)> {
    let text = item.asset(true).unwrap_or_default();
    let lines = text.lines().map(str::to_owned);
    let items = item.items.iter().map(|i| i.text.to_owned());
    lines
        .chain(items)
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let name = signature::unquote(name);
            let is_token =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?={} \t".contains(c));
            is_token.then(|| (name, value.trim().to_owned()))
        })
        .collect()
}
