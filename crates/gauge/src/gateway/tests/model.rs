use std::collections::BTreeMap;

use super::super::*;
use super::api;

const SERVER: &str = "{url: 'http://127.0.0.1:9000/v1'}";

fn model(paths: &str) -> Model {
    Model::new(&api(SERVER, paths), &Options::default()).unwrap()
}

fn reasons(servers: &str, paths: &str, upstreams: &[(&str, &str)]) -> String {
    let upstreams: BTreeMap<_, _> = upstreams.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    Model::new(&api(servers, paths), &Options { upstreams, ..Options::default() }).expect_err("an error").to_string()
}

fn get(path: &str, id: &str) -> String {
    format!("  '{path}': {{get: {{operationId: {id}, responses: {{}}}}}}\n")
}

#[test]
fn an_operation_becomes_a_route() {
    let text = "  /bids/{id}:
    post:
      operationId: bid
      security: [{key: []}]
      parameters: [{name: id, in: path, required: true}, {name: sort, in: query}, {name: X-Trace, in: header}]
      requestBody: {content: {application/json: {}}}
      responses: {}
components: {securitySchemes: {key: {type: apiKey, in: query, name: api_key}}}
";
    let model = model(text);
    let route = &model.routes[0];
    assert_eq!((route.id.as_str(), route.method), ("bid", apidoc::Method::Post));
    assert_eq!(route.template(), "/v1/bids/{id}");
    assert!(route.protected);
    assert_eq!(route.query, ["api_key", "sort"]);
    assert_eq!(route.request_headers, ["content-type", "x-trace"]);
    let upstream = &model.upstreams[route.upstream];
    assert_eq!((upstream.name.as_str(), upstream.address().as_str()), ("u_127_0_0_1_9000", "127.0.0.1:9000"));
    assert!(upstream.is_ip());
}

#[test]
fn paths_are_in_the_order_in_which_they_match() {
    let text: String = ["/{a}/x", "/a/{b}", "/a/{b}.json", "/a/long-{b}.json", "/a/b", "/a", "/"]
        .iter()
        .enumerate()
        .map(|(i, path)| get(path, &format!("o{i}")))
        .collect();
    let model = model(&text);
    let order: Vec<String> = model.paths.iter().map(PathEntry::template).collect();
    assert_eq!(order, ["/v1/a", "/v1/", "/v1/a/b", "/v1/a/long-{b}.json", "/v1/a/{b}.json", "/v1/a/{b}", "/v1/{a}/x"]);
}

#[test]
fn get_brings_head_unless_head_is_described() {
    let methods = |text: &str| model(text).paths[0].methods().map(apidoc::Method::as_str).collect::<Vec<_>>();
    assert_eq!(methods("  /a: {post: {responses: {}}, get: {responses: {}}}\n"), ["POST", "GET", "HEAD"]);
    let own = "  /a: {get: {responses: {}}, head: {servers: [{url: 'http://h:1/v1'}], responses: {}}}\n";
    assert_eq!(methods(own), ["GET", "HEAD"]);
    assert_eq!(model(own).paths[0].targets.len(), 2);
}

#[test]
fn an_override_puts_an_upstream_elsewhere() {
    let api = api("{url: 'https://api.example.com/v1'}, {url: 'https://other'}", &get("/a", "a"));
    let upstreams = BTreeMap::from([("https://api.example.com".to_owned(), "http://[::1]:81".to_owned())]);
    let model = Model::new(&api, &Options { upstreams, ..Options::default() }).unwrap();
    let upstream = &model.upstreams[0];
    assert_eq!((upstream.url().as_str(), upstream.origin.as_str()), ("http://[::1]:81", "https://api.example.com"));
    let plain = Model::new(&api, &Options::default()).unwrap();
    assert_eq!((plain.upstreams[0].authority().as_str(), plain.upstreams[0].port), ("api.example.com", 443));
}

#[test]
fn an_upstream_may_have_a_base_path() {
    let api = api(SERVER, &get("/a", "a"));
    for (url, base) in [("http://h:1/base", "/base"), ("http://h:1/a/b%2Bc/", "/a/b%2Bc"), ("http://h:1/", "")] {
        let upstreams = BTreeMap::from([("http://127.0.0.1:9000".to_owned(), url.to_owned())]);
        let model = Model::new(&api, &Options { upstreams, ..Options::default() }).unwrap();
        let upstream = &model.upstreams[0];
        assert_eq!((upstream.base.as_str(), upstream.address().as_str()), (base, "h:1"));
        for gateway in all() {
            let written = gateway.files(&model, &Placement::new("127.0.0.1:8080".parse().unwrap(), "/srv")).unwrap();
            let has = written.files.iter().any(|file| file.text.replace("%%", "%").contains(base));
            assert!(has, "{}: {:?}", gateway.name(), written.files);
        }
    }
}

#[test]
fn servers_that_are_not_used_are_told() {
    let api = api("{url: 'https://a/v1'}, {url: 'https://b/v1'}", &(get("/a", "a") + &get("/b", "b")));
    let notes = Model::new(&api, &Options::default()).unwrap().notes;
    assert_eq!(
        notes,
        ["the server 'https://b/v1' is not used: requests go to the first that is listed, 'https://a/v1'"]
    );
}

#[test]
fn a_parameter_may_hold_slashes() {
    let path = |path: &str, id: &str| {
        format!(
            "  '{path}': {{get: {{operationId: {id}, parameters: [{{name: p, in: path, required: true, x-multi-segment: true, schema: {{type: string}}}}], responses: {{}}}}}}\n"
        )
    };
    let model = model(&(path("/a/{p}", "all") + &path("/a/{p}/status", "status") + &get("/a/{x}/{y}", "two")));
    let order: Vec<String> = model.paths.iter().map(PathEntry::template).collect();
    assert_eq!(order, ["/v1/a/{x}/{y}", "/v1/a/{p}/status", "/v1/a/{p}"]);
    let files = |name: &str| {
        let written = by_name(name).unwrap().files(&model, &Placement::new("127.0.0.1:8080".parse().unwrap(), "/srv"));
        let written = written.unwrap();
        (written.files.into_iter().map(|file| file.text).collect::<String>(), written.notes)
    };
    for (name, text) in [
        ("nginx", "^/v1/a/[^/].*\\z"),
        ("haproxy", "^/v1/a/[^/].*/status$"),
        ("envoy", "/v1/a/[^/].*\""),
        ("traefik", "^/v1/a/[^/].*$"),
        ("caddy", "^/v1/a/[^/].*/status$"),
        ("kong", "~/v1/a/(?<p>[^#?/][^#?]*)$"),
        ("tyk", "/a/[^/].*$"),
        ("weir", "\"/v1/a/{p}/*\""),
        ("fiber", "\"/v1/a/{p}/*\""),
        ("spring", "/v1/a/{p}/**"),
    ] {
        assert!(files(name).0.contains(text), "{name}: {}", files(name).0);
    }
    // GitHub has both: the part of a segment and the parameter with slashes are one segment to Weir, and one route.
    let both = self::model(&(path("/c/{p}", "all") + &get("/c/{x}...{y}", "two")));
    let weir =
        by_name("weir").unwrap().files(&both, &Placement::new("127.0.0.1:8080".parse().unwrap(), "/srv")).unwrap();
    assert_eq!(weir.files[0].text.matches("path: \"/v1/c/{p}\"").count(), 1, "{}", weir.files[0].text);
    // So has it one for a method and the other for another method.
    let text = path("/d/{p}", "all") + "  '/d/{x}': {delete: {operationId: d, responses: {}}}\n";
    let methods: Vec<_> = self::model(&text).paths[0].methods().collect();
    assert_eq!(methods, [apidoc::Method::Delete, apidoc::Method::Get, apidoc::Method::Head]);
    let narrowed = |path: &str| format!("{path} is matched only where {{p}} is one segment");
    for name in ["weir", "fiber", "spring", "krakend"] {
        let notes = files(name).1;
        assert!(notes.contains(&narrowed("/v1/a/{p}/status")), "{name}: {notes:?}");
        assert_eq!(notes.contains(&narrowed("/v1/a/{p}")), name == "krakend", "{name}: {notes:?}");
    }
}

#[test]
fn what_a_path_cannot_hold_is_encoded() {
    let model = model(&get("/a b/\u{fc}%41%2b%zz\"", "a"));
    assert_eq!(model.routes[0].template(), "/v1/a%20b/%C3%BCA%2B%25zz%22");
}

#[test]
fn every_reason_is_told_with_its_operation() {
    let here = |why: &str| why.to_owned();
    for (servers, paths, upstreams, expected) in [
        ("{url: /v1}", get("/a", "a"), vec![], here("operation 'a' (GET /a): the description does not say on which server")),
        ("{url: 'ftp://h/'}", get("/a", "a"), vec![], here("'ftp://h' is not the address of an upstream (only http and https are)")),
        (SERVER, get("/a", "a"), vec![("http://127.0.0.1:9000", "http://:1")], here("its host is invalid")),
        (SERVER, get("/a", "a"), vec![("http://127.0.0.1:9000", "http://h:0")], here("its port is not 1 to 65535")),
        (SERVER, get("/a", "a"), vec![("http://127.0.0.1:9000", "http://h/x?y")], here("its base path is not a plain path")),
        (SERVER, get("/a", "a"), vec![("http://127.0.0.1:9000", "http://h/x;y")], here("its base path has ;, which is syntax in configurations of gateways")),
        (SERVER, get("/a", "a"), vec![("http://127.0.0.1:9000", "http://h/$x")], here("its base path has $, which is syntax in configurations of gateways")),
        (SERVER, get("/a", "a"), vec![("http://127.0.0.1:9000", "http://h/x/../y")], here("a dot segment")),
        ("{url: /v1}", get("/a", "a") + &get("/b", "b") + &get("/c", "c"), vec![], here("operation 'a' (GET /a) and 2 more: the description does not say")),
        (SERVER, get("/a", "a"), vec![("http://h", "http://h:1")], here("no operation has the server 'http://h' that an address is given for; there are: 'http://127.0.0.1:9000'")),
        (SERVER, get("/a//b", "a"), vec![], here("two slashes in a row")),
        (SERVER, get("/a/../b", "a"), vec![], here("a dot segment")),
        (SERVER, get("/a%2Fb", "a"), vec![], here("an encoded slash")),
        (SERVER, get("/a{b}{c}", "a"), vec![], here("nothing stands between two parameters")),
        (
            SERVER,
            "  /a/{x}: {get: {operationId: a, servers: [{url: 'http://h:1/v1'}], responses: {}}}\n  /a/{y}: {get: {operationId: b, servers: [{url: 'http://h:2/v1'}], responses: {}}}\n".to_owned(),
            vec![],
            here("operations 'a' (GET /v1/a/{x}, http://h:1) and 'b' (GET /v1/a/{y}, http://h:2) are one to a gateway"),
        ),
        (SERVER, "  {}\n".to_owned(), vec![], here("has no operation")),
    ] {
        let told = reasons(servers, &paths, &upstreams);
        assert!(told.contains(&expected), "{told}\nshould say: {expected}");
    }
}

#[test]
fn two_origins_never_share_a_name() {
    let paths = "  /a: {get: {servers: [{url: 'http://a-b:1'}], responses: {}}, put: {servers: [{url: 'http://a.b:1'}], responses: {}}}\n";
    let model = model(paths);
    assert_eq!(model.upstreams.iter().map(|u| u.name.as_str()).collect::<Vec<_>>(), ["u_a_b_1", "u_a_b_1_2"]);
}
