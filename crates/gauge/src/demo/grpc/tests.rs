use std::path::Path;

use prost_reflect::{DescriptorPool, DynamicMessage, Value};

use super::*;

#[test]
fn messages_are_those_of_the_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/evaluations");
    let set = protox::compile([folder.join("grpc.proto")], [&folder]).expect("the example");
    let pool = DescriptorPool::from_file_descriptor_set(set).expect("descriptors");
    let read = |name: &str, response: GrpcResponse| {
        assert_eq!(response.status, "0");
        let message = pool.get_message_by_name(name).expect("a message");
        DynamicMessage::decode(message, response.message.expect("bytes").as_slice()).expect("a valid message")
    };
    for id in [0, 1, 127, 300, 1 << 40] {
        let item = read("gauge.demo.Item", method("/gauge.demo.Items/Get", &integer(1, id)));
        let field = |name: &str| item.get_field_by_name(name).expect("a field").into_owned();
        assert_eq!([field("id"), field("price")], [Value::U64(id), Value::U64(id * 100)]);
        assert_eq!(
            [field("name"), field("text")],
            [Value::String(format!("item {id}")), Value::String(TEXT.to_owned())]
        );
    }
    let added = read("gauge.demo.Added", method("/gauge.demo.Items/Add", &[0; 300]));
    assert_eq!(added.get_field_by_name("bytes").as_deref(), Some(&Value::U64(300)));
}

#[test]
fn an_unknown_method_has_a_status_and_no_message() {
    let response = method("/gauge.demo.Items/Remove", &[]);
    assert_eq!((response.status.as_str(), response.message.is_none()), ("12", true));
    let ending = response.ending();
    assert_eq!((ending["grpc-status"].as_bytes(), ending.len()), (&b"12"[..], 2));
}
