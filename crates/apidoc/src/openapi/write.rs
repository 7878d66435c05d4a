//! The model as OpenAPI 3.1.

use crate::build;
use crate::model::{Api, Body, KeyLocation, ListFormat, Operation, Parameter, Security, SecurityScheme, Server, Type};
use crate::write::{Notes, Out, by_path, example, list, map, schema_keywords};
use std::collections::BTreeMap;

/// The whole document.
pub(crate) fn document(api: &Api, notes: &mut Notes) -> Out {
    let mut out = vec![
        ("openapi", Out::from("3.1.0")),
        ("info", map([("title", api.title.as_str().into()), ("version", api.version.as_str().into())])),
    ];
    if !api.servers.is_empty() {
        out.push(("servers", servers(&api.servers)));
    }
    let paths = by_path(api, notes);
    out.push((
        "paths",
        map(paths
            .iter()
            .map(|(path, operations)| (*path, map(operations.iter().map(|o| (o.method.lower(), operation(o))))))),
    ));
    if !api.security_schemes.is_empty() {
        let schemes = map(api.security_schemes.iter().map(|(name, s)| (name.as_str(), scheme(s))));
        out.push(("components", map([("securitySchemes", schemes)])));
    }
    map(out)
}

pub(crate) fn servers(servers: &[Server]) -> Out {
    list(servers.iter().map(|server| {
        // the root is written as such: an empty URL is not a URL reference
        let url = if server.url.is_empty() { "/" } else { &server.url };
        let mut out = vec![("url", Out::from(url))];
        out.extend(server.description.as_ref().map(|d| ("description", d.as_str().into())));
        map(out)
    }))
}

fn operation(operation: &Operation) -> Out {
    let mut out = vec![("operationId", Out::from(operation.id.as_str()))];
    if !operation.servers.is_empty() {
        out.push(("servers", servers(&operation.servers)));
    }
    let places = [
        ("path", &operation.path_params),
        ("query", &operation.query_params),
        ("header", &operation.header_params),
        ("cookie", &operation.cookie_params),
    ];
    let params: Vec<Out> =
        places.iter().flat_map(|(place, params)| params.iter().map(|(name, p)| parameter(place, name, p))).collect();
    if !params.is_empty() {
        out.push(("parameters", Out::List(params)));
    }
    out.extend(operation.body.as_ref().map(|b| ("requestBody", body(b))));
    out.push(("responses", map([("default", map([("description", "".into())]))])));
    if !operation.security.is_none() {
        out.push(("security", security(&operation.security)));
    }
    map(out)
}

fn parameter(place: &'static str, name: &str, parameter: &Parameter) -> Out {
    let mut out = vec![("name", Out::from(name)), ("in", place.into())];
    if parameter.required {
        out.push(("required", true.into()));
    }
    out.extend(list_style(parameter.list, matches!(place, "query" | "cookie")));
    if parameter.multi_segment {
        out.push(("x-multi-segment", true.into()));
    }
    out.push(("schema", map(schema_keywords(parameter))));
    out.extend(parameter.example.as_ref().map(|e| ("example", example(e))));
    map(out)
}

/// `style` and `explode`, where they differ from the default of the place.
fn list_style(list: Option<ListFormat>, form: bool) -> Vec<(&'static str, Out)> {
    match list {
        None => Vec::new(),
        Some(ListFormat::Multi) if form => Vec::new(),
        Some(ListFormat::Csv) if form => vec![("explode", false.into())],
        Some(ListFormat::Csv) => Vec::new(),
        Some(ListFormat::Multi) => vec![("style", "form".into()), ("explode", true.into())],
        Some(ListFormat::Ssv) => vec![("style", "spaceDelimited".into()), ("explode", false.into())],
        Some(ListFormat::Pipes) => {
            vec![("style", "pipeDelimited".into()), ("explode", false.into())]
        }
    }
}

fn body(body: &Body) -> Out {
    let mut media = vec![("schema", body_schema(body, true))];
    media.extend(body.example.as_ref().map(|e| ("example", example(e))));
    if body.generated {
        media.push(("x-example-generated", true.into()));
    }
    if build::is_form(&body.media_type) {
        let styled = |p: &Parameter| p.list.is_some_and(|l| l != ListFormat::Multi);
        let encoding: Vec<_> = body
            .params
            .iter()
            .filter(|(_, p)| styled(p))
            .map(|(name, p)| (name.as_str(), map(list_style(p.list, true))))
            .collect();
        if !encoding.is_empty() {
            media.push(("encoding", map(encoding)));
        }
    }
    let others = body.other_media_types.iter().map(|media| (media.as_str(), map::<&str>([])));
    let content = map([(body.media_type.as_str(), map(media))].into_iter().chain(others));
    let mut out = Vec::new();
    if body.required {
        out.push(("required", Out::from(true)));
    }
    out.push(("content", content));
    map(out)
}

/// The schema of a body; `modern` is JSON Schema 2020-12, otherwise Swagger's dialect.
pub(crate) fn body_schema(body: &Body, modern: bool) -> Out {
    let mut schema = schema_keywords(&Parameter::of(body.kind));
    if body.kind == Type::Array {
        schema.retain(|(key, _)| *key != "items");
        if !modern {
            schema.push(("items", map::<&str>([])));
        }
    }
    if !body.params.is_empty() {
        let property = |(name, p): (&String, &Parameter)| {
            let mut keywords = schema_keywords(p);
            keywords.extend(
                p.example
                    .as_ref()
                    .map(|e| if modern { ("examples", list([example(e)])) } else { ("example", example(e)) }),
            );
            (name.clone(), map(keywords))
        };
        schema.push(("properties", map(body.params.iter().map(property))));
    }
    let required: Vec<Out> =
        body.params.iter().filter(|(_, p)| p.required).map(|(name, _)| name.as_str().into()).collect();
    if !required.is_empty() {
        schema.push(("required", Out::List(required)));
    }
    map(schema)
}

pub(crate) fn security(security: &Security) -> Out {
    let scopes = |scopes: &Vec<String>| list(scopes.iter().map(|s| s.as_str().into()));
    let requirement = |r: &BTreeMap<String, Vec<String>>| map(r.iter().map(|(name, s)| (name.clone(), scopes(s))));
    list(security.0.iter().map(requirement))
}

fn scheme(scheme: &SecurityScheme) -> Out {
    match scheme {
        SecurityScheme::Http { scheme, bearer_format } => {
            let mut out = vec![("type", Out::from("http")), ("scheme", scheme.as_str().into())];
            out.extend(bearer_format.as_ref().map(|f| ("bearerFormat", f.as_str().into())));
            map(out)
        }
        SecurityScheme::ApiKey { location, name } => {
            map([("type", "apiKey".into()), ("in", location_name(*location).into()), ("name", name.as_str().into())])
        }
        SecurityScheme::Oauth2 { flows } => {
            let flow = |f: &crate::OauthFlow| {
                let mut out = Vec::new();
                out.extend(f.authorization_url.as_ref().map(|u| ("authorizationUrl", Out::from(u.as_str()))));
                out.extend(f.token_url.as_ref().map(|u| ("tokenUrl", Out::from(u.as_str()))));
                out.push(("scopes", scopes(&f.scopes)));
                map(out)
            };
            map([("type", "oauth2".into()), ("flows", map(flows.iter().map(|f| (f.grant.names().0, flow(f)))))])
        }
        SecurityScheme::OpenIdConnect { url } => {
            map([("type", "openIdConnect".into()), ("openIdConnectUrl", url.as_str().into())])
        }
        SecurityScheme::MutualTls {} => map([("type", "mutualTLS".into())]),
    }
}

/// Scopes with the descriptions that the model does not keep.
pub(crate) fn scopes(names: &[String]) -> Out {
    map(names.iter().map(|name| (name.as_str(), "".into())))
}

pub(crate) fn location_name(location: KeyLocation) -> &'static str {
    match location {
        KeyLocation::Header => "header",
        KeyLocation::Query => "query",
        KeyLocation::Cookie => "cookie",
    }
}
