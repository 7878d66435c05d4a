use proptest::prelude::*;

use super::*;

/// Path and query in the one form, or the refusal.
fn normal(target: &str) -> Result<(String, Option<String>), Refusal> {
    let mut scratch = b"left over".to_vec();
    let target = normalise(target.as_bytes(), &mut scratch)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ok((text(target.path), target.query.map(text)))
}

fn path(target: &str) -> Result<String, Refusal> {
    normal(target).map(|(path, _)| path)
}

#[test]
fn what_is_in_the_one_form_is_returned_as_it_is() {
    for target in [
        "/",
        "/a",
        "/a/b.c/",
        "/.well-known/x",
        "/a..b/...",
        "/a/.b",
        "/caf%C3%A9",
        "/a:b@c!$&'()*+,=|{}[]\"<>^`",
        "/a~",
    ] {
        let mut scratch = b"untouched".to_vec();
        assert_eq!(normalise(target.as_bytes(), &mut scratch).unwrap().path, target.as_bytes());
        assert_eq!(scratch, b"untouched", "{target} was copied");
    }
}

#[test]
fn dot_segments_are_removed() {
    for (target, expected) in [
        ("/.", "/"),
        ("/./", "/"),
        ("/a/.", "/a/"),
        ("/a/..", "/"),
        ("/a/../", "/"),
        ("/a/b/../c", "/a/c"),
        ("/a/b/..", "/a/"),
        ("/a/./b/./../c/.", "/a/c/"),
        ("/a/../b/../c", "/c"),
        ("/a/..?b/../c", "/"),
        ("/..a", "/..a"),
        ("/.a/..b/", "/.a/..b/"),
    ] {
        assert_eq!(path(target).as_deref(), Ok(expected), "{target}");
    }
}

#[test]
fn escapes_of_unreserved_characters_are_decoded_and_others_kept_in_upper_case() {
    for (target, expected) in [
        ("/%61%62", "/ab"),
        ("/%7e%2d%5f", "/~-_"),
        ("/%2e%2e/a", "escape"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2e", "/a/"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/%3ba", "/%3Ba"),
        ("/%252e%252e", "/%252e%252e"),
        ("/a%20b", "/a%20b"),
        ("/%e2%82%ac/%C3%a9", "/%E2%82%AC/%C3%A9"),
    ] {
        match expected {
            "escape" => assert_eq!(path(target), Err(Refusal::AboveRoot), "{target}"),
            _ => assert_eq!(path(target).as_deref(), Ok(expected), "{target}"),
        }
    }
}

#[test]
fn what_has_two_readings_is_refused_by_name() {
    for (target, refusal) in [
        ("", Refusal::NotAPath),
        ("a", Refusal::NotAPath),
        ("*", Refusal::NotAPath),
        ("http://a/", Refusal::NotAPath),
        ("//", Refusal::EmptySegment),
        ("//evil.example/", Refusal::EmptySegment),
        ("/a//b", Refusal::EmptySegment),
        ("/a/.//b", Refusal::EmptySegment),
        ("/a/%2e//b", Refusal::EmptySegment),
        ("/..", Refusal::AboveRoot),
        ("/../a", Refusal::AboveRoot),
        ("/a/../../b", Refusal::AboveRoot),
        ("/a/%2e%2e/%2e%2e/b", Refusal::AboveRoot),
        ("/a\\b", Refusal::Backslash),
        ("/./a\\b", Refusal::Backslash),
        ("/a;b=c", Refusal::Semicolon),
        ("/a#b", Refusal::Fragment),
        ("/a?b#c", Refusal::Fragment),
        ("/a%2fb", Refusal::EscapedSlash),
        ("/a%2Fb", Refusal::EscapedSlash),
        ("/a%5cb", Refusal::EscapedBackslash),
        ("/a%00", Refusal::EscapedControl),
        ("/a%0d%0ab", Refusal::EscapedControl),
        ("/a%7f", Refusal::EscapedControl),
        ("/a%", Refusal::BadEscape),
        ("/a%2", Refusal::BadEscape),
        ("/a%zz", Refusal::BadEscape),
        ("/a%+1", Refusal::BadEscape),
        ("/a b", Refusal::NotPrintable),
        ("/a\u{7f}", Refusal::NotPrintable),
        ("/a\0", Refusal::NotPrintable),
        ("/caf\u{e9}", Refusal::NotPrintable),
        ("/a?b c", Refusal::NotPrintable),
        ("/a?\u{e9}", Refusal::NotPrintable),
        ("/./a?\u{e9}", Refusal::NotPrintable),
    ] {
        assert_eq!(path(target), Err(refusal), "{target}");
    }
}

#[test]
fn the_query_stays_as_it_came() {
    for (target, expected) in [
        ("/a?", ("/a", Some(""))),
        ("/a?b=c/../d//e;f\\%zz%2e?g", ("/a", Some("b=c/../d//e;f\\%zz%2e?g"))),
        ("/b/../a?%2e%2E/", ("/a", Some("%2e%2E/"))),
        ("/?x", ("/", Some("x"))),
        ("/a", ("/a", None)),
    ] {
        assert_eq!(normal(target), Ok((expected.0.to_owned(), expected.1.map(str::to_owned))), "{target}");
    }
}

#[test]
fn every_refusal_has_a_word_for_logs_of_its_own() {
    let all = [
        Refusal::NotAPath,
        Refusal::EmptySegment,
        Refusal::AboveRoot,
        Refusal::Backslash,
        Refusal::Semicolon,
        Refusal::Fragment,
        Refusal::EscapedSlash,
        Refusal::EscapedBackslash,
        Refusal::EscapedControl,
        Refusal::BadEscape,
        Refusal::NotPrintable,
    ];
    let words: std::collections::HashSet<_> = all.iter().map(|refusal| refusal.reason()).collect();
    assert_eq!(words.len(), all.len());
}

/// The rule once more, in the plainest way: split, decode, walk the segments.
fn model(target: &str) -> Option<(String, Option<String>)> {
    if !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return None;
    }
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (target, None),
    };
    let path = path.strip_prefix('/')?;
    if path.starts_with('/') || path.contains("//") || path.contains(['\\', ';']) {
        return None;
    }
    let mut kept: Vec<String> = Vec::new();
    let segments: Vec<&str> = path.split('/').collect();
    for (index, segment) in segments.iter().enumerate() {
        let last = index == segments.len() - 1;
        let mut decoded = String::new();
        let mut pieces = segment.split('%');
        decoded.push_str(pieces.next()?);
        for piece in pieces {
            let (digits, rest) = piece.split_at_checked(2)?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            let byte = u8::from_str_radix(digits, 16).ok()?;
            match char::from(byte) {
                '/' | '\\' => return None,
                c if byte < 0x80 && c.is_control() => return None,
                c if c.is_ascii_alphanumeric() || "-._~".contains(c) => decoded.push(c),
                _ => decoded.push_str(&format!("%{byte:02X}")),
            }
            decoded.push_str(rest);
        }
        match decoded.as_str() {
            "." => {}
            ".." => drop(kept.pop()?),
            _ => {
                kept.push(decoded);
                continue;
            }
        }
        if last {
            kept.push(String::new());
        }
    }
    // What the escapes of letters and dots stand for is ASCII; the others have to be UTF-8 together with what is beside them.
    escapes_are_utf8(&kept.join("/")).then_some(())?;
    Some((format!("/{}", kept.join("/")), query))
}

/// Whether the escapes are valid UTF-8.
fn escapes_are_utf8(path: &str) -> bool {
    let mut bytes = Vec::new();
    let mut pieces = path.split('%');
    bytes.extend_from_slice(pieces.next().unwrap_or("").as_bytes());
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).is_ok()
}

/// Targets made of pieces that matter, and of any text.
fn targets() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "/", "/", "/", "/", "a", "b", ".", ".", "..", "%2e", "%2E", "%41", "%c3%a9", "%C3%A9", "%3b", "%25", "~", ".a",
        "?", "%2f", "%5c", "%00", "%0a", "%7f", "%", "%z1", "\\", ";", "#", " ", "\u{e9}", "\u{1}",
    ]);
    // Most of the time without what is refused, so that the long ways are walked too.
    let harmless = prop::sample::select(vec![
        "/", "/a", "/b", "/.", "/..", "/%2e", "/%2E%2e", "/c%61", "/%c3%a9", "/%C3%A9", "/.a", "/..", "/a..", "?", "x",
    ]);
    prop_oneof![
        prop::collection::vec(piece, 0..12).prop_map(|pieces| format!("/{}", pieces.concat())),
        prop::collection::vec(harmless, 0..12).prop_map(|pieces| pieces.concat()),
        any::<String>(),
        any::<String>().prop_map(|text| format!("/{text}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn agrees_with_the_plain_model(target in targets()) {
        prop_assert_eq!(normal(&target).ok(), model(&target));
    }

    #[test]
    fn once_is_enough(target in targets()) {
        if let Ok((path, query)) = normal(&target) {
            let mut scratch = b"untouched".to_vec();
            let again = normalise(path.as_bytes(), &mut scratch).unwrap();
            prop_assert_eq!(again, Target { path: path.as_bytes(), query: None });
            prop_assert_eq!(scratch, b"untouched");
            prop_assert!(path.len() + query.map_or(0, |query| query.len() + 1) <= target.len());
            prop_assert!(path.split('/').all(|segment| segment != "." && segment != ".."));
            prop_assert!(!path.contains("//"));
        }
    }

    #[test]
    fn no_bytes_do_harm(target in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = normalise(&target, &mut Vec::new());
    }
}

#[test]
fn escapes_that_are_not_utf8_are_refused() {
    for target in [
        "/%c0%ae%c0%ae/",
        "/%C0%AF",
        "/a%ff",
        "/%80",
        "/%c3",
        "/%c3/%a9",
        "/%c3a%a9",
        "/%e2%82",
        "/%ed%a0%80",
        "/%f5%80%80%80",
        "/%f0%80%80%af",
        "/%e0%80%ae",
        "/a%61%c0%ae",
    ] {
        assert_eq!(path(target), Err(Refusal::NotUtf8), "{target}");
        assert!(
            normalise_by(Policy { keeps_invalid_utf8: true, ..Policy::default() }, target.as_bytes(), &mut Vec::new())
                .is_ok(),
            "{target}"
        );
    }
    for target in ["/%C3%A9", "/%E2%82%AC", "/%F0%9F%98%80/%25", "/%C3%A9%C3%A9?%ff"] {
        assert!(path(target).is_ok(), "{target}");
    }
}

const TREATMENTS: [Treatment; 3] = [Treatment::Refuse, Treatment::Slash, Treatment::Keep];

fn by(policy: Policy, target: &str) -> Result<String, Refusal> {
    let mut scratch = b"left over".to_vec();
    let target = normalise_by(policy, target.as_bytes(), &mut scratch)?;
    Ok(String::from_utf8(target.path.to_vec()).unwrap())
}

#[test]
fn repeated_slashes_by_policy() {
    for (target, merged, kept) in [
        ("//", "/", "//"),
        ("//a", "/a", "//a"),
        ("/a//", "/a/", "/a//"),
        ("/a///b", "/a/b", "/a///b"),
        ("/a//../b", "/b", "/a/b"),
        ("/a/.//b", "/a/b", "/a//b"),
        ("/a/%2e//b", "/a/b", "/a//b"),
        ("/a//./b", "/a/b", "/a//b"),
        ("//..", "climbs", "/"),
    ] {
        assert_eq!(by(Policy::default(), target), Err(Refusal::EmptySegment), "{target}");
        let merge = by(Policy { double_slash: Treatment::Slash, ..Policy::default() }, target);
        assert_eq!(merge, if merged == "climbs" { Err(Refusal::AboveRoot) } else { Ok(merged.into()) }, "{target}");
        let keep = by(Policy { double_slash: Treatment::Keep, ..Policy::default() }, target);
        assert_eq!(keep.as_deref(), Ok(kept), "{target}");
    }
}

#[test]
fn encoded_slashes_by_policy() {
    for (target, decoded, kept) in [
        ("/a%2fb", Ok("/a/b"), "/a%2Fb"),
        ("/a%2Fb", Ok("/a/b"), "/a%2Fb"),
        ("/a/..%2fb", Ok("/b"), "/a/..%2Fb"),
        ("/a%2f..%2Fb", Ok("/b"), "/a%2F..%2Fb"),
        ("/a%2f%2e%2e%2Fb", Ok("/b"), "/a%2F..%2Fb"),
        ("/..%2fa", Err(Refusal::AboveRoot), "/..%2Fa"),
        ("/a/%2fb", Err(Refusal::EmptySegment), "/a/%2Fb"),
        ("/a%2f/b", Err(Refusal::EmptySegment), "/a%2F/b"),
        ("/%2f", Err(Refusal::EmptySegment), "/%2F"),
        ("/%252f", Ok("/%252f"), "/%252f"),
    ] {
        let decode = Policy { encoded_slash: Treatment::Slash, ..Policy::default() };
        assert_eq!(by(decode, target), decoded.map(str::to_owned), "{target}");
        let keep = Policy { encoded_slash: Treatment::Keep, ..Policy::default() };
        assert_eq!(by(keep, target).as_deref(), Ok(kept), "{target}");
    }
    let both = Policy { encoded_slash: Treatment::Slash, double_slash: Treatment::Slash, ..Policy::default() };
    assert_eq!(by(both, "/a/%2f%2Fb").as_deref(), Ok("/a/b"));
}

#[test]
fn semicolons_by_policy() {
    let keep = Policy { semicolon: Treatment::Keep, ..Policy::default() };
    for target in ["/a;b=c", "/;", "/a;/b", "/..;/a", "/a/.;x"] {
        assert_eq!(by(Policy::default(), target), Err(Refusal::Semicolon), "{target}");
        assert_eq!(by(keep, target).as_deref(), Ok(target), "{target}");
    }
    assert_eq!(by(keep, "/x/../a;b").as_deref(), Ok("/a;b"));
    assert_eq!(by(keep, "/a%3bb").as_deref(), Ok("/a%3Bb"), "the escape stays one");
}

#[test]
fn backslashes_by_policy() {
    for (target, decoded, kept) in [
        ("/a\\b", Ok("/a/b"), "/a%5Cb"),
        ("/a%5cb", Ok("/a/b"), "/a%5Cb"),
        ("/a%5Cb", Ok("/a/b"), "/a%5Cb"),
        ("/a\\..\\b", Ok("/b"), "/a%5C..%5Cb"),
        ("/a/..\\b", Ok("/b"), "/a/..%5Cb"),
        ("/..\\a", Err(Refusal::AboveRoot), "/..%5Ca"),
        ("/\\evil.example", Err(Refusal::EmptySegment), "/%5Cevil.example"),
    ] {
        assert!(by(Policy::default(), target).is_err(), "{target}");
        let decode = Policy { backslash: Treatment::Slash, ..Policy::default() };
        assert_eq!(by(decode, target), decoded.map(str::to_owned), "{target}");
        let keep = Policy { backslash: Treatment::Keep, ..Policy::default() };
        assert_eq!(by(keep, target).as_deref(), Ok(kept), "{target}");
    }
}

proptest! {
    /// What one hop made of a path is what the next hop with the same policy makes of it, and nothing that looks like a dot segment is left.
    #[test]
    fn every_policy_has_one_form(
        parts in proptest::collection::vec(0..16_usize, 0..12),
        (slashes, encoded, semicolon, backslash) in (0..3_usize, 0..3_usize, 0..3_usize, 0..3_usize),
    ) {
        const PARTS: [&str; 16] =
            ["/", "//", "a", ".", "..", "%2e", "%2f", "%2F", ";", "\\", "%5c", "%3b", "/../", "/./", "%41", "b/"];
        let policy = Policy {
            double_slash: TREATMENTS[slashes],
            encoded_slash: TREATMENTS[encoded],
            semicolon: TREATMENTS[semicolon],
            backslash: TREATMENTS[backslash],
            keeps_invalid_utf8: false,
        };
        let target: String = std::iter::once("/").chain(parts.iter().map(|&part| PARTS[part])).collect();
        if let Ok(once) = by(policy, &target) {
            let twice = by(policy, &once);
            prop_assert_eq!(twice.as_deref(), Ok(&*once), "{}", target);
            prop_assert!(once.split('/').all(|segment| segment != "." && segment != ".."), "{} is {}", target, once);
            prop_assert!(!once.contains('\\') && once.starts_with('/'));
            if policy.double_slash != Treatment::Keep {
                prop_assert!(!once.contains("//"), "{} is {}", target, once);
            }
            if policy.encoded_slash != Treatment::Keep {
                prop_assert!(!once.to_lowercase().contains("%2f"), "{} is {}", target, once);
            }
        }
    }
}
