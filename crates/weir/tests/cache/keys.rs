//! What tells responses apart, end to end: nothing leaks from one request to another that could have got another response.

use testkit::{Upstream, Weir};

use crate::{count, counting, gateway, gateway_with, x_cache};

/// An origin that responds with what the request says in these fields.
fn echoing(names: &'static [&'static str], vary: &'static str) -> Upstream {
    Upstream::start(move |conn, request| {
        let values: Vec<&str> = names.iter().map(|name| request.head.field(name).unwrap_or("-")).collect();
        let body = format!("{} {}", request.head.target(), values.join(" "));
        conn.respond(200, &[("Vary", vary), ("Cache-Control", "max-age=100")], body)
    })
}

fn get(weir: &Weir, target: &str, fields: &[(&str, &str)]) -> (String, Option<String>) {
    let response = weir.request("GET", target, fields, "");
    (response.text().to_owned(), x_cache(&response).map(str::to_owned))
}

#[test]
fn variants_are_stored_separately_and_found_again() {
    for mode in ["{mode: ttl}", "{mode: http}"] {
        let origin = echoing(&["accept-language", "x-flavour"], "Accept-Language, X-Flavour");
        let weir = gateway(&origin, mode);
        let requests: [&[(&str, &str)]; 5] = [
            &[],
            &[("Accept-Language", "de")],
            &[("Accept-Language", "en")],
            &[("Accept-Language", "en"), ("X-Flavour", "mint")],
            &[("X-Flavour", "mint")],
        ];
        let first: Vec<String> = requests.iter().map(|fields| get(&weir, "/", fields).0).collect();
        assert_eq!(origin.request_count(), 5);
        for (fields, body) in requests.iter().zip(&first) {
            assert_eq!(get(&weir, "/", fields), (body.clone(), Some("HIT".to_owned())), "{fields:?}");
        }
        assert_eq!(origin.request_count(), 5);
        assert!(first[3].ends_with("en mint") && first[4].ends_with("- mint"));
    }
}

#[test]
fn what_an_origin_begins_to_vary_on_later_is_in_the_key_too() {
    let origin = echoing(&["x-a"], "");
    let weir = gateway(&origin, "{mode: ttl, ttl: 1ms}");
    get(&weir, "/", &[("X-A", "1")]);
    origin.set_responder(|conn, request| {
        let value = request.head.field("x-a").unwrap_or("-").to_owned();
        conn.respond(200, &[("Vary", "X-A")], value)
    });
    testkit::wait::until(crate::DEADLINE, "the first to age", || get(&weir, "/", &[("X-A", "1")]).0 == "1");
    assert_eq!(get(&weir, "/", &[("X-A", "2")]).0, "2");
}

#[test]
fn a_response_too_large_to_keep_leaves_the_other_variants_where_they_are() {
    let origin = Upstream::start(|conn, request| match request.head.field("x-v") {
        Some("large") => {
            conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            (0..10).try_for_each(|_| conn.write_chunk([b'x'; 10_000]))?;
            conn.write("0\r\n\r\n")
        }
        value => conn.respond(200, &[("Vary", "X-V")], value.unwrap_or("-")),
    });
    let weir = gateway(&origin, "{mode: ttl, max_body: 64KiB}");
    for value in ["a", "b", "large"] {
        weir.request("GET", "/", &[("X-V", value)], "");
    }
    for value in ["a", "b"] {
        assert_eq!(get(&weir, "/", &[("X-V", value)]), (value.to_owned(), Some("HIT".to_owned())));
    }
}

#[test]
fn hosts_paths_and_queries_are_in_the_key() {
    let origin = Upstream::start(|conn, request| {
        let body = format!("{} {}", request.head.field("host").unwrap_or("-"), request.head.target());
        conn.respond(200, &[], body)
    });
    let weir = gateway(&origin, "{mode: ttl}");
    for host in ["a", "b", "a:81"] {
        for target in ["/", "/x", "/x?", "/x?a", "/x?a=1", "/x?b=1&a=1", "/x?a=1&b=1", "/X"] {
            for expected in ["MISS", "HIT"] {
                let (body, state) = get(&weir, target, &[("Host", host)]);
                assert_eq!((&*body, state.as_deref()), (&*format!("{host} {target}"), Some(expected)));
            }
        }
    }
    // One path, written in other ways.
    for target in ["/y/../x", "/%78"] {
        assert_eq!(get(&weir, target, &[("Host", "a")]).1.as_deref(), Some("HIT"), "{target}");
    }
}

/// An origin gets the host as it came, and may make links of it: nobody gets a response to a host in another form. What makes responses invalid
/// means the URL, in whatever form.
#[test]
fn a_host_in_another_form_has_responses_of_its_own_that_go_with_the_others() {
    const FORMS: [&str; 5] = ["a.example", "A.example", "a.example:80", "a.example:", "A.example:80"];
    let origin = Upstream::start(|conn, request| {
        let location = format!("https://{}/", request.head.field("host").unwrap_or("-"));
        let fields: &[(&str, &str)] =
            if request.head.method() == "GET" { &[("Cache-Control", "max-age=600")] } else { &[] };
        conn.respond(200, fields, location)
    });
    let weir = gateway(&origin, "{mode: http}");
    for invalidating in FORMS {
        let get = |host: &str| {
            let (body, state) = get(&weir, "/", &[("Host", host)]);
            assert_eq!(body, format!("https://{host}/"), "{invalidating}");
            state
        };
        for host in FORMS {
            assert_eq!(get(host).as_deref(), Some("MISS"), "{host}, invalidated by {invalidating}");
        }
        for host in FORMS {
            // What is fetched in the millisecond of the invalidation is not used.
            testkit::wait::until(crate::DEADLINE, "a hit", || get(host).as_deref() == Some("HIT"));
        }
        assert_eq!(weir.request("POST", "/", &[("Host", invalidating)], "").status(), 200);
    }
}

#[test]
fn the_scheme_is_the_clients_and_is_believed_of_trusted_proxies_alone() {
    for (trusted, shared) in [("[]", true), ("[127.0.0.0/8]", false)] {
        let origin = Upstream::start(|conn, request| {
            let proto = request.head.field("x-forwarded-proto").unwrap_or("-").to_owned();
            conn.respond(200, &[], proto)
        });
        let weir = gateway_with(&origin, "{mode: ttl}", &format!("trusted_proxies: {trusted}"), "");
        let (first, _) = get(&weir, "/", &[("X-Forwarded-Proto", "https")]);
        let (second, state) = get(&weir, "/", &[("X-Forwarded-Proto", "http")]);
        assert_eq!((first == second, state.as_deref() == Some("HIT")), (shared, shared), "{trusted}");
        // What an origin makes of the host that a trusted proxy names is separated as well.
        let (_, state) = get(&weir, "/", &[("X-Forwarded-Proto", "http"), ("X-Forwarded-Host", "other")]);
        assert_eq!(state.as_deref() == Some("HIT"), shared, "{trusted}");
    }
}

#[test]
fn all_that_an_origin_may_make_links_of_is_in_the_key() {
    let origin = Upstream::start(|conn, request| {
        let head = &request.head;
        let body = [head.all("x-forwarded-host"), head.all("forwarded")].concat().join(" ");
        conn.respond(200, &[], body)
    });
    let weir = gateway_with(&origin, "{mode: ttl}", "trusted_proxies: [127.0.0.0/8]", "");
    let links: [&[(&str, &str)]; 3] = [
        &[("X-Forwarded-Host", "a"), ("X-Forwarded-Host", "b")],
        &[("X-Forwarded-Host", "a"), ("X-Forwarded-Host", "c")],
        &[("X-Forwarded-Host", "a"), ("Forwarded", "host=b")],
    ];
    for fields in links {
        let (body, state) = get(&weir, "/", fields);
        assert_eq!((&*body, state.as_deref()), (&*[fields[0].1, fields[1].1].join(" "), Some("MISS")));
    }
    for (client, expected) in [("192.0.2.1", "MISS"), ("192.0.2.2", "HIT")] {
        let (_, state) = get(&weir, "/", &[("Forwarded", &format!("for={client};host=a"))]);
        assert_eq!(state.as_deref(), Some(expected), "clients are not told apart");
    }
}

#[test]
fn the_query_counts_as_configured() {
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, "{mode: ttl, query: sorted}");
    assert_eq!(get(&weir, "/?b=2&a=1", &[]).0, get(&weir, "/?a=1&b=2", &[]).0);
    assert_ne!(get(&weir, "/?a=1&b=3", &[]).0, get(&weir, "/?a=1&b=2", &[]).0);
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, "{mode: ttl, query: [id]}");
    assert_eq!(get(&weir, "/?id=1&utm=x", &[]).0, get(&weir, "/?utm=y&id=1", &[]).0);
    assert_ne!(get(&weir, "/?id=1", &[]).0, get(&weir, "/?id=2", &[]).0);
    assert_ne!(get(&weir, "/?id=1", &[]).0, get(&weir, "/?id=1&%69d=2", &[]).0, "an escaped name is the same name");
}

#[test]
fn owners_of_a_key_in_the_query_do_not_share_where_the_cache_leaves_it_out() {
    let origin = Upstream::start(|conn, request| conn.respond(200, &[], request.head.target()));
    let limits = "limits:\n  l: {key: 'query:api_key', rate: 1000/s, burst: 1000}";
    let weir = gateway_with(&origin, "{mode: ttl, query: [page]}", limits, "    limits: [l]\n");
    for owner in ["a", "b", "a"] {
        let target = format!("/?page=1&api_key={owner}");
        assert_eq!(get(&weir, &target, &[]), (target.clone(), None));
    }
    for expected in ["MISS", "HIT"] {
        assert_eq!(get(&weir, "/?page=1", &[]).1.as_deref(), Some(expected));
    }
}

#[test]
fn routes_that_differ_in_fields_do_not_share() {
    let gold = Upstream::start(testkit::responder::ok("gold"));
    let plain = Upstream::start(testkit::responder::ok("plain"));
    let yaml = format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nupstreams:\n  gold: {{targets: [{}]}}\n  plain: {{targets: [{}]}}\ncaches:\n  c: {{mode: ttl}}\n\
         defaults: {{cache: c}}\nroutes:\n  - match: {{path: /*, headers: {{X-Tier: gold}}}}\n    upstream: gold\n  - match: {{path: /*}}\n    upstream: plain\n",
        gold.url(),
        plain.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    for _ in 0..2 {
        assert_eq!(get(&weir, "/", &[("X-Tier", "gold")]).0, "gold");
        assert_eq!(get(&weir, "/", &[]).0, "plain");
    }
    assert_eq!((gold.request_count(), plain.request_count()), (1, 1));
}

#[test]
fn posts_are_keyed_by_what_their_json_means() {
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, "{mode: ttl, post: json, partition_by: ['header:Authorization']}");
    let post = |body: &str, token: &str| {
        let fields = [("Content-Type", "application/json"), ("Authorization", token)];
        weir.request("POST", "/v1/chat", &fields, body).text().to_owned()
    };
    let first = post(r#"{"model":"m","prompt":"hello"}"#, "a");
    assert_eq!(post("{ \"prompt\" : \"hello\", \"model\":\"m\" }", "a"), first);
    for other in [r#"{"model":"m","prompt":"hello!"}"#, r#"{"model":"m"}"#] {
        assert_ne!(post(other, "a"), first);
    }
    assert_ne!(post(r#"{"model":"m","prompt":"hello"}"#, "b"), first, "never across tenants");
    assert_ne!(post(r#"{"model":"m","prompt":"hello","model":"n"}"#, "a"), first, "two readings: not cached");
    let before = origin.request_count();
    for _ in 0..2 {
        weir.request("POST", "/v1/chat", &[("Content-Type", "text/plain"), ("Authorization", "a")], "{}");
    }
    assert_eq!(origin.request_count(), before + 2);
    assert!(count(&weir, "hits") >= 1);
}

#[test]
fn posts_are_not_cached_unless_configured() {
    let origin = Upstream::start(counting(&[]));
    let weir = gateway(&origin, "{mode: ttl}");
    for expected in ["answer 1", "answer 2"] {
        let response = weir.request("POST", "/", &[("Content-Type", "application/json")], "{}");
        assert_eq!((response.text(), x_cache(&response)), (expected, None));
    }
}
