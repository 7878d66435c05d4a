//! Routes of one listener.

use testkit::Weir;

fn text(second: &str) -> String {
    format!(
        "listen: [{{bind: 127.0.0.1:0, name: public}}, {second}]\nworkers: 1\nroutes:\n  - {{match: {{path: /a, listener: public}}, respond: {{body: public}}}}\n  - {{match: {{path: /a, listener: inside}}, respond: {{body: inside}}}}\n  - {{match: {{path: /all}}, respond: {{body: all}}}}\n"
    )
}

#[test]
fn a_route_of_a_listener_takes_only_what_comes_by_it() {
    let weir = Weir::builder(super::program()).config(text("{bind: 127.0.0.1:0, name: inside}")).start();
    let addresses = weir.addrs(2);
    let body = |index: usize, target: &str| {
        let mut client = testkit::RawClient::connect(addresses[index]);
        client.request("GET", target, &[("Host", "a")], "");
        let response = client.read_response();
        (response.status(), response.text().to_owned())
    };
    assert_eq!(body(0, "/a"), (200, "public".to_owned()));
    assert_eq!(body(1, "/a"), (200, "inside".to_owned()));
    for index in 0..2 {
        assert_eq!(body(index, "/all"), (200, "all".to_owned()));
    }
}

#[test]
fn routes_of_two_listeners_share_a_cache_and_no_response() {
    let upstream = testkit::Upstream::start(|conn, request| {
        let body = request.field("X-Via").unwrap_or("nobody").to_owned();
        conn.respond(200, &[("Cache-Control", "max-age=60")], body)
    });
    let route = |name: &str| {
        format!(
            "  - {{match: {{path: /a, listener: {name}}}, upstream: u, cache: c, headers: {{request: {{set: {{X-Via: {name}}}}}}}}}\n"
        )
    };
    let config = format!(
        "listen: [{{bind: 127.0.0.1:0, name: public}}, {{bind: 127.0.0.1:0, name: inside}}]\nworkers: 1\n\
         upstreams: {{u: {{targets: [{}]}}}}\ncaches: {{c: {{mode: http}}}}\nroutes:\n{}{}",
        upstream.url(),
        route("public"),
        route("inside")
    );
    let weir = Weir::builder(super::program()).config(config).start();
    let addresses = weir.addrs(2);
    for _ in 0..2 {
        for (address, expected) in addresses.iter().zip(["public", "inside"]) {
            let mut client = testkit::RawClient::connect(*address);
            client.request("GET", "/a", &[("Host", "a")], "");
            assert_eq!(client.read_response().text(), expected);
        }
    }
    assert_eq!(upstream.request_count(), 2);
}
