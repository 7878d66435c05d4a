//! Certificates that stop to count while the connections that showed them are open.

use rcgen::CertificateParams;
use testkit::{Certificates, Upstream, Weir, responder, wait};
use tls::{Alpn, Certificate};

use super::authorities::{Authority, client, uri};
use super::client::{Client, DEADLINE, config, trusting};
use super::{certificate, program};

const HOST: &str = "a.test";

/// A certificate of a client with this serial number.
fn numbered(serial: u64) -> CertificateParams {
    let mut params = client("x", vec![uri(&format!("spiffe://mesh.test/{serial}"))]);
    params.serial_number = Some(serial.into());
    params
}

struct Rig {
    weir: Weir,
    servers: Certificates,
    _upstream: Upstream,
}

/// `client_auth` of the listener; `/mesh/*` needs a certificate, `/open/*` nothing.
fn yaml(servers: &Certificates, upstream: &Upstream, client_auth: &str) -> String {
    format!(
        "listen: [{{bind: 127.0.0.1:0, tls: {{certificates: [{}]{client_auth}}}}}]\nadmin: 127.0.0.1:0\nworkers: 1\n\
         access_log: {{path: stdout}}\nupstreams: {{u: {{targets: [{}]}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n",
        certificate(servers, ""),
        upstream.url(),
    )
}

impl Rig {
    fn new(client_auth: &str) -> Self {
        let (servers, upstream) = (Certificates::for_names("DNS:a.test"), Upstream::start(responder::ok("hello")));
        let weir = Weir::builder(program()).config(yaml(&servers, &upstream, client_auth)).start();
        Rig { weir, servers, _upstream: upstream }
    }

    fn client(&self, certificate: Option<Certificate>) -> std::io::Result<Client> {
        let options = tls::client::Options { certificate, ..trusting(&[&self.servers]) };
        Client::connect(self.weir.addr(), &config(&options), HOST)
    }

    /// Waits for a reload that changes the listener.
    fn reloaded(&self, change: impl FnOnce()) {
        let mark = self.weir.mark();
        change();
        self.weir.wait_for_line_after(mark, "the reload", DEADLINE, |line| {
            (line.contains("configuration reloaded") && line.contains("changed")).then_some(())
        });
    }
}

#[test]
fn a_revoked_certificate_opens_nothing_on_a_connection_that_is_open() {
    let mesh = Authority::new();
    let (ca, crl) = (mesh.file(), mesh.revoke(&[]));
    let rig = Rig::new(&format!(", client_auth: {{ca: {}, crl: {}, mode: optional}}", ca.display(), crl.display()));
    let connect = |serial: Option<u64>| rig.client(serial.map(|serial| mesh.issue(&numbered(serial)))).unwrap();
    let (mut stolen, mut other, mut nobody) = (connect(Some(7)), connect(Some(8)), connect(None));
    for client in [&mut stolen, &mut other, &mut nobody] {
        assert_eq!(client.get(HOST, "/a").status, 200);
    }
    rig.reloaded(|| drop(mesh.revoke(&[7])));
    let refused = stolen.get(HOST, "/a");
    assert_eq!((refused.status, refused.field("connection")), (421, Some("close")));
    for client in [&mut other, &mut nobody] {
        assert_eq!((client.get(HOST, "/a").status, client.get(HOST, "/b").status), (200, 200));
    }
    // Nor does a new connection.
    let again = rig.client(Some(mesh.issue(&numbered(7)))).and_then(|mut client| client.try_get(HOST, "/a"));
    assert_eq!(tls::Failure::of_io(&again.unwrap_err()), tls::Failure::Alert);
    wait::until(DEADLINE, "the access log", || rig.weir.stdout().contains("\"reason\":\"misdirected\""));
}

#[test]
fn a_removed_authority_takes_its_clients_along_and_a_new_demand_holds_for_all() {
    let (mesh, partners) = (Authority::new(), Authority::new());
    let file = mesh.file();
    let auth = format!(", client_auth: {{ca: {}, mode: optional}}", file.display());
    let rig = Rig::new(&auth);
    let (mut own, mut nobody) = (rig.client(Some(mesh.issue(&numbered(1)))).unwrap(), rig.client(None).unwrap());
    assert_eq!((own.get(HOST, "/a").status, nobody.get(HOST, "/a").status), (200, 200));
    rig.reloaded(|| {
        std::fs::copy(partners.file(), &file).unwrap();
    });
    assert_eq!((own.get(HOST, "/a").status, nobody.get(HOST, "/a").status), (421, 200));
    // The file is the same, the demand is not.
    let required = std::fs::read_to_string(rig.weir.config_path()).unwrap().replace("optional", "required");
    rig.reloaded(|| rig.weir.rewrite_config(&required));
    assert_eq!(nobody.get(HOST, "/a").status, 421);
    let mut other = rig.client(Some(partners.issue(&numbered(1)))).unwrap();
    assert_eq!(other.get(HOST, "/a").status, 200);
}

#[test]
fn streams_of_a_connection_whose_certificate_was_revoked_are_refused_one_by_one() {
    let mesh = Authority::new();
    let (ca, crl) = (mesh.file(), mesh.revoke(&[]));
    let rig = Rig::new(&format!(", client_auth: {{ca: {}, crl: {}}}", ca.display(), crl.display()));
    let certificate = Some(mesh.issue(&numbered(7)));
    let options = tls::client::Options { certificate, alpn: vec![Alpn::Http2], ..trusting(&[&rig.servers]) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let in_time = async {
        let stream = tokio::net::TcpStream::connect(rig.weir.addr()).await.unwrap();
        let name = tls::client::server_name(HOST).unwrap();
        let stream = tls::connect(stream, config(&options), name).await.unwrap();
        let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
        let driver = tokio::spawn(connection);
        let mut statuses = Vec::new();
        for number in 0..2 {
            let request = http::Request::get(format!("https://{HOST}/{number}")).body(()).unwrap();
            sender = sender.ready().await.unwrap();
            let response = sender.send_request(request, true).unwrap().0;
            statuses.push(response.await.unwrap().status().as_u16());
            if number == 0 {
                rig.reloaded(|| drop(mesh.revoke(&[7])));
            }
        }
        driver.abort();
        statuses
    };
    let statuses = runtime.block_on(async { tokio::time::timeout(DEADLINE, in_time).await }).unwrap();
    assert_eq!(statuses, [200, 421]);
}
