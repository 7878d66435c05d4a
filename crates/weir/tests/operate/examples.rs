//! Every example under load: started, reloaded, taken over, reloaded, drained.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use testkit::tls::TlsRelay;
use testkit::{Certificates, Redis, Signal, Upstream, answer};
use tls::names::Entry;
use tls::server::{Listener, Options, Tickets};
use tls::{Certificate, Names};
use weir::config::load_file;

use super::load::{Load, Request, Way};
use super::{DEADLINE, File, reload, take_over};

/// What replaces the targets of examples.
struct Servers {
    upstreams: Vec<Upstream>,
    /// The same upstreams over TLS, with a certificate for every host that an example names.
    relays: Vec<TlsRelay>,
    certificates: Certificates,
}

impl Servers {
    fn start() -> Self {
        let certificates = Certificates::for_names("IP:127.0.0.1,DNS:orders.internal");
        let certificate = Certificate::load(&certificates.certificate(), &certificates.key()).unwrap();
        let entry = Entry { certificate, names: Vec::new(), is_default: true, policy: 0 };
        let options = Options::new(Arc::new(Names::new(vec![entry]).unwrap()));
        let listener = Listener::new(&options, &Tickets::default()).unwrap();
        let upstreams: Vec<Upstream> = (0..3).map(|_| Upstream::start(answer::ok("hello"))).collect();
        let relay = |upstream: &Upstream| TlsRelay::terminate(listener.clone(), upstream.socket_addr());
        Servers { relays: upstreams.iter().map(relay).collect(), upstreams, certificates }
    }
}

/// What changes of an example so that it runs here: addresses of this test, and the sockets of operators. No example reaches another machine.
fn here(example: &mut Value, directory: &Path, servers: &Servers, redis: &str) {
    let listeners = example["listen"].as_array().map_or(1, Vec::len);
    example["listen"] = (1..=listeners).map(|number| format!("127.0.0.{number}:0")).collect();
    example["admin"] = json!("127.0.0.1:0");
    example["takeover"] = json!(directory.join("takeover.sock"));
    example["workers"] = json!(2);
    if example.get("redis").is_some_and(Value::is_object) {
        example["redis"]["url"] = json!(redis);
    }
    for target in example["upstreams"].as_object_mut().unwrap().values_mut() {
        // The servers speak HTTP/1.1; those of `tests/grpc` and `tests/http2` speak HTTP/2.
        target["protocol"] = json!("http1");
        target.as_object_mut().unwrap().remove("http2");
        if let Some(health) = target.get_mut("health").and_then(Value::as_object_mut) {
            health.remove("grpc");
        }
        // Two targets of one upstream are two servers.
        let mut over_tls = false;
        for (index, target) in target["targets"].as_array_mut().unwrap().iter_mut().enumerate() {
            let url = if target.is_object() { &mut target["url"] } else { target };
            let text = url.as_str().unwrap();
            let path = |rest: &str| rest.find('/').map_or(String::new(), |slash| rest[slash..].to_owned());
            let server = &servers.upstreams[index];
            *url = if let Some(rest) = text.strip_prefix("http://") {
                json!(format!("{}{}", server.url(), path(rest)))
            } else if let Some(rest) = text.strip_prefix("https://") {
                over_tls = true;
                json!(format!("{}{}", servers.relays[index].url(), path(rest)))
            } else if text.starts_with("unix:") {
                json!(server.url())
            } else {
                assert!(text.starts_with("demo:"), "{text} would be reached for real");
                continue;
            };
        }
        // The upstreams of this test read no PROXY headers.
        if let Some(mapping) = target.as_object_mut() {
            mapping.remove("proxy_protocol");
        }
        if over_tls {
            target["tls"]["roots"] = json!(servers.certificates.authority());
        }
    }
}

fn copy(file: &Path, folder: &Path) {
    std::fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
}

/// A request that each route takes.
fn requests(example: &Value) -> Vec<Request> {
    let request = |route: &Value| {
        let rules = &route["match"];
        let path = rules["path"].as_str().unwrap();
        let segment =
            |segment: &str| if segment == "*" || segment.starts_with('{') { "1".into() } else { segment.to_owned() };
        let path: Vec<String> = path.split('/').map(segment).collect();
        let method = rules["methods"].as_array().and_then(|methods| methods.first()).and_then(Value::as_str);
        let mut request = match method {
            None | Some("GET") => Request::get(&path.join("/")),
            Some(method) => Request { method: method.into(), ..Request::post(&path.join("/"), "{}") },
        };
        if let Some(host) = rules["host"].as_str() {
            request.fields.push(("Host".into(), host.replace('*', "a")));
        }
        for (name, value) in rules["headers"].as_object().into_iter().flatten() {
            request.fields.push((name.clone(), value.as_str().unwrap_or("1").to_owned()));
        }
        request
    };
    example["routes"].as_array().unwrap().iter().map(request).collect()
}

#[test]
fn every_example_serves_through_reloads_a_take_over_and_a_drain() {
    let redis = Redis::start();
    let servers = Servers::start();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weir");
    let mut tried = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let loaded = load_file(&path, &|_| None).unwrap_or_else(|error| panic!("{error}"));
        let mut example = serde_json::to_value(&loaded.file).unwrap();
        let folder = tempfile::tempdir().unwrap();
        // Files that examples name: descriptions of APIs, prices.
        copy(&directory.join("orders.openapi.json"), folder.path());
        std::fs::create_dir(folder.path().join("prices")).unwrap();
        copy(&directory.join("prices/models.yaml"), &folder.path().join("prices"));
        here(&mut example, folder.path(), &servers, &redis.url());
        // JSON is YAML.
        let file = File::new(folder.path(), &example.to_string());

        let mut running = file.start();
        let addresses = running.addrs(example["listen"].as_array().unwrap().len());
        let clients: Vec<Way> = addresses.iter().cycle().take(2).copied().map(Way::from).collect();
        // What an example refuses on purpose is no failure.
        let load = Load::start(&clients, &requests(&example), |status| status < 500);
        load.wait_for(20);
        reload(&running, "");
        load.wait_for(20);
        running = take_over(&file, running);
        load.wait_for(20);
        reload(&running, "");
        load.wait_for(20);
        load.expect_the_end();
        running.signal(Signal::TERM);
        assert_eq!(running.wait_for_exit(DEADLINE).code(), Some(0), "{name}");
        assert_eq!(load.stop(), Vec::<String>::new(), "{name}");
        tried += 1;
    }
    assert!(tried >= 14, "{tried} examples");
}
