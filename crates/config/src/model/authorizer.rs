//! Services that decide whether a request may pass.

use std::sync::Arc;
use std::time::Duration;

use super::Proxy;

/// The method of `ext_authz` over gRPC.
pub const CHECK_PATH: &str = "/envoy.service.auth.v3.Authorization/Check";

/// A service that decides whether a request may pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Authorizer {
    /// How requests to it are written and how its responses are read.
    pub form: AuthorizerForm,
    /// The way to it: an ordinary upstream, with the timeout as the total one.
    pub action: Proxy,
    /// Path, and query if there is one, that is requested; before the path of the request with [`AuthorizerForm::Envoy`].
    pub path: Arc<str>,
    /// Request fields that it sees, in lower case.
    pub send: Vec<Arc<str>>,
    /// Fields of its response that go to the route's upstream.
    pub copy: Vec<Arc<str>>,
    /// Fields of its response that go to the client of a request that passes.
    pub copy_to_response: Vec<Arc<str>>,
    /// Field of its response that names the consumer.
    pub consumer: Option<Arc<str>>,
    /// Field of its response that names the tier.
    pub tier: Option<Arc<str>>,
    /// Whether requests pass while it gives no response.
    pub fails_open: bool,
    /// Verdicts that are stored.
    pub cache: Option<VerdictCache>,
}

impl Authorizer {
    /// Whether it is understood as nginx does.
    pub fn is_nginx(&self) -> bool {
        self.form == AuthorizerForm::Nginx
    }
}

/// How a service is called and its statuses are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorizerForm {
    /// GET; 2xx passes, anything else goes to the client.
    Traefik,
    /// GET; 2xx passes, 401 and 403 go to the client, anything else is 500.
    Nginx,
    /// Method and path of the request; 200 passes, 5xx is a failure, anything else goes to the client.
    Envoy,
    /// A gRPC call, whose message is the verdict.
    EnvoyGrpc,
}

/// Verdicts that are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictCache {
    /// What a verdict depends on.
    pub key: Vec<VerdictKey>,
    /// How long.
    pub ttl: Duration,
}

/// A part of what a verdict depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerdictKey {
    /// A request field, in lower case.
    Header(Arc<str>),
    /// The method.
    Method,
    /// Host and port.
    Host,
    /// The path.
    Path,
    /// Path and query.
    Uri,
    /// The client's address.
    ClientIp,
}
