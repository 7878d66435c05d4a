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
        ("", "auth_request /nowhere;"),
        ("location = /ask { proxy_pass http://$x; }", "auth_request /ask;"),
        ("location = /ask { return 200; }", "auth_request /ask;"),
        ("location = /ask { if ($a) { return 204; } proxy_pass http://b; }", "auth_request /ask;"),
        ("location = /ask { proxy_set_header X-Rule $args; proxy_pass http://b; }", "auth_request /ask;"),
        ("location /as { proxy_pass http://b; } location ~ ^/ask { return 200; }", "auth_request /ask;"),
        ("", "satisfy any; allow 10.0.0.0/8; deny all; auth_basic x; auth_basic_user_file u;"),
    ] {
        let made = nginx(server, location);
        let (_, route) = made.split_once("path: /a}").expect("its route");
        let route = route.split("  - match").next().unwrap_or_default();
        assert!(route.contains("status: 501") && !route.contains("upstream: b"), "{server}{location}: {made}");
    }
    for open in ["", "auth_jwt off;", "auth_ldap off;", "auth_request off;"] {
        assert!(nginx("ssl_verify_client optional;", open).contains("upstream: b"), "{open}");
    }
}

#[test]
fn methods_with_more_conditions_in_nginx_are_closed() {
    let made = nginx("", "limit_except GET { auth_basic x; auth_basic_user_file u; }");
    let (first, rest) = made.split_once("methods: [GET]").expect("a route of GET");
    assert!(!first.contains("upstream: b") && rest.contains("status: 501"), "{made}");
    assert_eq!(made.matches("upstream: b").count(), 1, "{made}");
}

#[test]
fn a_challenge_in_nginx_is_a_challenge_in_weir() {
    let authorize = "location = /ask { internal; proxy_pass http://b/verify; }";
    for (location, auth) in [
        ("auth_request /ask;", "auth: [ask]"),
        ("auth_request /ask; auth_basic x; auth_basic_user_file u;", "auth: [[users, ask]]"),
    ] {
        let made = nginx(authorize, location);
        assert!(made.contains(auth) && made.contains("path: /verify, mode: nginx"), "{made}");
        assert!(!made.contains("501"), "{made}");
    }
    // Inherited from the server, and turned off by a location.
    let server =
        format!("auth_request /ask; {authorize} location = /open {{ auth_request off; proxy_pass http://b; }}");
    let made = nginx(&server, "");
    assert_eq!(made.matches("auth: [ask]").count(), 1, "{made}");
}

#[test]
fn a_field_that_nginx_overwrites_does_not_pass_from_clients() {
    let made = nginx("", "proxy_set_header X-User $ssl_client_s_dn;");
    assert!(made.contains("headers: {request: {remove: [X-User]}}"), "{made}");
}

#[test]
fn what_a_service_decides_by_in_traefik_is_sent_to_it_or_the_route_is_closed() {
    let made = |more: &str| {
        let text = format!(
            "http: {{routers: {{a: {{rule: 'Path(`/a`)', service: s, middlewares: [m]}}}}, services: {{s: {{loadBalancer: {{servers: [{{url: 'http://127.0.0.1:1'}}]}}}}}}, \
             middlewares: {{m: {{forwardAuth: {{address: 'http://auth/x'{more}}}}}}}}}"
        );
        import_text(Format::Traefik, "routes.yaml", &text).expect("a file").yaml
    };
    let open = made(", authResponseHeaders: [X-User]");
    assert!(open.contains("auth: [m]") && open.contains("copy: [X-User]") && !open.contains("501"), "{open}");
    for more in [
        ", forwardBody: true",
        ", preserveRequestMethod: true",
        ", authResponseHeadersRegex: '^X-'",
        ", authResponseHeaders: [Authorization]",
        ", tls: {insecureSkipVerify: true}",
    ] {
        let closed = made(more);
        assert!(closed.contains("status: 501") && !closed.contains("upstream:"), "{more}: {closed}");
    }
}
