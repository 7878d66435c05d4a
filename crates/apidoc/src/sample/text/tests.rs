use super::string;

fn of_pattern(pattern: &str) -> Option<String> {
    let (text, sure) = string(None, None, None, Some(pattern));
    sure.then_some(text)
}

#[test]
fn the_shortest_match_of_common_patterns() {
    for (pattern, expected) in [
        ("^[0-9a-f]{8}$", "aaaaaaaa"),
        ("[A-Z]{2}\\d+", "AA0"),
        ("^(foo|ba)r?$", "ba"),
        ("^\\w+@\\w+\\.com$", "a@a.com"),
        ("^a*b{0,3}c?$", ""),
        ("^[^/]+$", "a"),
        ("^[^a-z]$", "0"),
        ("^[-+]?[0-9]+(?:\\.[0-9]+)?$", "0"),
        ("^\\u0041\\x42\\/$", "AB/"),
        ("^\\p{L}\\p{Lu}\\p{N}$", "aA0"),
        ("^(?<year>\\d{4})-(?P<m>\\d{2})$", "0000-00"),
        (".{3}", "aaa"),
        ("[]x]", "]"),
        ("^[\\d]{2}$", "00"),
        ("^\\S+$", "a"),
    ] {
        assert_eq!(of_pattern(pattern).as_deref(), Some(expected), "{pattern}");
    }
}

#[test]
fn what_is_not_understood_is_told() {
    for pattern in ["(?=a)b", "(?!a)b", "(a)\\1", "a{", "[a", "(", "*", "(?i)a", "(?<=a)b", "a{999999999}"] {
        assert_eq!(of_pattern(pattern), None, "{pattern}");
    }
    assert_eq!(of_pattern(&"(".repeat(100_000)), None);
}

#[test]
fn lengths_are_kept() {
    let text = |min, max, pattern| string(None, min, max, pattern);
    assert_eq!(text(Some(8), None, None), ("stringst".to_owned(), true));
    assert_eq!(text(None, Some(2), None), ("st".to_owned(), true));
    assert_eq!(text(Some(5), None, Some("^[a-z]+$")), ("aaaaa".to_owned(), true));
    assert_eq!(text(Some(5), None, Some("^(ab)+$")), ("ababab".to_owned(), true));
    assert!(!text(Some(5), Some(5), Some("^(ab)+$")).1);
    assert!(!text(Some(1 << 60), None, None).1);
    assert!(!string(Some("date"), None, Some(4), None).1 || string(Some("date"), None, Some(4), None).0.len() <= 4);
}
