use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, DnValue, KeyPair, SanType};
use serde_json::json;

use super::*;

fn params(subject: &[(DnType, DnValue)], names: Vec<SanType>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), value.clone());
    }
    params.subject_alt_names = names;
    params
}

fn der(params: CertificateParams) -> Vec<u8> {
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

fn text(value: &str) -> DnValue {
    DnValue::Utf8String(value.to_owned())
}

fn common(value: &str) -> Vec<(DnType, DnValue)> {
    vec![(DnType::CommonName, text(value))]
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().unwrap())
}

fn consumer(der: &[u8], names: &[Name]) -> Option<String> {
    read(der, names).ok().and_then(|owner| owner.identity.consumer.as_deref().map(str::to_owned))
}

#[test]
fn the_consumer_is_the_first_name_that_counts_and_is_there() {
    let email = SanType::Rfc822Name("ali@example.com".try_into().unwrap());
    let all = der(params(
        &common("orders"),
        vec![dns("Orders.Test"), dns("b.test"), uri("spiffe://mesh.test/orders"), email],
    ));
    let fingerprint = hex(digest::digest(&digest::SHA256, &all).as_ref());
    for (names, expected) in [
        (&[Name::Uri, Name::Dns][..], "spiffe://mesh.test/orders"),
        (&[Name::Dns, Name::Uri], "orders.test"),
        (&[Name::Email], "ali@example.com"),
        (&[Name::CommonName], "orders"),
        (&[Name::Subject], "CN=orders"),
        (&[Name::Fingerprint], &fingerprint),
    ] {
        assert_eq!(consumer(&all, names).as_deref(), Some(expected));
    }
    let claims = read(&all, &[Name::Uri]).unwrap().identity.claims.clone();
    assert_eq!(claims["dns"], json!(["orders.test", "b.test"]));
    assert_eq!(claims["uri"], json!("spiffe://mesh.test/orders"));
    assert_eq!(claims["issuer"], json!("CN=orders"));
    assert!(claims["serial"].as_str().is_some_and(|serial| !serial.is_empty()));

    let bare = der(params(&common("orders"), vec![]));
    assert_eq!(consumer(&bare, &[Name::Uri, Name::Dns, Name::Subject]).as_deref(), Some("CN=orders"));
    assert_eq!(read(&bare, &[Name::Uri, Name::Dns]).unwrap_err(), NAMELESS);
    assert_eq!(read(&der(params(&[], vec![])), &[Name::Subject, Name::CommonName]).unwrap_err(), NAMELESS);
}

#[test]
fn a_name_that_may_be_one_of_two_is_no_name() {
    let two = der(params(&common("x"), vec![uri("spiffe://mesh.test/a"), uri("spiffe://mesh.test/b")]));
    let refusal = |der: &[u8], names: &[Name]| read(der, names).map(drop).unwrap_err().detail().unwrap();
    assert_eq!(refusal(&two, &[Name::Uri]), "the certificate has several URIs");
    // Rules on claims would find either.
    assert_eq!(refusal(&two, &[Name::Uri, Name::CommonName]), "the certificate has several URIs");
    assert_eq!(consumer(&two, &[Name::CommonName]).as_deref(), Some("x"));
    let names = [(DnType::CommonName, text("x")), (DnType::CustomDnType(vec![2, 5, 4, 3]), text("y"))];
    let both = der(params(&names, vec![dns("a.test")]));
    assert_eq!(refusal(&both, &[Name::CommonName]), "the certificate has several common names");
    assert_eq!(consumer(&both, &[Name::Dns]).as_deref(), Some("a.test"));
}

/// An authority that signs any common name, or any DNS name, must not sign another consumer's URI by that.
#[test]
fn no_name_poses_as_one_of_another_kind() {
    let told = read(&der(params(&[], vec![dns("spiffe://mesh.test/operator")])), &[Name::Dns]).unwrap_err();
    assert_eq!(told.detail(), Some("a DNS name of the certificate has characters that such names do not have"));
    for (name, other) in [("spiffe://mesh.test/operator", Name::Uri), ("root@mesh.test", Name::Email)] {
        let posing = der(params(&common(name), vec![]));
        assert_eq!(consumer(&posing, &[other, Name::CommonName]), None);
        assert_eq!(consumer(&posing, &[Name::CommonName]).as_deref(), Some(name));
    }
}

/// Whoever may choose a part of their name could otherwise be somebody else.
#[test]
fn no_part_of_a_subject_looks_like_two() {
    let honest = der(params(&[(DnType::OrganizationName, text("Admins")), (DnType::CommonName, text("ali"))], vec![]));
    let forged = der(params(&common("ali,O=Admins"), vec![]));
    assert_eq!(consumer(&honest, &[Name::Subject]).as_deref(), Some("CN=ali,O=Admins"));
    assert_eq!(
        consumer(&forged, &[Name::Subject]).as_deref(),
        Some("CN=ali\\,O\\=Admins".replace("\\=", "=").as_str())
    );
    let odd = [
        (DnType::OrganizationName, text(" #a+b\"\\;<> ")),
        (DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]), text("x")),
        (DnType::CommonName, DnValue::BmpString("bmp".try_into().unwrap())),
    ];
    let subject =
        super::distinguished_name::text(X509Certificate::from_der(&der(params(&odd, vec![]))).unwrap().1.subject());
    assert_eq!(subject, "CN=#1e0062006d0070,1.2.840.113549.1.9.1=#0c78,O=\\ #a\\+b\\\"\\\\\\;\\<\\>\\ ");
}

#[test]
fn hostile_certificates_are_refused_with_their_defect() {
    let refusal = |der: &[u8]| read(der, &Name::ALL).map(drop).unwrap_err().detail().unwrap();
    let good = der(params(&common("x"), vec![dns("a.test")]));
    assert!(read(&good, &Name::ALL).is_ok());

    let many = (0..200).map(|number| dns(&format!("n{number}.test"))).collect();
    assert_eq!(refusal(&der(params(&[], many))), "the certificate has more than 100 names");
    let large = (0..90).map(|number| dns(&format!("{}.n{number}.test", "a".repeat(250)))).collect();
    assert_eq!(refusal(&der(params(&[], large))), "the certificate has more than 16 KiB");
    let long = der(params(&[], vec![uri(&format!("spiffe://mesh.test/{}", "a".repeat(2000)))]));
    assert_eq!(refusal(&long), "the certificate has a name of more than 1,024 bytes");
    let bmp = der(params(&[(DnType::CommonName, DnValue::BmpString("x".try_into().unwrap()))], vec![]));
    assert_eq!(refusal(&bmp), "the common name of the certificate has an encoding that is not read");
    for name in ["admin\0.test", "a\r\nX-Admin: 1", " admin", ""] {
        let told = refusal(&der(params(&common(name), vec![])));
        assert_eq!(
            told, "a name of the certificate is empty, or has control characters or blanks around it",
            "{name:?}"
        );
        let told = refusal(&der(params(&[], vec![uri(name)])));
        assert!(told.starts_with("a name of the certificate is "), "{name:?}: {told}");
    }
    // A DNS name in UTF-16; what is no sequence; a second extension of the same kind.
    for (content, expected) in [
        (&[0x30, 4, 0x82, 2, 0xd8, 0xff][..], "a name of the certificate is not valid"),
        (&[0x04, 1, 0], "the subject alternative name of the certificate cannot be read"),
        (&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], "the subject alternative name of the certificate cannot be read"),
    ] {
        let mut odd = params(&common("x"), vec![]);
        odd.custom_extensions.push(CustomExtension::from_oid_content(&[2, 5, 29, 17], content.to_vec()));
        assert_eq!(refusal(&der(odd)), expected, "{content:?}");
    }
    let mut twice = params(&common("x"), vec![dns("a.test")]);
    twice.custom_extensions.push(CustomExtension::from_oid_content(&[2, 5, 29, 17], vec![0x30, 0]));
    assert_eq!(refusal(&der(twice)), "the subject alternative name of the certificate cannot be read");

    assert_eq!(refusal(b""), "the certificate cannot be read");
    assert_eq!(refusal(&[&good[..], b"x"].concat()), "the certificate cannot be read");
    for cut in [1, good.len() / 3, good.len() - 1] {
        assert_eq!(refusal(&good[..cut]), "the certificate cannot be read");
    }
}

proptest::proptest! {
    /// Any byte of a certificate may be another: it is read or refused.
    #[test]
    fn damaged_certificates_do_no_harm(position in 0usize..2000, byte: u8) {
        static GOOD: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let good = GOOD.get_or_init(|| der(params(&common("orders"), vec![dns("a.test"), uri("spiffe://mesh.test/a")])));
        let mut damaged = good.clone();
        let position = position % damaged.len();
        damaged[position] = byte;
        if let Ok(owner) = read(&damaged, &Name::ALL) {
            let consumer = owner.identity.consumer.clone().unwrap_or_default();
            proptest::prop_assert!(!consumer.is_empty() && !consumer.chars().any(char::is_control));
        }
    }
}
