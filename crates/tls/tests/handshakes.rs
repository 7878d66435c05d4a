//! Who gets a connection, who is refused, and what each side is told.

mod common;

use std::sync::Arc;

use common::{Authority, block_on, entry, expired, listener, names, sockets, spiffe};
use rustls::ClientConfig;
use tls::client::{self, Roots, server_name};
use tls::names::NameError;
use tls::server::{ClientAuth, Listener, Options, Policy, Tickets};
use tls::{Alpn, Failure, Names, Session, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn trusting(authority: &Authority) -> client::Options {
    client::Options {
        roots: Roots::These(vec![authority.der()]),
        alpn: vec![Alpn::Http2, Alpn::Http11],
        ..client::Options::default()
    }
}

/// Both sides' view of one handshake with a byte of data each way behind it.
async fn meet(
    listener: &Listener,
    config: &Arc<ClientConfig>,
    name: &str,
) -> (Result<Session, Failure>, Result<Session, Failure>) {
    let (near, far) = sockets(64 * 1024, 1, 0);
    let server = async {
        let mut stream = tls::accept(far, listener).await.map_err(|error| Failure::of_io(&error))?;
        let session = stream.session();
        let mut byte = [0];
        stream.read_exact(&mut byte).await.map_err(|error| Failure::of_io(&error))?;
        stream.write_all(&byte).await.map_err(|error| Failure::of_io(&error))?;
        stream.shutdown().await.map_err(|error| Failure::of_io(&error))?;
        Ok(session)
    };
    let client = async {
        let connected = tls::connect(near, config.clone(), server_name(name).unwrap()).await;
        let mut stream = connected.map_err(|error| Failure::of_io(&error))?;
        let session = stream.session();
        let of = |error: std::io::Error| Failure::of_io(&error);
        stream.write_all(b"x").await.map_err(of)?;
        stream.flush().await.map_err(of)?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.map_err(of)?;
        assert_eq!(all, b"x");
        Ok(session)
    };
    tokio::join!(server, client)
}

#[test]
fn the_newest_version_and_the_hybrid_group_are_chosen() {
    let authority = Authority::new();
    let listener = listener(&Options::new(names(vec![authority.certificate(&["a.test"])])));
    let config = client::config(&trusting(&authority)).unwrap();
    let (server, client) = block_on(meet(&listener, &config, "a.test"));
    let (server, client) = (server.unwrap(), client.unwrap());
    assert_eq!((server.version, client.version), ("TLSv1.3", "TLSv1.3"));
    assert_eq!(server.group, Some("X25519MLKEM768"));
    assert_eq!(server.sni.as_deref(), Some("a.test"));
    assert_eq!((server.alpn, client.alpn), (Some(Alpn::Http2), Some(Alpn::Http2)));
    assert_eq!(client.peer.unwrap().dns_names, ["a.test"]);
    assert!(!server.is_resumed && server.peer.is_none());
}

#[test]
fn each_name_gets_its_certificate() {
    let authority = Authority::new();
    let table = names(vec![authority.certificate(&["a.test"]), authority.certificate(&["*.b.test", "b.test"])]);
    let listener = listener(&Options::new(table));
    let config = client::config(&trusting(&authority)).unwrap();
    for (name, shown) in [("a.test", "a.test"), ("b.test", "*.b.test"), ("x.b.test", "*.b.test"), ("A.TEST", "a.test")]
    {
        let (_, client) = block_on(meet(&listener, &config, name));
        assert_eq!(client.unwrap().peer.unwrap().dns_names[0], shown, "{name}");
    }
    for unknown in ["c.test", "y.x.b.test"] {
        let (server, client) = block_on(meet(&listener, &config, unknown));
        assert_eq!(server.unwrap_err(), Failure::UnknownName, "{unknown}");
        assert_eq!(client.unwrap_err(), Failure::Name, "{unknown}: the client is told unrecognized_name");
    }
}

#[test]
fn the_default_certificate_serves_addresses_and_unknown_names() {
    let authority = Authority::new();
    let mut default = entry(authority.certificate(&["a.test", "127.0.0.1"]));
    default.is_default = true;
    let listener = listener(&Options::new(Arc::new(Names::new(vec![default]).unwrap())));
    let config = client::config(&trusting(&authority)).unwrap();
    let (server, client) = block_on(meet(&listener, &config, "127.0.0.1"));
    assert_eq!(server.unwrap().sni, None);
    client.unwrap();
    let (_, client) = block_on(meet(&listener, &config, "c.test"));
    assert_eq!(client.unwrap_err(), Failure::Name);
}

#[test]
fn elliptic_keys_are_preferred_where_certificates_share_a_name() {
    let authority = Authority::new();
    let elliptic = authority.certificate(&["a.test"]);
    let rsa = authority.certificate_with(&["a.test"], &rcgen::PKCS_RSA_SHA256, |_| {});
    let listener = listener(&Options::new(names(vec![rsa, elliptic.clone()])));
    let config = client::config(&trusting(&authority)).unwrap();
    let (_, client) = block_on(meet(&listener, &config, "a.test"));
    assert_eq!(client.unwrap().peer.unwrap().sha256, elliptic.facts.sha256, "elliptic keys are preferred");
}

#[test]
fn upstreams_are_refused_for_a_reason_that_says_which() {
    let authority = Authority::new();
    let other = Authority::new();
    let listener_of = |certificate| {
        let mut only = entry(certificate);
        only.is_default = true;
        listener(&Options::new(Arc::new(Names::new(vec![only]).unwrap())))
    };
    let config = client::config(&trusting(&authority)).unwrap();
    let expired = authority.certificate_with(&["a.test"], &rcgen::PKCS_ECDSA_P256_SHA256, expired);
    let own = tls::self_signed::self_signed(&["a.test".to_owned()]).unwrap();
    let cases = [
        (authority.certificate(&["b.test"]), "a.test", Failure::Name),
        (authority.certificate(&["a.test"]), "127.0.0.1", Failure::Name),
        (expired, "a.test", Failure::Expired),
        (other.certificate(&["a.test"]), "a.test", Failure::Untrusted),
        (own, "a.test", Failure::Untrusted),
    ];
    for (certificate, name, expected) in cases {
        let listener = listener_of(certificate);
        let (server, client) = block_on(meet(&listener, &config, name));
        assert_eq!(client.unwrap_err(), expected, "{name}");
        assert_eq!(server.unwrap_err(), Failure::Alert, "{expected:?}: the upstream is told");
    }
    let unverified = client::Options { verify: false, ..trusting(&authority) };
    let listener = listener_of(other.certificate(&["b.test"]));
    let (_, client) = block_on(meet(&listener, &client::config(&unverified).unwrap(), "a.test"));
    client.unwrap();
}

#[test]
fn clients_show_certificates_where_they_must() {
    let authority = Authority::new();
    let clients = Authority::new();
    let auth = |is_required| ClientAuth {
        name: "clients".into(),
        authorities: vec![clients.der()],
        revocations: vec![],
        is_required,
    };
    let options = |is_required| Options {
        policies: vec![Policy { client_auth: Some(auth(is_required)), ..Policy::default() }],
        ..Options::new(names(vec![authority.certificate(&["a.test"])]))
    };
    let with = |certificate| client::config(&client::Options { certificate, ..trusting(&authority) }).unwrap();
    let known = clients.certificate_with(&["client.test"], &rcgen::PKCS_ECDSA_P256_SHA256, spiffe);
    let forged = Authority::new().certificate_with(&["client.test"], &rcgen::PKCS_ECDSA_P256_SHA256, spiffe);

    let (required, optional) = (listener(&options(true)), listener(&options(false)));
    for listener in [&required, &optional] {
        let (server, client) = block_on(meet(listener, &with(Some(known.clone())), "a.test"));
        client.unwrap();
        let peer = server.unwrap().peer.unwrap();
        assert_eq!(peer.uris, ["spiffe://mesh.test/orders"]);
        assert_eq!(peer.sha256, known.facts.sha256);
        let (server, client) = block_on(meet(listener, &with(Some(forged.clone())), "a.test"));
        assert_eq!(server.unwrap_err(), Failure::Untrusted);
        assert_eq!(client.unwrap_err(), Failure::Alert);
    }
    let (server, client) = block_on(meet(&required, &with(None), "a.test"));
    assert_eq!((server.unwrap_err(), client.unwrap_err()), (Failure::NoCertificate, Failure::Alert));
    let (server, _) = block_on(meet(&optional, &with(None), "a.test"));
    assert_eq!(server.unwrap().peer, None);
}

#[test]
fn sessions_resume_within_a_policy_and_never_across_policies() {
    let authority = Authority::new();
    let clients = Authority::new();
    let table = names(vec![authority.certificate(&["a.test"])]);
    let tickets = Tickets::default();
    let open = Options::new(table);
    let auth =
        ClientAuth { name: "clients".into(), authorities: vec![clients.der()], revocations: vec![], is_required: true };
    let guarded = Options { policies: vec![Policy { client_auth: Some(auth), ..Policy::default() }], ..open.clone() };
    for min_version in [Version::Tls12, Version::Tls13] {
        let config = client::config(&client::Options { min_version, ..trusting(&authority) }).unwrap();
        let first = Listener::new(&open, &tickets).unwrap();
        let is_resumed =
            |listener: &Listener| block_on(meet(listener, &config, "a.test")).0.map(|session| session.is_resumed);
        assert_eq!(is_resumed(&first), Ok(false));
        assert_eq!(is_resumed(&first), Ok(true));
        // A reload makes a new listener; the keys stay.
        assert_eq!(is_resumed(&Listener::new(&open, &tickets).unwrap()), Ok(true));
        assert_eq!(is_resumed(&Listener::new(&guarded, &tickets).unwrap()), Err(Failure::NoCertificate));
        assert_eq!(is_resumed(&Listener::new(&open, &Tickets::default()).unwrap()), Ok(false));
    }
    tickets.retain([&guarded]);
    let config = client::config(&trusting(&authority)).unwrap();
    let listener = Listener::new(&open, &tickets).unwrap();
    let (server, _) = block_on(meet(&listener, &config, "a.test"));
    assert!(!server.unwrap().is_resumed);
    tickets.retain([]);
    let (server, _) = block_on(meet(&Listener::new(&open, &tickets).unwrap(), &config, "a.test"));
    assert!(!server.unwrap().is_resumed, "keys of a policy that went are forgotten");
}

/// Two hosts of one listener, of which one demands certificates of its clients.
#[test]
fn each_host_has_its_policy() {
    let authority = Authority::new();
    let clients = Authority::new();
    let auth =
        ClientAuth { name: "clients".into(), authorities: vec![clients.der()], revocations: vec![], is_required: true };
    let mut guarded = entry(authority.certificate(&["b.test"]));
    guarded.policy = 1;
    let table = Names::new(vec![entry(authority.certificate(&["a.test", "b.test"])), guarded.clone()]);
    assert!(matches!(table, Err(NameError::Policies(name)) if name == "b.test"), "one name, two policies");
    let mut open = entry(authority.certificate(&["a.test", "b.test"]));
    open.names = vec!["a.test".to_owned()];
    let table = Arc::new(Names::new(vec![open, guarded]).unwrap());
    // The certificate that the client saw covers both.
    assert!(table.may_carry(Some("a.test"), "a.test") && !table.may_carry(Some("a.test"), "b.test"));
    let policies = vec![Policy::default(), Policy { client_auth: Some(auth), min_version: Version::Tls13 }];
    let options = Options { policies, ..Options::new(table) };
    let listener = listener(&options);
    let known = clients.certificate(&["client.test"]);
    let without = client::config(&trusting(&authority)).unwrap();
    let with = client::config(&client::Options { certificate: Some(known.clone()), ..trusting(&authority) }).unwrap();
    for _ in 0..2 {
        let (server, _) = block_on(meet(&listener, &without, "a.test"));
        assert_eq!(server.unwrap().peer, None);
        let (server, _) = block_on(meet(&listener, &without, "b.test"));
        assert_eq!(server.unwrap_err(), Failure::NoCertificate);
        let (server, _) = block_on(meet(&listener, &with, "b.test"));
        let server = server.unwrap();
        assert_eq!(server.peer.unwrap().sha256, known.facts.sha256);
        assert_eq!(server.client_chain.len(), 1);
    }
}

#[test]
fn versions_and_protocols_without_an_overlap_are_refused() {
    let authority = Authority::new();
    let table = names(vec![authority.certificate(&["a.test"])]);
    let only_h2 = listener(&Options { alpn: vec![Alpn::Http2], ..Options::new(table) });
    let config = client::config(&client::Options { alpn: vec![Alpn::Http11], ..trusting(&authority) }).unwrap();
    let (server, client) = block_on(meet(&only_h2, &config, "a.test"));
    assert_eq!((server.unwrap_err(), client.unwrap_err()), (Failure::NothingInCommon, Failure::Alert));
}

/// What a client with this hello is sent, and how its handshake ends for the listener.
fn sent_to(version: [u8; 2], suites: &[u16], extensions: &[u8]) -> (Vec<u8>, Failure) {
    let mut body = [&version[..], &[7; 32], &[0]].concat();
    body.extend((2 * suites.len() as u16).to_be_bytes());
    body.extend(suites.iter().flat_map(|suite| suite.to_be_bytes()));
    body.extend([1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let size = body.len() as u16;
    let record = [&[22, 3, 1][..], &(size + 4).to_be_bytes(), &[1, 0], &size.to_be_bytes(), &body].concat();

    let authority = Authority::new();
    let mut default = entry(authority.certificate(&["a.test"]));
    default.is_default = true;
    let listener = listener(&Options::new(Arc::new(Names::new(vec![default]).unwrap())));
    // Seven bytes a read at most: the version is not in the first.
    let (mut near, far) = sockets(7, 1, 0);
    block_on(async {
        let server = async { Failure::of_io(&tls::accept(far, &listener).await.map(drop).unwrap_err()) };
        let client = async {
            near.write_all(&record).await.unwrap();
            let mut said = Vec::new();
            near.read_to_end(&mut said).await.unwrap();
            said
        };
        let (failure, said) = tokio::join!(server, client);
        (said, failure)
    })
}

#[test]
fn clients_with_nothing_in_common_get_the_alert_that_says_so() {
    // TLS 1.1 and 1.0 have no signature_algorithms: protocol_version, in a record of their version.
    for minor in [1, 2] {
        assert_eq!(sent_to([3, minor], &[0xc009], &[]), (vec![21, 3, minor, 0, 2, 2, 70], Failure::NothingInCommon));
    }
    // TLS 1.2 with groups, points and ECDSA with SHA-256, but only a suite of CBC, one of RSA key exchange, or none that signs: handshake_failure.
    let extensions = [0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0, 0, 13, 0, 4, 0, 2, 4, 3];
    for suites in [&[0xc023][..], &[0x009c], &[0xc02f]] {
        let (said, failure) = sent_to([3, 3], suites, &extensions);
        assert_eq!((said.as_slice(), failure), (&[21, 3, 3, 0, 2, 2, 40][..], Failure::NothingInCommon), "{suites:x?}");
    }
}

#[test]
fn bytes_that_are_not_tls_are_recognized() {
    let authority = Authority::new();
    let listener = listener(&Options::new(names(vec![authority.certificate(&["a.test"])])));
    let mut huge = vec![22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff];
    huge.resize(20_000, 0);
    let cases: [(&[u8], Failure); 4] = [
        (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", Failure::NotTls),
        (b"", Failure::Closed),
        (&[22, 3, 1, 0, 10, 1], Failure::Closed),
        (&huge, Failure::NotTls),
    ];
    for (bytes, expected) in cases {
        let (mut near, far) = sockets(64 * 1024, 1, 0);
        let error = block_on(async {
            near.write_all(bytes).await.unwrap();
            near.shutdown().await.unwrap();
            tls::accept(far, &listener).await.map(|_| ()).unwrap_err()
        });
        let failure = Failure::of_io(&error);
        assert!(failure == expected || (bytes.len() > 16_384 && failure == Failure::Protocol), "{failure:?} {error}");
    }
}
