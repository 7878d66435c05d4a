//! What is protected in the source is not open in what is made of it.

use import::{Format, import_text};

/// The file that is made of a server with one location in it.
fn nginx(server: &str, location: &str) -> String {
    let text = format!(
        "http {{ upstream b {{ server 127.0.0.1:1; }} server {{ listen 80; {server} location = /a {{ {location} proxy_pass http://b; }} }} }}"
    );
    import_text(Format::Nginx, "nginx.conf", &text).expect("a file").yaml
}

#[test]
fn what_something_else_decides_in_nginx_is_closed() {
    for (server, location) in [
        ("ssl_verify_client on;", ""),
        ("", "access_by_lua_block { ngx.exit(403) }"),
        ("", "auth_jwt x;"),
        ("", "auth_ldap x;"),
        ("", "auth_digest x;"),
        ("", "auth_request /auth;"),
        ("", "satisfy any; allow 10.0.0.0/8; deny all; auth_basic x; auth_basic_user_file u;"),
    ] {
        let made = nginx(server, location);
        assert!(made.contains("status: 501") && !made.contains("upstream: b"), "{server}{location}: {made}");
    }
    for open in ["", "auth_jwt off;", "auth_ldap off;"] {
        assert!(nginx("ssl_verify_client optional;", open).contains("upstream: b"), "{open}");
    }
}

#[test]
fn methods_that_ask_for_more_in_nginx_are_closed() {
    let made = nginx("", "limit_except GET { auth_basic x; auth_basic_user_file u; }");
    let (first, rest) = made.split_once("methods: [GET]").expect("a route of GET");
    assert!(!first.contains("upstream: b") && rest.contains("status: 501"), "{made}");
    assert_eq!(made.matches("upstream: b").count(), 1, "{made}");
}
