//! The documented order, one rule a test.

use super::*;

/// The index of the route that takes `GET path` on `host`.
fn taken(routes: &[Route], host: &str, path: &str) -> Option<usize> {
    match get(&Table::new(routes), host, path, "GET", &[]) {
        Matched::Route(found) => Some(found.route.0),
        _ => None,
    }
}

fn at(path: &[u8]) -> Target<'_> {
    Target { path, query: None }
}

#[test]
fn regular_expressions_come_between_templates_and_wildcards_in_the_order_of_the_file() {
    let routes = [
        route("", "/*", &[], &[]),
        route("", "/v1/docs/*", &[], &[]),
        route("", "~/v[0-9]+/.*", &[], &[]),
        route("", "~/v1/.*", &[], &[]),
        route("", "~/v1/special", &["POST"], &[]),
        route("", "/v1/{id}", &[], &[]),
        route("", "/v1/fixed", &[], &[]),
        route("host.test", "~/.*x", &[], &[]),
    ];
    let at = |path| taken(&routes, "", path);
    assert_eq!(at("/v1/fixed"), Some(6));
    assert_eq!(at("/v1/any"), Some(5));
    assert_eq!(at("/v1/docs/a"), Some(2), "before the longest wildcard");
    assert_eq!(at("/v2/a/b"), Some(2));
    assert_eq!(at("/vx/a"), Some(0));
    assert_eq!(taken(&routes, "host.test", "/v1/fixed"), Some(6), "another host's");
    assert_eq!(taken(&routes, "host.test", "/v1/fix"), Some(7), "the host comes first");
}

#[test]
fn a_regular_expression_that_wants_another_method_leaves_the_request_to_the_next() {
    let routes =
        [route("", "~/a.*", &["POST"], &[]), route("", "~/ab.*", &["PUT"], &[]), route("", "/abc", &["GET"], &[])];
    let table = Table::new(&routes);
    assert!(matches!(get(&table, "", "/abc", "PUT", &[]), Matched::Route(found) if found.route.0 == 1));
    assert_eq!(get(&table, "", "/abc", "DELETE", &[]), Matched::Allow(vec!["GET".into(), "POST".into(), "PUT".into()]));
}

#[test]
fn conditions_on_fields_and_parameters() {
    let routes = [
        route("", "/a", &[], &[]),
        route("", "/a", &[], &[("?v", "2")]),
        route("", "/a", &[], &[("?v", "2"), ("x-tier", "~gold|silver")]),
        route("", "/b", &[], &[("?debug", "+")]),
        route("", "/b", &[], &[("x-old", "-"), ("?debug", "-")]),
    ];
    let table = Table::new(&routes);
    let index = |path: &str, fields: &[(&str, &str)]| match get(&table, "", path, "GET", fields) {
        Matched::Route(found) => Some(found.route.0),
        _ => None,
    };
    assert_eq!(index("/a", &[]), Some(0));
    assert_eq!(index("/a?v=22", &[]), Some(0));
    assert_eq!(index("/a?w=1&v=2", &[]), Some(1));
    assert_eq!(index("/a?%76=%32", &[]), Some(1), "no other spelling leads to another route");
    assert_eq!(index("/a?v=2", &[("x-tier", "silver")]), Some(2));
    assert_eq!(index("/a?v=2", &[("x-tier", "silvery")]), Some(1));
    assert_eq!(index("/b?debug", &[]), Some(3));
    assert_eq!(index("/b", &[]), Some(4));
    assert_eq!(index("/b", &[("x-old", "1")]), None);
}

#[test]
fn a_preflight_is_for_the_url_with_its_query() {
    let routes = [with_cors(route("", "/a", &["POST"], &[("?v", "2")])), route("", "/a", &[], &[])];
    let table = Table::new(&routes);
    let preflight = |query: Option<&[u8]>| table.lookup_preflight(b"", Target { path: b"/a", query }, b"POST");
    assert_eq!(preflight(Some(b"v=2")).map(|found| found.route.0), Some(0));
    assert_eq!(preflight(Some(b"v=3")), None);
    assert_eq!(preflight(None), None);
}

#[test]
fn host_exact_then_longest_suffix_then_any() {
    let routes = [
        route("", "/x", &[], &[]),
        route("*.example.com", "/*", &[], &[]),
        route("*.eu.example.com", "/*", &[], &[]),
        route("api.eu.example.com", "/*", &[], &[]),
    ];
    assert_eq!(taken(&routes, "api.eu.example.com", "/x"), Some(3));
    assert_eq!(taken(&routes, "API.EU.example.com.:8443", "/x"), Some(3));
    assert_eq!(taken(&routes, "www.eu.example.com", "/x"), Some(2));
    assert_eq!(taken(&routes, "a.b.eu.example.com", "/x"), Some(2));
    assert_eq!(taken(&routes, "www.example.com", "/x"), Some(1));
    assert_eq!(taken(&routes, "eu.example.com", "/x"), Some(1));
    assert_eq!(taken(&routes, "example.com", "/x"), Some(0), "a suffix wants a label in front of it");
    assert_eq!(taken(&routes, "badexample.com", "/x"), Some(0));
    assert_eq!(taken(&routes, "", "/x"), Some(0));
    assert_eq!(taken(&routes, "not a host", "/x"), Some(0));
    assert_eq!(taken(&routes, "example.com", "/y"), None);
}

#[test]
fn a_host_without_a_route_for_the_path_leaves_it_to_the_next() {
    let routes = [route("a.example", "/a", &[], &[]), route("", "/*", &[], &[])];
    assert_eq!(taken(&routes, "a.example", "/a"), Some(0));
    assert_eq!(taken(&routes, "a.example", "/b"), Some(1));
}

#[test]
fn path_exact_then_template_then_longest_wildcard() {
    let routes = [
        route("", "/*", &[], &[]),
        route("", "/a/*", &[], &[]),
        route("", "/a/b/*", &[], &[]),
        route("", "/a/{x}", &[], &[]),
        route("", "/a/b", &[], &[]),
        route("", "/{x}/b/{y}/*", &[], &[]),
    ];
    assert_eq!(taken(&routes, "", "/a/b"), Some(4));
    assert_eq!(taken(&routes, "", "/a/c"), Some(3));
    assert_eq!(taken(&routes, "", "/a/b/c"), Some(2));
    assert_eq!(taken(&routes, "", "/a/b/"), Some(2));
    assert_eq!(taken(&routes, "", "/a/c/d"), Some(1));
    assert_eq!(taken(&routes, "", "/a/"), Some(1), "a parameter is not empty, and `/a/*` holds `/a/`");
    assert_eq!(taken(&routes, "", "/a"), Some(0), "`/a/*` does not hold `/a`");
    assert_eq!(taken(&routes, "", "/a/b/c/d"), Some(5), "three segments before the wildcard are more than two");
    assert_eq!(taken(&routes, "", "/"), Some(0));
}

#[test]
fn of_two_templates_the_first_literal_from_the_left_decides() {
    let routes = [route("", "/{x}/b/c", &[], &[]), route("", "/a/{y}/c", &[], &[]), route("", "/a/b/{z}", &[], &[])];
    assert_eq!(taken(&routes, "", "/a/b/c"), Some(2));
    assert_eq!(taken(&routes, "", "/a/x/c"), Some(1));
    assert_eq!(taken(&routes, "", "/x/b/c"), Some(0));
}

#[test]
fn a_literal_that_leads_nowhere_is_left_again() {
    let routes = [route("", "/a/b/c", &[], &[]), route("", "/{x}/b/d", &[], &[]), route("", "/a/{y}/e", &[], &[])];
    assert_eq!(taken(&routes, "", "/a/b/d"), Some(1));
    assert_eq!(taken(&routes, "", "/a/b/e"), Some(2));
    assert_eq!(taken(&routes, "", "/a/b/f"), None);
}

#[test]
fn more_header_matches_first_then_the_order_of_the_file() {
    let routes = [
        route("", "/a", &[], &[]),
        route("", "/a", &[], &[("x", "1")]),
        route("", "/a", &[], &[("x", "1"), ("y", "1")]),
        route("", "/a", &[], &[("y", "1")]),
    ];
    let table = Table::new(&routes);
    let index = |fields: &[(&str, &str)]| match get(&table, "", "/a", "GET", fields) {
        Matched::Route(found) => found.route.0,
        other => panic!("{other:?}"),
    };
    assert_eq!(index(&[]), 0);
    assert_eq!(index(&[("x", "2")]), 0);
    assert_eq!(index(&[("x", "1")]), 1);
    assert_eq!(index(&[("y", "1")]), 3);
    assert_eq!(index(&[("x", "1"), ("y", "1")]), 2);
    assert_eq!(index(&[("x", "2"), ("x", "1")]), 1, "one line of several is enough");
}

#[test]
fn a_method_that_a_route_does_not_take_is_left_to_the_next_route() {
    let routes = [route("", "/a", &["POST"], &[]), route("", "/*", &["GET", "HEAD"], &[])];
    let table = Table::new(&routes);
    assert_eq!(taken(&routes, "", "/a"), Some(1));
    assert_eq!(get(&table, "", "/a", "PUT", &[]), Matched::Allow(["GET", "HEAD", "POST"].map(String::from).into()));
    assert_eq!(get(&table, "", "/b", "POST", &[]), Matched::Allow(["GET", "HEAD"].map(String::from).into()));
}

#[test]
fn allow_lists_common_methods_first_and_others_by_name() {
    let routes = [route("", "/a", &["PURGE", "POST"], &[]), route("", "/a", &["GET"], &[])];
    let table = Table::new(&routes);
    let Lookup::MethodNotAllowed(allow) = table.lookup(b"", at(b"/a"), b"BREW", |_, _| false) else { panic!() };
    let mut out = b"Allow: ".to_vec();
    allow.write(&mut out);
    assert_eq!(out, b"Allow: GET, POST, PURGE");
    assert!(matches!(table.lookup(b"", at(b"/a"), b"PURGE", |_, _| false), Lookup::RouteMatch(_)));
    assert_eq!(table.lookup(b"", at(b"/b"), b"PURGE", |_, _| false), Lookup::NotFound);
}

#[test]
fn a_header_that_does_not_match_is_a_404_not_a_405() {
    let routes = [route("", "/a", &["POST"], &[("x", "1")])];
    let table = Table::new(&routes);
    assert_eq!(get(&table, "", "/a", "GET", &[]), Matched::Nothing);
    assert_eq!(get(&table, "", "/a", "GET", &[("x", "1")]), Matched::Allow(vec!["POST".to_owned()]));
}

#[test]
fn a_preflight_finds_the_route_that_the_request_after_it_will() {
    let routes = [
        with_cors(route("", "/a", &["POST"], &[("x-key", "1")])),
        route("", "/a", &["GET"], &[]),
        with_cors(route("", "/b/{id}", &[], &[])),
        route("", "/*", &["OPTIONS"], &[]),
    ];
    let table = Table::new(&routes);
    let preflight = |path: &str, method: &str| {
        table.lookup_preflight(b"", at(path.as_bytes()), method.as_bytes()).map(|found| found.route.0)
    };
    assert_eq!(preflight("/a", "POST"), Some(0), "header matches do not count");
    assert_eq!(preflight("/a", "GET"), None, "that route has no cors");
    assert_eq!(preflight("/b/7", "DELETE"), Some(2));
    assert_eq!(preflight("/c", "GET"), None);
    assert!(matches!(get(&table, "", "/a", "OPTIONS", &[]), Matched::Route(found) if found.route.0 == 3));
}

#[test]
fn more_methods_than_there_are_bits_do_no_harm() {
    let names: Vec<String> = (0..200).map(|number| format!("M{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let table = Table::new(&[route("", "/a", &names, &[]), route("", "/b", &["GET"], &[])]);
    assert!(matches!(table.lookup(b"", at(b"/a"), b"M0", |_, _| false), Lookup::RouteMatch(_)));
    assert!(matches!(table.lookup(b"", at(b"/b"), b"M199", |_, _| false), Lookup::MethodNotAllowed(_)));
}

#[test]
fn an_empty_table_finds_nothing() {
    assert_eq!(get(&Table::new(&[]), "a", "/", "GET", &[]), Matched::Nothing);
}

#[test]
fn a_path_with_everything_below_it_matches_itself_too() {
    let routes = [
        route("", "/**", &[], &[]),
        route("", "/a/**", &[], &[]),
        route("", "/a/b/*", &[], &[]),
        route("", "/a/c", &[], &[]),
        route("", "/{any}", &["POST"], &[]),
    ];
    for (path, expected) in [
        ("/", 0),
        ("/ab", 0),
        ("/a", 1),
        ("/a/", 1),
        ("/a/x", 1),
        ("/a/b", 1),
        ("/a/b/", 2),
        ("/a/b/x", 2),
        ("/a/c", 3),
    ] {
        assert_eq!(taken(&routes, "", path), Some(expected), "{path}");
    }
    let found = |path: &str| match get(&Table::new(&routes), "", path, "GET", &[]) {
        Matched::Route(found) => (found.fixed_len, found.rest_at),
        other => panic!("{other:?}"),
    };
    assert_eq!((found("/a"), found("/a/x")), ((2, 2), (2, 3)));
}

#[test]
fn a_managed_configuration_keeps_its_order_and_knows_no_other_methods() {
    let listener = |name: &str, mut route: Route| {
        route.matcher.listener = Some(name.into());
        route
    };
    let routes = [
        listener("one", route("", "/a/**", &["POST"], &[])),
        listener("one", route("", "/a/**", &[], &[("x", "1")])),
        listener("one", route("", "/a/**", &[], &[("x", "1"), ("y", "1")])),
        listener("two", route("", "/a/**", &[], &[])),
    ];
    let one = Table::of_listener(&routes, Some("one"), true);
    let index = |method: &str, fields: &[(&str, &str)]| match get(&one, "", "/a", method, fields) {
        Matched::Route(found) => Some(found.route.0),
        Matched::Nothing => None,
        Matched::Allow(_) => panic!("405"),
    };
    assert_eq!(index("GET", &[("x", "1"), ("y", "1")]), Some(1));
    assert_eq!(index("POST", &[]), Some(0));
    assert_eq!(index("GET", &[]), None);
    assert_eq!(get(&Table::of_listener(&routes, None, true), "", "/a", "GET", &[]), Matched::Nothing);
}
