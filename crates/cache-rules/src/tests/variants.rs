//! Vary beyond the words of RFC 9111 section 4.1.

use super::vary::{check, write_names, write_secondary};
use super::*;

fn names(fields: &str) -> String {
    let mut out = Vec::new();
    write_names(Response::new(200, fields).lines(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn secondary(names: &str, fields: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_secondary(names.as_bytes(), get(fields).lines(), &mut out);
    out
}

#[test]
fn names_have_one_form() {
    assert_eq!(names("Vary: B,a\r\nVary: A , ,c\r\n"), "a,b,c");
    assert_eq!(names(""), "");
    assert_eq!(names("Vary:\r\n"), "");
    assert_eq!(secondary("", "A: x\r\n"), b"", "what differs by nothing suits every request");
}

#[test]
fn what_each_client_has_of_its_own_never_matches() {
    for name in ["X-Forwarded-For", "forwarded", "X-Request-ID", "a b", "(a)"] {
        assert!(check(Response::new(200, &format!("Vary: Accept, {name}\r\n")).lines()).is_err(), "{name}");
    }
    let many = |count: usize| (0..count).map(|number| format!("x-{number}")).collect::<Vec<_>>().join(",");
    assert!(check(Response::new(200, &format!("Vary: {}\r\n", many(16))).lines()).is_ok());
    assert!(check(Response::new(200, &format!("Vary: {}\r\n", many(17))).lines()).is_err());
}

#[test]
fn secondary_keys_are_unambiguous() {
    let all = [
        secondary("a,b", ""),
        secondary("a,b", "A: x\r\n"),
        secondary("a,b", "B: x\r\n"),
        secondary("a,b", "A: x\r\nB:\r\n"),
        secondary("a,b", "A:\r\nB: x\r\n"),
        secondary("a,b", "A: x\r\nB: x\r\n"),
        secondary("a,b", "A: xx\r\n"),
    ];
    for (index, one) in all.iter().enumerate() {
        assert!(all[index + 1..].iter().all(|other| one != other), "{index}");
    }
}

#[test]
fn different_codings_do_not_match() {
    let codings = |value: &str| secondary("accept-encoding", &format!("Accept-Encoding: {value}\r\n"));
    let all = [
        "gzip",
        "br",
        "gzip, br",
        "gzip;q=0.5, br",
        "gzip;q=0",
        "identity;q=0, *",
        "",
        "*",
        "gzip;q=0.123",
        "gzip;x=1",
        "gzip;q=2",
        "gzip;q=0.1234",
        "gzip br",
    ];
    for (index, one) in all.iter().enumerate() {
        for other in &all[index + 1..] {
            assert_ne!(codings(one), codings(other), "{one} {other}");
        }
    }
    let many: String = (0..40).map(|number| format!("c{number},")).collect();
    assert_eq!(codings(&many), codings(&many.replace(',', " , ")), "too many to sort");
    assert_eq!(codings("gzip;q=1.000, x-compress;q=0.000"), codings("COMPRESS;Q=0,gzip"));
}

#[test]
fn strings_keep_their_case_and_spaces() {
    let accept = |value: &str| secondary("accept", &format!("Accept: {value}\r\n"));
    assert_eq!(accept("text/html;a=\"B  c\" , x/y"), accept("TEXT/HTML ; a=\"B  c\",X/y"));
    assert_ne!(accept("text/html;a=\"B\""), accept("text/html;a=\"b\""));
    assert_ne!(accept("text/html;a=\"b  c\""), accept("text/html;a=\"b c\""));
    assert_ne!(accept("a b"), accept("ab"));
    assert_ne!(accept("a/b, c/d"), accept("c/d, a/b"), "servers use the order among equals");
}

#[test]
fn unknown_fields_count_to_the_letter() {
    assert_ne!(secondary("user-agent", "User-Agent: A\r\n"), secondary("user-agent", "User-Agent: a\r\n"));
    assert_ne!(secondary("x", "X: a,b\r\n"), secondary("x", "X: a, b\r\n"));
    assert_eq!(secondary("x", "X: a\r\n"), secondary("x", "x:   a  \r\n"));
}
