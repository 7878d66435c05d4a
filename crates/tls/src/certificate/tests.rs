use super::*;
use crate::self_signed::self_signed;

fn write(dir: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn made(names: &[&str]) -> (rcgen::Certificate, rcgen::KeyPair) {
    let key = rcgen::KeyPair::generate().unwrap();
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    (rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap(), key)
}

#[test]
fn each_defect_of_a_file_has_its_message() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = made(&["a.test"]);
    let cert = write(&dir, "cert.pem", &certificate.pem());
    let good_key = write(&dir, "key.pem", &key.serialize_pem());
    let other_key = write(&dir, "other.pem", &made(&["a.test"]).1.serialize_pem());
    let empty = write(&dir, "empty.pem", "");
    let broken = write(&dir, "broken.pem", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n");
    let cut = {
        let der = &certificate.der()[..certificate.der().len() / 2];
        write(&dir, "cut.pem", &pem("CERTIFICATE", der))
    };
    let absent = dir.path().join("absent.pem");

    assert!(Certificate::load(&cert, &good_key).is_ok());
    let message = |cert: &Path, key: &Path| Certificate::load(cert, key).unwrap_err().to_string();
    assert!(message(&absent, &good_key).starts_with("cannot read "));
    assert!(message(&empty, &good_key).contains("holds no certificate"));
    assert!(message(&cert, &empty).contains("holds no private key"));
    assert!(message(&broken, &good_key).contains("is not valid PEM"));
    assert!(message(&cut, &good_key).contains("is not a valid X.509 certificate"));
    assert!(message(&cert, &other_key).contains("does not belong to"));
}

fn pem(label: &str, der: &[u8]) -> String {
    use std::fmt::Write;
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for chunk in der.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let value = DIGITS[(bits >> (18 - 6 * digit)) as usize & 63] as char;
            let _ = write!(text, "{}", if digit <= chunk.len() { value } else { '=' });
        }
    }
    text + &format!("\n-----END {label}-----\n")
}

#[test]
fn names_addresses_and_dates_are_read() {
    let certificate =
        self_signed(&["A.test".to_owned(), "*.b.test".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()]);
    let facts = certificate.unwrap().facts;
    assert_eq!(facts.dns_names, ["a.test", "*.b.test"]);
    assert_eq!(facts.ip_addresses, ["127.0.0.1".parse::<IpAddr>().unwrap(), "::1".parse().unwrap()]);
    assert!(facts.has_elliptic_key);
    let now = SystemTime::now();
    assert_eq!(facts.problem(now), None);
    assert_eq!(facts.problem(facts.not_after + Duration::from_secs(1)), Some("the certificate has expired"));
    assert_eq!(facts.expires_in(facts.not_after), Duration::ZERO);
    let early = facts.not_before - Duration::from_secs(1);
    assert_eq!(facts.problem(early), Some("the certificate is not valid yet"));
}
