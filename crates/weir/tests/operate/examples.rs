//! Every example under load: started, reloaded, taken over, reloaded, drained.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use testkit::tls::TlsRelay;
use testkit::{Certificates, Redis, Signal, Upstream, responder};
use tls::names::Entry;
use tls::server::{Listener, Options, Tickets};
use tls::{Certificate, Names};
use weir::config::load_file;

use super::load::{Load, Request, Way};
use super::{DEADLINE, File, reload, take_over, trusting};

/// What replaces the targets of examples.
struct Servers {
    upstreams: Vec<Upstream>,
    /// The same upstreams over TLS, with a certificate for every host that an example names.
    relays: Vec<TlsRelay>,
    certificates: Certificates,
}

impl Servers {
    fn start() -> Self {
        let certificates = Certificates::for_names("IP:127.0.0.1,DNS:orders.internal,DNS:localhost");
        let certificate = Certificate::load(&certificates.certificate(), &certificates.key()).unwrap();
        let entry = Entry { certificate, names: Vec::new(), is_default: true, policy: 0 };
        let options = Options::new(Arc::new(Names::new(vec![entry]).unwrap()));
        let listener = Listener::new(&options, &Tickets::default()).unwrap();
        let upstreams: Vec<Upstream> = (0..3).map(|_| Upstream::start(responder::ok("hello"))).collect();
        let relay = |upstream: &Upstream| TlsRelay::terminate(listener.clone(), upstream.socket_addr());
        Servers { relays: upstreams.iter().map(relay).collect(), upstreams, certificates }
    }
}

/// What changes of an example so that it runs here: addresses of this test, and the sockets of operators. No example reaches another machine.
fn here(example: &mut Value, directory: &Path, servers: &Servers, redis: &str) {
    let listener = |(index, listener): (usize, &Value)| {
        let address = format!("127.0.0.{}:0", index + 1);
        if !has_tls(listener) {
            return json!(address);
        }
        let mut listener = listener.clone();
        listener["bind"] = json!(address);
        let certificates = &servers.certificates;
        listener["tls"]["certificates"] = json!([{"cert": certificates.certificate(), "key": certificates.key()}]);
        if listener["tls"]["client_auth"].is_object() {
            listener["tls"]["client_auth"]["ca"] = json!(certificates.authority());
        }
        listener
    };
    let listeners = match &example["listen"] {
        Value::Array(listeners) => listeners.clone(),
        // The default, or the only one.
        listener => vec![listener.clone()],
    };
    example["listen"] = listeners.iter().enumerate().map(listener).collect();
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
        if let Some(causes) = target.pointer_mut("/retry/on").and_then(Value::as_array_mut) {
            causes.retain(|cause| !cause.as_str().is_some_and(|name| name.starts_with("grpc_")));
        }
        // A file that names targets names those of this test.
        if let Some(file) = target["targets"]["file"].as_str() {
            let urls: Vec<String> = servers.upstreams.iter().map(Upstream::url).collect();
            std::fs::write(directory.join(file), json!(urls).to_string()).unwrap();
            continue;
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

fn has_tls(listener: &Value) -> bool {
    listener.get("tls").is_some_and(Value::is_object)
}

/// The files of configurations in `directory` and the folders in it.
fn examples(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("prices") {
            found.extend(examples(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
    found
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
    let pem = tempfile::tempdir().unwrap();
    let certificates = &servers.certificates;
    let files = [
        ("cert.pem", certificates.certificate()),
        ("key.pem", certificates.key()),
        ("ca.pem", certificates.authority()),
    ];
    for (name, file) in files {
        std::fs::copy(file, pem.path().join(name)).unwrap();
    }
    let mut tried = 0;
    for path in examples(&directory) {
        let name = path.strip_prefix(&directory).unwrap().display().to_string();
        // Certificates are the only files that are not beside the examples.
        let of_environment = |name: &str| match name {
            "TLS_CERT" => Some(pem.path().join("cert.pem").display().to_string()),
            "TLS_KEY" => Some(pem.path().join("key.pem").display().to_string()),
            "TLS_DIR" => Some(pem.path().display().to_string()),
            _ => None,
        };
        let loaded = load_file(&path, &of_environment).unwrap_or_else(|error| panic!("{error}"));
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
        // A listener with TLS is reached through a relay that speaks it.
        let over_tls: Vec<Option<TlsRelay>> = addresses
            .iter()
            .zip(example["listen"].as_array().unwrap())
            .map(|(&address, listener)| {
                has_tls(listener).then(|| {
                    TlsRelay::originate(trusting(&servers.certificates, tls::Alpn::Http11), "localhost", address)
                })
            })
            .collect();
        let reached =
            addresses.iter().zip(&over_tls).map(|(&plain, tls)| tls.as_ref().map_or(plain, TlsRelay::address));
        let clients: Vec<Way> = reached.cycle().take(2).map(Way::from).collect();
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
    assert!(tried >= 28, "{tried} examples");
}
