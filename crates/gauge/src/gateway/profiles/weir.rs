//! Weir: `global` are sections of the file, `route` are keys of each route.

use super::{Additions, Answer, file, listens, nothing_more};
use crate::profile::token::{AUDIENCE, Algorithm, ISSUER, SECRET};
use crate::profile::{
    CONSUMER, Jwt, KeyAuth, Profile, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, RateLimit, SET,
};

pub(in crate::gateway) fn additions(profile: &Profile) -> Answer {
    match profile {
        // With TLS it takes HTTP/2 by ALPN by itself.
        Profile::PassThrough | Profile::Life(_) | Profile::Streams | Profile::LargeBodies | Profile::Tls(_) => {
            nothing_more()
        }
        Profile::KeyAuth(auth) => Ok(key_auth(auth)),
        Profile::Headers(_) => Ok(headers()),
        Profile::RateLimit(limit) => Ok(rate_limit(limit)),
        Profile::Cache => Ok(section("caches: {responses: {mode: http}}\ndefaults: {cache: responses}")),
        Profile::Jwt(jwt) => Ok(tokens(jwt)),
        Profile::WebSocket(_) => Ok(Additions {
            route: "\n    upgrade: [websocket]\n    timeouts: {tunnel_idle: 1h}".to_owned(),
            ..Additions::default()
        }),
        Profile::Http2(_) => listens(", http2: prior_knowledge"),
        Profile::Grpc(grpc) => listens(if grpc.tls { "" } else { ", http2: prior_knowledge" }),
    }
}

fn section(text: &str) -> Additions {
    Additions { global: format!("\n{text}\n"), ..Additions::default() }
}

fn key_auth(auth: &KeyAuth) -> Additions {
    let entry = |(n, (key, consumer)): (usize, (String, String))| {
        format!("- {{\"id\": \"k{n}\", \"sha256\": \"{}\", \"consumer\": \"{consumer}\"}}\n", sha256(&key))
    };
    Additions {
        files: vec![file("keys.yaml", auth.credentials().enumerate().map(entry))],
        ..section(&format!(
            "auth:\n  keys:\n    api_key:\n      in: [header:{}]\n      store: {{file: keys.yaml}}\n      headers: {{{CONSUMER}: consumer}}\n\
             defaults: {{auth: keys}}",
            auth.header
        ))
    }
}

fn sha256(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn headers() -> Additions {
    let route = format!(
        "\n    headers:\n      request: {{set: {{{REQUEST_SET}: {SET}}}, remove: [{REQUEST_REMOVED}]}}\n      \
         response: {{set: {{{RESPONSE_SET}: {SET}}}, remove: [{RESPONSE_REMOVED}]}}"
    );
    Additions { route, ..Additions::default() }
}

fn rate_limit(limit: &RateLimit) -> Additions {
    section(&format!(
        "limits:\n  clients: {{key: header:{}, rate: {}/s, burst: {}}}\ndefaults: {{limits: [clients]}}",
        limit.header, limit.rate, limit.burst
    ))
}

fn tokens(jwt: &Jwt) -> Additions {
    let (key, files) = match jwt.algorithm {
        Algorithm::HS256 => (format!("secret: {SECRET}"), Vec::new()),
        Algorithm::RS256 => {
            ("jwks: {file: jwks.json}".to_owned(), vec![file("jwks.json", std::iter::once(jwt.key_set()))])
        }
    };
    let section = section(&format!(
        "auth:\n  tokens:\n    jwt:\n      issuer: {ISSUER}\n      audience: {AUDIENCE}\n      {key}\n      headers: {{{CONSUMER}: sub}}\n\
         defaults: {{auth: tokens}}"
    ));
    Additions { files, ..section }
}
