//! What the console shows of the process beside its counts: plain values, without secrets.

use serde::Serialize;

/// What changes with every request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Load {
    /// Open client connections.
    pub connections: usize,
    /// Requests that targets have.
    pub in_flight: u64,
}

/// What changes with the configuration.
#[derive(Debug, Clone, Default)]
pub struct ProcessState {
    /// Path of the configuration file; none when the environment is the configuration.
    pub file: Option<String>,
    /// Worker threads.
    pub workers: usize,
    /// URLs that the process listens on.
    pub listeners: Vec<String>,
    /// Certificates of listeners, by host.
    pub certificates: Vec<CertificateState>,
    /// Providers of AI models.
    pub providers: Vec<ProviderState>,
    /// AI models.
    pub models: Vec<ModelState>,
    /// The last attempts to put a configuration in force, the newest first.
    pub reloads: Vec<ReloadEvent>,
}

/// The certificate of a host that ends first.
#[derive(Debug, Clone, Serialize)]
pub struct CertificateState {
    /// Name in the certificate.
    pub host: String,
    /// End of its validity, in milliseconds since the Unix epoch.
    pub not_after_ms: u64,
    /// Seconds until then; negative once it has passed.
    pub seconds_left: i64,
}

/// A provider of AI models.
#[derive(Debug, Clone, Serialize)]
pub struct ProviderState {
    /// Name in the configuration.
    pub name: String,
    /// API that it speaks.
    pub api: &'static str,
    /// Upstream with its targets.
    pub upstream: String,
    /// Its keys.
    pub keys: Vec<ProviderKeyState>,
}

/// A key of a provider.
#[derive(Debug, Clone, Serialize)]
pub struct ProviderKeyState {
    /// Its last characters.
    pub shown: String,
    /// Share of requests.
    pub weight: u32,
    /// Whether it gets no requests for a while, because the provider refused it.
    pub is_out: bool,
}

/// An AI model.
#[derive(Debug, Clone, Serialize)]
pub struct ModelState {
    /// Name in the configuration.
    pub name: String,
    /// Who serves it, in the order of the file.
    pub candidates: Vec<CandidateState>,
    /// Requests that ended, those that failed among them.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Tokens of requests.
    pub input_tokens: u64,
    /// Tokens of responses.
    pub output_tokens: u64,
}

/// A provider's model that serves a model.
#[derive(Debug, Clone, Serialize)]
pub struct CandidateState {
    /// Provider.
    pub provider: String,
    /// Name of the model there.
    pub model: String,
    /// Tried in this order.
    pub tier: u32,
    /// Share within the tier.
    pub weight: u32,
    /// Whether it gets no requests for a while, because the provider does not know the model.
    pub is_out: bool,
}

/// An attempt to put a configuration in force.
#[derive(Debug, Clone, Serialize)]
pub struct ReloadEvent {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What caused it.
    pub why: String,
    /// Why it was refused; none when it was put in force.
    pub error: Option<String>,
    /// What differs from the configuration before.
    pub changes: Vec<String>,
}
