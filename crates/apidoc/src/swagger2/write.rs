//! The model as Swagger 2.0. What it cannot say is written as extensions that [`super::read`] knows: `x-servers` for more
//! than one server, `x-scheme` for kinds of security.

use crate::build;
use crate::model::{Api, Body, KeyLocation, ListFormat, Operation, Parameter, SecurityScheme, Server, Type};
use crate::openapi::write as openapi;
use crate::records::body_of;
use crate::write::{Notes, Out, by_path, example, list, map, schema_keywords};

/// The whole document.
pub(crate) fn document(api: &Api, notes: &mut Notes) -> Out {
    let mut out = vec![
        ("swagger", Out::from("2.0")),
        ("info", map([("title", api.title.as_str().into()), ("version", api.version.as_str().into())])),
    ];
    out.extend(base(&api.servers, notes));
    let paths = by_path(api, notes);
    let written = paths.iter().map(|(path, operations)| {
        let methods = operations.iter().filter_map(|o| {
            if o.method == crate::Method::Trace {
                notes.add(format!("{}: Swagger 2 has no TRACE; the operation is not written", o.id));
                return None;
            }
            Some((o.method.lower(), operation(o, notes)))
        });
        (*path, map(methods))
    });
    out.push(("paths", map(written)));
    if !api.security_schemes.is_empty() {
        let schemes = api.security_schemes.iter().map(|(name, s)| (name.as_str(), scheme(name, s, notes)));
        out.push(("securityDefinitions", map(schemes)));
    }
    map(out)
}

/// `host`, `basePath` and `schemes` of the first server, and all servers where that is not all there is.
fn base(servers: &[Server], notes: &mut Notes) -> Vec<(&'static str, Out)> {
    let mut out = Vec::new();
    let Some(first) = servers.first() else {
        return out;
    };
    let plain = match first.origin().and_then(|o| o.split_once("://")) {
        Some((scheme @ ("http" | "https"), host)) => {
            out.extend([("host", Out::from(host)), ("schemes", list([scheme.into()]))]);
            true
        }
        Some(_) => false,
        None => true,
    };
    if !first.prefix().is_empty() {
        out.push(("basePath", first.prefix().into()));
    }
    if servers.len() > 1 || first.description.is_some() || !plain || first.url.is_empty() {
        notes.add("Swagger 2 has one server without description; all are written as x-servers".to_owned());
        out.push(("x-servers", openapi::servers(servers)));
    }
    out
}

fn operation(operation: &Operation, notes: &mut Notes) -> Out {
    let mut out = vec![("operationId", Out::from(operation.id.as_str()))];
    if !operation.servers.is_empty() {
        notes.add(format!("{}: Swagger 2 has no servers of an operation; they are written as x-servers", operation.id));
        out.push(("x-servers", openapi::servers(&operation.servers)));
    }
    if !operation.cookie_params.is_empty() {
        notes.add(format!("{}: Swagger 2 has no cookies; they are not written", operation.id));
    }
    let places =
        [("path", &operation.path_params), ("query", &operation.query_params), ("header", &operation.header_params)];
    let mut params: Vec<Out> = Vec::new();
    for (place, found) in places {
        params.extend(found.iter().map(|(name, p)| parameter(place, name, p, &operation.id, notes)));
    }
    if let Some(body) = &operation.body {
        out.push((
            "consumes",
            list([&body.media_type].into_iter().chain(&body.other_media_types).map(|m| m.as_str().into())),
        ));
        params.extend(body_params(body, &operation.id, notes));
    }
    if !params.is_empty() {
        out.push(("parameters", Out::List(params)));
    }
    out.push(("responses", map([("default", map([("description", "".into())]))])));
    if !operation.security.is_none() {
        out.push(("security", openapi::security(&operation.security)));
    }
    map(out)
}

fn parameter(place: &'static str, name: &str, parameter: &Parameter, id: &str, notes: &mut Notes) -> Out {
    let mut out = vec![("name", Out::from(name)), ("in", place.into()), ("required", parameter.required.into())];
    match parameter.kind {
        Type::File if place == "formData" => out.push(("type", "file".into())),
        Type::Any | Type::Object => {
            notes.add(format!("{id}: Swagger 2 needs a simple type for '{name}'; string is written"));
            out.extend(schema_keywords(&Parameter { kind: Type::String, ..parameter.clone() }));
        }
        Type::Array
            if !matches!(parameter.items, Some(Type::String | Type::Integer | Type::Number | Type::Boolean)) =>
        {
            if parameter.items.is_some() {
                notes.add(format!("{id}: Swagger 2 needs a simple type for the items of '{name}'; string is written"));
            }
            out.extend(schema_keywords(&Parameter { items: Some(Type::String), ..parameter.clone() }));
        }
        _ => out.extend(schema_keywords(parameter)),
    }
    match parameter.list {
        None | Some(ListFormat::Csv) => {}
        Some(ListFormat::Multi) => {
            if !matches!(place, "query" | "formData") {
                notes.add(format!(
                    "{id}: '{name}' in the {place} cannot be repeated in Swagger 2; it is written as such all the same"
                ));
            }
            out.push(("collectionFormat", "multi".into()));
        }
        Some(ListFormat::Ssv) => out.push(("collectionFormat", "ssv".into())),
        Some(ListFormat::Pipes) => out.push(("collectionFormat", "pipes".into())),
    }
    out.extend(parameter.example.as_ref().map(|e| ("x-example", example(e))));
    map(out)
}

fn body_params(body: &Body, id: &str, notes: &mut Notes) -> Vec<Out> {
    if build::is_form(&body.media_type) && body.kind == Type::Object && !body.params.is_empty() {
        let made = body_of(body.params.clone(), false).example;
        let has_required = body.params.values().any(|p| p.required);
        if body.example != made || !body.generated || body.required != has_required {
            notes.add(format!("{id}: Swagger 2 has no example of a whole form, and a form is required when a field is; the fields' own are written"));
        }
        if body.other_media_types.iter().any(|m| !build::is_form(m)) {
            notes.add(format!("{id}: Swagger 2 cannot have a form beside other bodies; only the form is described"));
        }
        return body.params.iter().map(|(name, p)| parameter("formData", name, p, id, notes)).collect();
    }
    let mut out = vec![
        ("name", Out::from("body")),
        ("in", "body".into()),
        ("required", body.required.into()),
        ("schema", openapi::body_schema(body, false)),
    ];
    out.extend(body.example.as_ref().map(|e| ("x-example", example(e))));
    if body.generated {
        out.push(("x-example-generated", true.into()));
    }
    vec![map(out)]
}

/// The nearest that Swagger 2 has, and the scheme itself as `x-scheme` where that is not the same.
fn scheme(name: &str, scheme: &SecurityScheme, notes: &mut Notes) -> Out {
    let key = |location: &'static str, name: &str| {
        vec![("type", Out::from("apiKey")), ("in", location.into()), ("name", name.into())]
    };
    let (mut out, exact) = match scheme {
        SecurityScheme::Http { scheme, .. } if scheme == "basic" => (vec![("type", Out::from("basic"))], true),
        SecurityScheme::ApiKey { location, name } if *location != KeyLocation::Cookie => {
            (key(openapi::location_name(*location), name), true)
        }
        SecurityScheme::Oauth2 { flows } if flows.len() == 1 => {
            let flow = &flows[0];
            let mut out = vec![("type", Out::from("oauth2")), ("flow", flow.grant.names().1.into())];
            out.extend(flow.authorization_url.as_ref().map(|u| ("authorizationUrl", u.as_str().into())));
            out.extend(flow.token_url.as_ref().map(|u| ("tokenUrl", u.as_str().into())));
            out.push(("scopes", openapi::scopes(&flow.scopes)));
            (out, true)
        }
        SecurityScheme::ApiKey { .. } => (key("header", "Cookie"), false),
        _ => (key("header", "Authorization"), false),
    };
    if !exact {
        notes.add(format!(
            "Swagger 2 cannot say the security scheme '{name}'; it is written as a header, and in full as x-scheme"
        ));
        out.push(("x-scheme", Out::Json(serde_json::to_value(scheme).unwrap_or_default())));
    }
    map(out)
}
