use proptest::prelude::*;

use super::*;

fn normal(host: &str) -> Option<String> {
    let mut scratch = [0; MAX_BYTES];
    normalise(host.as_bytes(), &mut scratch).map(|host| String::from_utf8(host.to_vec()).unwrap())
}

#[test]
fn case_port_and_trailing_dot_do_not_count() {
    for (host, expected) in [
        ("api.example.com", "api.example.com"),
        ("API.Example.COM", "api.example.com"),
        ("api.example.com:8080", "api.example.com"),
        ("api.example.com:", "api.example.com"),
        ("api.example.com.", "api.example.com"),
        ("API.example.com.:443", "api.example.com"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("my_service", "my_service"),
        ("[::1]", "[::1]"),
        ("[::1]:8080", "[::1]"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("[2001:DB8::00A]", "[2001:db8::a]"),
    ] {
        assert_eq!(normal(host).as_deref(), Some(expected), "{host}");
    }
}

#[test]
fn what_is_no_host_matches_no_route_by_host() {
    let long = "a".repeat(MAX_BYTES + 1);
    for host in [
        "",
        ".",
        ":80",
        "a b",
        "a/b",
        "a@b",
        "a,b",
        "a:b",
        "a:80:80",
        "::1",
        "[::1",
        "[]",
        "[::1]a",
        "[a]",
        "[::1%25eth0]",
        &long,
    ] {
        assert_eq!(normal(host), None, "{host}");
    }
}

#[test]
fn what_is_in_the_one_form_is_not_copied() {
    let mut scratch = [0; MAX_BYTES];
    let host = b"api.example.com:8080";
    let normal = normalise(host, &mut scratch).unwrap();
    assert!(std::ptr::eq(normal.as_ptr(), host.as_ptr()));
}

proptest! {
    #[test]
    fn once_is_enough(host in "[A-Za-z0-9._:\\[\\]-]{0,20}|\\[[0-9a-fA-F:]{2,20}\\](:[0-9]{0,5})?") {
        if let Some(once) = normal(&host) {
            // A second trailing dot is an empty label, which no route can name.
            if !once.ends_with('.') {
                prop_assert_eq!(normal(&once), Some(once));
            }
        }
    }

    #[test]
    fn no_bytes_do_harm(host in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut scratch = [0; MAX_BYTES];
        let _ = normalise(&host, &mut scratch);
    }
}
