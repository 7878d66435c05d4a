//! The certificate of the gateways in a campaign whose clients use TLS. It is made for the campaign, and only its generator trusts it.

use std::net::IpAddr;

use super::{CampaignError, Store};
use crate::deploy::DeployError;
use crate::profile::Clients;
use crate::profile::secure::{CERTIFICATE, KEY, SERVER_NAME};

/// A certificate with its key, in PEM.
pub(super) struct Certificate {
    certificate: String,
    key: String,
}

impl Certificate {
    /// Makes one, if clients use TLS, and lets them trust it.
    pub(super) fn make(clients: &mut Clients, listen: IpAddr, store: &Store) -> Result<Option<Self>, CampaignError> {
        let Some(tls) = &mut clients.tls else { return Ok(None) };
        // A gateway may compare the name of a request with those of its certificate: addresses are names of requests here.
        let mut names = [SERVER_NAME, "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        names.extend(Some(listen).filter(|listen| !listen.is_unspecified()).map(|listen| listen.to_string()));
        let why = |error: String| CampaignError::Backend(format!("the certificate of the gateways: {error}"));
        let (certificate, key) = ::tls::self_signed::self_signed_pem(&names).map_err(why)?;
        let file = store.path("tmp").join(CERTIFICATE);
        std::fs::write(&file, &certificate).map_err(|error| DeployError::file(&file, error))?;
        tls.ca = Some(file);
        Ok(Some(Certificate { certificate, key }))
    }

    /// Files for the directory of a gateway, with their content.
    pub(super) fn files(&self) -> [(&'static str, &str); 2] {
        [(CERTIFICATE, &self.certificate), (KEY, &self.key)]
    }
}
