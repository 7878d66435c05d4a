use super::super::*;
use super::api;

const SERVER: &str = "{url: 'http://127.0.0.1:9000'}";

fn get(path: &str, id: &str, server: &str) -> String {
    format!("  '{path}': {{get: {{operationId: {id}, servers: [{{url: '{server}'}}], responses: {{}}}}}}\n")
}

fn files(gateway: &str, paths: &str) -> Result<Written, Unsupported> {
    let model = Model::new(&api(SERVER, paths), &Options::default()).unwrap();
    by_name(gateway).unwrap().files(&model, &Placement::new("127.0.0.1:8080".parse().unwrap(), "/srv"))
}

#[test]
fn paths_that_become_one_are_one_or_refused() {
    let json = get("/f/{name}.json", "json", "http://h:1");
    let same = files("weir", &(json.clone() + &get("/f/{name}.xml", "xml", "http://h:1"))).unwrap();
    assert_eq!(same.files[0].text.matches("/f/{name}").count(), 1, "{}", same.files[0].text);
    assert_eq!(same.notes[..2], ["/f/{name}.json is matched as /f/{name}", "/f/{name}.xml is matched as /f/{name}"]);
    let other = files("weir", &(json.clone() + &get("/f/{name}.xml", "xml", "http://h:2"))).unwrap_err();
    let why = "GET /f/{name}.xml and GET /f/{name} are one to it, and they go to different upstreams";
    assert!(other.why.starts_with(why), "{}", other.why);
    let put = "  '/f/{name}.xml': {put: {operationId: xml, servers: [{url: 'http://h:2'}], responses: {}}}\n";
    let separate = files("weir", &(json + put)).unwrap().files.remove(0).text;
    assert!(separate.contains("path: \"/f/{name}\", methods: [GET, HEAD]}\n    upstream: u_h_1\n"), "{separate}");
    assert!(separate.contains("path: \"/f/{name}\", methods: [PUT]}\n    upstream: u_h_2\n"), "{separate}");
}

#[test]
fn a_widened_path_keeps_its_place() {
    // A text with `*` is a parameter to Spring, and still comes before what has parameters further to the left.
    let text = get("/a/{x}/{y}", "open", "http://h:1")
        + &get("/a/*/b", "star", "http://h:1")
        + &get("/{z}/c/b", "z", "http://h:1");
    let written = files("spring", &text).unwrap().files.remove(0).text;
    let at =
        |path: &str| written.find(&format!("patterns: [\"{path}\"]")).unwrap_or_else(|| panic!("{path}: {written}"));
    assert!(at("/a/{any}/b") < at("/a/{x}/{y}") && at("/a/{x}/{y}") < at("/{z}/c/b"), "{written}");
}

#[test]
fn names_of_captures_are_what_kong_takes() {
    let long = "a-very-long-name-of-a-parameter-that-is-one";
    let text = get(&format!("/a/{{{long}}}/{{1}}/{{x-y}}/{{x.y}}"), "a", "http://h:1");
    let written = files("kong", &text).unwrap().files.remove(0).text;
    let expected = r#"["~/a/(?<p1_0>[^#?/]+)/(?<p21>[^#?/]+)/(?<x_y>[^#?/]+)/(?<x_y_4>[^#?/]+)$"]"#;
    assert!(written.contains(expected), "{written}\n{expected}");
}

fn written(gateway: &str, servers: &str, paths: &str, settings: Settings) -> Written {
    let model = Model::new(&api(servers, paths), &Options { settings, ..Options::default() }).unwrap();
    by_name(gateway).unwrap().files(&model, &Placement::new("127.0.0.1:8080".parse().unwrap(), "/srv")).unwrap()
}

#[test]
fn what_krakend_cannot_have_is_counted() {
    let paths = "  /a: {get: {responses: {}}, options: {responses: {}}}\n  /__health: {get: {responses: {}}}\n";
    let krakend = files("krakend", paths).unwrap();
    assert_eq!(krakend.left_out, 2, "{:?}", krakend.notes);
    assert!(!krakend.files[0].text.contains("/__health"), "{}", krakend.files[0].text);
    let partly = files("krakend", &get("/plus%2Bsign/{Sid}.json", "partly", "http://h:1")).unwrap();
    assert_eq!(partly.left_out, 0);
    for line in ["\"endpoint\": \"/plus+sign/{Sid}\"", "\"url_pattern\": \"/plus%2Bsign/{Sid}\""] {
        assert!(partly.files[0].text.contains(line), "{}", partly.files[0].text);
    }
}

#[test]
fn krakend_passes_every_header_and_query() {
    let text = files("krakend", &get("/a", "a", "http://h:1")).unwrap().files.remove(0).text;
    let flat: String = text.split_whitespace().collect();
    assert!(flat.contains("\"input_headers\":[\"*\"],\"input_query_strings\":[\"*\"]"), "{text}");
}

#[test]
fn tyk_has_its_templates_and_says_what_it_shadows() {
    let paths = get("/hello", "a", "http://h:1") + &get("/tyk/keys", "b", "http://h:1");
    let tyk = files("tyk", &paths).unwrap();
    assert!(tyk.files.iter().any(|file| file.path == "templates/error.json"));
    for path in ["/hello", "/tyk/keys"] {
        assert!(
            tyk.notes.contains(&format!("{path} does not reach the upstream: Tyk serves it itself")),
            "{:?}",
            tyk.notes
        );
    }
    let place = Placement::new("127.0.0.1:8080".parse().unwrap(), "/srv");
    assert_eq!(by_name("tyk").unwrap().check(&Program { path: "tyk".into() }, &place), None);
}

#[test]
fn a_slash_at_the_end_redirects_nobody_in_nginx() {
    let text = files("nginx", &get("/dir/", "a", "http://h:1")).unwrap().files.remove(0).text;
    assert!(text.contains("location ~ \"^/dir/\\z\"") && !text.contains("location = \"/dir/\""), "{text}");
}

#[test]
fn names_are_resolved_while_gateways_run() {
    let (servers, paths) = ("{url: 'http://api.example.com'}", get("/a", "a", "http://api.example.com"));
    let haproxy = written("haproxy", servers, &paths, Settings::default()).files.remove(0).text;
    assert!(haproxy.contains("parse-resolv-conf") && haproxy.contains("resolvers dns init-addr last,libc,none"));
    let nginx = written("nginx", servers, &paths, Settings::default());
    assert!(nginx.notes.iter().any(|note| note.contains("--resolver")), "{:?}", nginx.notes);
    let resolver = Some("10.0.0.53:53".parse().unwrap());
    let settings = Settings { resolver, ..Settings::default() };
    let nginx = written("nginx", servers, &paths, settings.clone()).files.remove(0).text;
    assert!(
        nginx.contains("resolver 10.0.0.53:53;") && nginx.contains("server api.example.com:80 resolve;"),
        "{nginx}"
    );
    let haproxy = written("haproxy", servers, &paths, settings).files.remove(0).text;
    assert!(haproxy.contains("nameserver dns 10.0.0.53:53"), "{haproxy}");
}

#[test]
fn kong_knows_authorities_and_matches_what_is_reserved() {
    let text: String = written("kong", "{url: 'https://h'}", &get("/a%2Bb", "a", "https://h"), Settings::default())
        .files
        .into_iter()
        .map(|file| file.text)
        .collect();
    assert!(text.contains("nginx_proxy_proxy_ssl_trusted_certificate = /etc/ssl/certs/ca-certificates.crt"), "{text}");
    assert!(text.contains("~/a%2Bb$"), "{text}");
}

#[test]
fn memory_is_told_where_it_has_to_be() {
    let program = Program { path: "/bin/x".into() };
    let place =
        Placement { memory: Some(1 << 30), cpus: 3, ..Placement::new("127.0.0.1:8080".parse().unwrap(), "/srv") };
    let command = |name: &str, place: &Placement| by_name(name).unwrap().command(&program, place);
    for name in ["traefik", "caddy", "krakend", "tyk"] {
        let env = command(name, &place).env;
        assert!(env.contains(&("GOMAXPROCS".to_owned(), "3".to_owned())), "{name}: {env:?}");
        assert!(env.contains(&("GOMEMLIMIT".to_owned(), ((1u64 << 30) / 10 * 9).to_string())), "{name}: {env:?}");
    }
    assert!(command("spring", &place).argv.contains(&"-Xmx512m".to_owned()));
    assert!(
        command("spring", &Placement { memory: None, ..place }).argv.contains(&"-XX:MaxRAMPercentage=50".to_owned())
    );
}
