//! Security schemes and requirements, which Swagger 2 has in the same form but for the schemes' types.

use crate::build::{self, Builder};
use crate::diagnostic::{Code, Report};
use crate::jsonschema::dereference;
use crate::model::{Grant, KeyLocation, OauthFlow, Requirement, Security, SecurityScheme};
use crate::tree::Node;
use std::collections::BTreeMap;

/// The schemes of `securitySchemes` (Security Scheme Object) or `securityDefinitions`.
pub(crate) fn schemes(defined: Option<Node<'_>>, report: &mut Report) -> BTreeMap<String, SecurityScheme> {
    let mut found = BTreeMap::new();
    for (name, node) in defined.into_iter().flat_map(Node::entries) {
        if name.starts_with("x-") && !node.is_map() {
            continue;
        }
        let Some(node) = dereference(node, report) else {
            continue;
        };
        match scheme(node, report) {
            Ok(scheme) => {
                found.insert(name.to_owned(), scheme);
            }
            Err(why) => report.error(node.diagnostic(Code::Invalid, format!("the security scheme '{name}' {why}"))),
        }
    }
    found
}

fn scheme(node: Node<'_>, report: &mut Report) -> Result<SecurityScheme, String> {
    let text = |key: &str| node.given(key).and_then(Node::text);
    if let Some(exact) = node.given("x-scheme") {
        return crate::tree::decode(exact).map_err(|e| format!("has an 'x-scheme' that is none: {}", e.message));
    }
    let kind = text("type").ok_or("has no 'type'")?;
    Ok(match kind {
        "http" => {
            let scheme =
                text("scheme").ok_or("is of type http and needs a 'scheme', such as bearer")?.to_ascii_lowercase();
            SecurityScheme::Http { scheme, bearer_format: text("bearerFormat").map(str::to_owned) }
        }
        "basic" => SecurityScheme::basic(),
        "apiKey" => {
            let location = match text("in") {
                Some("header") => KeyLocation::Header,
                Some("query") => KeyLocation::Query,
                Some("cookie") => KeyLocation::Cookie,
                _ => return Err("is an apiKey and needs 'in': header, query or cookie".to_owned()),
            };
            SecurityScheme::ApiKey { location, name: text("name").ok_or("is an apiKey and needs a 'name'")?.to_owned() }
        }
        "oauth2" => SecurityScheme::Oauth2 { flows: flows(node, report) },
        "openIdConnect" => SecurityScheme::OpenIdConnect { url: text("openIdConnectUrl").unwrap_or("").to_owned() },
        "mutualTLS" => SecurityScheme::MutualTls {},
        other => {
            return Err(format!(
                "has the type '{}', which is none of http, apiKey, oauth2, openIdConnect, mutualTLS",
                crate::tree::parse::short(other)
            ));
        }
    })
}

/// Flows of OpenAPI 3 (OAuth Flows Object) or the one flow of Swagger 2.
fn flows(node: Node<'_>, report: &mut Report) -> Vec<OauthFlow> {
    let flow = |grant: Grant, node: Node<'_>| {
        let text = |key: &str| node.given(key).and_then(Node::text).map(str::to_owned);
        let mut scopes: Vec<String> =
            node.given("scopes").into_iter().flat_map(Node::entries).map(|(name, _)| name.to_owned()).collect();
        scopes.sort();
        OauthFlow { grant, authorization_url: text("authorizationUrl"), token_url: text("tokenUrl"), scopes }
    };
    if let Some(name) = node.given("flow").and_then(Node::text) {
        return match Grant::NAMES.iter().find(|(_, _, swagger, _)| *swagger == name) {
            Some((grant, ..)) => vec![flow(*grant, node)],
            None => {
                report.warn(node.diagnostic(
                    Code::PassedOver,
                    format!("the OAuth flow '{}' is not known and is passed over", crate::tree::parse::short(name)),
                ));
                Vec::new()
            }
        };
    }
    let mut found = Vec::new();
    for (name, node) in node.given("flows").into_iter().flat_map(Node::entries) {
        match Grant::NAMES.iter().find(|(_, openapi, ..)| *openapi == name) {
            Some((grant, ..)) => found.push(flow(*grant, node)),
            None if name.starts_with("x-") => {}
            None => report.warn(node.diagnostic(
                Code::PassedOver,
                format!("the OAuth flow '{}' is not known and is passed over", crate::tree::parse::short(name)),
            )),
        }
    }
    found.sort_by_key(|f| f.grant as u8);
    found
}

/// `security` of the document or an operation; `None` when it is not there and what is above applies. Every scheme that
/// is named must be defined.
pub(crate) fn requirements(parent: Node<'_>, builder: &mut Builder<'_, '_>) -> Option<Security> {
    let node = parent.given("security")?;
    if !node.is_list() {
        let text = format!("'security' is a list of requirements, but this is {}", node.what());
        builder.report.error(node.diagnostic(Code::Invalid, text));
        return None;
    }
    let mut alternatives = Vec::new();
    for item in node.items() {
        let mut requirement = Requirement::new();
        for (name, scopes) in item.entries() {
            if !builder.api.security_schemes.contains_key(name) {
                let text = format!("the security scheme '{}' is not defined", crate::tree::parse::short(name));
                builder.report.error(item.diagnostic_at_key(name, Code::BadReference, text));
            }
            requirement.insert(name.to_owned(), scopes.items().filter_map(Node::text).map(str::to_owned).collect());
        }
        alternatives.push(requirement);
    }
    Some(Security(alternatives).normalised())
}

/// As [`requirements`], for dialects without a place for definitions: a name, a list of names, or requirements; a scheme
/// that nothing defines gets the meaning that its name suggests.
pub(crate) fn loose_requirements(parent: Node<'_>, builder: &mut Builder<'_, '_>) -> Option<Security> {
    let node = parent.given("security")?;
    let mut alternatives = Vec::new();
    let listed: Vec<Node<'_>> = if node.is_list() { node.items().collect() } else { vec![node] };
    for item in listed {
        let mut requirement = Requirement::new();
        if let Some(name) = item.text() {
            if !name.eq_ignore_ascii_case("none") && !name.is_empty() {
                requirement.insert(name.to_owned(), Vec::new());
            }
        } else if let Some(scheme) =
            item.given("type").filter(|t| t.str().is_some()).and_then(|_| scheme(item, builder.report).ok())
        {
            // the scheme itself stands where its name is expected
            let name = item.given("type").and_then(Node::str).unwrap_or("scheme").to_owned();
            builder.api.security_schemes.entry(name.clone()).or_insert(scheme);
            requirement.insert(name, Vec::new());
        } else {
            for (name, scopes) in item.entries() {
                requirement.insert(name.to_owned(), scopes.items().filter_map(Node::text).map(str::to_owned).collect());
            }
        }
        for name in requirement.keys() {
            if !builder.api.security_schemes.contains_key(name) {
                let assumed = build::assumed_scheme(name);
                let text = format!(
                    "the security scheme '{}' is not defined; by its name it is taken to be {}",
                    crate::tree::parse::short(name),
                    describe(&assumed)
                );
                builder.report.warn(item.diagnostic(Code::Assumed, text));
                builder.api.security_schemes.insert(name.clone(), assumed);
            }
        }
        alternatives.push(requirement);
    }
    Some(Security(alternatives).normalised())
}

fn describe(scheme: &SecurityScheme) -> &'static str {
    match scheme {
        SecurityScheme::Http { scheme, .. } if scheme == "basic" => "HTTP basic",
        SecurityScheme::ApiKey { .. } => "a key in the header X-API-Key",
        _ => "a bearer token",
    }
}
