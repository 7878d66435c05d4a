//! The redirect of a plain listener to the same URL over TLS.

use super::Exchange;
use crate::client::origin::HttpsHosts;
use crate::error::{Error, Reason};
use crate::http::response::Prepared;
use crate::route::host;

impl Exchange<'_> {
    /// Sends the client to the same URL over TLS, if its host is served there: never to a host of the client's choice.
    ///
    /// # Errors
    /// 421, or when the client does not take the response.
    pub async fn redirect_to_https(&mut self, hosts: &HttpsHosts) -> Result<(), Error> {
        let authority = self.scratch.request.authority.map(|authority| authority.of_buf(self.down.buffer.whole()));
        let mut memory = [0; host::MAX_BYTES];
        let host = authority.and_then(|authority| host::normalise(authority, &mut memory));
        let host = host.and_then(|host| std::str::from_utf8(host).ok());
        let Some((host, port)) = host.and_then(|host| Some((host, hosts.port_of(host)?))) else {
            return Err(Error::new(Reason::Misdirected, "this host is not served over TLS"));
        };
        self.log.own = Some("The listener redirects to https");
        let mut location = format!("https://{host}").into_bytes();
        if port != 443 {
            location.extend_from_slice(format!(":{port}").as_bytes());
        }
        location.extend_from_slice(&self.scratch.path);
        if let Some(query) = self.query() {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        let mut line = Vec::new();
        h1::encode::field(&mut line, b"Location", &location);
        self.response(&Prepared::new(308, None, &line, b"")).await
    }
}
