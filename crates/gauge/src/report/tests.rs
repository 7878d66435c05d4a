use super::view;

#[test]
fn dates() {
    assert_eq!(view::date(0), "1970-01-01 00:00 UTC");
    assert_eq!(view::date(951_782_400_000), "2000-02-29 00:00 UTC");
    assert_eq!(view::date(1_795_000_000_000), "2026-11-18 11:06 UTC");
}

#[test]
fn lists() {
    assert_eq!(view::list(&[]), "");
    assert_eq!(view::list(&["a"]), "a");
    assert_eq!(view::list(&["a", "b", "c"]), "a, b and c");
}
