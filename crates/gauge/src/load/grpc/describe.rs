//! What other generators must know of a method: its name, its descriptors, and what its fields take.

use std::collections::BTreeMap;

use prost_reflect::{Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::Method;

impl Method {
    /// `package.Service/Method`.
    pub(crate) fn name(&self) -> &str {
        self.path.trim_start_matches('/')
    }

    /// The name of the message that it takes.
    pub(crate) fn input_name(&self) -> &str {
        self.input.full_name()
    }

    /// Its file and all that this imports, as a `google.protobuf.FileDescriptorSet`.
    pub(crate) fn descriptors(&self) -> Vec<u8> {
        self.input.parent_pool().encode_to_vec()
    }

    /// The JSON name of the field `success` of its response, where that is a bool.
    pub(crate) fn success(&self) -> Option<String> {
        let field = self.output.get_field_by_name("success")?;
        (field.kind() == Kind::Bool && !field.is_list()).then(|| field.json_name().to_owned())
    }

    /// What fields the message has that it takes, and those of the messages in it: by message and field, `[kind, form]`. The kind is `text`, `number`, the
    /// name of a message, or `other`; the form is `one`, `list` or `map`. Fields have both of their names.
    pub(crate) fn fields(&self) -> Value {
        let mut known = BTreeMap::new();
        let mut open = vec![self.input.clone()];
        while let Some(message) = open.pop() {
            if known.contains_key(message.full_name()) {
                continue;
            }
            known.insert(message.full_name().to_owned(), fields(&message, &mut open));
        }
        known.into_iter().collect::<Map<_, _>>().into()
    }
}

fn fields(message: &MessageDescriptor, open: &mut Vec<MessageDescriptor>) -> Value {
    let mut all = Map::new();
    for field in message.fields() {
        let (kind, form) = match field.kind() {
            Kind::Message(entry) if field.is_map() => (entry.map_entry_value_field().kind(), "map"),
            kind => (kind, if field.is_list() { "list" } else { "one" }),
        };
        let kind = match kind {
            // Those of protobuf itself have a JSON form of their own.
            Kind::Message(inner) if !inner.full_name().starts_with("google.protobuf.") => {
                let name = inner.full_name().to_owned();
                open.push(inner);
                name
            }
            Kind::String => "text".to_owned(),
            Kind::Message(_) | Kind::Enum(_) | Kind::Bool | Kind::Bytes => "other".to_owned(),
            _ => "number".to_owned(),
        };
        for name in [field.json_name(), field.name()] {
            all.insert(name.to_owned(), json!([kind, form]));
        }
    }
    all.into()
}
