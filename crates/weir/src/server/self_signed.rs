//! TLS without files, for development.

use std::sync::Arc;

use tls::Alpn;
use tls::names::{Entry, Names};
use tls::server::Options;

use crate::config::{Config, ListenerTls, Serves};

/// Names that the certificate is for; a listener that is bound to an address of its own adds nothing, as no browser trusts it anyway.
const NAMES: [&str; 4] = ["localhost", "*.localhost", "127.0.0.1", "::1"];

/// A certificate that was made at start. It stays the same over reloads, so that a browser shows its warning once.
#[derive(Debug)]
pub struct SelfSigned(Arc<ListenerTls>);

impl SelfSigned {
    /// Makes one.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn new() -> Result<Self, String> {
        let certificate = tls::self_signed::self_signed(&NAMES.map(str::to_owned))?;
        let sha256: String = certificate.facts.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        tracing::warn!(sha256, "listeners use a self-signed certificate, made at this start: for development only");
        let entry = Entry { certificate, names: Vec::new(), is_default: true, policy: 0 };
        let names = Names::new(vec![entry]).map_err(|error| error.to_string())?;
        let options = Options { alpn: vec![Alpn::Http2, Alpn::Http11], ..Options::new(Arc::new(names)) };
        Ok(SelfSigned(Arc::new(ListenerTls::new(options))))
    }

    /// Lets the listeners in clear text speak TLS.
    pub fn apply(&self, config: &mut Config) {
        for listener in config.listen.iter_mut().filter(|listener| listener.serves == Serves::Http) {
            listener.serves = Serves::Https(self.0.clone());
        }
    }
}
