//! Authorities that sign anything.

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, DnValue,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    date_time_ymd,
};
use tempfile::TempDir;
use tls::Certificate;

/// An authority whose certificate is in a file.
pub(crate) struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { dir, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Writes the list of revoked certificates, and returns its file.
    pub(crate) fn revoke(&self, serials: &[u64]) -> PathBuf {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2120, 1, 1),
            crl_number: 1u64.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let file = self.dir.path().join("crl.pem");
        // At once: a list of which a part is there is none.
        std::fs::write(file.with_extension("new"), list.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
        std::fs::rename(file.with_extension("new"), &file).unwrap();
        file
    }

    pub(crate) fn issue(&self, params: &CertificateParams) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let (cert, private) = (self.dir.path().join("cert.pem"), self.dir.path().join("key.pem"));
        std::fs::write(&cert, signed.pem()).unwrap();
        std::fs::write(&private, key.serialize_pem()).unwrap();
        Certificate::load(&cert, &private).unwrap()
    }
}

/// What a client's certificate is made of.
pub(crate) fn client(common_name: impl Into<DnValue>, names: Vec<SanType>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = names;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

pub(crate) fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

pub(crate) fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().unwrap())
}
