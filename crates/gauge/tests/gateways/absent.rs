//! KrakenD and Tyk have no package in a registry, nor have the JSON schemas that they publish: what can be known without them is that every
//! operation is there, once, as the documents of the two request it.

use std::collections::BTreeSet;

use apidoc::Method;
use gauge::gateway::{self, Model, Options, Placement, Route, Segment};
use serde_json::Value;

use crate::{APIS, api, model};

fn json(gateway: &str, model: &Model) -> Vec<(String, Value)> {
    let place = Placement::new("127.0.0.1:8080".parse().expect("an address"), "/srv/gateway");
    let gateway = gateway::by_name(gateway).expect("a gateway");
    let written = gateway.files(model, &place).unwrap_or_else(|error| panic!("{error}"));
    let value = |text: &str| serde_json::from_str(text).expect("JSON");
    let json = written.files.iter().filter(|file| file.path.ends_with(".json") || file.path.ends_with(".conf"));
    json.map(|file| (file.path.clone(), value(&file.text))).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is a text in {value}"))
}

/// Format 3: <https://www.krakend.io/docs/endpoints/> and <https://www.krakend.io/docs/backends/>.
#[test]
fn krakend_has_an_endpoint_for_every_operation() {
    for (name, file) in APIS {
        let model = model(&api(file), &Options::default());
        let config = json("krakend", &model).remove(0).1;
        assert_eq!(config["version"], 3);
        // What it cannot say is in the notes, and in the golden files.
        let can = [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete];
        let routes: Vec<_> = model
            .paths
            .iter()
            .flat_map(|path| path.targets.iter().flat_map(|target| target.routes.iter().map(|&i| &model.routes[i])))
            .filter(|route| can.contains(&route.method) && !route.template().contains("__health"))
            .collect();
        let endpoints = config["endpoints"].as_array().expect("endpoints");
        assert_eq!(endpoints.len(), routes.len(), "{name}");
        let mut seen = BTreeSet::new();
        for endpoint in endpoints {
            let route = routes.iter().find(|route| {
                text(endpoint, "method") == route.method.as_str() && open(text(endpoint, "endpoint")) == shape(route)
            });
            let route = route.unwrap_or_else(|| panic!("{endpoint} is no operation"));
            assert!(seen.insert((text(endpoint, "endpoint"), text(endpoint, "method"))), "{endpoint} comes twice");
            assert_eq!(text(endpoint, "method"), route.method.as_str());
            // Status and body pass only when both sides say so, and then with one backend alone.
            assert_eq!(text(endpoint, "output_encoding"), "no-op");
            let [backend] = endpoint["backend"].as_array().expect("backends").as_slice() else {
                panic!("one backend: {endpoint}")
            };
            assert_eq!(text(backend, "encoding"), "no-op");
            assert_eq!(backend["host"][0], model.upstreams[route.upstream].url());
            // A parameter of the backend's path has to be one of the endpoint's; texts are compared decoded, and sent encoded.
            assert_eq!(sample(text(backend, "url_pattern")), sample(text(endpoint, "endpoint")));
            assert!(!text(endpoint, "endpoint").contains('%'), "{endpoint}");
            for all in ["input_headers", "input_query_strings"] {
                assert_eq!(endpoint[all], serde_json::json!(["*"]), "{endpoint}");
            }
        }
        one_name_for_one_place(endpoints);
    }
}

/// An endpoint with `x` for its parameters.
fn open(endpoint: &str) -> String {
    let segment = |segment: &str| if segment.starts_with('{') { "x".to_owned() } else { segment.to_owned() };
    endpoint.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// A route with `x` for each segment that is not a text, decoded.
fn shape(route: &Route) -> String {
    let segment = |segment: &Segment| segment.literal().map_or("x".to_owned(), sample);
    route.segments.iter().map(|part| format!("/{}", segment(part))).collect()
}

/// Its router panics when two endpoints have parameters of different names at the same place.
fn one_name_for_one_place(endpoints: &[Value]) {
    let mut names = std::collections::BTreeMap::new();
    for endpoint in endpoints {
        let mut before = String::new();
        for segment in text(endpoint, "endpoint").split('/').skip(1) {
            if segment.starts_with('{') {
                let name = names.entry(before.clone()).or_insert(segment);
                assert_eq!(*name, segment, "behind {before}");
            }
            before += &format!("/{segment}");
        }
    }
}

/// Classic applications: <https://tyk.io/docs/api-management/gateway-config-tyk-classic/>.
#[test]
fn tyk_allows_every_operation_at_its_upstream() {
    for (name, file) in APIS {
        let model = model(&api(file), &Options::default());
        let files = json("tyk", &model);
        let applications: Vec<&Value> =
            files.iter().filter(|(path, _)| path.starts_with("apps/")).map(|(_, value)| value).collect();
        let mut allowed = 0;
        let mut listen_paths = BTreeSet::new();
        for application in &applications {
            let proxy = &application["proxy"];
            assert!(listen_paths.insert(text(proxy, "listen_path")), "{name}: two applications at one path");
            assert_eq!(proxy["strip_listen_path"], false);
            let paths = &application["version_data"]["versions"]["Default"]["extended_paths"];
            for allow in paths["white_list"].as_array().expect("a list") {
                let expression = text(allow, "path");
                let entry = model.paths.iter().find(|entry| {
                    let samples = sample(&entry.template());
                    plain(expression) == samples
                });
                let entry = entry.unwrap_or_else(|| panic!("{name}: {expression} is no path"));
                for (method, _) in allow["method_actions"].as_object().expect("methods") {
                    let target =
                        entry.targets.iter().find(|target| target.methods.iter().any(|m| m.as_str() == method));
                    let upstream = model.upstreams[target.expect("the method").upstream].url();
                    let rewrite = paths["url_rewrites"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .find(|rewrite| text(rewrite, "path") == expression && text(rewrite, "method") == method);
                    match rewrite {
                        None => assert_eq!(text(proxy, "target_url"), upstream, "{name}: {method} {expression}"),
                        Some(rewrite) => assert_eq!(text(rewrite, "rewrite_to"), format!("{upstream}$1")),
                    }
                    allowed += 1;
                }
            }
        }
        assert_eq!(allowed, model.paths.iter().map(|path| path.methods().count()).sum::<usize>(), "{name}");
        // One application per first segment where each has an upstream of its own.
        assert_eq!(
            applications.len(),
            match name {
                "auction" => 3,
                "tls" => 3,
                _ => 1,
            },
            "{name}"
        );
    }
}

/// An expression with `x` for what it leaves open, and with the listen path that it may be without.
fn plain(expression: &str) -> String {
    let text = expression.replace("|/)", ")").replace("(?:", "").replace(")?", "");
    let text = text
        .strip_prefix('^')
        .and_then(|text| text.strip_suffix('$'))
        .expect("anchors")
        .replace("[^/]+", "x")
        .replace("[^/].*", "x");
    let whole = text.strip_suffix(')').filter(|text| !text.contains('(')).unwrap_or(&text);
    whole.replace('\\', "")
}

/// A path with `x` for its parameters, decoded.
fn sample(template: &str) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('{') {
        out += literal;
        out.push('x');
        rest = after.split_once('}').expect("a brace").1;
    }
    (out + rest).replace("%20", " ").replace("%C3%B6", "\u{f6}").replace("%C3%9F", "\u{df}").replace("%2B", "+")
}
