//! The model, and what every gateway promises.

mod adapters;
mod model;
mod policies;

use super::*;

/// An OpenAPI document with these paths.
fn api(servers: &str, paths: &str) -> apidoc::Api {
    let text = format!("openapi: 3.1.0\ninfo: {{title: T, version: '1'}}\nservers: [{servers}]\npaths:\n{paths}");
    apidoc::read_bytes("t.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}\n{text}")).api
}

#[test]
fn names_are_unique_and_found() {
    for gateway in all() {
        assert_eq!(by_name(gateway.name()).map(Gateway::title), Some(gateway.title()));
        assert!(gateway.locator().variable.starts_with("GAUGE_"), "{}", gateway.name());
    }
    assert!(by_name("other").is_none());
}

#[test]
fn versions_are_found_in_what_programs_print() {
    let nginx = by_name("nginx").unwrap();
    for (output, version) in [
        ("\nnginx version: nginx/1.22.1\n", "1.22.1"),
        ("HAProxy version 2.6.12-1+deb12u3 2025/10/03 - https://haproxy.org/\nStatus: ...", "2.6.12-1+deb12u3"),
        ("/x/envoy  version: 1a2b/1.40.0/Clean/RELEASE/BoringSSL", "1.40.0"),
        ("v2.11.2 h1:abc=", "2.11.2"),
        ("weir 0.1.0 (abc)", "0.1.0"),
        ("nothing", ""),
    ] {
        assert_eq!(nginx.read_version(output), version, "{output}");
    }
}
