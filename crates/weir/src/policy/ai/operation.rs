//! What a request to an AI route requests.

use llm::Api;
use llm::api::StoredOperation;

/// An operation of an ingress API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A call of a model.
    Call(Api),
    /// An operation on the stored response with this id.
    Stored(StoredOperation, String),
    /// `GET /v1/models` or Gemini's `/v1beta/models`: responded by the gateway.
    Models,
    /// `GET /v1/models/NAME`, `GET /v1beta/models/NAME`.
    Model(String),
    /// The path belongs to an operation, the method does not.
    WrongMethod(&'static str),
    /// Nothing that is served.
    Unknown,
}

impl Operation {
    /// The operation of a method and a normalised path.
    pub fn of(method: &[u8], path: &[u8]) -> Operation {
        let Ok(path) = std::str::from_utf8(path) else { return Operation::Unknown };
        let is_read = matches!(method, b"GET" | b"HEAD");
        let models = path.strip_prefix("/v1/models").or_else(|| path.strip_prefix("/v1beta/models"));
        match (Api::of_path(path), models) {
            (Some(api), _) if method == b"POST" => Operation::Call(api),
            (Some(_), _) => Operation::WrongMethod("POST"),
            (None, Some("" | "/")) if is_read => Operation::Models,
            (None, Some(name)) if is_read && name.len() > 1 && name.starts_with('/') => {
                Operation::Model(name[1..].to_owned())
            }
            (None, Some(name)) if name.is_empty() || name.starts_with('/') => Operation::WrongMethod("GET, HEAD"),
            (None, None) => Operation::of_stored(method, path),
            _ => Operation::Unknown,
        }
    }

    fn of_stored(method: &[u8], path: &str) -> Operation {
        let Some((id, operations)) = StoredOperation::of_path(path) else { return Operation::Unknown };
        match operations.iter().find(|operation| operation.method().as_bytes() == method) {
            Some(operation) => Operation::Stored(*operation, id.to_owned()),
            None => Operation::WrongMethod(match operations[0] {
                StoredOperation::Read | StoredOperation::Delete => "GET, DELETE",
                StoredOperation::Cancel => "POST",
                StoredOperation::InputItems => "GET",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_stored_responses() {
        use StoredOperation::{Cancel, Delete, InputItems, Read};
        for (method, path, operation) in [
            ("GET", "/v1/responses/r", Read),
            ("DELETE", "/v1/responses/r", Delete),
            ("POST", "/v1/responses/r/cancel", Cancel),
            ("GET", "/v1/responses/r/input_items", InputItems),
        ] {
            let found = Operation::of(method.as_bytes(), path.as_bytes());
            assert_eq!(found, Operation::Stored(operation, "r".into()), "{path}");
        }
        for (method, path, allow) in [
            ("POST", "/v1/responses/r", "GET, DELETE"),
            ("HEAD", "/v1/responses/r", "GET, DELETE"),
            ("GET", "/v1/responses/r/cancel", "POST"),
            ("DELETE", "/v1/responses/r/input_items", "GET"),
            ("GET", "/v1/responses", "POST"),
            ("GET", "/v1/audio/speech", "POST"),
            ("PUT", "/v1/images/edits", "POST"),
        ] {
            let found = Operation::of(method.as_bytes(), path.as_bytes());
            assert_eq!(found, Operation::WrongMethod(allow), "{method} {path}");
        }
        for path in ["/v1/responses/r/other", "/v1/responses/compact", "/v1/audio"] {
            assert_eq!(Operation::of(b"POST", path.as_bytes()), Operation::Unknown, "{path}");
        }
    }
}
