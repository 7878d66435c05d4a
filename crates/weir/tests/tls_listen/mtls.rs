//! Client certificates as a way to authenticate, beside keys, limits, resumption, HTTP/2 and reloads.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CustomExtension, DnValue};
use testkit::{Certificates, RawClient, Upstream, Weir, responder};
use tls::{Alpn, Certificate, ClientConfig, Version};

use super::authorities::{Authority, client, dns, uri};
use super::client::{Client, DEADLINE, Response, config, of_version, trusting};
use super::{certificate, metric, program};

const KEY: &str = "a-key-of-an-earlier-gateway-1";
const HOST: &str = "a.test";

struct Rig {
    weir: Weir,
    upstream: Upstream,
    servers: Certificates,
    mesh: Authority,
}

const MESH: &str = "{mtls: {identity: [uri, dns], headers: {X-Client: consumer, X-Serial: serial}, forward: rfc9440}}";

/// A listener that takes certificates of `mesh`; `more` stands beside `client_auth`, `rest` behind the authenticators.
fn rig(mesh_spec: &str, mode: &str, rest: &str) -> Rig {
    let (servers, mesh) = (Certificates::for_names("DNS:a.test"), Authority::new());
    let upstream = Upstream::start(responder::ok("hello"));
    let builder = Weir::builder(program());
    let keys = builder.dir().join("keys.yaml");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, KEY.as_bytes());
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&keys, format!("- {{id: k1, sha256: {digest}, consumer: shop}}\n")).unwrap();
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, tls: {{certificates: [{site}], client_auth: {{ca: {ca}, mode: {mode}}}}}}}, 127.0.0.1:0]\n\
         admin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\nupstreams: {{u: {{targets: [{url}]}}}}\n\
         auth:\n  mesh: {mesh_spec}\n  keys: {{api_key: {{store: {{file: {keys}}}, headers: {{X-Shop: consumer}}}}}}\n{rest}",
        site = certificate(&servers, ""),
        ca = mesh.file().display(),
        url = upstream.url(),
        keys = keys.display()
    );
    Rig { weir: builder.config(yaml).start(), upstream, servers, mesh }
}

const ROUTES: &str = "routes:\n  - {match: {path: /mesh/*}, auth: mesh, upstream: u}\n  \
                      - {match: {path: /any/*}, auth: [mesh, keys], upstream: u}\n  \
                      - {match: {path: /both/*}, auth: [[keys, mesh]], upstream: u}\n  \
                      - {match: {path: /only/*}, auth: mesh, allow: {claims: {dns: [orders.test]}}, upstream: u}\n  \
                      - {match: {path: /open/*}, auth: none, upstream: u}\n";

impl Rig {
    fn address(&self) -> SocketAddr {
        self.weir.addrs(2)[0]
    }

    fn showing(&self, certificate: Option<Certificate>) -> Arc<ClientConfig> {
        config(&tls::client::Options { certificate, ..trusting(&[&self.servers]) })
    }

    fn client(&self, certificate: Option<Certificate>) -> Client {
        Client::connect(self.address(), &self.showing(certificate), HOST).unwrap()
    }

    /// The newest request that the upstream saw.
    fn seen(&self) -> String {
        String::from_utf8(self.upstream.requests().pop().expect("a request").head.raw).unwrap()
    }

    /// The status of a request with this certificate, and what the log says of it.
    fn logged(&self, certificate: Certificate) -> (u16, String) {
        let response = self.client(Some(certificate)).get(HOST, "/mesh/a");
        let id = response.field("x-request-id").unwrap();
        let line = self.weir.wait_for_line("the access log", |line| line.contains(id).then(|| line.to_owned()));
        (response.status, line)
    }
}

fn get(client: &mut Client, path: &str, fields: &str) -> Response {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{fields}\r\n").as_bytes());
    client.read_response().unwrap()
}

#[test]
fn a_certificate_opens_its_routes_and_names_the_consumer() {
    // Of trusted peers too: nothing else removes what they send.
    let rig = rig(MESH, "optional", &format!("trusted_proxies: [127.0.0.0/8]\n{ROUTES}"));
    let orders = rig.mesh.issue(&client("x", vec![dns("Orders.Test"), uri("spiffe://mesh.test/orders")]));
    let mut mine = rig.client(Some(orders.clone()));
    for _ in 0..2 {
        let forged = "X-Client: root\r\nx_client: root\r\nClient-Cert: :AAAA:\r\nClient_Cert_Chain: x\r\nX-Forwarded-Client-Cert: x\r\n";
        assert_eq!(get(&mut mine, "/mesh/a", forged).status, 200);
        let seen = rig.seen();
        assert!(seen.contains("X-Client: spiffe://mesh.test/orders\r\n") && seen.contains("X-Serial: "), "{seen}");
        let line = seen.lines().find_map(|line| line.strip_prefix("Client-Cert: :")?.strip_suffix(':')).unwrap();
        let shown = STANDARD.decode(line).unwrap();
        assert_eq!(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &shown).as_ref(), orders.facts.sha256);
        for forged in ["root", "AAAA", "Client_Cert_Chain", "X-Forwarded-Client-Cert"] {
            assert!(!seen.contains(forged), "{forged}: {seen}");
        }
    }
    assert_eq!(get(&mut mine, "/only/a", "").status, 200);
    assert_eq!(get(&mut mine, "/open/a", "Client-Cert: :AAAA:\r\n").status, 200);
    assert!(!rig.seen().to_ascii_lowercase().contains("client-cert"), "no route passes on what a client forged");
    let other = rig.mesh.issue(&client("x", vec![dns("stock.test")]));
    assert_eq!(get(&mut rig.client(Some(other)), "/only/a", "").status, 403);

    // Without one: certificates are optional on this listener; the other has no TLS.
    let mut nobody = rig.client(None);
    let refused = get(&mut nobody, "/mesh/a", "");
    assert_eq!((refused.status, refused.field("www-authenticate")), (401, Some("Certificate realm=\"weir\"")));
    assert_eq!(get(&mut nobody, "/open/a", "").status, 200);
    assert_eq!(RawClient::connect(rig.weir.addrs(2)[1]).get("/mesh/a").status(), 401);
    assert!(metric(&rig.weir, "auth_requests_total", "auth=\"mesh\",outcome=\"ok\"") >= 3);
    assert_eq!(metric(&rig.weir, "auth_requests_total", "auth=\"mesh\",outcome=\"missing\""), 2);
}

#[test]
fn certificates_and_keys_stand_beside_each_other_and_each_writes_its_own_fields() {
    let rig = rig(MESH, "optional", ROUTES);
    let key = format!("X-API-Key: {KEY}\r\n");
    let mut mine = rig.client(Some(rig.mesh.issue(&client("x", vec![uri("spiffe://mesh.test/orders")]))));
    let mut nobody = rig.client(None);
    assert_eq!(get(&mut nobody, "/any/a", "").status, 401);
    assert_eq!(get(&mut nobody, "/any/a", &key).status, 200);
    let seen = rig.seen();
    assert!(seen.contains("X-Shop: shop\r\n") && !seen.contains("Client-Cert"), "{seen}");
    assert_eq!(get(&mut mine, "/any/a", &key).status, 200);
    let seen = rig.seen();
    assert!(seen.contains("X-Client: spiffe://mesh.test/orders\r\n") && !seen.contains("X-Shop"), "{seen}");

    assert_eq!(get(&mut nobody, "/both/a", &key).status, 401);
    assert_eq!(get(&mut mine, "/both/a", "").status, 401);
    assert_eq!(get(&mut mine, "/both/a", "X-API-Key: a-key-of-nobody-at-all\r\n").status, 401);
    assert_eq!(get(&mut mine, "/both/a", &key).status, 200);
    let seen = rig.seen();
    for line in ["X-Shop: shop\r\n", "X-Client: spiffe://mesh.test/orders\r\n", "Client-Cert: :"] {
        assert!(seen.contains(line), "{line}: {seen}");
    }
    // No good key helps beside a certificate that names nobody.
    let nameless = rig.mesh.issue(&client("x", vec![]));
    assert_eq!(get(&mut rig.client(Some(nameless)), "/any/a", &key).status, 401);
}

#[test]
fn a_resumed_session_is_the_same_consumer() {
    let rig = rig(MESH, "required", ROUTES);
    for version in [Version::Tls12, Version::Tls13] {
        let mut configs = ["a", "b"].map(|name| {
            let certificate = rig.mesh.issue(&client("x", vec![uri(&format!("spiffe://mesh.test/{name}"))]));
            let options = tls::client::Options { certificate: Some(certificate), ..trusting(&[&rig.servers]) };
            (name, config(&of_version(version, options)))
        });
        for is_resumed in [false, true, true] {
            for (name, config) in &mut configs {
                let mut client = Client::connect(rig.address(), config, HOST).unwrap();
                assert_eq!(get(&mut client, "/mesh/a", "").status, 200);
                assert_eq!(client.session().is_resumed, is_resumed);
                assert!(rig.seen().contains(&format!("X-Client: spiffe://mesh.test/{name}\r\n")));
            }
        }
    }
}

#[test]
fn streams_of_http2_have_the_certificate_of_their_connection() {
    let rig = rig(MESH, "optional", ROUTES);
    let certificate = rig.mesh.issue(&client("x", vec![uri("spiffe://mesh.test/orders")]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let statuses = |certificate: Option<Certificate>| {
        let options = tls::client::Options { certificate, alpn: vec![Alpn::Http2], ..trusting(&[&rig.servers]) };
        let exchange = async {
            let stream = tokio::net::TcpStream::connect(rig.address()).await.unwrap();
            let name = tls::client::server_name(HOST).unwrap();
            let stream = tls::connect(stream, config(&options), name).await.unwrap();
            let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
            let driver = tokio::spawn(connection);
            let mut sent = Vec::new();
            for number in 0..20 {
                let uri = format!("https://{HOST}/mesh/{number}");
                let request = http::Request::get(uri).header("client-cert", ":AAAA:").body(()).unwrap();
                sender = sender.ready().await.unwrap();
                sent.push(sender.send_request(request, true).unwrap().0);
            }
            let mut statuses = Vec::new();
            for response in sent {
                statuses.push(response.await.unwrap().status().as_u16());
            }
            driver.abort();
            statuses
        };
        runtime.block_on(async { tokio::time::timeout(DEADLINE, exchange).await })
    };
    assert_eq!(statuses(Some(certificate)).unwrap(), [200; 20]);
    let requests = rig.upstream.requests();
    assert_eq!(requests.len(), 20);
    for request in requests {
        assert_eq!(request.head.all("x-client"), ["spiffe://mesh.test/orders"]);
        assert!(request.head.all("client-cert").iter().all(|value| value.len() > 100));
    }
    assert_eq!(statuses(None).unwrap(), [401; 20]);
}

#[test]
fn hostile_certificates_are_refused_and_the_log_says_why() {
    let rig = rig(MESH, "optional", ROUTES);
    let odd = |content: &[u8]| {
        let mut params = client("x", vec![]);
        params.custom_extensions.push(CustomExtension::from_oid_content(&[2, 5, 29, 17], content.to_vec()));
        params
    };
    let two = vec![uri("spiffe://mesh.test/a"), uri("spiffe://mesh.test/b")];
    let many = (0..101).map(|number| dns(&format!("n{number}.test"))).collect();
    let large = (0..90).map(|number| dns(&format!("{}.n{number}.test", "a".repeat(250)))).collect();
    for (params, why) in [
        (client("x", vec![]), "the certificate has none of the names that count"),
        (client("x", two), "the certificate has several URIs"),
        (client("x", many), "the certificate has more than 100 names"),
        (client("x", large), "the certificate has more than 16 KiB"),
        (client("x", vec![uri("spiffe://a\r\nX-Client: root")]), "control characters"),
        (client("x", vec![uri(&format!("spiffe://{}", "a".repeat(2000)))]), "more than 1,024 bytes"),
        (odd(&[0x30, 4, 0x86, 2, 0xd8, 0xff]), "a name of the certificate is not valid"),
    ] {
        let (status, line) = rig.logged(rig.mesh.issue(&params));
        assert_eq!(status, 401, "{why}");
        assert!(line.contains("\"auth\":\"invalid\"") && line.contains(why), "{why}: {line}");
    }
    assert_eq!(rig.upstream.request_count(), 0);
    // An encoding that is not read does no harm to a certificate whose name is elsewhere.
    let bmp = DnValue::BmpString("x".try_into().unwrap());
    assert_eq!(rig.logged(rig.mesh.issue(&client(bmp, vec![uri("spiffe://mesh.test/a")]))).0, 200);

    // One of an unknown authority does not even complete the handshake.
    let stranger = Authority::new().issue(&client("x", vec![uri("spiffe://mesh.test/orders")]));
    let refused = Client::connect(rig.address(), &rig.showing(Some(stranger)), HOST)
        .and_then(|mut client| client.try_get(HOST, "/mesh/a").map(drop));
    assert_eq!(tls::Failure::of_io(&refused.unwrap_err()), tls::Failure::Alert);
    assert_eq!(metric(&rig.weir, "tls_handshakes_total", "result=\"tls_untrusted\""), 1);
}

/// Two authorities, each for a host of its own: neither makes names for the other's.
#[test]
fn an_authority_names_consumers_of_its_own_authenticator_only() {
    let (servers, mesh, partners) =
        (Certificates::for_names("DNS:mesh.test,DNS:partners.test"), Authority::new(), Authority::new());
    let entry = |host: &str, authority: &Authority| {
        certificate(&servers, &format!(", hosts: [{host}], client_auth: {{ca: {}}}", authority.file().display()))
    };
    let yaml = |mesh_ca: &str| {
        format!(
            "listen: [{{bind: 127.0.0.1:0, tls: {{certificates: [{}, {}]}}}}]\nadmin: 127.0.0.1:0\nworkers: 1\n\
             auth:\n  mesh: {{mtls: {{{mesh_ca}}}}}\n  partners: {{mtls: {{identity: common_name, ca: {}}}}}\n\
             routes:\n  - {{match: {{path: /mesh/*}}, auth: mesh, respond: {{body: mesh}}}}\n  \
             - {{match: {{path: /*}}, auth: [mesh, partners], respond: {{body: any}}}}\n",
            entry("mesh.test", &mesh),
            entry("partners.test", &partners),
            partners.file().display()
        )
    };
    let refused = Weir::builder(program()).config(yaml("")).run();
    assert!(refused.stderr.contains("several `client_auth.ca`"), "{}", refused.stderr);
    let refused = Weir::builder(program()).config(yaml("ca: other.pem")).run();
    assert!(refused.stderr.contains("no listener verifies certificates by `other.pem`"), "{}", refused.stderr);

    let weir = Weir::builder(program()).config(yaml(&format!("ca: {}", mesh.file().display()))).start();
    let names = || vec![uri("spiffe://mesh.test/orders")];
    let connect = |host: &str, certificate: Certificate| {
        let options = tls::client::Options { certificate: Some(certificate), ..trusting(&[&servers]) };
        Client::connect(weir.addr(), &config(&options), host).unwrap()
    };
    let mut own = connect("mesh.test", mesh.issue(&client("x", names())));
    let mut other = connect("partners.test", partners.issue(&client("x", names())));
    assert_eq!(own.get("mesh.test", "/mesh/a").status, 200);
    assert_eq!(own.get("mesh.test", "/a").status, 200);
    assert_eq!(other.get("partners.test", "/mesh/a").status, 401);
    assert_eq!(other.get("partners.test", "/a").status, 200);
    assert_eq!(other.get("mesh.test", "/mesh/a").status, 421);
}

#[test]
fn limits_count_by_certificate_and_envoys_form_is_written() {
    let spec = "{mtls: {identity: dns, forward: xfcc}}";
    let limits =
        "limits: {each: {key: consumer, algorithm: fixed_window, quota: 2, window: 1h}}\ndefaults: {limits: [each]}\n";
    let rig = rig(spec, "required", &format!("{limits}{ROUTES}"));
    for name in ["a.mesh.test", "b.mesh.test"] {
        let certificate = rig.mesh.issue(&client("x", vec![dns(name)]));
        let statuses: Vec<u16> =
            (0..3).map(|_| get(&mut rig.client(Some(certificate.clone())), "/mesh/a", "").status).collect();
        assert_eq!(statuses, [200, 200, 429]);
        let seen = rig.seen();
        let hash: String = certificate.facts.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("X-Forwarded-Client-Cert: Hash={hash};Subject=\"CN=x\";DNS=\"{name}\"\r\n");
        assert!(seen.contains(&line), "{line}: {seen}");
    }
}

#[test]
fn the_example_serves_who_shows_a_certificate() {
    let (servers, mesh) = (Certificates::for_names("DNS:a.test"), Authority::new());
    let upstream = Upstream::start(responder::ok("hello"));
    let directory = tempfile::tempdir().unwrap();
    for (from, name) in [(servers.certificate(), "cert.pem"), (servers.key(), "key.pem"), (mesh.file(), "ca.pem")] {
        std::fs::copy(from, directory.path().join(name)).unwrap();
    }
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/weir/mtls/weir.yaml");
    let weir = Weir::builder(program())
        .config_file(example)
        .env("TLS_DIR", directory.path().display().to_string())
        .env("LISTEN", "127.0.0.1:0")
        .env("ORDERS_URL", upstream.url())
        .start();
    let showing = |name: &str| {
        let certificate = Some(mesh.issue(&client("x", vec![uri(name)])));
        let options = tls::client::Options { certificate, ..trusting(&[&servers]) };
        Client::connect(weir.addr(), &config(&options), HOST).unwrap()
    };
    let (mut operator, mut orders) =
        (showing("spiffe://mesh.example/operator"), showing("spiffe://mesh.example/orders"));
    assert_eq!((operator.get(HOST, "/admin/a").status, operator.get(HOST, "/a").status), (200, 200));
    assert_eq!((orders.get(HOST, "/admin/a").status, orders.get(HOST, "/a").status), (403, 200));
    assert_eq!(upstream.requests().pop().unwrap().head.all("x-client"), ["spiffe://mesh.example/orders"]);
}
