//! Request lines: RFC 9112 section 3; rules 3 and 4.

use h1::ParseError::{self, *};
use h1::{TargetForm, Version};

use crate::support::feed::Start;
use crate::{refuse_request, request};

fn with_line(line: impl AsRef<[u8]>) -> Vec<u8> {
    [line.as_ref(), b"\r\nHost: a\r\n\r\n"].concat()
}

fn refuse(lines: &[(&[u8], ParseError)]) {
    for (line, error) in lines {
        refuse_request(with_line(line), *error);
    }
}

#[test]
fn the_three_parts_are_found_rfc9112_3() {
    let message = request(with_line("PURGE /a/b?c=d?e#".trim_end_matches('#').to_owned() + " HTTP/1.1"));
    let Start::Request { method, form, authority, path, query, .. } = message.start else { panic!() };
    assert_eq!((&method[..], form), (&b"PURGE"[..], TargetForm::Origin));
    assert_eq!((&path[..], query.as_deref()), (&b"/a/b"[..], Some(&b"c=d?e"[..])));
    assert_eq!(authority.as_deref(), Some(&b"a"[..]));
    assert_eq!(message.version, Version::Http11);
    assert_eq!(request(with_line("GET / HTTP/1.0")).version, Version::Http10);
}

#[test]
fn exactly_one_space_stands_between_the_parts_rule_4_rfc9112_3() {
    refuse(&[
        (b"GET  / HTTP/1.1", RequestLine),
        (b"GET /  HTTP/1.1", RequestLine),
        (b" GET / HTTP/1.1", RequestLine),
        (b"GET / HTTP/1.1 ", RequestLine),
        (b"GET\t/ HTTP/1.1", RequestLine),
        (b"GET /\tHTTP/1.1", RequestLine),
        (b"GET / HTTP/1.1\t", RequestLine),
        (b"GET / a HTTP/1.1", RequestLine),
        (b"GET /\x0bHTTP/1.1", Target),
        (b"GET\x0c/ HTTP/1.1", Method),
        (b"GET /\xa0HTTP/1.1", Target),
        (b"GET ", RequestLine),
        (b"GET", RequestLine),
        (b"GET  HTTP/1.1", RequestLine),
        (b"HTTP/1.1 200 OK", Method),
    ]);
}

#[test]
fn http_0_9_is_refused_rule_4_rfc9112_3() {
    refuse(&[(b"GET /", RequestLine), (b"GET / ", RequestLine), (b"GET http://a/", RequestLine)]);
    refuse_request("GET /\r\n\r\n", RequestLine);
}

#[test]
fn the_version_is_exactly_1_0_or_1_1_rule_4_rfc9112_2_3() {
    for line in
        ["GET / HTTP/2.0", "GET / HTTP/0.9", "GET / HTTP/1.2", "GET / HTTP/1.9", "PRI * HTTP/2.0", "GET / HTTP/9.9"]
    {
        refuse_request(with_line(line), Version);
        assert_eq!(Version.status(), 505);
    }
    for line in [
        "GET / http/1.1",
        "GET / Http/1.1",
        "GET / HTTP/1.10",
        "GET / HTTP/01.1",
        "GET / HTTP/1.01",
        "GET / HTTP/11",
        "GET / HTTP/1",
        "GET / HTTP/1.",
        "GET / HTTP/.1",
        "GET / HTTP/1,1",
        "GET / HTTP /1.1",
        "GET / HTTP/ 1.1",
        "GET / HTTP/1.1a",
        "GET / HTTPS/1.1",
        "GET / ICY/1.1",
        "GET / HTTP/-1.1",
        "GET / HTTP/1.1;a",
        "GET / \"HTTP/1.1\"",
        "GET / HTTP\\1.1",
        "GET / HTTP/x.1",
    ] {
        refuse_request(with_line(line), RequestLine);
    }
}

#[test]
fn the_method_is_a_token_of_bounded_length_rule_4_rfc9112_3_1() {
    for method in ["A", "M-SEARCH", "!#$%&'*+-.^_`|~09", "VERSION-CONTROL", &"X".repeat(32)] {
        request(with_line(format!("{method} / HTTP/1.1")));
    }
    for method in
        ["G(T", "GE:T", "G@T", "\"GET\"", "GET,", "GET;", "{}", "G\x01T", "G\0T", "G\x7fT", "GÉT", "[GET]", "GET="]
    {
        refuse_request(with_line(format!("{method} / HTTP/1.1")), Method);
    }
    refuse_request(with_line(format!("{} / HTTP/1.1", "X".repeat(33))), Method);
    refuse_request(with_line(format!("{} / HTTP/1.1", "X".repeat(4000))), Method);
}

/// Methods are case-sensitive (RFC 9110 section 9.1), but not to all servers; a `head` that is treated like HEAD has no body.
#[test]
fn a_known_method_in_another_case_is_refused_rfc9110_9_1() {
    for method in [
        "get", "Get", "gET", "head", "Head", "post", "pUT", "delete", "Patch", "options", "trace", "connect", "Connect",
    ] {
        refuse_request(with_line(format!("{method} / HTTP/1.1")), Method);
    }
    request(with_line("propfind / HTTP/1.1"));
    request(with_line("gett / HTTP/1.1"));
}

#[test]
fn the_target_is_visible_ascii_without_fragment_rule_4_rfc9112_3_2() {
    let allowed: String = ('!'..='~').filter(|&c| c != '#' && c != '?').collect();
    request(with_line(format!("GET /{allowed}?{allowed}? HTTP/1.1")));
    for byte in
        (0..=255u8).filter(|byte| !(0x21..=0x7e).contains(byte) && !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
    {
        for place in [1, 9, 20, 40] {
            let mut target = [b'/'; 50];
            target[place] = byte;
            refuse_request(with_line([b"GET ", &target[..], b" HTTP/1.1"].concat()), Target);
        }
    }
    refuse(&[
        (b"GET /a#b HTTP/1.1", Target),
        (b"GET /# HTTP/1.1", Target),
        (b"GET /?a#b HTTP/1.1", Target),
        (b"GET # HTTP/1.1", Target),
    ]);
}

#[test]
fn the_target_has_one_of_three_forms_rfc9112_3_2() {
    refuse(&[
        (b"GET a HTTP/1.1", Target),
        (b"GET ?a HTTP/1.1", Target),
        (b"GET a/b HTTP/1.1", Target),
        (b"GET example.com:80 HTTP/1.1", Target),
        (b"GET *a HTTP/1.1", Target),
        (b"GET *?a HTTP/1.1", Target),
        (b"GET **  HTTP/1.1", RequestLine),
        (b"GET ftp://a/ HTTP/1.1", Target),
        (b"GET file:///etc/passwd HTTP/1.1", Target),
        (b"GET http:/a HTTP/1.1", Target),
        (b"GET http:a HTTP/1.1", Target),
        (b"GET http HTTP/1.1", Target),
        (b"GET \\ HTTP/1.1", Target),
        (b"GET @internal/ HTTP/1.1", Target),
        (b"GET .example.com/ HTTP/1.1", Target),
        (b"GET :8080/ HTTP/1.1", Target),
    ]);
}

#[test]
fn asterisk_belongs_to_options_rule_5_rfc9112_3_2_4() {
    let message = request(with_line("OPTIONS * HTTP/1.1"));
    let Start::Request { form, path, query, .. } = message.start else { panic!() };
    assert_eq!((form, &path[..], query), (TargetForm::Asterisk, &b"*"[..], None));
    for method in ["GET", "POST", "PUT", "OPTION", "OPTIONSS"] {
        refuse_request(with_line(format!("{method} * HTTP/1.1")), AsteriskForm);
    }
    refuse(&[(b"OPTIONS *?a HTTP/1.1", Target), (b"OPTIONS ** HTTP/1.1", Target), (b"OPTIONS */ HTTP/1.1", Target)]);
}

#[test]
fn connect_is_refused_rule_5_rfc9112_3_2_3() {
    for target in ["example.com:443", "/", "http://a/", "*", "a:b", "example.com"] {
        refuse_request(with_line(format!("CONNECT {target} HTTP/1.1")), Connect);
    }
}

#[test]
fn bare_cr_bare_lf_and_nul_are_refused_in_the_request_line_rule_3_rfc9112_2_2() {
    refuse(&[
        (b"GET /\rHTTP/1.1", BareCr),
        (b"GET / HTTP/1.1\rX: y", BareCr),
        (b"GET / HTTP/1.1\r", BareCr),
        (b"G\rET / HTTP/1.1", BareCr),
        (b"\rGET / HTTP/1.1", BareCr),
        (b"GET /\r\r HTTP/1.1", BareCr),
        (b"GET / HTTP/1.1\nX: y", BareLf),
        (b"GET\n/ HTTP/1.1", BareLf),
        (b"\nGET / HTTP/1.1", BareLf),
        (b"GET /\0 HTTP/1.1", Target),
        (b"G\0ET / HTTP/1.1", Method),
        (b"GET / HTTP/1.1\0", RequestLine),
        (b"GET / HTTP\0/1.1", RequestLine),
    ]);
    refuse_request("GET / HTTP/1.1\nHost: a\n\n", BareLf);
}

#[test]
fn methods_are_recognised_by_their_exact_name_rfc9110_9() {
    use h1::Method::{self, *};
    let all = [
        (&b"GET"[..], Get, true, true),
        (b"HEAD", Head, true, true),
        (b"OPTIONS", Options, true, true),
        (b"TRACE", Trace, true, true),
        (b"PUT", Put, false, true),
        (b"DELETE", Delete, false, true),
        (b"POST", Post, false, false),
        (b"PATCH", Patch, false, false),
        (b"PURGE", Other, false, false),
        (b"get", Other, false, false),
        (b"", Other, false, false),
    ];
    for (name, method, is_safe, is_idempotent) in all {
        assert_eq!(Method::of(name), method);
        assert_eq!((method.is_safe(), method.is_idempotent()), (is_safe, is_idempotent), "{method:?}");
    }
}
