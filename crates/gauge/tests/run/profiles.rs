//! Profiles in a campaign: what gateways are held against before any load, and what the load does then.

use serde_json::Value;

use super::campaign::{Campaign, GATEWAYS};

const GATEWAYS_OF_PROFILES: &str = "weir, nginx, haproxy, envoy, traefik, caddy, kong, krakend";

/// Weir where its program was built, and the gateways of Debian.
fn evaluation(profile: &str, gateways: &str) -> String {
    let text =
        GATEWAYS.replace("gateways: [nginx]", &format!("gateways: [{gateways}]\nprofile: {profile}\ncontrol: false"));
    text.replace("repeats: 2", "repeats: 1")
}

/// Each system with its state and what was found.
fn systems(campaign: &Campaign) -> Vec<(String, Value, Vec<String>)> {
    let results = campaign.json("raw/campaign.json");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let difference = |one: &Value| format!("{}: {}", text(&one["what"]), text(&one["found"]));
    let system = |system: &Value| {
        let found = system["conformance"]["differences"].as_array().into_iter().flatten().map(difference).collect();
        (text(&system["name"]), system["state"].clone(), found)
    };
    results["systems"].as_array().into_iter().flatten().map(system).collect()
}

/// The demonstration over gRPC behind these gateways.
fn over_grpc(profile: &str, gateways: &str) -> Campaign {
    let operations = "{id: getItem, body: {json: {id: 300}}}, {id: addItem, body: {json: {name: a violin}}}";
    let text = evaluation(profile, gateways)
        .replace("{id: getItem, params: {id: {int: [1, 50]}}}, {id: addItem}, {id: echo}", operations)
        .replace("conformance:\n  forwarded: {operation: echo, headers: {x-forwarded-for: /headers/x-forwarded-for}}\n  differs: {echo: [/headers]}\n", "")
        .replace("'http://{address}:{http}/healthz'", "'grpc://{address}:{http}'");
    let campaign = Campaign::new(&text);
    campaign.file("api.yaml", include_str!("../../../../examples/evaluations/grpc.openapi.yaml"));
    campaign.file("items.proto", include_str!("../../../../examples/evaluations/grpc.proto"));
    campaign
}

/// Runs a profile with the gateways that are here: each conforms and is loaded without an error, or says that it is not supported or not here.
fn conforms(profile: &str) -> Vec<(String, Value, Vec<String>)> {
    // What is read may be cached, where there is a cache.
    let text = evaluation(profile, GATEWAYS_OF_PROFILES);
    conform(
        profile,
        &Campaign::new(&text.replace("'{address}:{http}']", "'{address}:{http}', --cache-control, max-age=600]")),
    )
}

/// The same of a campaign.
fn conform(profile: &str, campaign: &Campaign) -> Vec<(String, Value, Vec<String>)> {
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let systems = systems(campaign);
    for (name, state, found) in &systems {
        eprintln!("{profile}: {name}: {state} {found:?}");
        let known = *state == "ready" || state["not_supported"].is_string() || state["not_here"].is_string();
        assert!(known && found.is_empty(), "{name}: {state} {found:?}\n{}", finished.text());
    }
    let ready = systems.iter().filter(|(_, state, _)| *state == "ready").count();
    assert!(ready >= 2, "direct and nginx are here: {systems:?}");
    for trial in campaign.trials() {
        let total = &trial["report"]["total"];
        assert_eq!(total["errors"]["total"], 0, "{}: {total}", trial["id"]);
        assert!(total["requests"]["responses"].as_u64() > Some(0), "{}", trial["id"]);
    }
    systems
}

#[test]
fn key_auth_is_checked_and_loaded() {
    let systems = conforms("{key-auth: {keys: 20}}");
    let traefik = systems.iter().find(|(name, ..)| name == "traefik").expect("it");
    assert!(traefik.1["not_supported"].as_str().is_some_and(|why| why.contains("Traefik Hub")), "{traefik:?}");
}

#[test]
fn headers_are_edited_and_prefixes_taken_off() {
    conforms("headers");
}

#[test]
fn rates_are_limited_for_each_client() {
    let systems = conforms("{rate-limit: {rate: 20, burst: 20, keys: 3}}");
    let caddy = systems.iter().find(|(name, ..)| name == "caddy").expect("it");
    assert!(caddy.1["not_supported"].as_str().is_some_and(|why| why.contains("module")), "{caddy:?}");
}

#[test]
fn caches_are_correct_and_used() {
    conforms("cache");
}

#[test]
fn tokens_are_checked_with_a_public_key_and_with_a_secret() {
    conforms("jwt");
    conforms("{jwt: {algorithm: HS256, tokens: 3}}");
}

#[test]
fn streams_pass_event_by_event() {
    conforms("streams");
}

#[test]
fn streams_are_timed_to_their_first_byte_and_their_events_are_counted_under_load() {
    let text = evaluation("streams", "nginx").replace(
        "{id: getItem, params: {id: {int: [1, 50]}}}, {id: addItem}, {id: echo}], load: {closed: {users: 4, duration: 300ms}}",
        "{id: events}], load: {closed: {users: 2, iterations: 20}}",
    );
    let campaign = Campaign::new(&text);
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    for trial in campaign.trials() {
        let total = &trial["report"]["total"];
        assert_eq!(total["requests"]["responses"], 20, "{total}");
        // Five events each, and the demonstration waits 20 ms before each.
        assert_eq!(total["events"]["received"], 100, "{total}");
        assert!(total["events"]["arrivals"].as_u64() > Some(20), "{total}");
        assert_eq!(total["first_byte"]["count"], 20, "{total}");
        let (first, last) = (total["first_byte"]["min_ms"].as_f64(), total["latency"]["min_ms"].as_f64());
        assert!(first < last, "the first byte comes before the last: {total}");
    }
    let table = std::fs::read_to_string(campaign.out.join("results.csv")).expect("a table");
    assert!(table.lines().next().is_some_and(|head| head.contains("first_byte_ms,separate_events")), "{table}");
}

#[test]
fn a_gateway_that_responds_by_itself_is_not_compared_with_one_that_passes_requests_on() {
    let own = "daemon off;\npid nginx.pid;\nerror_log stderr error;\nevents {}\nhttp {\n  access_log off;\n  client_body_temp_path t1;\n  \
        proxy_temp_path t2;\n  fastcgi_temp_path t3;\n  uwsgi_temp_path t4;\n  scgi_temp_path t5;\n  proxy_cache_path c keys_zone=c:1m;\n  server {\n    \
        listen {listen};\n    location / { proxy_pass {upstream 1}; proxy_set_header X-Forwarded-For $remote_addr; proxy_cache c; \
        proxy_cache_valid 200 10m; proxy_cache_methods GET HEAD; }\n  }\n}\n";
    let campaign = Campaign::new(&evaluation(
        "pass-through",
        "nginx, {name: cheat, gateway: nginx, files: {nginx.conf: own.conf}}",
    ));
    campaign.file("own.conf", own);
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let results = campaign.json("results.json");
    let failed = |system: &str| {
        let row = results["judgement"]["rows"].as_array().into_iter().flatten().find(|row| row["system"] == system);
        row.expect("a row")["failed"].as_array().expect("a list").clone()
    };
    let cheat = failed("cheat");
    let why = cheat.first().and_then(|failed| failed["why"].as_str()).unwrap_or_default();
    assert!(why.starts_with("upstream-mismatch: ") || campaign.was_disturbed(), "{cheat:?}");
    assert!(failed("nginx").is_empty() && failed("direct").is_empty(), "{}", finished.text());
    for trial in campaign.trials().iter().filter(|trial| trial["system"] != "cheat") {
        assert_eq!(
            trial["observed"]["reached"]["requests"], trial["report"]["total"]["requests"]["sent"],
            "{}",
            trial["id"]
        );
        let bodies = &trial["report"]["total"]["bytes"]["sent_bodies"];
        assert_eq!(&trial["observed"]["reached"]["body_bytes"], bodies, "{}", trial["id"]);
        assert!(bodies.as_u64() > Some(0), "addItem has a body");
    }
}

#[test]
fn clients_speak_http2_and_upstreams_http1() {
    let systems = conforms("{http2: {streams: 2}}");
    let krakend = systems.iter().find(|(name, ..)| name == "krakend").expect("it");
    assert!(krakend.1["not_supported"].is_string(), "{krakend:?}");
}

#[test]
fn the_load_of_the_profile_http2_is_http2() {
    let campaign = Campaign::new(&evaluation("{http2: {streams: 4}}", "nginx"));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    assert!(systems(&campaign).iter().all(|(_, state, _)| *state == "ready"), "{}", finished.text());
    for trial in campaign.trials() {
        let report = &trial["report"];
        let expected = if trial["system"] == "direct" { ("HTTP/1.1", 4) } else { ("HTTP/2", 1) };
        assert_eq!(report["generator"]["protocol"], expected.0, "{}", trial["id"]);
        // Four users: one connection of four streams, in the warm-up already.
        assert!(report["total"]["connections_opened"].as_u64() <= Some(expected.1), "{}", trial["id"]);
        assert_eq!(report["total"]["errors"]["total"], 0, "{report}");
    }
}

/// The profile `tls` with these keys under load: every handshake in the version and as often as the profile says.
fn over_tls(keys: &str, version: &str, protocol: &str) -> Value {
    let systems = conforms(&format!("{{tls: {{{keys}}}}}"));
    let kong = systems.iter().find(|(name, ..)| name == "kong").expect("it");
    assert!(kong.1["not_supported"].is_string(), "{kong:?}");
    let campaign = Campaign::new(&evaluation(&format!("{{tls: {{{keys}}}}}"), "nginx"));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let report = |system: &str| {
        let trial = campaign.trials().into_iter().find(|trial| trial["system"] == system);
        trial.unwrap_or_else(|| panic!("{system}: {}", finished.text()))["report"].clone()
    };
    let (direct, nginx) = (report("direct"), report("nginx"));
    assert_eq!((&direct["generator"]["protocol"], &direct["total"]["tls"]), (&"HTTP/1.1".into(), &Value::Null));
    assert_eq!((&nginx["generator"]["protocol"], &nginx["total"]["errors"]["total"]), (&protocol.into(), &0.into()));
    assert_eq!(nginx["total"]["tls"]["verified"], true, "{nginx}");
    let others = nginx["total"]["tls"]["versions"].as_object().expect("versions").keys().filter(|one| *one != version);
    assert_eq!(others.count(), 0, "{nginx}");
    // Reports do not show the key of the certificate.
    let text = std::fs::read_to_string(campaign.out.join("raw/campaign.json")).expect("the campaign");
    assert!(text.contains("gauge.pem") && !text.contains("PRIVATE KEY"), "{text}");
    let table = std::fs::read_to_string(campaign.out.join("results.csv")).expect("a table");
    let cells: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    for criterion in ["handshakes_per_s", "cpu_per_handshake_us"] {
        let column = cells[0].iter().position(|name| *name == criterion).expect("a column");
        let is_measured = cells.iter().any(|row| row.contains(&"nginx") && row[column].parse::<f64>().is_ok());
        assert_eq!(is_measured, keys.contains("connections"), "{criterion}: {table}");
        assert!(cells.iter().filter(|row| row.contains(&"direct")).all(|row| row[column].is_empty()), "{table}");
    }
    nginx["total"].clone()
}

#[test]
fn kept_connections_over_tls_have_their_handshakes_before_the_load_that_counts() {
    for (keys, protocol) in [("http: 1.1", "HTTP/1.1"), ("http: 2, streams: 2", "HTTP/2")] {
        let total = over_tls(keys, "TLSv1.3", protocol);
        assert_eq!((&total["tls"]["full"], &total["tls"]["resumed"]), (&0.into(), &0.into()), "{total}");
    }
}

#[test]
fn each_request_has_a_full_handshake_where_connections_are_new() {
    let total = over_tls("connections: new, version: 1.2", "TLSv1.2", "HTTP/1.1");
    assert!(total["tls"]["full"].as_u64() > Some(0), "{total}");
    assert_eq!((&total["tls"]["full"], &total["tls"]["resumed"]), (&total["requests"]["sent"], &0.into()));
}

#[test]
fn each_request_resumes_a_session_where_the_profile_says_so() {
    let total = over_tls("connections: resumed", "TLSv1.3", "HTTP/1.1");
    // The first handshake of each of the four users was in the warm-up.
    assert_eq!((&total["tls"]["resumed"], &total["tls"]["full"]), (&total["requests"]["sent"], &0.into()), "{total}");
}

#[test]
fn calls_of_grpc_pass_with_status_deadline_and_metadata() {
    for (keys, secure) in [("streams: 2", false), ("streams: 2, tls: true", true)] {
        let profile = format!("{{grpc: {{proto: items.proto, {keys}}}}}");
        let campaign = over_grpc(&profile, GATEWAYS_OF_PROFILES);
        let systems = conform(&profile, &campaign);
        let krakend = systems.iter().find(|(name, ..)| name == "krakend").expect("it");
        assert!(krakend.1["not_supported"].is_string(), "{krakend:?}");
        for trial in campaign.trials() {
            let (report, total) = (&trial["report"], &trial["report"]["total"]);
            let id = &trial["id"];
            assert_eq!(report["generator"]["protocol"], "gRPC", "{id}");
            // Calls that ended with `OK`, and nothing else.
            assert_eq!(
                total["statuses"].as_object().map(|all| all.keys().collect::<Vec<_>>()),
                Some(vec![&"200".to_owned()]),
                "{id}"
            );
            assert_eq!(total["tls"].is_object(), secure && trial["system"] != "direct", "{id}: {total}");
            // Four users, on two connections that were opened before.
            assert!(total["connections_opened"].as_u64() <= Some(2), "{id}: {total}");
            assert_eq!(trial["observed"]["reached"]["requests"], total["requests"]["sent"], "{id}");
            assert_eq!(trial["observed"]["reached"]["body_bytes"], total["bytes"]["sent_bodies"], "{id}");
        }
    }
}

#[test]
fn each_rule_of_grpc_finds_the_gateway_that_breaks_it() {
    let own = "daemon off;\npid nginx.pid;\nerror_log stderr error;\nevents {}\nhttp {\n  access_log off;\n  client_body_temp_path t1;\n  \
        proxy_temp_path t2;\n  fastcgi_temp_path t3;\n  uwsgi_temp_path t4;\n  scgi_temp_path t5;\n  client_max_body_size 32m;\n  server {\n    \
        listen {listen} http2;\n    location / { grpc_pass grpc://{host 1}; LINES }\n  }\n}\n";
    for (lines, expected) in [
        ("grpc_set_header grpc-timeout \"\";", "forwarded grpc-timeout: absent"),
        ("grpc_set_header grpc-timeout 8000m;", "forwarded grpc-timeout: 8000m"),
        ("grpc_set_header TE \"\";", "forwarded te: absent"),
        ("grpc_set_header x-gauge-metadata other;", "forwarded x-gauge-metadata: other"),
        ("grpc_set_header x-gauge-data-bin \"\";", "forwarded x-gauge-data-bin: absent"),
        ("grpc_hide_header x-gauge-initial;", "response x-gauge-initial: absent"),
        ("grpc_hide_header grpc-message;", "response grpc-message: absent"),
        ("grpc_hide_header grpc-status;", "grpc-status of a status without a message: absent"),
        ("client_max_body_size 1m;", "a message of 3 MiB: "),
        ("add_header grpc-status 0;", "grpc-status: 0, 0"),
    ] {
        let campaign =
            over_grpc("{grpc: {proto: items.proto}}", "{name: own, gateway: nginx, files: {nginx.conf: own.conf}}");
        campaign.file("own.conf", &own.replace("LINES", lines));
        let finished = campaign.run(&[]);
        assert_eq!(finished.code, 0, "{}", finished.text());
        let (_, state, found) = systems(&campaign).into_iter().find(|(name, ..)| name == "own").expect("it");
        assert_eq!(state, "not_conforming", "{lines}: {}", finished.text());
        assert!(found.iter().any(|found| found.starts_with(expected)), "{lines}: {found:?}");
    }
}

#[test]
fn a_method_that_the_file_does_not_have_is_refused_before_anything_starts() {
    let campaign = over_grpc("{grpc: {proto: items.proto}}", "nginx");
    campaign.file("items.proto", "syntax = \"proto3\";\npackage other;\n");
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 64, "{}", finished.text());
    assert!(finished.stderr.contains("there is no method `gauge.demo.Items/Get`"), "{}", finished.text());
    assert!(!campaign.out.exists());
}

#[test]
fn large_bodies_pass_both_ways() {
    conforms("large-bodies");
}

/// nginx that only passes requests on, held against a profile: what is found.
fn passing_on(profile: &str) -> Vec<String> {
    let own = "daemon off;\npid nginx.pid;\nerror_log stderr error;\nevents {}\nhttp {\n  access_log off;\n  client_body_temp_path t1;\n  \
        proxy_temp_path t2;\n  fastcgi_temp_path t3;\n  uwsgi_temp_path t4;\n  scgi_temp_path t5;\n  server {\n    listen {listen};\n    \
        location / { proxy_pass {upstream 1}; proxy_set_header X-Forwarded-For $remote_addr; client_max_body_size 1m; LIMIT }\n  }\n}\n";
    let campaign = Campaign::new(&evaluation(profile, "{name: open, gateway: nginx, files: {nginx.conf: own.conf}}"));
    // Slowly, a stream comes in other pieces than it was sent in.
    let limit = if profile == "streams" { "limit_rate 60;" } else { "" };
    campaign.file("own.conf", &own.replace("LIMIT", limit));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let systems = systems(&campaign);
    let (_, state, found) = systems.into_iter().find(|(name, ..)| name == "open").expect("it");
    assert_eq!(state, "not_conforming", "{profile}");
    assert!(campaign.trials().iter().all(|trial| trial["system"] != "open"));
    found
}

#[test]
fn a_gateway_that_only_passes_requests_on_is_not_loaded() {
    for (profile, expected) in [
        ("key-auth", &["no key: status 200", "forwarded X-API-Key: gauge-profile-key-000001"][..]),
        ("headers", &["status: 404"]),
        ("{rate-limit: {rate: 5, burst: 5}}", &["a client above its limit: 40 requests passed"]),
        ("cache", &["a fresh response: a second request to the upstream"]),
        ("jwt", &["no token: status 200", "algorithm none: status 200", "an expired token: status 200"]),
        ("streams", &["an event stream: 6 events in "]),
        ("large-bodies", &["a request of 24 MiB: status 413"]),
        ("http2", &["a request over HTTP/2: no response: "]),
        ("tls", &["handshake of TLSv1.2: ", "handshake of TLSv1.3: ", "a request over TLSv1.3: no response: "]),
    ] {
        let found = passing_on(profile);
        for expected in expected {
            assert!(found.iter().any(|found| found.starts_with(expected)), "{profile}: {expected}: {found:?}");
        }
    }
}

/// nginx with TLS of its own, held against the profile `tls`: what is found.
fn own_tls(profile: &str, lines: &str) -> Vec<String> {
    let own = "daemon off;\npid nginx.pid;\nerror_log stderr error;\nevents {}\nhttp {\n  access_log off;\n  client_body_temp_path t1;\n  \
        proxy_temp_path t2;\n  fastcgi_temp_path t3;\n  uwsgi_temp_path t4;\n  scgi_temp_path t5;\n  client_max_body_size 32m;\n  server {\n    \
        listen {listen} ssl;\n    LINES\n    location / { proxy_pass {upstream 1}; proxy_set_header X-Forwarded-For $remote_addr; \
        proxy_set_header X-Forwarded-Proto PROTO; }\n  }\n}\n";
    let campaign = Campaign::new(&evaluation(profile, "{name: own, gateway: nginx, files: {nginx.conf: own.conf}}"));
    let proto = if lines.is_empty() { "http" } else { "https" };
    let given = if lines.contains("ssl_certificate ") {
        ""
    } else {
        "ssl_certificate gauge.pem; ssl_certificate_key gauge.pem.key;"
    };
    campaign.file("own.conf", &own.replace("LINES", &format!("{given} {lines}")).replace("PROTO", proto));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let systems = systems(&campaign);
    let (_, state, found) = systems.into_iter().find(|(name, ..)| name == "own").expect("it");
    assert_eq!(state, "not_conforming", "{lines}: {}", finished.text());
    found
}

#[test]
fn each_rule_of_tls_finds_the_gateway_that_breaks_it() {
    let other = testkit::Certificates::localhost();
    let other =
        format!("ssl_certificate {}; ssl_certificate_key {};", other.certificate().display(), other.key().display());
    for (profile, lines, expected) in [
        ("tls", "", &["forwarded X-Forwarded-Proto: http"][..]),
        (
            "tls",
            "ssl_protocols TLSv1.1 TLSv1.2 TLSv1.3; ssl_ciphers DEFAULT@SECLEVEL=0;",
            &["handshake of TLSv1.1: it is accepted"],
        ),
        ("tls", "ssl_protocols TLSv1.2;", &["handshake of TLSv1.3: TLSv1.2"]),
        ("tls", "ssl_protocols TLSv1.3;", &["handshake of TLSv1.2: "]),
        ("{tls: {http: 2}}", "ssl_protocols TLSv1.2 TLSv1.3;", &["ALPN, TLSv1.2: Http11", "ALPN, TLSv1.3: Http11"]),
        (
            "{tls: {connections: resumed}}",
            "ssl_session_tickets off; ssl_session_cache off;",
            &["the second handshake of a client: a full handshake"],
        ),
        ("tls", other.as_str(), &["handshake of TLSv1.2: ", "handshake of TLSv1.3: "]),
    ] {
        let found = own_tls(profile, lines);
        for expected in expected {
            assert!(found.iter().any(|found| found.starts_with(expected)), "{lines}: {expected}: {found:?}");
        }
        if expected.len() == 1 {
            assert!(
                found.iter().all(|found| found.contains("TLSv1.") || found.starts_with(expected[0])),
                "{lines}: {found:?}"
            );
        }
    }
}

/// The demonstration over WebSocket behind these gateways.
fn over_websocket(profile: &str, gateways: &str) -> Campaign {
    let text = evaluation(profile, gateways)
        .replace("{id: getItem, params: {id: {int: [1, 50]}}}, {id: addItem}, {id: echo}", "{id: echo}")
        .replace("conformance:\n  forwarded: {operation: echo, headers: {x-forwarded-for: /headers/x-forwarded-for}}\n  differs: {echo: [/headers]}\n", "");
    let campaign = Campaign::new(&text);
    campaign.file("api.yaml", include_str!("../../../../examples/evaluations/websocket.openapi.yaml"));
    campaign
}

#[test]
fn messages_over_websocket_pass_with_close_codes_and_pings() {
    for (keys, secure, per_connection) in [
        ("size: 1KiB, kind: text", false, None),
        ("size: 70000, messages: 5", false, Some(5)),
        ("tls: true", true, None),
        ("tls: true, messages: 3", true, Some(3)),
    ] {
        let profile = format!("{{websocket: {{{keys}}}}}");
        let campaign = over_websocket(&profile, GATEWAYS_OF_PROFILES);
        let systems = conform(&profile, &campaign);
        let krakend = systems.iter().find(|(name, ..)| name == "krakend").expect("it");
        assert!(krakend.1["not_supported"].as_str().is_some_and(|why| why.contains("Enterprise")), "{krakend:?}");
        for trial in campaign.trials() {
            let (report, total, id) = (&trial["report"], &trial["report"]["total"], &trial["id"]);
            assert_eq!(report["generator"]["protocol"], "WebSocket", "{id}");
            assert_eq!(total["statuses"], serde_json::json!({"101": total["requests"]["responses"]}), "{id}");
            assert_eq!(total["tls"].is_object(), secure && trial["system"] != "direct", "{id}: {total}");
            let (messages, handshakes) =
                (total["requests"]["sent"].as_u64().expect("counted"), total["websocket"]["handshakes"].as_u64());
            if let Some(per_connection) = per_connection {
                // At both ends of the load a connection may have had some before or have some left.
                let whole = messages / per_connection;
                assert!((whole.saturating_sub(4)..=whole + 4).contains(&handshakes.expect("counted")), "{id}: {total}");
            } else {
                // In the warm-up.
                assert_eq!(handshakes, Some(0), "{id}: {total}");
            }
            // Each message reached the upstream, and nothing else did.
            assert_eq!(trial["observed"]["reached"]["requests"], total["requests"]["sent"], "{id}");
            assert_eq!(trial["observed"]["reached"]["body_bytes"], total["bytes"]["sent_bodies"], "{id}");
        }
    }
}

#[test]
fn a_gateway_that_does_not_upgrade_or_changes_the_upgrade_is_not_loaded() {
    let own = "daemon off;\npid nginx.pid;\nerror_log stderr error;\nevents {}\nhttp {\n  access_log off;\n  client_body_temp_path t1;\n  \
        proxy_temp_path t2;\n  fastcgi_temp_path t3;\n  uwsgi_temp_path t4;\n  scgi_temp_path t5;\n  server {\n    listen {listen};\n    \
        location = /echo-ws { proxy_pass {upstream 1}; proxy_http_version 1.1; LINES }\n    location / { return 404; }\n  }\n}\n";
    let upgrade = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;";
    let map = "map $http_upgrade $connection_upgrade { default upgrade; '' close; }";
    for (lines, expected) in [
        ("", "an upgrade: status 200"),
        (
            "proxy_set_header Upgrade websocket; proxy_set_header Connection upgrade;",
            "a request without Upgrade: status 426",
        ),
        ("UPGRADE proxy_set_header Sec-WebSocket-Protocol '';", "the subprotocol: absent"),
        (
            "UPGRADE proxy_hide_header Sec-WebSocket-Accept;",
            "an upgrade: no connection: the response has no Sec-WebSocket-Accept",
        ),
        ("UPGRADE proxy_intercept_errors on; error_page 403 /own;", "an upgrade that the upstream refuses: status 404"),
        ("UPGRADE proxy_read_timeout 3s;", ""),
    ] {
        let campaign = over_websocket("websocket", "{name: own, gateway: nginx, files: {nginx.conf: own.conf}}");
        let text = own
            .replace("LINES", &lines.replace("UPGRADE", upgrade))
            .replace("  server {", &format!("  {map}\n  server {{"));
        campaign.file("own.conf", &text);
        let finished = campaign.run(&[]);
        assert_eq!(finished.code, 0, "{}", finished.text());
        let (_, state, found) = systems(&campaign).into_iter().find(|(name, ..)| name == "own").expect("it");
        if expected.is_empty() {
            assert_eq!((state, found), ("ready".into(), Vec::new()), "{lines}: {}", finished.text());
            continue;
        }
        assert_eq!(state, "not_conforming", "{lines}: {}", finished.text());
        assert!(found.iter().any(|found| found.starts_with(expected)), "{lines}: {found:?}");
        assert!(campaign.trials().iter().all(|trial| trial["system"] != "own"), "{lines}");
    }
}

#[test]
fn an_operation_that_is_no_upgrade_is_refused_before_anything_starts() {
    let campaign = Campaign::new(&evaluation("websocket", "nginx"));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 64, "{}", finished.text());
    assert!(finished.stderr.contains("an upgrade to WebSocket is a GET, not POST"), "{}", finished.text());
    assert!(!campaign.out.exists());
}

#[test]
fn requests_are_counted_while_something_happens() {
    let life = "{life: {rate: 100, hold: 300ms, events: [reload, upstream-killed], routes: [10]}}";
    let campaign = Campaign::new(&evaluation(life, "weir, nginx, haproxy"));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let results = campaign.json("raw/campaign.json");
    let trials = results["life"].as_array().expect("a list");
    let trial = |system: &str, scenario: &str| {
        let own = |trial: &&Value| trial["system"] == system && trial["scenario"] == scenario;
        trials.iter().find(own).unwrap_or_else(|| panic!("{system} {scenario}: {}", finished.text()))
    };
    eprintln!("{}", finished.text());
    for scenario in ["reload", "10 routes"] {
        assert!(trial("direct", scenario)["state"]["not_supported"].is_string());
        let nginx = trial("nginx", scenario);
        // A machine that is too busy says so, and nothing of the gateway.
        if nginx["state"] == "counts" {
            // Workers that nginx replaces close idle connections: a request on its way at that moment is reset, and few are.
            let failed = nginx["failed"].as_object().expect("an object");
            assert!(failed.keys().all(|how| how == "reset" && scenario == "reload"), "{nginx}");
            assert!(failed.values().all(|count| count.as_u64() <= Some(3)), "{nginx}");
            assert!(nginx["sent"].as_u64() > Some(100) && nginx["took_ms"].as_f64() > Some(0.0), "{nginx}");
            assert!(nginx["memory_peak_bytes"].as_u64() > Some(1 << 20), "{nginx}");
        }
    }
    let killed = trial("direct", "upstream-killed");
    if killed["state"] == "counts" {
        assert!(killed["failed"]["refused"].as_u64() > Some(0), "{killed}");
    }
    assert!(finished.stdout.contains("no decision: 3 trials that count are the least"), "{}", finished.text());
    let report = std::fs::read_to_string(campaign.out.join("report.md")).expect("a report");
    assert!(report.contains("## Life"), "{report}");
    campaign.nothing_runs();
}
