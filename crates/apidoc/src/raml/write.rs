//! The model as RAML 1.0. What it cannot say is written as annotations, which are declared, and which [`super::read`] knows.

use crate::build;
use crate::model::{
    Api, Body, KeyLocation, ListFormat, Method, Operation, Parameter, Requirement, SecurityScheme, Type,
};
use crate::openapi::write as openapi;
use crate::write::{Notes, Out, by_path, example, list, map};
use std::collections::BTreeMap;

/// The whole document but for its first line.
pub(crate) fn document(api: &Api, notes: &mut Notes) -> Out {
    let mut resources = Vec::new();
    for (path, operations) in by_path(api, notes) {
        resources.push((path.to_owned(), resource(&operations, notes)));
    }
    let mut out = vec![("title".to_owned(), Out::from(api.title.as_str()))];
    if !api.version.is_empty() {
        out.push(("version".to_owned(), api.version.as_str().into()));
    }
    if let Some(first) = api.servers.first() {
        if api.servers.len() > 1 || first.description.is_some() || first.url.is_empty() {
            notes.add("RAML has one base URI without description; all servers are written as an annotation".to_owned());
            out.push(("(servers)".to_owned(), openapi::servers(&api.servers)));
        }
        if !first.url.is_empty() {
            out.push(("baseUri".to_owned(), first.url.as_str().into()));
        }
    }
    out.push(("annotationTypes".to_owned(), annotation_types()));
    if !api.security_schemes.is_empty() {
        let schemes = api.security_schemes.iter().map(|(name, s)| (name.as_str(), scheme(s)));
        out.push(("securitySchemes".to_owned(), map(schemes)));
    }
    out.extend(resources);
    Out::Map(out)
}

/// What [`super`] reads besides RAML's own keys.
fn annotation_types() -> Out {
    map([
        ("operationId", Out::from("string")),
        ("format", "string".into()),
        ("listFormat", "string".into()),
        ("bodyRequired", "boolean".into()),
        ("generated", "boolean".into()),
        ("enum", "any".into()),
        ("default", "any".into()),
        ("example", "any".into()),
        ("servers", "any".into()),
    ])
}

fn resource(operations: &[&Operation], notes: &mut Notes) -> Out {
    let mut out = Vec::new();
    if let Some(first) = operations.first() {
        if operations.iter().any(|o| o.path_params != first.path_params) {
            notes.add(format!(
                "{}: RAML has the same path parameters for all methods; those of {} are written",
                first.endpoint_path, first.method
            ));
        }
        if !first.path_params.is_empty() {
            out.push(("uriParameters", parameters(&first.path_params, ListFormat::Csv, true)));
        }
    }
    for operation in operations {
        if operation.method == Method::Trace {
            notes.add(format!("{}: RAML has no TRACE; the operation is not written", operation.id));
        } else {
            out.push((operation.method.lower(), method(operation, notes)));
        }
    }
    map(out)
}

fn method(operation: &Operation, notes: &mut Notes) -> Out {
    let mut out = Vec::new();
    let key = if build::is_identifier(&operation.id) { "displayName" } else { "(operationId)" };
    out.push((key, Out::from(operation.id.as_str())));
    if !operation.servers.is_empty() {
        notes.add(format!("{}: RAML has no servers of a method; they are written as an annotation", operation.id));
        out.push(("(servers)", openapi::servers(&operation.servers)));
    }
    if !operation.cookie_params.is_empty() {
        notes.add(format!("{}: RAML has no cookies; they are not written", operation.id));
    }
    if !operation.query_params.is_empty() {
        out.push(("queryParameters", parameters(&operation.query_params, ListFormat::Multi, false)));
    }
    if !operation.header_params.is_empty() {
        out.push(("headers", parameters(&operation.header_params, ListFormat::Csv, false)));
    }
    out.extend(operation.body.as_ref().map(|b| ("body", body(b))));
    if !operation.security.is_none() {
        let secured = operation.security.0.iter().map(|r| secured_by(r, &operation.id, notes)).collect();
        out.push(("securedBy", Out::List(secured)));
    }
    map(out)
}

fn secured_by(requirement: &Requirement, id: &str, notes: &mut Notes) -> Out {
    if requirement.len() > 1 {
        notes.add(format!("{id}: RAML cannot require several security schemes together; the first is written"));
    }
    match requirement.iter().next() {
        None => Out::Json(serde_json::Value::Null),
        Some((name, scopes)) if scopes.is_empty() => name.as_str().into(),
        Some((name, scopes)) => {
            map([(name.as_str(), map([("scopes", list(scopes.iter().map(|s| s.as_str().into())))]))])
        }
    }
}

fn parameters(params: &BTreeMap<String, Parameter>, list: ListFormat, in_path: bool) -> Out {
    map(params.iter().map(|(name, p)| (name.as_str(), map(declaration(p, list, in_path)))))
}

/// A type declaration; `list` is how RAML would write a list there.
fn declaration(parameter: &Parameter, list_format: ListFormat, in_path: bool) -> Vec<(&'static str, Out)> {
    let mut out = vec![("type", Out::from(type_name(parameter)))];
    out.push(("required", parameter.required.into()));
    if let Some(format) = &parameter.format
        && !matches!(type_name(parameter), "date-only" | "datetime" | "time-only" | "datetime-only")
    {
        out.push(("(format)", format.as_str().into()));
    }
    if parameter.list.is_some_and(|l| l != list_format) {
        let name = match parameter.list.unwrap_or_default() {
            ListFormat::Multi => "multi",
            ListFormat::Csv => "csv",
            ListFormat::Ssv => "ssv",
            ListFormat::Pipes => "pipes",
        };
        out.push(("(listFormat)", name.into()));
    }
    if !parameter.values.is_empty() {
        let fit = parameter.values.iter().all(|v| fits(parameter.kind, v));
        out.push((if fit { "enum" } else { "(enum)" }, list(parameter.values.iter().map(example))));
    }
    if let Some(default) = &parameter.default {
        out.push((if fits(parameter.kind, default) { "default" } else { "(default)" }, example(default)));
    }
    let number = |n: &serde_json::Number| Out::Json(serde_json::Value::Number(n.clone()));
    out.extend(parameter.min.as_ref().map(|n| ("minimum", number(n))));
    out.extend(parameter.max.as_ref().map(|n| ("maximum", number(n))));
    let (least, most) =
        if parameter.kind == Type::Array { ("minItems", "maxItems") } else { ("minLength", "maxLength") };
    out.extend(parameter.min_length.map(|n| (least, n.into())));
    out.extend(parameter.max_length.map(|n| (most, n.into())));
    out.extend(parameter.pattern.as_ref().map(|p| ("pattern", p.as_str().into())));
    if let (Type::Array, Some(items)) = (parameter.kind, parameter.items) {
        out.push(("items", type_name(&Parameter::of(items)).into()));
    }
    if let Some(given) = &parameter.example {
        // a URI parameter's example must not hold a slash, though a server may take one
        let slash = in_path && given.as_str().is_some_and(|text| text.contains('/'));
        out.push(if slash { ("(example)", example(given)) } else { ("example", wrapped(given)) });
    }
    out
}

/// Whether RAML takes `value` for the type: it checks enumerations and defaults strictly.
fn fits(kind: Type, value: &serde_json::Value) -> bool {
    match kind {
        Type::String => value.is_string(),
        Type::Integer => value.is_i64() || value.is_u64(),
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
        Type::Array => value.is_array(),
        Type::Object => value.is_object(),
        Type::File => false,
        Type::Any => true,
    }
}

fn type_name(parameter: &Parameter) -> &'static str {
    match (parameter.kind, parameter.format.as_deref()) {
        (Type::String, Some("date")) => "date-only",
        (Type::String, Some("time")) => "time-only",
        (Type::String, Some("date-time")) => "datetime",
        (Type::String, Some("datetime-only")) => "datetime-only",
        (Type::File, _) => "file",
        (Type::Any, _) => "any",
        (kind, _) => kind.json_schema().unwrap_or("any"),
    }
}

/// An example with its envelope, as a mapping with a key `value` would be taken for one. It is not checked against the
/// type: an example that the description gave may be looser than its schema.
fn wrapped(json: &serde_json::Value) -> Out {
    map([("value", example(json)), ("strict", false.into())])
}

fn body(body: &Body) -> Out {
    let mut typed = vec![("type", Out::from(type_name(&Parameter::of(body.kind))))];
    if !body.required {
        typed.push(("(bodyRequired)", false.into()));
    }
    if body.generated {
        typed.push(("(generated)", true.into()));
    }
    if !body.params.is_empty() {
        let list = if build::is_form(&body.media_type) { ListFormat::Multi } else { ListFormat::Csv };
        typed.push(("properties", parameters(&body.params, list, false)));
    }
    typed.extend(body.example.as_ref().map(|e| ("example", wrapped(e))));
    let others = body.other_media_types.iter().map(|media| (media.as_str(), map::<&str>([])));
    map([(body.media_type.as_str(), map(typed))].into_iter().chain(others))
}

/// RAML's own type where there is one; otherwise a custom type that describes the header or parameter, with the scheme
/// itself among its settings.
fn scheme(scheme: &SecurityScheme) -> Out {
    let header = |name: &str| map([("headers", map([(name, map([("type", Out::from("string"))]))]))]);
    let query = |name: &str| map([("queryParameters", map([(name, map([("type", Out::from("string"))]))]))]);
    let exact = || map([("scheme", Out::Json(serde_json::to_value(scheme).unwrap_or_default()))]);
    let custom = |kind: &'static str, described: Option<Out>| {
        let mut out = vec![("type", Out::from(kind))];
        out.extend(described.map(|d| ("describedBy", d)));
        out.push(("settings", exact()));
        map(out)
    };
    match scheme {
        SecurityScheme::Http { scheme, .. } if scheme == "basic" => map([("type", "Basic Authentication".into())]),
        SecurityScheme::Http { scheme, .. } if scheme == "digest" => map([("type", "Digest Authentication".into())]),
        SecurityScheme::Http { .. } => custom("x-bearer", Some(header("Authorization"))),
        SecurityScheme::ApiKey { location: KeyLocation::Header, name }
            if !name.eq_ignore_ascii_case("authorization") =>
        {
            map([("type", Out::from("Pass Through")), ("describedBy", header(name))])
        }
        SecurityScheme::ApiKey { location: KeyLocation::Query, name } => {
            map([("type", Out::from("Pass Through")), ("describedBy", query(name))])
        }
        SecurityScheme::ApiKey { name, .. } => custom("x-api-key", Some(header(name))),
        SecurityScheme::Oauth2 { flows } => {
            let grants = list(flows.iter().map(|f| f.grant.names().2.into()));
            let url = |pick: fn(&crate::OauthFlow) -> &Option<String>| flows.iter().find_map(|f| pick(f).clone());
            let scopes = flows.first().map(|f| f.scopes.clone()).unwrap_or_default();
            let mut settings = vec![("authorizationGrants", grants)];
            settings.extend(url(|f| &f.authorization_url).map(|u| ("authorizationUri", u.as_str().into())));
            settings.extend(url(|f| &f.token_url).map(|u| ("accessTokenUri", u.as_str().into())));
            if !scopes.is_empty() {
                settings.push(("scopes", list(scopes.iter().map(|s| s.as_str().into()))));
            }
            map([("type", Out::from("OAuth 2.0")), ("settings", map(settings))])
        }
        SecurityScheme::OpenIdConnect { .. } => custom("x-openid-connect", Some(header("Authorization"))),
        SecurityScheme::MutualTls {} => custom("x-mutual-tls", None),
    }
}
