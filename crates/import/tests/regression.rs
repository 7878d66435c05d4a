//! What configurations that others published showed to be lost or wrong. `scripts/suites/41-real-imports.sh` imports those themselves.

use import::{Format, Imported, Kind, import_text};

fn made(format: Format, name: &str, text: &str) -> Imported {
    import_text(format, name, text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn nginx(inner: &str) -> Imported {
    made(Format::Nginx, "nginx.conf", &format!("http {{ {inner} }}"))
}

fn kong(text: &str) -> Imported {
    made(Format::Kong, "kong.yaml", text)
}

fn traefik(text: &str) -> Imported {
    made(Format::Traefik, "routes.toml", text)
}

/// Caddy with these handlers, in front of an upstream.
fn caddy(server: &str, handlers: &str) -> Imported {
    let proxy = r#"{"handler": "reverse_proxy", "upstreams": [{"dial": "app:80"}]}"#;
    let routes = format!(r#"{{"handle": [{handlers} {proxy}]}}"#);
    let servers = format!(r#"{{"s": {{"listen": [":80"], {server} "routes": [{routes}]}}}}"#);
    made(Format::Caddy, "caddy.json", &format!(r#"{{"apps": {{"http": {{"servers": {servers}}}}}}}"#))
}

/// `forward_auth auth:9091`, as `caddy adapt` writes it, with `more` in it.
fn forward_auth(request: &str, on_success: &str, more: &str) -> String {
    format!(
        r#"{{"handler": "reverse_proxy", "upstreams": [{{"dial": "auth:9091"}}], "rewrite": {{"method": "GET", "uri": "/verify"}}, {more}
        "headers": {{"request": {{"set": {{"X-Forwarded-Method": ["{{http.request.method}}"], "X-Forwarded-Uri": ["{{http.request.uri}}"] {request}}}}}}},
        "handle_response": [{{"match": {{"status_code": [2]}}, "routes": [{{"handle": [{{"handler": "vars"}}]}}, {on_success}]}}]}},"#
    )
}

/// A field of the service's response for the upstream.
fn copied(from: &str, to: &str) -> String {
    let unless = format!(r#"[{{"not": [{{"vars": {{"{{http.reverse_proxy.header.{from}}}": [""]}}}}]}}]"#);
    format!(
        r#"{{"handle": [{{"handler": "headers", "request": {{"delete": ["{to}"]}}}}]}},
        {{"handle": [{{"handler": "headers", "request": {{"set": {{"{to}": ["{{http.reverse_proxy.header.{from}}}"]}}}}}}], "match": {unless}}}"#
    )
}

const SERVICES: &str =
    "[http.services.s.loadBalancer]\n[[http.services.s.loadBalancer.servers]]\nurl = 'http://10.0.0.1:80'\n";

#[test]
fn expressions_of_kong_before_3_have_no_tilde() {
    let file = |version: &str| {
        let paths = r"['/a/(?<id>[^\/]+)$', /plain]";
        kong(&format!(
            "_format_version: '{version}'\nservices: [{{name: s, url: 'http://10.0.0.1', routes: [{{name: r, strip_path: false, paths: {paths}}}]}}]"
        ))
    };
    for version in ["1.1", "2.1"] {
        let imported = file(version);
        assert!(imported.yaml.contains("{path: \"/a/{id_2}\"}"), "{}", imported.yaml);
        assert!(imported.yaml.contains("path: /plain/*"), "{}", imported.yaml);
        assert_eq!(imported.report.count(Kind::LeftOut), 0, "{}", imported.report.to_text());
    }
    assert_eq!(file("3.0").report.count(Kind::LeftOut), 1, "a path of 3.0 is an expression by its tilde alone");
}

#[test]
fn a_target_of_kong_that_is_named_twice_has_the_weight_of_both() {
    let imported = kong(
        "_format_version: '3.0'\nupstreams: [{name: u, targets: [{target: 'a:80'}, {target: 'b:80'}, {target: 'a:80'}]}]\n\
         services: [{name: s, host: u, routes: [{name: r, paths: [/]}]}]",
    );
    let targets = "targets: [{url: http://a:80, weight: 200}, {url: http://b:80, weight: 100}]";
    assert!(imported.yaml.contains(targets), "{}", imported.yaml);
}

#[test]
fn options_of_traefik_are_read_in_any_case_and_from_toml() {
    let imported = traefik(&format!(
        "[entryPoints.web]\nAddress = ':8000'\n[http.routers.Rule]\nRule = 'Path(`/a`)'\nService = 's'\nMiddlewares = ['limit']\n\
         [http.middlewares.limit.ratelimit]\naverage = 2\nburst = 3\n{SERVICES}[http.services.s.loadBalancer.healthcheck]\npath = '/health'\n"
    ));
    let has = |part: &str| assert!(imported.yaml.contains(part), "{part}: {}", imported.yaml);
    has("# routes.toml:1\nlisten: 0.0.0.0:8000");
    has("name: Rule");
    has("match: {path: /a}");
    has("algorithm: token_bucket");
    has("health: {path: /health");
    assert_eq!(imported.report.count(Kind::LeftOut), 0, "{}", imported.report.to_text());
}

#[test]
fn broken_toml_is_refused_with_its_line() {
    let read = |text: &str| import_text(Format::Traefik, "routes.toml", text).unwrap_err().to_string();
    assert!(
        read("[http]\na = 1\na = 2\n").starts_with("routes.toml:3: is not valid TOML"),
        "{}",
        read("[http]\na = 1\na = 2\n")
    );
    for deep in ["[", "{a=", "[[a]]\nb=["] {
        assert!(read(&format!("http = {}", deep.repeat(100_000))).contains("TOML"));
    }
    let dotted = format!("http.{}a = 1", "a.".repeat(100_000));
    assert!(read(&dotted).contains("TOML"));
}

#[test]
fn routers_behind_routers_of_traefik_are_not_open() {
    let imported = traefik(&format!(
        "[http.routers.parent]\nrule = 'PathPrefix(`/x`)'\nmiddlewares = ['auth']\n\
         [http.routers.child]\nrule = 'Header(`X-Role`, `admin`)'\nservice = 's'\nparentRefs = ['parent']\n\
         [http.middlewares.auth.forwardAuth]\naddress = 'http://auth/'\n{SERVICES}"
    ));
    assert!(!imported.yaml.contains("upstream: s"), "{}", imported.yaml);
    assert!(imported.yaml.contains("path: /x/*}\n    respond: {status: 501"), "{}", imported.yaml);
}

#[test]
fn a_router_of_traefik_that_redirects_to_https_gives_way_to_the_one_behind_tls() {
    let both = |rule: &str| {
        traefik(&format!(
            "[http.routers.plain]\nrule = '{rule}'\nmiddlewares = ['https']\nservice = 's'\n\
             [http.routers.secure]\nrule = 'Host(`a.example`)'\nservice = 's'\n[http.routers.secure.tls]\n\
             [http.middlewares.https.redirectScheme]\nscheme = 'https'\n{SERVICES}"
        ))
    };
    let imported = both("Host(`a.example`)");
    assert!(!imported.yaml.contains("redirect:") && imported.yaml.contains("upstream: s"), "{}", imported.yaml);
    // Another rule serves other requests, and so it stays.
    let imported = both("Host(`a.example`) && Path(`/x`)");
    assert!(imported.yaml.contains("redirect: {to: https://a.example/x"), "{}", imported.yaml);
}

#[test]
fn redirections_of_an_entry_point_are_in_the_report() {
    let imported = traefik(&format!(
        "[entryPoints.web]\naddress = ':80'\n[entryPoints.web.http.redirections.entryPoint]\nto = 'websecure'\n\
         [entryPoints.web.forwardedHeaders]\ntrustedIPs = ['10.0.0.0/8']\n[entryPoints.web.proxyProtocol]\ninsecure = true\n\
         [http.routers.r]\nrule = 'Path(`/a`)'\nservice = 's'\n{SERVICES}"
    ));
    assert_eq!(imported.report.count(Kind::LeftOut), 2, "{}", imported.report.to_text());
    assert!(imported.yaml.contains("trusted_proxies: [10.0.0.0/8]"), "{}", imported.yaml);
}

/// `trusted_proxies` holds for every listener: nobody may be believed at one because another entry point believes him.
#[test]
fn what_one_of_several_entry_points_believes_is_not_believed_at_all() {
    let imported = traefik(&format!(
        "[entryPoints.web]\naddress = ':80'\n[entryPoints.web.forwardedHeaders]\ntrustedIPs = ['10.0.0.0/8']\n\
         [entryPoints.internal]\naddress = ':81'\n[http.routers.r]\nrule = 'Path(`/a`)'\nservice = 's'\n{SERVICES}"
    ));
    assert!(!imported.yaml.contains("trusted_proxies"), "{}", imported.yaml);
    assert!(
        imported.report.to_text().contains("left out: forwardedHeaders of entryPoint web"),
        "{}",
        imported.report.to_text()
    );
}

#[test]
fn mirrors_of_traefik_get_copies() {
    let imported = traefik(&format!(
        "[http.routers.r]\nrule = 'Path(`/a`)'\nservice = 'm'\n[http.services.m.mirroring]\nservice = 's'\n\
         [[http.services.m.mirroring.mirrors]]\nname = 'copy'\npercent = 10\n[[http.services.m.mirroring.mirrors]]\nname = 's'\npercent = 5\n\
         [http.services.copy.loadBalancer]\n[[http.services.copy.loadBalancer.servers]]\nurl = 'http://10.0.0.2:80'\n{SERVICES}"
    ));
    assert!(imported.yaml.contains("mirror: {upstream: copy, share: \"10%\""), "{}", imported.yaml);
    assert_eq!(imported.report.count(Kind::LeftOut), 1, "{}", imported.report.to_text());
}

#[test]
fn a_service_of_traefik_that_is_a_part_of_several_is_one_target() {
    let part = |name: &str, of: [&str; 2]| {
        let parts =
            of.map(|inner| format!("[[http.services.{name}.weighted.services]]\nname = '{inner}'\nweight = 1\n"));
        format!("[http.services.{name}.weighted]\n{}", parts.concat())
    };
    let server = |name: &str| {
        format!(
            "[http.services.{name}.loadBalancer]\n[[http.services.{name}.loadBalancer.servers]]\nurl = 'http://{name}:80'\n"
        )
    };
    let parts = part("all", ["ab", "ac"]) + &part("ab", ["a", "b"]) + &part("ac", ["a", "c"]);
    let imported = traefik(&format!(
        "[http.routers.r]\nrule = 'Path(`/a`)'\nservice = 'all'\n{parts}{}{}{}",
        server("a"),
        server("b"),
        server("c")
    ));
    let targets =
        "targets: [{url: http://a:80, weight: 2}, {url: http://b:80, weight: 1}, {url: http://c:80, weight: 1}]";
    assert!(imported.yaml.contains(targets), "{}", imported.yaml);
}

#[test]
fn a_target_of_nginx_may_end_with_the_uri_alone() {
    for target in ["http://$app:8080$request_uri", "http://$app:8080/$request_uri", "http://app:8080$request_uri"] {
        let imported = nginx(&format!("server {{ location /a/ {{ set $app app; proxy_pass {target}; }} }}"));
        assert!(imported.yaml.contains("targets: [http://app:8080]"), "{target}: {}", imported.yaml);
        assert!(!imported.yaml.contains("501") && !imported.yaml.contains("prefix"), "{target}: {}", imported.yaml);
    }
    let imported = nginx("server { location /a/ { proxy_pass http://$http_x$request_uri; } }");
    assert!(imported.yaml.contains("status: 501"), "{}", imported.yaml);
}

#[test]
fn a_location_of_nginx_that_only_rewrites_for_good_is_a_redirect() {
    let imported = nginx("server { location /old/ { rewrite ^/old/(.*)$ /new/$1 permanent; } }");
    assert!(imported.yaml.contains("redirect: {to: /new/*, status: 301}"), "{}", imported.yaml);
    // Of another path it is one of several, which Weir cannot order.
    let imported = nginx("server { location /old/ { rewrite ^/older/(.*)$ /new/$1 permanent; } }");
    assert!(imported.yaml.contains("status: 501"), "{}", imported.yaml);
}

#[test]
fn compression_of_nginx_is_compression_but_where_lengths_tell_secrets() {
    let gzip = "gzip on; gzip_types application/json text/html bad; gzip_min_length 1000; gzip_comp_level 6;";
    let imported = nginx(&format!("{gzip} server {{ location / {{ proxy_pass http://a; }} }}"));
    let written = "compress: {codings: [gzip], min: 1000B, types: [text/html, application/json], levels: {gzip: 6}}";
    assert!(imported.yaml.contains(written), "{}", imported.yaml);
    let secret = "auth_basic x; auth_basic_user_file u;";
    let imported = nginx(&format!("{gzip} server {{ location / {{ {secret} proxy_pass http://a; }} }}"));
    assert!(!imported.yaml.contains("compress:"), "{}", imported.yaml);
    assert!(imported.report.to_text().contains("compression of a route with `auth`"), "{}", imported.report.to_text());
}

#[test]
fn a_field_that_a_map_of_nginx_leaves_as_it_is_passes() {
    let with = |entries: &str| {
        let server = "server { location / { proxy_set_header X-Org $org; proxy_pass http://a; } }";
        nginx(&format!("map $http_x_org $org {{ {entries} }} {server}")).yaml.contains("remove: [X-Org]")
    };
    assert!(!with("default $http_x_org; \"\" anonymous;"));
    // Here nginx writes what clients cannot choose.
    assert!(with("default none; \"\" anonymous;"));
    assert!(with("default $http_x_org; admin nobody;"));
}

#[test]
fn forward_auth_of_caddy_is_called_or_the_route_is_closed() {
    let authorizations = |imported: &Imported| {
        let open = imported.yaml.contains("auth: [auth]") && imported.yaml.contains("upstream: app-80");
        assert!(open != imported.yaml.contains("501"), "{}", imported.yaml);
        open
    };
    let imported = caddy("", &forward_auth("", &copied("Remote-User", "Remote-User"), ""));
    assert!(
        authorizations(&imported) && imported.yaml.contains("{url: http://auth:9091/verify, copy: [Remote-User]}"),
        "{}",
        imported.yaml
    );
    // A name of its own cannot be copied, and must not come from a client either.
    let imported = caddy("", &forward_auth("", &copied("Remote-User", "X-User"), ""));
    assert!(authorizations(&imported) && imported.yaml.contains("remove: [X-User]"), "{}", imported.yaml);
    for (request, on_success, more) in [
        (r#", "X-Rule": ["admin"]"#, copied("A", "A"), ""),
        ("", copied("Authorization", "Authorization"), ""),
        ("", copied("A", "A"), r#""transport": {"protocol": "http", "tls": {}},"#),
        ("", r#"{"handle": [{"handler": "headers", "request": {"delete": ["Cookie"]}}]}"#.to_owned(), ""),
        ("", r#"{"handle": [{"handler": "static_response", "status_code": 200}]}"#.to_owned(), ""),
        ("", r#"{"match": [{"path": ["/x"]}], "handle": [{"handler": "vars"}]}"#.to_owned(), ""),
    ] {
        let imported = caddy("", &forward_auth(request, &on_success, more));
        assert!(!authorizations(&imported), "{request} {on_success} {more}: {}", imported.yaml);
    }
    // Both have to accept.
    let basic = r#"{"handler": "authentication", "providers": {"http_basic": {"accounts": []}}},"#;
    let imported = caddy("", &(basic.to_owned() + &forward_auth("", &copied("A", "A"), "")));
    assert!(imported.yaml.contains("auth: [[users, auth]]"), "{}", imported.yaml);
}

#[test]
fn named_routes_of_caddy_are_read_where_they_are_invoked() {
    let guard = r#"{"handler": "authentication", "providers": {"http_basic": {"accounts": []}}}"#;
    let named = format!(r#""named_routes": {{"guard": {{"handle": [{guard}]}}}},"#);
    let imported = caddy(&named, r#"{"handler": "invoke", "name": "guard"},"#);
    assert!(imported.yaml.contains("auth: [users]"), "{}", imported.yaml);
    let imported = caddy(&named, r#"{"handler": "invoke", "name": "other"},"#);
    assert!(imported.yaml.contains("501") && !imported.yaml.contains("upstream: app"), "{}", imported.yaml);
    // One that invokes itself ends.
    let named = r#""named_routes": {"a": {"handle": [{"handler": "invoke", "name": "a"}]}},"#;
    let imported = caddy(named, r#"{"handler": "invoke", "name": "a"},"#);
    assert!(imported.report.to_text().contains("nested too deeply"), "{}", imported.report.to_text());
}

#[test]
fn a_place_of_litellm_may_be_a_variable_and_ollama_has_an_interface_for_openai() {
    let file = |params: &str| {
        let text = format!("model_list: [{{model_name: m, litellm_params: {{{params}}}}}]");
        made(Format::Litellm, "config.yaml", &text).yaml
    };
    let yaml = file("model: openai/x, api_base: os.environ/PLACE, api_key: os.environ/KEY");
    assert!(yaml.contains("targets: [\"${PLACE}\"]") && yaml.contains("keys: [\"${KEY}\"]"), "{yaml}");
    for base in ["", ", api_base: 'http://localhost:11434'", ", api_base: 'http://localhost:11434/v1'"] {
        let yaml = file(&format!("model: ollama/llama3{base}"));
        assert!(yaml.contains("targets: [http://localhost:11434]") && !yaml.contains("base:"), "{yaml}");
    }
}
