//! What a request to an AI route requests.

use llm::Api;

/// An operation of an ingress API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A call of a model.
    Call(Api),
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
            _ => Operation::Unknown,
        }
    }
}
