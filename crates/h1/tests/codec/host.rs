//! Host and authority: RFC 9112 section 3.2, RFC 9110 section 7.2; rule 5.

use h1::ParseError::*;
use h1::TargetForm;

use crate::support::feed::Start;
use crate::{refuse_request, request};

fn authority(raw: impl AsRef<[u8]>) -> Option<String> {
    let Start::Request { authority, .. } = request(raw).start else { panic!() };
    authority.map(|authority| String::from_utf8(authority).unwrap())
}

#[test]
fn http_1_1_needs_exactly_one_host_rfc9112_3_2() {
    assert_eq!(authority("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").as_deref(), Some("a.example"));
    assert_eq!(authority("GET / HTTP/1.1\r\nhOsT:\t a.example \t\r\n\r\n").as_deref(), Some("a.example"));
    refuse_request("GET / HTTP/1.1\r\n\r\n", HostMissing);
    refuse_request("GET / HTTP/1.1\r\nX-Host: a\r\nHosts: a\r\n\r\n", HostMissing);
    refuse_request("GET http://a/ HTTP/1.1\r\n\r\n", HostMissing);
    refuse_request("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", HostRepeated);
    refuse_request("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nHOST: a\r\n\r\n", HostRepeated);
    refuse_request("GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", HostRepeated);
    refuse_request("GET / HTTP/1.1\r\nHost: a\r\nHost:\r\n\r\n", HostRepeated);
}

#[test]
fn http_1_0_may_have_one_host_and_not_two_rfc9112_3_2() {
    assert_eq!(authority("GET / HTTP/1.0\r\n\r\n"), None);
    assert_eq!(authority("GET / HTTP/1.0\r\nHost: a\r\n\r\n").as_deref(), Some("a"));
    assert_eq!(authority("GET http://b/ HTTP/1.0\r\n\r\n").as_deref(), Some("b"));
    refuse_request("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", HostRepeated);
    refuse_request("GET / HTTP/1.0\r\nHost: a/b\r\n\r\n", HostInvalid);
}

#[test]
fn hosts_that_are_valid_rfc9110_7_2() {
    for host in [
        "a",
        "A.b-c.example",
        "a_b.example",
        "a~b",
        "a.example.",
        "127.0.0.1",
        "127.0.0.1:8080",
        "a:1",
        "a:0",
        "a:65535",
        "a:00080",
        "a:",
        "[::1]",
        "[::1]:80",
        "[::1]:",
        "[2001:db8::7]",
        "[::ffff:192.0.2.1]:443",
        "xn--bcher-kva.example",
        "1",
        "-",
    ] {
        assert_eq!(authority(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).as_deref(), Some(host));
        assert_eq!(authority(format!("GET http://{host} HTTP/1.1\r\nHost: b\r\n\r\n")).as_deref(), Some(host));
    }
}

#[test]
fn hosts_that_are_not_valid_rule_5_rfc9110_7_2() {
    for host in [
        "",
        " ",
        ":80",
        "a,b",
        "a, b",
        "a b",
        "a/b",
        "a/",
        "/a",
        "a?b",
        "a@b",
        "user:pass@a",
        "@a",
        "a\\b",
        "a;b",
        "a%41",
        "a%00",
        "a'b",
        "a\"b",
        "http://a",
        "a:65536",
        "a:99999",
        "a:123456",
        "a:-1",
        "a:+1",
        "a:0x50",
        "a:8 0",
        "a:80a",
        "a:80:80",
        "a::80",
        "::1",
        "[::1",
        "::1]",
        "[]",
        "[:::1]",
        "[::1%25eth0]",
        "[::1]a",
        "[::1]::1",
        "[v1.a]",
        "[a]",
        "[127.0.0.1]",
        "..",
        ".",
        ".a",
        "a..b",
        "a..",
        "*",
        "*.a",
        "<a>",
        "a\u{e9}",
        "a\tb",
        "a#b",
        "a&b",
        "a=b",
        "a+b",
        "$a",
        "a!",
        "(a)",
        "{a}",
        "a|b",
        "a^b",
        "`a`",
    ] {
        refuse_request(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), HostInvalid);
    }
    for target in [
        "http://",
        "http:///",
        "http://?a",
        "http://:80/",
        "http://a,b/",
        "http://u@a/",
        "http://u:p@a/b",
        "http://a:b/",
        "http://a:65536/",
        "http://a\\b/",
        "http://a\\@b/",
        "http://[::1/",
        "https:///a",
        "http://a%2fb/",
        "http://../",
        "http://./",
    ] {
        refuse_request(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), HostInvalid);
    }
}

#[test]
fn the_authority_of_an_absolute_target_replaces_host_rule_5_rfc9112_3_2_2() {
    for (target, authority, path, query) in [
        ("http://b/c?d", "b", "/c", Some("d")),
        ("HTTP://b:8080/c", "b:8080", "/c", None),
        ("hTTpS://b", "b", "", None),
        ("http://b?d", "b", "", Some("d")),
        ("http://b?", "b", "", Some("")),
        ("http://b/?//e/?f", "b", "/", Some("//e/?f")),
        ("http://b/http://c/", "b", "/http://c/", None),
        ("http://[::1]:1/c", "[::1]:1", "/c", None),
    ] {
        let Start::Request { form, authority: found, path: found_path, query: found_query, .. } =
            request(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).start
        else {
            panic!()
        };
        assert_eq!(form, TargetForm::Absolute);
        assert_eq!(found.as_deref(), Some(authority.as_bytes()), "{target}");
        assert_eq!((&found_path[..], found_query.as_deref()), (path.as_bytes(), query.map(str::as_bytes)), "{target}");
    }
    // Host is not heard, but it must be sound.
    refuse_request("GET http://b/ HTTP/1.1\r\nHost: a/b\r\n\r\n", HostInvalid);
    refuse_request("GET http://b/ HTTP/1.1\r\nHost:\r\n\r\n", HostInvalid);
}

#[test]
fn an_origin_form_that_looks_like_a_url_is_a_path_rfc9112_3_2_1() {
    for target in ["//b/c", "/http://b/", "/@b", "//b:80"] {
        let Start::Request { form, authority, path, .. } =
            request(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).start
        else {
            panic!()
        };
        assert_eq!((form, authority.as_deref()), (TargetForm::Origin, Some(&b"a"[..])));
        assert_eq!(path, target.as_bytes());
    }
}
