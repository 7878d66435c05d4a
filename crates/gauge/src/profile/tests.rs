//! Names, and what is refused.

use super::secure::{Connections, HttpVersion};
use super::*;
use crate::load::workload::{self, TlsVersion};

#[derive(Debug, Deserialize)]
struct Holder {
    #[serde(deserialize_with = "file::profile")]
    profile: Profile,
}

fn read(text: &str) -> Result<Profile, String> {
    serde_saphyr::from_str::<Holder>(&format!("profile: {text}\n"))
        .map(|holder| holder.profile)
        .map_err(|error| error.to_string())
}

#[test]
fn every_profile_is_read_by_its_name() {
    for profile in Profile::all().into_iter().filter(|profile| !matches!(profile, Profile::Grpc(_))) {
        assert_eq!(read(profile.name()), Ok(profile.clone()));
        assert_eq!(read(&format!("{{{}: {{}}}}", profile.name())), Ok(profile));
    }
    let tls = Tls { http: HttpVersion::Http2, version: TlsVersion::Tls12, ..Tls::default() };
    assert_eq!(read("{tls: {http: 2, version: 1.2, connections: kept}}"), Ok(Profile::Tls(tls)));
    assert_eq!(read("{key-auth: {keys: 3}}"), Ok(Profile::KeyAuth(KeyAuth { keys: 3, ..KeyAuth::default() })));
}

#[test]
fn what_cannot_be_evaluated_is_refused_with_the_reason() {
    for (text, said) in [
        ("grpc", "`proto` names the file that describes the methods"),
        ("{grpc: {streams: 4}}", "`proto` names the file that describes the methods"),
        ("{grpc: {proto: a.proto, streams: 0}}", "`streams: 0`; expected 1 to 100000"),
        ("{tls: {http: 2, connections: new}}", "need `http: 1.1`"),
        ("{tls: {http: 3}}", "unknown version of HTTP `3`; expected 1.1 or 2"),
        ("{tls: {connections: some}}", "some"),
        ("{websocket: {size: 17MiB}}", "`websocket`: messages of 17825792 bytes; there are up to 16777216"),
        ("{websocket: {messages: 0}}", "`messages: 0`; a connection has at least one message"),
        ("{websocket: {size: some}}", "`some` is not a size"),
        ("{websocket: {kind: sound}}", "sound"),
        ("keyauth", "unknown profile `keyauth`; expected one of pass-through, key-auth"),
        ("{key-auth: {keys: 0}}", "`keys: 0`; expected 1 to 100000"),
        ("{key-auth: {header: 'a b'}}", "`header: a b` is not a header name"),
        ("{key-auth: {count: 3}}", "count"),
        ("{key-auth: {}, pass-through: {}}", "one profile at a time: `key-auth` or `pass-through`"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn tokens_are_signed_as_their_algorithm_says() {
    use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
    use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
    use token::Algorithm;

    let part = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).expect("base64url");
    for algorithm in [Algorithm::HS256, Algorithm::RS256] {
        let jwt = Jwt { algorithm, tokens: 2 };
        let [first, second] = jwt.all().try_into().expect("two tokens");
        assert_ne!(first, second, "each of another subject");
        let (signed, signature) = first.rsplit_once('.').expect("a signature");
        if algorithm == Algorithm::RS256 {
            let set: serde_json::Value = serde_json::from_str(&jwt.key_set()).expect("JSON");
            let n = part(set["keys"][0]["n"].as_str().expect("a modulus"));
            let key = RsaPublicKeyComponents { n, e: vec![1, 0, 1] };
            key.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &part(signature)).expect("a good signature");
        } else {
            assert_eq!(part(signature).len(), 32);
        }
    }
}

#[test]
fn an_operation_is_the_method_that_its_path_names() {
    let grpc = Profile::Grpc(Grpc { proto: "a.proto".into(), tls: true, ..Grpc::default() });
    let mut operation = Operation::get("add", "/shop.Items/Add");
    operation.headers.insert("Content-Type".to_owned(), "application/json".to_owned());
    grpc.amend(&mut operation);
    let call = operation.grpc.expect("a call");
    assert_eq!(
        (call.method.as_str(), call.proto.as_deref().and_then(std::path::Path::to_str)),
        ("shop.Items/Add", Some("a.proto"))
    );
    assert!(operation.headers.is_empty());
    assert_eq!(grpc.upstreams(), Protocol::Http2 { streams: 16 });
    assert_eq!((grpc.clients().protocol, grpc.clients().tls.is_some()), (Protocol::Http2 { streams: 16 }, true));
    assert_eq!(Profile::Http2(Http2::default()).upstreams(), Protocol::Http1);
}

#[test]
fn clients_over_tls_keep_connections_or_open_one_for_each_request() {
    let clients = |connections| Profile::Tls(Tls { connections, ..Tls::default() }).clients();
    for (connections, new, resume) in
        [(Connections::Kept, false, false), (Connections::New, true, false), (Connections::Resumed, true, true)]
    {
        let clients = clients(connections);
        let tls = clients.tls.clone().expect("TLS");
        assert_eq!((clients.new_connections, tls.resume, tls.insecure), (new, resume, false), "{connections:?}");
        assert_eq!(clients.base("127.0.0.1:1".parse().expect("an address")), "https://127.0.0.1:1");
    }
    assert_eq!(Profile::PassThrough.clients(), Clients::default());
}

#[test]
fn what_a_limit_allows_goes_by_the_clients_of_the_load() {
    let limit = Profile::RateLimit(RateLimit { rate: 50, keys: 20, ..RateLimit::default() });
    let (mut many, mut one) = (Operation::get("a", "/a"), Operation::get("b", "/b"));
    one.headers.insert("x-api-key".to_owned(), "one".to_owned());
    limit.amend(&mut many);
    limit.amend(&mut one);
    assert_eq!(limit.allowed_rate([&many].into_iter()), Some(1000.0));
    assert_eq!(limit.allowed_rate([&one].into_iter()), Some(50.0));
    assert_eq!(limit.allowed_rate([&one, &many].into_iter()), None, "two limits in one load");
    assert_eq!(Profile::Cache.allowed_rate([&one].into_iter()), None);
    assert!(one.expect.iter().any(|statuses| statuses.contains(429)));
}

#[test]
fn the_load_carries_credentials_unless_the_evaluation_gives_them() {
    let mut operation = Operation::get("a", "/a");
    Profile::KeyAuth(KeyAuth { keys: 2, ..KeyAuth::default() }).amend(&mut operation);
    assert_eq!(operation.headers["X-API-Key"], "{gauge_client}");
    let Some(Source::List { values, .. }) = operation.params.get(CLIENT) else { panic!("{operation:?}") };
    assert_eq!(values, &["gauge-profile-key-000001", "gauge-profile-key-000002"]);
    let mut own = Operation::get("a", "/a");
    own.headers.insert("authorization".to_owned(), "Bearer mine".to_owned());
    Profile::Jwt(Jwt::default()).amend(&mut own);
    assert!(own.params.is_empty() && own.headers["authorization"] == "Bearer mine", "{own:?}");
}

#[test]
fn clients_of_websocket_send_the_messages_that_the_profile_says() {
    let read = read("{websocket: {size: 64KiB, kind: text, messages: 100, tls: true}}");
    let messages = workload::WebSocket { size: 65536, kind: workload::MessageKind::Text, messages: Some(100) };
    let profile = Profile::WebSocket(WebSocket { size: 65536, kind: messages.kind, messages: Some(100), tls: true });
    assert_eq!(read, Ok(profile.clone()));
    assert_eq!(profile.clients().websocket, Some(messages.clone()));
    assert!(profile.clients().tls.is_some(), "gateways are reached over TLS");
    assert_eq!(profile.baseline(), Clients { websocket: Some(messages), ..Clients::default() }, "upstreams are not");
}
