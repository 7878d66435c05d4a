//! Real gateways from their generated files, in front of real upstreams. `scripts/suites/55-gauge-gateways.sh` installs what can be installed
//! and names in GAUGE_GATEWAYS those that must be there; others are left out when their program is not found.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gauge::gateway::{
    self, Gateway, Model, Options, Part, PathEntry, Placement, Program, Ready, Route, Segment, Written,
};
use testkit::ports::Port;
use testkit::{Message, Process, RawClient, Signal, Upstream, wait};

use crate::{APIS, api, many, model};

/// More than any buffer, less than the 32 MiB that every gateway is told to take.
const LARGE: usize = 24 << 20;

/// A gateway that runs, its upstreams, and what it was made from.
pub(crate) struct Running {
    pub(crate) gateway: &'static dyn Gateway,
    pub(crate) model: Model,
    pub(crate) upstreams: Vec<Upstream>,
    /// What its adapter says is different.
    pub(crate) notes: Vec<String>,
    pub(crate) place: Placement,
    port: Port,
    process: Process,
    _folder: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let stop = self.gateway.stop();
        let signal = match stop.signal {
            gauge::gateway::Signal::Hup
            | gauge::gateway::Signal::Usr1
            | gauge::gateway::Signal::Usr2
            | gauge::gateway::Signal::Kill
            | gauge::gateway::Signal::Stop
            | gauge::gateway::Signal::Cont => panic!("no gateway is stopped so"),
            gateway::Signal::Term => Signal::TERM,
            gateway::Signal::Int => Signal::INT,
            gateway::Signal::Quit => Signal::QUIT,
        };
        self.process.signal(signal);
        if std::thread::panicking() {
            self.process.kill();
        } else {
            self.process.wait_for_exit(stop.grace + Duration::from_secs(5));
        }
    }
}

/// A gateway in front of upstreams that have the API below a base path.
pub(crate) fn start_api(gateway: &'static dyn Gateway, program: &Program, api: &apidoc::Api, base: &str) -> Running {
    let mut options = Options::default();
    let mut upstreams = Vec::new();
    let mut origins: Vec<&str> = Vec::new();
    for operation in &api.operations {
        let origin = operation.origin().unwrap_or("");
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    for origin in origins {
        let real = Upstream::builder().record_limit(1 << 10).start(|conn, request| {
            let large = request.head.field("x-large").is_some();
            let body = if large { vec![b'x'; LARGE] } else { b"fine".to_vec() };
            // A response of the business is not the gateway's to change.
            let status = if request.head.field("x-refuse").is_some() { 403 } else { 200 };
            conn.respond(status, &[("Content-Type", "text/plain"), ("X-From", "upstream")], body)
        });
        options.upstreams.insert(origin.to_owned(), real.url() + base);
        upstreams.push(real);
    }
    start_model(gateway, program, model(api, &options), upstreams)
}

/// A gateway in front of these upstreams, which the model names.
pub(crate) fn start_model(
    gateway: &'static dyn Gateway,
    program: &Program,
    model: Model,
    upstreams: Vec<Upstream>,
) -> Running {
    let folder = tempfile::tempdir().expect("a folder");
    let port = Port::free();
    let extra: Vec<Port> = gateway.extra_ports().iter().map(|_| Port::free()).collect();
    let place =
        Placement { extra: extra.iter().map(Port::number).collect(), ..Placement::new(port.address(), folder.path()) };
    let written = gateway.files(&model, &place).unwrap_or_else(|error| panic!("{error}"));
    write(&written, folder.path());
    if let Some(check) = gateway.check(program, &place) {
        valid(gateway, &check, folder.path());
    }
    let command = gateway.command(program, &place);
    let mut builder = Process::builder(&command.argv[0]).args(&command.argv[1..]).current_dir(folder.path());
    for (name, value) in &command.env {
        builder = builder.env(name, value);
    }
    let process = builder.death_signal(Signal::TERM).start();
    let ready = gateway.ready(&place);
    let notes = written.notes;
    let running = Running { gateway, model, upstreams, notes, place, port, process, _folder: folder };
    wait::until(testkit::DEADLINE * 3, &format!("{} serves", gateway.name()), || {
        assert!(running.process.exit_status().is_none(), "{} ended:\n{}", gateway.name(), running.process.tail());
        is_ready(&ready)
    });
    running
}

fn write(written: &Written, folder: &Path) {
    for file in &written.files {
        let path = folder.join(&file.path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
        std::fs::write(path, &file.text).expect("a file is written");
    }
}

/// The gateway says that the files are right, and is not started: upstreams with TLS want certificates that the machine trusts.
fn only_checked(gateway: &dyn Gateway, program: &Program, api: &apidoc::Api) {
    let folder = tempfile::tempdir().expect("a folder");
    let port = Port::free();
    let place = Placement::new(port.address(), folder.path());
    // Some have no TLS yet, and say so.
    if let (Ok(written), Some(check)) =
        (gateway.files(&model(api, &Options::default()), &place), gateway.check(program, &place))
    {
        write(&written, folder.path());
        valid(gateway, &check, folder.path());
    }
}

/// The gateway's own check finds nothing wrong.
fn valid(gateway: &dyn Gateway, check: &gateway::Command, folder: &Path) {
    let output = Command::new(&check.argv[0])
        .args(&check.argv[1..])
        .envs(check.env.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", check.argv[0]));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{} refuses its files: {said}", gateway.name());
    let complaint = said
        .lines()
        .find(|line| line.to_lowercase().contains("warn") && !line.contains("Caddyfile input is not formatted"));
    assert!(complaint.is_none(), "{} complains: {said}", gateway.name());
}

fn is_ready(ready: &Ready) -> bool {
    let connect = |address: &SocketAddr| RawClient::try_connect(*address, None).ok();
    match ready {
        Ready::Tcp(address) => connect(address).is_some(),
        Ready::Http { address, path, status } => connect(address).is_some_and(|mut client| {
            client.try_send(format!("GET {path} HTTP/1.1\r\nHost: gauge\r\n\r\n")).is_ok()
                && client.try_read_response().is_ok_and(|response| response.status() == *status)
        }),
    }
}

impl Running {
    pub(crate) fn client(&self) -> RawClient {
        RawClient::connect(self.port.address())
    }

    pub(crate) fn seen(&self) -> usize {
        self.upstreams.iter().map(Upstream::request_count).sum()
    }

    /// A request that must pass, to the right upstream, unchanged where it matters.
    fn passes(
        &self,
        client: &mut RawClient,
        route: &Route,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Message {
        let method = route.method.as_str();
        let upstream = &self.upstreams[route.upstream];
        let before = (self.seen(), upstream.request_count());
        client.request(method, target, fields, body);
        let response = client.read_response_to(method);
        let what = format!("{}: {method} {target}", self.gateway.name());
        assert_eq!((self.seen(), upstream.request_count()), (before.0 + 1, before.1 + 1), "{what}: {response:?}");
        assert_eq!(response.field("x-from"), Some("upstream"), "{what}: {response:?}");
        let requests = upstream.requests();
        let got = requests.last().expect("a request");
        assert_eq!((got.head.method(), got.head.target()), (method, target), "{what}");
        for (name, value) in fields {
            assert_eq!(got.head.field(name), Some(*value), "{what}: {name}");
        }
        assert_eq!(got.body_length, body.len() as u64, "{what}");
        // For a client on the loopback Envoy writes an address of the machine.
        let client = got.head.field("x-forwarded-for").and_then(|client| client.parse::<std::net::IpAddr>().ok());
        assert!(client.is_some_and(|ip| ip.is_loopback() || self.gateway.name() == "envoy"), "{what}: {:?}", got.head);
        for written in ["forwarded", "x-forwarded-prefix", "x-envoy-expected-rq-timeout-ms"] {
            assert_eq!(got.head.field(written), None, "{what}: {:?}", got.head);
        }
        assert_eq!(got.head.field("host"), Some(self.model.upstreams[route.upstream].authority().as_str()), "{what}");
        if !["traefik", "spring", "krakend", "tyk"].contains(&self.gateway.name()) {
            assert!(got.head.field("x-request-id").is_some_and(|id| id.len() >= 16), "{what}: {:?}", got.head);
        }
        response
    }

    /// A request that the gateway must respond to itself.
    fn refuses(&self, method: &str, target: &str, statuses: &[u16]) {
        let before = self.seen();
        let mut client = self.client();
        client.request(method, target, &[], "");
        let response = client.read_response_to(method);
        let what = format!("{}: {method} {target}", self.gateway.name());
        assert!(statuses.contains(&response.status()), "{what}: {response:?}");
        assert_eq!(self.seen(), before, "{what} reached an upstream");
    }
}

/// The path of a route with values for its parameters.
pub(crate) fn path(route: &Route) -> String {
    let mut path = String::new();
    for (i, segment) in route.segments.iter().enumerate() {
        path.push('/');
        for part in &segment.parts {
            match part {
                Part::Literal(text) => path.push_str(text),
                Part::Parameter(_) | Part::MultiSegment(_) => path.push_str(&format!("v-{i}.x~")),
            }
        }
    }
    path
}

fn everything_passes_and_nothing_else(running: &Running) {
    let name = running.gateway.name();
    let mut client = running.client();
    let skipped = |route: &Route| match name {
        // What an adapter's notes say.
        "krakend" => !["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&route.method.as_str()),
        _ => false,
    };
    let routes: Vec<&Route> = running.model.routes.iter().filter(|route| !skipped(route)).collect();
    for route in &routes {
        let mut fields = vec![("Authorization", "Bearer a.b.c"), ("X-API-Key", "k")];
        let body: &[u8] = if ["POST", "PUT", "PATCH"].contains(&route.method.as_str()) { b"{\"a\":1}" } else { b"" };
        if !body.is_empty() {
            fields.push(("Content-Type", "application/json"));
        }
        let response = running.passes(&mut client, route, &path(route), &fields, body);
        assert_eq!(response.status(), 200);
        let query: Vec<String> = route.query.iter().map(|name| format!("{name}=a%20b%2F1")).collect();
        let target = format!("{}?{}", path(route), query.join("&"));
        running.passes(&mut client, route, target.trim_end_matches('?'), &fields, body);
        fields.push(("X-Refuse", "1"));
        let refused = running.passes(&mut client, route, &path(route), &fields, body);
        assert_eq!((refused.status(), refused.body.is_empty()), (403, route.method.as_str() == "HEAD"), "{name}");
    }
    running.refuses("GET", "/nowhere", &[404]);
    for route in &routes {
        let path = path(route);
        let described = |path: &str| running.model.paths.iter().any(|other| matches(other, path));
        for other in [
            format!("{}x/y/z", path.trim_end_matches('/')),
            format!("{path}/"),
            format!("/x{path}"),
            format!("{path}x"),
        ] {
            if !described(&other) && !other.contains("//") && path != "/" {
                running.refuses("GET", &other, &[404, 405]);
            }
        }
        running.refuses("TRACE", &path, &[404, 405, 501]);
        // A gateway may try the next path that matches when a method does not.
        let somewhere = |method: &str| {
            let takes = |other: &&PathEntry| matches(other, &path) && other.methods().any(|m| m.as_str() == method);
            running.model.paths.iter().find(takes).is_some()
        };
        if let Some(method) = ["DELETE", "PATCH", "POST"].iter().find(|method| !somewhere(method)) {
            running.refuses(method, &path, &[404, 405]);
        }
    }
}

/// Whether a path is one of a template: a parameter takes any segment that is not empty.
fn matches(entry: &PathEntry, path: &str) -> bool {
    let texts: Vec<&str> = path[1..].split('/').collect();
    let fits = |(text, segment): (&&str, &Segment)| match segment.literal() {
        Some(literal) => literal == *text,
        None => !text.is_empty(),
    };
    let below = entry.segments.last().is_some_and(|last| last.multi_segment().is_some());
    let long = texts.len() == entry.segments.len() || (below && texts.len() > entry.segments.len());
    long && texts.iter().zip(&entry.segments).all(fits)
}

/// A parameter that may hold slashes takes the rest of the path, and what is below it in the description keeps its own.
fn slashes_pass_where_they_may(running: &Running) {
    let tree = running.model.routes.iter().find(|route| route.id == "tree").expect("an operation");
    let mut client = running.client();
    if running.gateway.name() != "krakend" {
        running.passes(&mut client, tree, "/trees/src/a.b/main.rs", &[], b"");
    }
    running.refuses("GET", "/trees/", &[400, 404]);
    running.refuses("GET", "/trees", &[404]);
}

fn large_bodies_pass(running: &Running) {
    let post = running.model.routes.iter().find(|route| route.method.as_str() == "POST").expect("a POST");
    let mut client = running.client();
    client.set_deadline(Duration::from_secs(60));
    let fields = [("Content-Type", "application/json"), ("X-Large", "1")];
    let response = running.passes(&mut client, post, &path(post), &fields, &vec![b'a'; LARGE]);
    assert_eq!(response.body.len(), LARGE, "{}", running.gateway.name());
}

/// Requests one after another, and some side by side, need as many connections as were ever in use at once.
fn connections_are_kept(running: &Running) {
    let get = running.model.routes.iter().find(|route| route.method.as_str() == "GET").expect("a GET");
    let upstream = &running.upstreams[get.upstream];
    let (target, before) = (path(get), upstream.request_count());
    let accepted = upstream.accepted();
    let mut clients: Vec<RawClient> = (0..4).map(|_| running.client()).collect();
    for _ in 0..25 {
        for client in &mut clients {
            client.request("GET", &target, &[], "");
        }
        for client in &mut clients {
            assert_eq!(client.read_response().status(), 200);
        }
    }
    assert_eq!(upstream.request_count(), before + 100);
    let new = upstream.accepted() - accepted;
    assert!(new <= 8, "{}: {new} connections for 100 requests of four clients", running.gateway.name());
}

/// A client that nobody trusts says where it comes from and what its request is called. Gateways make different things of that; the document says which.
fn what_a_client_says_of_itself(running: &Running) {
    let name = running.gateway.name();
    let get = running.model.routes.iter().find(|route| route.method.as_str() == "GET").expect("a GET");
    let mut client = running.client();
    client.request("GET", &path(get), &[("X-Forwarded-For", "203.0.113.7"), ("X-Request-Id", "from-the-client")], "");
    assert_eq!(client.read_response().status(), 200, "{name}");
    let requests = running.upstreams[get.upstream].requests();
    let got = &requests.last().expect("a request").head;
    let hops: Vec<&str> =
        got.all("x-forwarded-for").into_iter().flat_map(|line| line.split(',')).map(str::trim).collect();
    match name {
        "weir" | "traefik" | "caddy" => assert_eq!(hops, ["127.0.0.1"], "{name} replaces what nobody vouches for"),
        "nginx" | "haproxy" | "envoy" | "fiber" | "spring" => {
            assert_eq!((hops.len(), hops.first()), (2, Some(&"203.0.113.7")), "{name} appends: {got:?}");
        }
        _ => {}
    }
    let ids = got.all("x-request-id");
    match name {
        "fiber" | "traefik" | "spring" => assert_eq!(ids, ["from-the-client"], "{name} passes it on"),
        "weir" | "nginx" | "haproxy" | "envoy" | "caddy" => {
            assert!(ids.len() == 1 && ids[0] != "from-the-client", "{name} makes its own: {got:?}");
        }
        _ => {}
    }
}

fn run(name: &str) {
    let gateway = gateway::by_name(name).expect("a gateway");
    let Some(program) = gateway.locate() else {
        let wanted = std::env::var("GAUGE_GATEWAYS").unwrap_or_default();
        assert!(!wanted.split(',').any(|wanted| wanted == name), "{name} is not here; {}", gateway.locator().hint);
        println!("{name} is not here and was not run");
        return;
    };
    let version = gateway.version(&program).unwrap_or_default();
    assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{name} has the version '{version}'");
    println!("{name} {version}");
    only_checked(gateway, &program, &many::api());
    for (name_of_api, file) in APIS {
        if name_of_api == "tls" {
            only_checked(gateway, &program, &api(file));
            continue;
        }
        let running = start_api(gateway, &program, &api(file), "");
        everything_passes_and_nothing_else(&running);
        if name_of_api == "corners" {
            slashes_pass_where_they_may(&running);
        }
        if name_of_api == "auction" {
            what_a_client_says_of_itself(&running);
            large_bodies_pass(&running);
            connections_are_kept(&running);
        }
        for upstream in &running.upstreams {
            assert_eq!(upstream.errors(), Vec::<String>::new(), "{name}");
        }
    }
}

macro_rules! running {
    ($($name:ident),*) => {$(
        #[test]
        #[ignore = "needs the programs that scripts/suites/55-gauge-gateways.sh installs"]
        fn $name() {
            run(stringify!($name));
        }
    )*};
}

running!(weir, nginx, haproxy, envoy, traefik, caddy, fiber, kong, krakend, tyk, spring);

#[test]
fn every_gateway_has_a_test_here() {
    let names: BTreeMap<&str, ()> = gateway::all().iter().map(|gateway| (gateway.name(), ())).collect();
    let here = ["weir", "nginx", "haproxy", "envoy", "traefik", "caddy", "fiber", "kong", "krakend", "tyk", "spring"];
    assert_eq!(names.len(), here.len());
    assert!(here.iter().all(|name| names.contains_key(name)));
}
