//! Who shares a connection to a target, and what is kept out of its tables.

use super::*;

/// Rule 21: what a connection shows of itself is part of what a request may share.
#[test]
fn a_connection_is_shared_only_within_one_tls_identity_rule_21() {
    let (servers, clients) = (Certificates::for_names("DNS:a.test,DNS:b.test"), Certificates::localhost());
    let target = Target::start(|_, send| ok(send, b"x"));
    let entry = Entry {
        certificate: Certificate::load(&servers.certificate(), &servers.key()).unwrap(),
        names: Vec::new(),
        is_default: true,
        policy: 0,
    };
    let auth = ClientAuth {
        name: "clients".into(),
        authorities: read_certificates(&clients.authority()).unwrap(),
        revocations: Vec::new(),
        is_required: false,
    };
    let mut options = tls::server::Options::new(Arc::new(Names::new(vec![entry]).unwrap()));
    options.policies[0].client_auth = Some(auth);
    let relay = TlsRelay::terminate(Listener::new(&options, &Tickets::default()).unwrap(), target.address);
    let roots = format!("roots: {}", servers.authority().display());
    let shown = format!("client_cert: {{cert: {}, key: {}}}", clients.certificate().display(), clients.key().display());
    // The same target, as two names, and without and with a certificate.
    let identities = [("a.test", ""), ("b.test", ""), ("a.test", &*shown)];
    let mut upstreams = String::new();
    let mut routes = String::new();
    for (number, (name, shown)) in identities.iter().enumerate() {
        upstreams += &format!(
            "  u{number}:\n    targets: [{}]\n    protocol: http2\n    tls: {{{roots}, server_name: {name}, {shown}}}\n",
            relay.url()
        );
        routes += &format!("  - {{match: {{path: /{number}/*}}, upstream: u{number}}}\n");
    }
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]\nadmin: 127.0.0.1:0\nworkers: 1\nupstreams:\n{upstreams}routes:\n{routes}"
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let mut client = Client::connect(weir.addr());
    for round in 0..3 {
        for number in 0..identities.len() {
            assert_eq!(client.fetch(&format!("/{number}/x")).status, 200, "{round} {number}");
        }
    }
    let mut seen: Vec<_> = relay.sessions().iter().map(|one| (one.sni.clone().unwrap(), one.peer.is_some())).collect();
    seen.sort();
    let expected = [("a.test", false), ("a.test", true), ("b.test", false)];
    assert_eq!(seen, expected.map(|(name, shown)| (name.into(), shown)), "one connection for each identity");
}

/// Rule 22: neither a client's credentials nor those that the gateway sets enter a table.
#[test]
fn credentials_towards_targets_are_never_indexed_rule_22() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let weir = gateway(
        listener.local_addr().unwrap(),
        "",
        "    headers: {request: {set: {X-Upstream-Token: set-here, X-Region: north, Api-Key: set-too}}}\n",
    );
    let mut client = Client::connect(weir.addr());
    let secrets = [
        ("authorization", "Bearer abc"),
        ("cookie", "a=b"),
        ("x-api-key", "of-the-client"),
        ("api-key", "set-too"),
        ("x-upstream-token", "set-here"),
    ];
    let mut target: Option<Raw> = None;
    for round in 0..3 {
        let requested = client.open(&request("GET", "/", &secrets[..3]), true);
        let target = target.get_or_insert_with(|| Raw::accept(&listener));
        let (_, stream, head) = target.until(HEADERS);
        let contains = |bytes: &[u8]| head.windows(bytes.len()).any(|window| window == bytes);
        for (name, value) in secrets {
            let mut encoder = Encoder::default();
            encoder.set_sensitive(Arc::new(SensitiveNames::new([name])));
            let mut literal = Vec::new();
            encoder.field(&mut literal, Known::of(name.as_bytes()), name.as_bytes(), value.as_bytes());
            assert_eq!(literal[0] & 0xf0, 0x10);
            assert!(contains(&literal), "round {round}: {name} is not a never-indexed literal");
        }
        // What is no secret is sent once.
        let mut plain = Vec::new();
        Encoder::default().field(&mut plain, Known::Other, b"x-region", b"north");
        assert_eq!(contains(&plain), round == 0, "round {round}");
        target.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&[(":status", "204")])));
        assert_eq!(client.response(requested).status, 204);
    }
}
