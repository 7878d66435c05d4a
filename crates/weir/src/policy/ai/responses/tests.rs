use super::*;

fn origin(provider: &str) -> Origin {
    Origin { model: "m".into(), provider: provider.into(), served_model: "s".into(), key: Some(KeyMark::of("sk-1")) }
}

#[test]
fn an_id_is_known_to_its_tenant_only() {
    let ids = ResponseIds::default();
    let (a, b) = (Tenant::of(&[b"team", b"a"]), Tenant::of(&[b"team", b"b"]));
    ids.put("resp_1", a, &origin("p"));
    assert_eq!(ids.find("resp_1", a), Known::Own(origin("p")));
    assert_eq!(ids.find("resp_1", b), Known::Foreign);
    assert_eq!(ids.find("resp_2", a), Known::Nothing);
    ids.put("resp_1", b, &origin("q"));
    assert_eq!(ids.find("resp_1", a), Known::Own(origin("p")), "nobody takes an id of another tenant");
    assert_eq!(ids.find("resp_1", b), Known::Foreign);
    ids.put("resp_1", a, &origin("q"));
    assert_eq!(ids.find("resp_1", a), Known::Own(origin("q")));
}

#[test]
fn names_of_tenants_and_keys_do_not_run_together() {
    assert_ne!(Tenant::of(&[b"ab", b"c"]), Tenant::of(&[b"a", b"bc"]));
    assert_ne!(Tenant::of(&[b"a"]), Tenant::of(&[b"a", b""]));
    assert_ne!(KeyMark::of("sk-1"), KeyMark::of("sk-2"));
}

#[test]
fn the_id_that_was_used_least_recently_is_forgotten() {
    let ids = ResponseIds::with_room(3);
    let (a, b) = (Tenant::of(&[b"a"]), Tenant::of(&[b"b"]));
    for id in ["1", "2", "3", "1"] {
        ids.put(id, a, &origin("p"));
    }
    assert_eq!(ids.find("2", a), Known::Own(origin("p")));
    assert_eq!(ids.find("3", b), Known::Foreign, "another tenant's look is no use");
    ids.put("4", b, &origin("p"));
    assert_eq!(ids.find("3", a), Known::Nothing);
    let known = ["1", "2", "4"].map(|id| ids.find(id, a));
    assert_eq!(known, [Known::Own(origin("p")), Known::Own(origin("p")), Known::Foreign]);
    for n in 0..1000 {
        ids.put(&n.to_string(), a, &origin("p"));
    }
    ids.with(|ids| assert_eq!((ids.by_id.len(), ids.by_use.len()), (3, 3)));
}

#[test]
fn a_hundred_thousand_are_kept() {
    let ids = ResponseIds::default();
    let tenant = Tenant::of(&[b"a"]);
    for n in 0..KEPT + 1 {
        ids.put(&format!("resp_{n}"), tenant, &origin("p"));
    }
    assert_eq!(ids.find("resp_0", tenant), Known::Nothing);
    assert_eq!(ids.find("resp_1", tenant), Known::Own(origin("p")));
    assert_eq!(ids.find(&format!("resp_{KEPT}"), tenant), Known::Own(origin("p")));
}
