use super::*;
use crate::self_signed::self_signed;

fn certificate(names: &[&str]) -> Certificate {
    self_signed(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap()
}

fn entry(names: &[&str], is_default: bool) -> Entry {
    Entry { certificate: certificate(names), names: Vec::new(), is_default, policy: 0 }
}

#[test]
fn an_exact_name_comes_before_a_wildcard_and_both_before_the_default() {
    let table =
        Names::new(vec![entry(&["*.a.test"], false), entry(&["x.a.test"], false), entry(&["other.test"], true)])
            .unwrap();
    assert_eq!(table.candidates(Some("x.a.test")), [1]);
    assert_eq!(table.candidates(Some("X.A.Test.")), [1]);
    assert_eq!(table.candidates(Some("y.a.test")), [0]);
    assert_eq!(table.candidates(Some("a.test")), [2], "a wildcard stands for exactly one label");
    assert_eq!(table.candidates(Some("z.y.a.test")), [2]);
    assert_eq!(table.candidates(None), [2]);
    assert!(table.serves("y.a.test") && !table.serves("a.test"));
}

#[test]
fn names_that_no_client_would_accept_are_refused() {
    let with = |of: &[&str], names: &[&str]| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Names::new(vec![Entry { certificate: certificate(of), names, is_default: false, policy: 0 }]).map(|_| ())
    };
    assert_eq!(with(&["a.test", "*.b.test"], &["a.test", "x.b.test", "*.b.test"]), Ok(()));
    for name in ["", "*", "a..test", "-a.test", "1.2.3.4", "a.*.test", "*.*.test"] {
        assert_eq!(with(&["a.test"], &[name]), Err(NameError::Invalid(name.to_owned())), "{name}");
    }
    assert!(matches!(with(&["a.test"], &["b.test"]), Err(NameError::NotCovered { .. })));
    assert!(matches!(with(&["a.test"], &["*.a.test"]), Err(NameError::NotCovered { .. })));
    assert!(matches!(with(&["127.0.0.1"], &[]), Err(NameError::Unreachable(_))));
}

#[test]
fn a_connection_carries_requests_for_what_its_certificate_covers() {
    let table = Names::new(vec![
        entry(&["a.test", "b.test", "*.c.test"], false),
        entry(&["d.test"], false),
        entry(&["e.test", "127.0.0.1"], true),
    ])
    .unwrap();
    for (sni, authority, may) in [
        (Some("a.test"), "a.test", true),
        (Some("a.test"), "B.test", true),
        (Some("a.test"), "x.c.test", true),
        (Some("a.test"), "d.test", false),
        (Some("d.test"), "a.test", false),
        (Some("unknown.test"), "e.test", true),
        (Some("unknown.test"), "unknown.test", false),
        (Some("unknown.test"), "a.test", false),
        (None, "e.test", true),
        (None, "127.0.0.1", true),
        (None, "127.0.0.2", false),
        (None, "a.test", false),
    ] {
        assert_eq!(table.may_carry(sni, authority), may, "{sni:?} {authority}");
    }
}
