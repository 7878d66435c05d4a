//! Rules on an identity: what `allow` of a route requests. Every part that is given must hold.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use crate::address_list::AddressList;
use crate::{Identity, Refusal};

/// The rules of one route. The default admits everyone.
#[derive(Debug, Clone, Default)]
pub struct Allow {
    /// All of these scopes.
    pub scopes: Vec<Box<str>>,
    /// For each claim one of the values; a missing claim does not match.
    pub claims: BTreeMap<Box<str>, Vec<Value>>,
    /// One of these consumers; `None`: any.
    pub consumers: Option<Vec<Box<str>>>,
    /// One of these tiers; `None`: any.
    pub tiers: Option<Vec<Box<str>>>,
    /// One of these networks; `None`: any. Checked before authentication, by [`Allow::admits_address`].
    pub ips: Option<AddressList>,
    /// None of these networks. Checked with `ips`.
    pub not_ips: AddressList,
}

impl Allow {
    /// Whether an address may send requests at all. `not_ips` wins over `ips`. A client without an IP address is in no network.
    ///
    /// # Errors
    /// [`Refusal::IpDenied`]
    pub fn admits_address(&self, address: Option<IpAddr>) -> Result<(), Refusal> {
        let is_in = |list: &AddressList| address.is_some_and(|address| list.contains(address));
        let admitted = self.ips.as_ref().is_none_or(is_in);
        if admitted && !is_in(&self.not_ips) { Ok(()) } else { Err(Refusal::IpDenied) }
    }

    /// Whether an identity may send this request.
    ///
    /// # Errors
    /// [`Refusal::ScopeMissing`] with all scopes that the route requests, else [`Refusal::Forbidden`] with the part that failed.
    pub fn admits(&self, who: &Identity) -> Result<(), Refusal> {
        if !self.scopes.iter().all(|wanted| who.scopes.contains(wanted)) {
            return Err(Refusal::ScopeMissing(self.scopes.join(" ").into()));
        }
        if !self.claims.iter().all(|(path, values)| who.claim(path).is_some_and(|claim| matches(claim, values))) {
            return Err(Refusal::Forbidden("claims"));
        }
        if !admitted(self.consumers.as_deref(), who.consumer.as_deref()) {
            return Err(Refusal::Forbidden("consumers"));
        }
        if !admitted(self.tiers.as_deref(), who.tier.as_deref()) {
            return Err(Refusal::Forbidden("tiers"));
        }
        Ok(())
    }
}

fn admitted(allowed: Option<&[Box<str>]>, name: Option<&str>) -> bool {
    allowed.is_none_or(|allowed| name.is_some_and(|name| allowed.iter().any(|one| &**one == name)))
}

/// A claim equals one of the values, or is a list that has one of them as a member.
fn matches(claim: &Value, values: &[Value]) -> bool {
    values.iter().any(|value| same(claim, value))
        || claim.as_array().is_some_and(|items| items.iter().any(|item| values.iter().any(|value| same(item, value))))
}

/// Text, numbers and booleans compare by value and type; objects, lists and null equal nothing. `1` and `1.0` are one number.
fn same(claim: &Value, wanted: &Value) -> bool {
    match (claim, wanted) {
        (Value::String(one), Value::String(other)) => one == other,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn who() -> Identity {
        let Value::Object(claims) =
            json!({"department": "sales", "groups": ["a", "b"], "level": 3, "admin": true, "nested": {"x": null}})
        else {
            unreachable!()
        };
        Identity {
            consumer: Some("shop".into()),
            tier: Some("gold".into()),
            scopes: vec!["orders:read".into(), "orders:write".into()],
            claims,
            ..Identity::default()
        }
    }

    fn claims(name: &str, values: Value) -> Allow {
        let Value::Array(values) = values else { panic!("a list") };
        Allow { claims: BTreeMap::from([(name.into(), values)]), ..Allow::default() }
    }

    #[test]
    fn each_part_refuses_by_itself() {
        assert_eq!(Allow::default().admits(&who()), Ok(()));
        assert_eq!(Allow::default().admits(&Identity::default()), Ok(()));
        let parts: [(Allow, Refusal); 4] = [
            (
                Allow { scopes: vec!["orders:read".into(), "admin".into()], ..Allow::default() },
                Refusal::ScopeMissing("orders:read admin".into()),
            ),
            (claims("department", json!(["ops"])), Refusal::Forbidden("claims")),
            (Allow { consumers: Some(vec!["other".into()]), ..Allow::default() }, Refusal::Forbidden("consumers")),
            (Allow { tiers: Some(vec!["free".into()]), ..Allow::default() }, Refusal::Forbidden("tiers")),
        ];
        for (allow, refusal) in parts {
            assert_eq!(allow.admits(&who()), Err(refusal.clone()));
            assert!(allow.admits(&Identity::default()).is_err(), "an empty identity passes where {refusal:?}");
        }
    }

    #[test]
    fn claims_compare_by_value_and_type() {
        for (name, values, expected) in [
            ("department", json!(["ops", "sales"]), true),
            ("department", json!(["sale"]), false),
            ("groups", json!(["b"]), true),
            ("groups", json!(["c"]), false),
            ("level", json!([3]), true),
            ("level", json!([3.0]), true),
            ("level", json!(["3"]), false),
            ("admin", json!([true]), true),
            ("admin", json!(["true"]), false),
            ("nested.x", json!([null]), false),
            ("missing", json!([null]), false),
            ("nested", json!([{"x": null}]), false),
            ("department", json!([]), false),
        ] {
            assert_eq!(claims(name, values.clone()).admits(&who()).is_ok(), expected, "{name} {values}");
        }
    }

    #[test]
    fn an_empty_list_admits_nobody() {
        assert!(Allow { consumers: Some(vec![]), ..Allow::default() }.admits(&who()).is_err());
        assert!(
            Allow { ips: Some(AddressList::default()), ..Allow::default() }
                .admits_address(Some([10, 0, 0, 1].into()))
                .is_err()
        );
    }

    #[test]
    fn a_denied_network_wins_over_an_allowed_one() {
        let net = |text: &str| AddressList::new(&[text.parse().expect("a network")]);
        let allow = Allow { ips: Some(net("10.0.0.0/8")), not_ips: net("10.1.0.0/16"), ..Allow::default() };
        assert!(allow.admits_address(Some([10, 0, 0, 1].into())).is_ok());
        assert!(allow.admits_address(Some([10, 1, 0, 1].into())).is_err());
        assert!(allow.admits_address(Some([11, 0, 0, 1].into())).is_err());
        assert!(allow.admits_address(None).is_err(), "in no network");
        assert!(allow.admits_address(Some("::ffff:10.1.0.1".parse().expect("an address"))).is_err());
    }
}
