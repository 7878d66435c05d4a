//! Connections: RFC 9112 section 9, RFC 9110 sections 7.6.1, 7.8 and 10.1.1; rules 15, 16, 18, 19, 22.

use h1::ParseError::{self, *};
use h1::{Expect, Known, Limits};

use crate::support::feed::{Message, Start};
use crate::{refuse_request, refuse_response, request, response, response_with_line, with_line};

fn old_request(line: &str) -> Message {
    request(format!("GET / HTTP/1.0\r\n{line}\r\nX: y\r\n\r\n"))
}

#[test]
fn http_1_1_persists_unless_closed_rfc9112_9_3() {
    for (line, lives) in [
        ("X: y", true),
        ("Connection: keep-alive", true),
        ("Connection: close", false),
        ("Connection: Close", false),
        ("connection: x, CLOSE", false),
        ("Connection: keep-alive, close", false),
        ("Connection: close, keep-alive", false),
        ("Connection: x\r\nConnection: close", false),
        ("Connection:", true),
        ("Connection: ,, ,close", false),
        ("Connection: \tclose\t", false),
        ("Connection: closed", true),
        ("Connection: close-x", true),
        ("Proxy-Connection: close", true),
        ("Keep-Alive: timeout=0", true),
    ] {
        assert_eq!(request(with_line(line)).keep_alive, lives, "{line}");
        assert_eq!(response(response_with_line(format!("Content-Length: 0\r\n{line}"))).keep_alive, lives, "{line}");
    }
}

#[test]
fn http_1_0_closes_unless_kept_alive_rfc9112_9_3() {
    for (line, lives) in [
        ("X: y", false),
        ("Connection: keep-alive", true),
        ("Connection: Keep-Alive", true),
        ("Connection: keep-alive, close", false),
        ("Proxy-Connection: keep-alive", false),
        ("Keep-Alive: 1", false),
        ("Connection: upgrade", false),
    ] {
        assert_eq!(old_request(line).keep_alive, lives, "{line}");
        let response = response(format!("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n{line}\r\n\r\n"));
        assert_eq!(response.keep_alive, lives, "{line}");
    }
}

/// Which of these fields end at this hop.
fn hop_by_hop(lines: &str) -> Vec<String> {
    let of = |message: Message| -> Vec<String> {
        let fields = message.fields.into_iter().filter(|field| field.is_hop_by_hop);
        fields.map(|field| String::from_utf8(field.name).unwrap()).collect()
    };
    let from_request = of(request(with_line(lines)));
    assert_eq!(from_request, of(response(response_with_line(lines))), "the same in both roles");
    from_request
}

#[test]
fn fields_of_the_connection_end_here_rule_15_rfc9110_7_6_1() {
    assert_eq!(hop_by_hop("TE: trailers\r\nA: b"), ["TE"]);
    assert_eq!(
        hop_by_hop("connection: x\r\nKEEP-ALIVE: y\r\nProxy-Connection: close\r\nTrailer: A\r\nUpgrade: h2c\r\nB: c"),
        ["connection", "KEEP-ALIVE", "Proxy-Connection", "Trailer", "Upgrade"]
    );
}

#[test]
fn fields_that_connection_names_end_here_rule_15_rfc9110_7_6_1() {
    assert_eq!(hop_by_hop("Connection: X-A, close\r\nX-A: 1\r\nX-B: 2"), ["Connection", "X-A"]);
    assert_eq!(hop_by_hop("X-A: 1\r\nConnection: x-a\r\nx-A: 2\r\nX-B: 3"), ["X-A", "Connection", "x-A"]);
    assert_eq!(
        hop_by_hop("Connection: a\r\nConnection: b ,, c\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4"),
        ["Connection", "Connection", "A", "B", "C"]
    );
    assert_eq!(hop_by_hop("Connection: close\r\nClose: now"), ["Connection", "Close"]);
    assert_eq!(
        hop_by_hop("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk"),
        ["Connection", "Upgrade", "HTTP2-Settings"]
    );
    assert_eq!(
        hop_by_hop("Connection: Proxy-Authorization\r\nProxy-Authorization: x"),
        ["Connection", "Proxy-Authorization"]
    );
}

#[test]
fn a_peer_cannot_take_away_what_is_not_its_own_rule_15_rfc9110_7_6_1() {
    for name in [
        "Host",
        "HOST",
        "Authorization",
        "Cookie",
        "Content-Type",
        "content-TYPE",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Request-Id",
        "Forwarded",
        "Via",
        "X-Forwarded-Port",
        "x-forwarded-prefix",
        "X-FORWARDED-TLS-CLIENT-CERT",
        "X-Real-IP",
        "True-Client-IP",
        "X-Client-IP",
        "Origin",
        "Cache-Control",
        "Vary",
        "Set-Cookie",
        "ETag",
        "Date",
        "Content-Encoding",
        "If-None-Match",
        "Range",
        "Expect",
        "Content-Length",
    ] {
        let value = match name {
            "Content-Length" => "0",
            "Expect" => "100-continue",
            _ => "a",
        };
        let line = format!("Connection: x, {name}\r\nConnection: {name}");
        let raw = if name.eq_ignore_ascii_case("host") {
            with_line(line)
        } else {
            with_line(format!("{line}\r\n{name}: {value}"))
        };
        let kept =
            request(raw).fields.into_iter().find(|field| field.name.eq_ignore_ascii_case(name.as_bytes())).unwrap();
        assert!(!kept.is_hop_by_hop, "{name}");
        let response = response(response_with_line(format!("Connection: {name}\r\n{name}: {value}")));
        assert!(!response.fields[1].is_hop_by_hop, "{name}");
    }
}

#[test]
fn a_connection_option_is_a_token_rfc9112_9_6() {
    for value in ["\"close\"", "close;", "a b", "close\u{e9}", "(close)", "x=y", "a, b c", "close; a=b", "@"] {
        refuse_request(with_line(format!("Connection: {value}")), Connection);
        refuse_response(response_with_line(format!("Connection: {value}")), Connection);
    }
}

/// Each option is looked for among all fields; a head full of options would cost milliseconds.
#[test]
fn connection_options_are_bounded() {
    let fits = vec!["a"; Limits::CONNECTION_OPTIONS].join(",");
    request(with_line(format!("Connection: {fits}")));
    request(with_line(format!("Connection: {fits},,,")));
    for lines in [
        format!("Connection: {fits},b"),
        format!("Connection: {fits}\r\nConnection: b"),
        format!("Connection: {}", "a,".repeat(30_000)),
    ] {
        refuse_request(with_line(&lines), ConnectionOptions);
        refuse_response(response_with_line(&lines), ConnectionOptions);
    }
    assert_eq!(ParseError::ConnectionOptions.status(), 431);
}

fn upgrade(raw: impl AsRef<[u8]>) -> bool {
    let Start::Request { upgrade, .. } = request(raw).start else { panic!() };
    upgrade
}

#[test]
fn an_upgrade_needs_the_option_and_the_field_in_http_1_1_rule_18_rfc9110_7_8() {
    assert!(upgrade(with_line("Connection: Upgrade\r\nUpgrade: websocket")));
    assert!(upgrade(with_line("Upgrade: websocket\r\nConnection: keep-alive, uPgRaDe")));
    assert!(!upgrade(with_line("Upgrade: websocket")));
    assert!(!upgrade(with_line("Connection: upgrade")));
    assert!(!upgrade(with_line("Connection: upgrades\r\nUpgrade: websocket")));
    assert!(!upgrade("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"));
}

fn expect(raw: impl AsRef<[u8]>) -> Expect {
    let Start::Request { expect, .. } = request(raw).start else { panic!() };
    expect
}

#[test]
fn expectations_rule_19_rfc9110_10_1_1() {
    assert_eq!(expect(with_line("X: y")), Expect::None);
    assert_eq!(expect(with_line("Expect: 100-continue")), Expect::Continue);
    assert_eq!(expect(with_line("expect: 100-CONTINUE ")), Expect::Continue);
    for line in [
        "Expect:",
        "Expect: 100",
        "Expect: 100-continue, 100-continue",
        "Expect: a",
        "Expect: 100-continue;a=b",
        "Expect: 100-continue\r\nExpect: 100-continue",
        "Expect: 100-continue\r\nExpect: a",
        "Expect: \"100-continue\"",
        "Expect: 100-continued",
    ] {
        assert_eq!(expect(with_line(line)), Expect::Unknown, "{line}");
    }
    for line in ["Expect: 100-continue", "Expect: a"] {
        assert_eq!(expect(format!("GET / HTTP/1.0\r\n{line}\r\n\r\n")), Expect::None, "HTTP/1.0 knows none");
    }
}

/// The gateway drops these: an upstream that maps names as CGI does would take them for its own (rule 22).
#[test]
fn names_that_alias_a_known_one_are_recognised_rule_22() {
    let message = request(with_line(
        "Content_Length: 5\r\nTransfer_Encoding: chunked\r\nX.Forwarded.For: 1.2.3.4\r\nX_Other: y\r\nH_ost: z",
    ));
    let aliases: Vec<_> = message.fields[1..].iter().map(|field| Known::of_alias(&field.name)).collect();
    assert_eq!(
        aliases,
        [Known::ContentLength, Known::TransferEncoding, Known::XForwardedFor, Known::Other, Known::Other]
    );
    assert!(message.fields[1..].iter().all(|field| field.known == Known::Other));
    assert_eq!(message.kind, h1::BodyKind::None, "an alias frames nothing here");
}

#[test]
fn names_that_servers_take_for_each_other_are_aliases_rule_22() {
    for (name, is_alias) in [
        ("X-Tenant", true),
        ("x-tenant", true),
        ("X_Tenant", true),
        ("X.TENANT", true),
        ("X!tenant", true),
        ("XTenant", false),
        ("X-Tenant-", false),
        ("X-Tenan", false),
        ("X0Tenant", false),
        ("-XTenant", false),
        ("", false),
    ] {
        assert_eq!(Known::is_alias(name.as_bytes(), b"X-Tenant"), is_alias, "{name}");
        assert_eq!(Known::is_alias(b"X-Tenant", name.as_bytes()), is_alias, "{name}");
    }
}
