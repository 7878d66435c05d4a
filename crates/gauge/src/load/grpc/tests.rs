//! Messages in pieces, statuses, and JSON.

use proptest::prelude::*;

use super::*;

const PROTO: &str = r#"
syntax = "proto3";
package shop;
message Item { int32 id = 1; string name = 2; bool sold = 3; int64 price = 4; repeated string tags = 5; }
service Items {
  rpc Get(Item) returns (Item);
  rpc List(Item) returns (stream Item);
  rpc Add(stream Item) returns (Item);
  rpc Chat(stream Item) returns (stream Item);
}
"#;

fn pool() -> DescriptorPool {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.proto");
    std::fs::write(&file, PROTO).expect("a file");
    compile(&file).expect("it compiles")
}

fn method(name: &str) -> Method {
    Method::find(&pool(), &Grpc::of(format!("shop.Items/{name}")), "here").expect("a method")
}

fn head(kind: &str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().expect("a value"))])
}

fn ending(status: &str) -> HeaderMap {
    HeaderMap::from_iter([("grpc-status".parse().expect("a name"), status.parse().expect("a value"))])
}

#[test]
fn other_generators_learn_what_fields_take() {
    let get = method("Get");
    assert_eq!((get.name(), get.input_name(), get.success()), ("shop.Items/Get", "shop.Item", None));
    let fields = &get.fields()["shop.Item"];
    assert_eq!(fields["name"], serde_json::json!(["text", "one"]));
    assert_eq!(fields["price"], serde_json::json!(["number", "one"]));
    assert_eq!((&fields["sold"][0], &fields["tags"]), (&"other".into(), &serde_json::json!(["text", "list"])));
    let normalized =
        get.normalized(r#"{"id":7,"name":8,"price":9007199254740993,"tags":[1,true]}"#).expect("a message");
    assert_eq!(
        serde_json::from_str::<Value>(&normalized).expect("JSON"),
        serde_json::json!({"id": 7, "name": "8", "price": "9007199254740993", "tags": ["1", "true"]})
    );
    assert!(get.normalized(r#"{"id":"seven"}"#).expect_err("it is wrong").starts_with("no message of shop.Item"));
    let pool = DescriptorPool::decode(&get.descriptors()[..]).expect("descriptors");
    assert!(Method::find(&pool, &Grpc::of("shop.Items/Get".to_owned()), "there").is_ok());
}

#[test]
fn a_method_says_what_it_takes_and_returns() {
    let kinds = ["Get", "List", "Add", "Chat"].map(method).map(|method| (method.takes_stream, method.returns_stream));
    assert_eq!(kinds, [(false, false), (false, true), (true, false), (true, true)]);
    let wrong = |name: &str, messages: Option<u32>, responses: Option<u32>| {
        let call = Grpc { messages, responses, ..Grpc::of(format!("shop.Items/{name}")) };
        Method::find(&pool(), &call, "here").expect_err("it is wrong")
    };
    assert!(wrong("Get", Some(2), None).contains("takes one message"));
    assert!(wrong("Add", None, Some(2)).contains("returns one message"));
    assert!(wrong("Add", Some(0), None).contains("between 1 and 1000000"));
    assert!(wrong("None", None, None).contains("it has shop.Items/Get, shop.Items/List"));
    let call = Grpc { messages: Some(7), ..Grpc::of("shop.Items/Chat".to_owned()) };
    let both = Method::find(&pool(), &call, "here").expect("a method");
    assert_eq!((both.messages, both.responses), (7, 7), "each waits for one of the server");
}

#[test]
fn one_message_and_only_one_is_a_response() {
    let (get, head) = (method("Get"), head("application/grpc"));
    let item = get.encode(r#"{"id":7,"name":"a violin"}"#).expect("a message");
    let of = |body: &[u8], code: &str| get.status(200, &head, Some(&ending(code)), body);
    assert_eq!(of(&item, "0"), Some(OK));
    assert_eq!(of(&item, "14"), Some(14));
    assert_eq!(of(&item, "99"), Some(UNKNOWN));
    assert_eq!(of(&[], "0"), None, "no message");
    assert_eq!(of(&[item.clone(), item.clone()].concat(), "0"), None, "two messages");
    assert_eq!(of(&item[..item.len() - 1], "0"), None, "a part of one");
    assert_eq!(get.status(200, &head, None, &item), Some(UNKNOWN), "no trailers");
    assert_eq!(get.status(200, &head, Some(&HeaderMap::new()), &item), Some(UNKNOWN), "trailers without a status");
    assert_eq!(get.status(503, &head, None, b"<html>"), Some(503));
}

#[test]
fn what_is_no_response_of_grpc_is_never_ok() {
    let status = |status, kind: &str, code: &str| Method::stream_status(status, &head(kind), Some(&ending(code)));
    for kind in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
        assert_eq!(status(200, kind, "0"), OK, "{kind}");
    }
    for kind in ["text/html", "application/json", "application/grpc-web", "application/grp", ""] {
        assert_eq!(status(200, kind, "0"), UNKNOWN, "{kind}");
    }
    assert_eq!(Method::stream_status(200, &HeaderMap::new(), Some(&ending("0"))), UNKNOWN);
    for http in [204, 302, 401, 500, 503] {
        assert_eq!(status(http, "application/grpc", "0"), http, "an intermediary's");
        assert_eq!(status(http, "application/grpc", "14"), 14, "the code says more");
    }
    for code in ["+0", "00", "-0", "0x0", " 0", "", "17", "99999999999", "0 0"] {
        assert_eq!(status(200, "application/grpc", code), UNKNOWN, "{code:?}");
    }
    let two = |one: &str, other: &str| {
        let mut fields = ending(one);
        fields.append("grpc-status", other.parse().expect("a value"));
        Method::stream_status(200, &head("application/grpc"), Some(&fields))
    };
    assert_eq!([two("0", "13"), two("13", "0"), two("0", "0")], [UNKNOWN, UNKNOWN, OK]);
    let why = method("Get").why(UNKNOWN, &head("text/html"), Some(&ending("0")));
    assert_eq!(why, "shop.Items/Get: content-type text/html instead of application/grpc");
}

#[test]
fn values_have_the_type_of_their_field() {
    let get = method("Get");
    let item = get.encode(r#"{"id":7,"name":12,"sold":true,"price":"9000000000","tags":[1,"b"]}"#).expect("a message");
    let json = get.json(&item).expect("JSON");
    assert_eq!(
        json,
        serde_json::json!({"id": 7, "name": "12", "sold": true, "price": "9000000000", "tags": ["1", "b"]})
    );
    let zero = get.json(&get.encode("{}").expect("a message")).expect("JSON");
    assert_eq!(zero["id"], 0, "a field with its default is there");
    for wrong in [r#"{"id":"seven"}"#, r#"{"id":3000000000}"#, r#"{"sold":"perhaps"}"#, r#"{"id":}"#] {
        assert!(get.encode(wrong).expect_err(wrong).starts_with("no message of shop.Item: "), "{wrong}");
    }
}

#[test]
fn a_stream_that_is_no_stream_of_messages_is_an_error() {
    let mut frames = Frames::default();
    assert!(frames.data(&[1, 0, 0, 0, 0], |_| ()).expect_err("compressed").contains("compressed"));
    let mut frames = Frames::default();
    assert!(frames.data(&[0, 255, 0, 0, 0], |_| ()).expect_err("too long").contains("4278190080"));
    let mut frames = Frames::default();
    frames.data(&[0, 0, 0, 0, 2, 8], |_| panic!("it is not complete")).expect("so far it is valid");
    assert!(!frames.is_whole());
}

proptest! {
    #[test]
    fn messages_are_the_same_however_they_are_cut(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
        cuts in prop::collection::vec(1_usize..30, 1..40),
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
        let (mut frames, mut found, mut rest) = (Frames::default(), Vec::new(), bytes.as_slice());
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, more) = rest.split_at((*cut).min(rest.len()));
            frames.data(piece, |message| found.push(message.to_vec())).expect("valid");
            rest = more;
        }
        prop_assert!(frames.is_whole());
        prop_assert_eq!(found, messages);
    }

    #[test]
    fn no_bytes_of_a_server_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let get = method_once();
        let _ = get.json(&bytes);
        let _ = get.status(200, &head("application/grpc"), Some(&ending("0")), &bytes);
    }
}

/// Compiled once for all cases.
fn method_once() -> &'static Method {
    static METHOD: std::sync::OnceLock<Method> = std::sync::OnceLock::new();
    METHOD.get_or_init(|| method("Get"))
}
