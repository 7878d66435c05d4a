use super::*;

fn found(text: &str) -> (usize, bool, bool) {
    let s = scan(text.as_bytes());
    (s.depth, s.nul, s.lone_surrogate)
}

#[test]
fn depth_counts_outside_of_strings_only() {
    assert_eq!(found("1"), (0, false, false));
    assert_eq!(found(r#"{"a":[{}],"[[[[":"}{{{\"[["}"#), (3, false, false));
    assert_eq!(found(&"[".repeat(9)), (9, false, false));
    assert_eq!(found("]]]["), (1, false, false));
}

#[test]
fn nul_is_seen_only_when_it_is_an_escape() {
    assert!(scan(br#"{"a":"x\u0000"}"#).nul);
    assert!(scan(br#"{"\u0000":1}"#).nul);
    assert!(!scan(br#"{"a":"\\u0000"}"#).nul);
    assert!(!scan(br#"{"a":"\u0001"}"#).nul);
}

#[test]
fn half_a_surrogate_pair_is_seen() {
    assert!(!scan(br#""\ud83d\ude00""#).lone_surrogate);
    for bad in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx""#, r#""\ud83d\u0041""#, r#""\ud83d\ud83d\ude00""#] {
        assert!(scan(bad.as_bytes()).lone_surrogate, "{bad}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_scanned(bytes: Vec<u8>) {
        scan(&bytes);
    }

    #[test]
    fn a_quoted_string_has_no_findings_but_nul(text: String) {
        let mut out = String::new();
        quote(&text, &mut out);
        let s = scan(out.as_bytes());
        proptest::prop_assert_eq!((s.depth, s.lone_surrogate, s.nul), (0, false, text.contains('\0')));
    }
}
