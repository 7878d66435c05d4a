//! Security schemes of RAML ("Security Schemes"): four standard types, `Pass Through`, and `x-…`.

use crate::diagnostic::{Code, Report};
use crate::model::{Grant, KeyLocation, OauthFlow, SecurityScheme};
use crate::tree::Node;

/// The scheme that `node` declares.
pub(super) fn scheme(name: &str, node: Node<'_>, report: &mut Report) -> SecurityScheme {
    let settings = node.given("settings");
    if let Some(exact) = settings.and_then(|s| s.given("scheme")).filter(|s| s.is_map()) {
        // written by this crate for what RAML has no type for
        match crate::tree::decode(exact) {
            Ok(scheme) => return scheme,
            Err(error) => report.error(error),
        }
    }
    let kind = node.given("type").and_then(Node::text).unwrap_or("");
    let lower = kind.to_ascii_lowercase();
    match kind {
        "Basic Authentication" => return SecurityScheme::basic(),
        "Digest Authentication" => {
            return SecurityScheme::Http { scheme: "digest".to_owned(), bearer_format: None };
        }
        "OAuth 2.0" => {
            return SecurityScheme::Oauth2 { flows: flows(settings, report) };
        }
        "OAuth 1.0" => {
            return SecurityScheme::Http { scheme: "oauth".to_owned(), bearer_format: None };
        }
        "" => {
            report.error(node.diagnostic(Code::Invalid, format!("the security scheme '{name}' has no 'type'")));
            return SecurityScheme::bearer();
        }
        _ if kind != "Pass Through" && !lower.starts_with("x-") => {
            let text = format!(
                "the security scheme '{name}' has the type '{}', which RAML does not have; it is read as a custom one",
                crate::tree::parse::short(kind)
            );
            report.warn(node.diagnostic(Code::Assumed, text));
        }
        _ => {}
    }
    custom(name, node, &lower, report)
}

/// What a custom scheme requests is what it describes: a header or query parameter.
fn custom(name: &str, node: Node<'_>, kind: &str, report: &mut Report) -> SecurityScheme {
    let described = node.given("describedBy");
    let names = |key: &str| -> Vec<String> {
        let section = described.and_then(|d| d.given(key));
        section.into_iter().flat_map(Node::entries).map(|(name, _)| name.trim_end_matches('?').to_owned()).collect()
    };
    let (headers, queries) = (names("headers"), names("queryParameters"));
    let hint = format!("{kind} {}", name.to_ascii_lowercase());
    let by_name = ["bearer", "jwt", "token"].iter().any(|word| hint.contains(word));
    if headers.iter().any(|h| h.eq_ignore_ascii_case("authorization")) {
        if hint.contains("basic") {
            return SecurityScheme::basic();
        }
        if headers.len() + queries.len() > 1 {
            report.warn(node.diagnostic(
                Code::PassedOver,
                format!("of what the security scheme '{name}' describes, only the header Authorization is read"),
            ));
        }
        return match kind.starts_with("x-") || by_name {
            true => SecurityScheme::bearer(),
            false => SecurityScheme::ApiKey { location: KeyLocation::Header, name: "Authorization".to_owned() },
        };
    }
    let key =
        headers.first().map(|h| (KeyLocation::Header, h)).or_else(|| queries.first().map(|q| (KeyLocation::Query, q)));
    if let Some((location, key)) = key {
        if headers.len() + queries.len() > 1 {
            report.warn(node.diagnostic(
                Code::PassedOver,
                format!("of what the security scheme '{name}' describes, only '{key}' is read"),
            ));
        }
        return SecurityScheme::ApiKey { location, name: key.clone() };
    }
    if !by_name {
        report.warn(node.diagnostic(
            Code::Assumed,
            format!("the security scheme '{name}' does not describe its credentials; a bearer token is assumed"),
        ));
    }
    SecurityScheme::bearer()
}

fn flows(settings: Option<Node<'_>>, report: &mut Report) -> Vec<OauthFlow> {
    let Some(settings) = settings else {
        return Vec::new();
    };
    let text = |key: &str| settings.given(key).and_then(Node::text).map(str::to_owned);
    let mut scopes: Vec<String> =
        settings.given("scopes").into_iter().flat_map(Node::items).filter_map(Node::text).map(str::to_owned).collect();
    scopes.sort();
    let grants = settings.given("authorizationGrants");
    let listed: Vec<Node<'_>> =
        grants.map(|g| if g.is_list() { g.items().collect() } else { vec![g] }).unwrap_or_default();
    let mut found = Vec::new();
    for grant in listed {
        let name = grant.text().unwrap_or("");
        // the names of RAML 0.8, still in use
        let name = match name {
            "code" => "authorization_code",
            "token" => "implicit",
            "credentials" => "client_credentials",
            "owner" => "password",
            other => other,
        };
        match Grant::NAMES.iter().find(|(_, _, _, raml)| *raml == name) {
            Some((grant, ..)) => {
                let has_user_input = matches!(grant, Grant::AuthorizationCode | Grant::Implicit);
                let gets_token = *grant != Grant::Implicit;
                found.push(OauthFlow {
                    grant: *grant,
                    authorization_url: text("authorizationUri").filter(|_| has_user_input),
                    token_url: text("accessTokenUri").filter(|_| gets_token),
                    scopes: scopes.clone(),
                });
            }
            None => report.warn(grant.diagnostic(
                Code::PassedOver,
                format!("the grant '{}' is not known and is passed over", crate::tree::parse::short(name)),
            )),
        }
    }
    found.sort_by_key(|f| f.grant as u8);
    found.dedup();
    found
}
