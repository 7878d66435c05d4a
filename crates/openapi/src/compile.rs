//! From an operation's description to its contract.

use std::collections::BTreeSet;

use apidoc::{KeyLocation, SecurityScheme, View};
use sha2::{Digest, Sha256};

use crate::contract::{Body, Check, Contract, KnownQuery, Media};
use crate::media::{self, Range};
use crate::parameter::{Form, Parameter};
use crate::schema::{Dialect, Schemas};
use crate::types::Types;
use crate::violation::Location;

/// Everything that the contract of an operation is made of.
pub(crate) struct Input<'d, 'a> {
    pub(crate) operation: View<'d>,
    /// Path items that hold it, the most specific first.
    pub(crate) items: Vec<View<'d>>,
    pub(crate) root: View<'d>,
    pub(crate) is_swagger2: bool,
    pub(crate) model: &'a apidoc::Operation,
    pub(crate) api: &'a apidoc::Api,
    pub(crate) refuses_unknown_query: bool,
}

/// A parameter of the description: `in` and `name` with where it stands.
pub(crate) type FoundParameter<'d> = (&'d str, &'d str, View<'d>);

pub(crate) fn contract<'d>(input: &Input<'d, '_>, base: &str, schemas: &mut Schemas<'d>) -> Contract {
    let described = parameters(input, schemas);
    let mut known = KnownQuery::default();
    let mut compiled = Vec::new();
    for &(place, name, view) in &described {
        let place = match place {
            "path" => Location::Path,
            "query" => Location::Query,
            "cookie" => Location::Cookie,
            // Header Parameter Object: these three follow from other parts of a description.
            "header"
                if ["accept", "content-type", "authorization"].iter().any(|own| name.eq_ignore_ascii_case(own)) =>
            {
                continue;
            }
            "header" => Location::Header,
            _ => continue,
        };
        compiled.push(parameter(input, place, name, view, schemas, &mut known));
    }
    if input.refuses_unknown_query {
        known.names.extend(compiled.iter().filter(|one| one.place == Location::Query).map(|one| one.name.clone()));
        known.names.extend(keys_in_query(input));
    }
    let segments = segments(base, &input.model.endpoint_path, &compiled);
    let body = if input.is_swagger2 { swagger_body(input, &described, schemas) } else { body(input, schemas) };
    let mut contract = Contract {
        parameters: compiled,
        segments,
        known_query: input.refuses_unknown_query.then_some(known),
        body,
        digest: [0; 32],
    };
    contract.digest = digest(&contract);
    contract
}

/// The parameters of the operation and of its path; those of the operation come first and win.
pub(crate) fn parameters<'d>(input: &Input<'d, '_>, schemas: &mut Schemas<'d>) -> Vec<FoundParameter<'d>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for holder in std::iter::once(input.operation).chain(input.items.iter().copied()) {
        let mut own = Vec::new();
        for listed in holder.get("parameters").into_iter().flat_map(View::items) {
            let Some(view) = dereference(listed, schemas) else { continue };
            let (Some(place), Some(name)) = (view.get("in").and_then(View::str), view.get("name").and_then(View::text))
            else {
                continue;
            };
            if !seen.contains(&(place, name)) {
                own.push((place, name, view));
            }
        }
        seen.extend(own.iter().map(|(place, name, _)| (*place, *name)));
        // Of two with one name in one list, the last counts.
        for (index, one) in own.iter().enumerate() {
            if !own[index + 1..].iter().any(|later| (later.0, later.1) == (one.0, one.1)) {
                found.push(*one);
            }
        }
    }
    found
}

pub(crate) fn dereference<'d>(view: View<'d>, schemas: &mut Schemas<'d>) -> Option<View<'d>> {
    let mut at = view;
    for _ in 0..32 {
        let Some(reference) = at.get("$ref").and_then(View::str) else { return Some(at) };
        match at.resolve(reference) {
            Ok(target) => at = target,
            Err(why) => {
                schemas.problem(at, why);
                return None;
            }
        }
    }
    schemas.problem(view, "the references lead in a circle");
    None
}

fn parameter<'d>(
    input: &Input<'d, '_>,
    place: Location,
    name: &str,
    view: View<'d>,
    schemas: &mut Schemas<'d>,
    known: &mut KnownQuery,
) -> Parameter {
    let says = |key: &str| view.get(key).and_then(View::bool) == Some(true);
    let content = view.get("content").and_then(|content| content.entries().next());
    let schema = match content {
        Some((_, media)) => media.get("schema"),
        None => view.get("schema").or_else(|| (input.is_swagger2 && view.get("type").is_some()).then_some(view)),
    };
    let mut form = match content {
        Some((range, _)) if media::is_json(&media::essence(range)) => Form::Json,
        Some(_) => Form::Opaque,
        None if input.is_swagger2 => collection_form(view),
        None => style_form(place, view),
    };
    let mut schema = schema.and_then(|schema| schemas.compile(schema));
    if let Some(compiled) = &schema
        && form != Form::Json
        && !compiled.types.has_scalars()
        && (!compiled.types.has(Types::ARRAY) || !compiled.items.has_scalars())
    {
        // The names of an object's properties are names of the query, or `name[part]`.
        known.names.extend(compiled.properties.keys().cloned());
        known.objects.insert(name.to_owned());
        form = Form::Opaque;
    }
    if form == Form::Opaque {
        if schema.is_some() {
            let what = format!(
                "the {} parameter `{name}` is an object, or has a style that is not checked: only whether it is there",
                place.as_str()
            );
            schemas.note(view, what);
        }
        known.objects.insert(name.to_owned());
        schema = None;
    }
    // The parts of an object are not its name.
    let required = (says("required") || place == Location::Path) && !(form == Form::Opaque && place == Location::Query);
    Parameter { name: name.to_owned(), place, required, may_be_empty: says("allowEmptyValue"), form, schema }
}

/// `style` and `explode` (Parameter Object).
fn style_form(place: Location, view: View<'_>) -> Form {
    let default = if matches!(place, Location::Query | Location::Cookie) { "form" } else { "simple" };
    let style = view.get("style").and_then(View::str).unwrap_or(default);
    let explode = view.get("explode").and_then(View::bool).unwrap_or(style == "form");
    match (style, place) {
        ("form", Location::Query) if explode => Form::Repeated,
        ("form", Location::Query | Location::Cookie) | ("simple", Location::Path | Location::Header) => Form::Comma,
        ("spaceDelimited", Location::Query) if !explode => Form::Space,
        ("pipeDelimited", Location::Query) if !explode => Form::Pipe,
        ("spaceDelimited" | "pipeDelimited", Location::Query) => Form::Repeated,
        _ => Form::Opaque,
    }
}

/// `collectionFormat` of Swagger 2.
fn collection_form(view: View<'_>) -> Form {
    match view.get("collectionFormat").and_then(View::str) {
        None | Some("csv") => Form::Comma,
        Some("multi") => Form::Repeated,
        Some("ssv") => Form::Space,
        Some("pipes") => Form::Pipe,
        Some(_) => Form::Opaque,
    }
}

/// Keys that security schemes have in the query are described, too.
fn keys_in_query(input: &Input<'_, '_>) -> Vec<String> {
    let schemes = input.model.security.0.iter().flat_map(|all| all.keys());
    let schemes = schemes.filter_map(|name| input.api.security_schemes.get(name));
    let keys = schemes.filter_map(|scheme| match scheme {
        SecurityScheme::ApiKey { location: KeyLocation::Query, name } => Some(name.clone()),
        _ => None,
    });
    keys.collect()
}

/// Where path parameters are in the path of a request.
fn segments(base: &str, path: &str, parameters: &[Parameter]) -> Vec<(usize, bool, usize)> {
    let before = base.split('/').skip(1).count();
    let mut found = Vec::new();
    let all: Vec<&str> = path.split('/').skip(1).collect();
    for (index, segment) in all.iter().enumerate() {
        let Some(name) = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else { continue };
        let is_own = |one: &Parameter| one.place == Location::Path && one.name == name;
        if let Some(parameter) = parameters.iter().position(is_own) {
            // Only the last segment can be the rest of a path; for others there is no more than one segment anyway.
            found.push((before + index, index + 1 == all.len(), parameter));
        }
    }
    found
}

fn body<'d>(input: &Input<'d, '_>, schemas: &mut Schemas<'d>) -> Option<Body> {
    let view = dereference(input.operation.get("requestBody")?, schemas)?;
    let mut media = Vec::new();
    for (range, described) in view.get("content").into_iter().flat_map(View::entries) {
        let range = Range::new(range);
        let check = check(&range, described.get("schema"), described, schemas);
        media.push(Media { range, check });
    }
    media.sort_by_key(|media| std::cmp::Reverse(media.range.rank()));
    let required = view.get("required").and_then(View::bool) == Some(true);
    (!media.is_empty()).then_some(Body { required, media })
}

fn check<'d>(range: &Range, schema: Option<View<'d>>, described: View<'d>, schemas: &mut Schemas<'d>) -> Check {
    let Some(schema) = schema else { return Check::Type };
    let is_json = media::is_json(range.as_str()) || range.rank() < 2;
    if !is_json && !media::is_form(range.as_str()) {
        schemas.note(described, format!("bodies of `{}` are not checked beyond media type and size", range.as_str()));
        return Check::Type;
    }
    let Some(compiled) = schemas.compile(schema) else { return Check::Type };
    if is_json {
        return Check::Json(compiled);
    }
    let is_flat =
        |(types, items): &(Types, Types)| types.has_scalars() || (types.has(Types::ARRAY) && items.has_scalars());
    if compiled.properties.values().all(is_flat) && described.get("encoding").is_none() {
        return Check::Form(compiled);
    }
    schemas.note(described, "a form with objects or with `encoding` is not checked beyond media type and size");
    Check::Type
}

/// `consumes` and the body or form parameters of Swagger 2.
fn swagger_body<'d>(
    input: &Input<'d, '_>,
    described: &[FoundParameter<'d>],
    schemas: &mut Schemas<'d>,
) -> Option<Body> {
    let consumes = input.operation.get("consumes").or_else(|| input.root.get("consumes"));
    let types: Vec<&str> = consumes.into_iter().flat_map(View::items).filter_map(View::str).collect();
    let body = described.iter().find(|(place, ..)| *place == "body").map(|(.., view)| *view);
    let is_form = described.iter().any(|(place, ..)| *place == "formData");
    if body.is_none() && !is_form {
        return None;
    }
    let default = if is_form { "application/x-www-form-urlencoded" } else { "application/json" };
    let types = if types.is_empty() { vec![default] } else { types };
    let mut media: Vec<Media> = types
        .into_iter()
        .map(|range| {
            let range = Range::new(range);
            let check = match body {
                Some(body) => check(&range, body.get("schema"), body, schemas),
                None => {
                    schemas.note(input.operation, "the fields of a form of Swagger 2 are not checked");
                    Check::Type
                }
            };
            Media { range, check }
        })
        .collect();
    media.sort_by_key(|media| std::cmp::Reverse(media.range.rank()));
    let required = body.and_then(|body| body.get("required")).and_then(View::bool) == Some(true);
    Some(Body { required, media })
}

/// What tells two contracts apart.
fn digest(contract: &Contract) -> [u8; 32] {
    let mut hash = Sha256::new();
    for one in &contract.parameters {
        hash.update(format!("{}\0{:?}{}{}{:?}", one.name, one.place, one.required, one.may_be_empty, one.form));
        hash.update(one.schema.as_ref().map_or([0; 32], |schema| schema.digest));
    }
    hash.update(format!("{:?}{:?}", contract.segments, contract.known_query));
    if let Some(body) = &contract.body {
        hash.update([u8::from(body.required)]);
        for media in &body.media {
            hash.update(media.range.as_str());
            match &media.check {
                Check::Type => hash.update([0]),
                Check::Json(schema) | Check::Form(schema) => hash.update(schema.digest),
            }
        }
    }
    hash.finalize().into()
}

/// By which rules schemas are read.
pub(crate) fn dialect(is_swagger2: bool, version: &str) -> Dialect {
    if is_swagger2 || version.starts_with("3.0") { Dialect::Draft4 } else { Dialect::Draft202012 }
}
