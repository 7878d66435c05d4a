//! What can go wrong with the API server.

use serde_json::Value;

/// Why a request to the API server failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The connection failed.
    #[error("the connection to the API server failed: {0}")]
    Io(#[from] std::io::Error),
    /// The exchange broke off.
    #[error("the API server did not respond: {0}")]
    Http(#[from] hyper::Error),
    /// Nothing came before the deadline.
    #[error("the API server did not respond within the timeout")]
    Timeout,
    /// A response that cannot be read.
    #[error("a response of the API server cannot be read: {0}")]
    Json(serde_json::Error),
    /// A request that cannot be made.
    #[error("{0}")]
    Request(String),
    /// A line of a watch that is too long.
    #[error("an event of a watch is larger than {0} bytes")]
    LongLine(usize),
    /// A status other than success.
    #[error("the API server responded with {code}: {message}")]
    Status {
        /// Status code.
        code: u16,
        /// What it says.
        message: String,
    },
}

impl ApiError {
    /// The failure that an object of the kind `Status` tells of.
    pub(super) fn of_status(status: &Value, code: u16) -> Self {
        let given = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let message = status.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
        ApiError::Status { code: given.unwrap_or(code), message }
    }

    /// Whether it is a response, so that the connection is as good as before.
    pub(crate) fn is_response(&self) -> bool {
        matches!(self, ApiError::Status { .. })
    }

    /// Whether a watch cannot go on from its version.
    pub fn is_expired(&self) -> bool {
        matches!(self, ApiError::Status { code: 410, .. })
    }

    /// Whether there is no such thing: an object, or a kind that the server does not know.
    pub fn is_not_found(&self) -> bool {
        matches!(self, ApiError::Status { code: 404, .. })
    }

    /// Whether somebody else was quicker.
    pub fn is_conflict(&self) -> bool {
        matches!(self, ApiError::Status { code: 409, .. })
    }
}
