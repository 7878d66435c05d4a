use super::*;

fn text(unix_ms: u64) -> String {
    Rfc3339::default().render(unix_ms).to_owned()
}

#[test]
fn known_moments() {
    assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(text(999), "1970-01-01T00:00:00.999Z");
    assert_eq!(text(951_782_400_000), "2000-02-29T00:00:00.000Z");
    assert_eq!(text(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
    assert_eq!(text(1_735_689_599_123), "2024-12-31T23:59:59.123Z");
    assert_eq!(text(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    assert_eq!(text(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
    assert_eq!(text(u64::MAX), "9999-12-31T23:59:59.999Z");
}

#[test]
fn the_kept_second_does_not_leak_into_another() {
    let mut clock = Rfc3339::default();
    assert_eq!(clock.render(1_735_689_599_123), "2024-12-31T23:59:59.123Z");
    assert_eq!(clock.render(1_735_689_599_007), "2024-12-31T23:59:59.007Z");
    assert_eq!(clock.render(1_735_689_600_000), "2025-01-01T00:00:00.000Z");
    assert_eq!(clock.render(5), "1970-01-01T00:00:00.005Z");
}
