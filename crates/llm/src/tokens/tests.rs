use super::*;
use crate::request::scan;

#[test]
fn the_estimate_before_anything_is_learned() {
    let body = br#"{"messages":[{"role":"user","content":[{"type":"text","text":"twelve bytes"},{"type":"image_url","image_url":{"url":"x"}}]}]}"#;
    let size = PromptSize::from(&scan(body).expect("a request"));
    assert_eq!(size, PromptSize { text_bytes: 12, messages: 1, images: 1, token_ids: 0 });
    assert_eq!(Ratio::new().estimate(&size), 3 + 4 + 1000);
    assert_eq!(Ratio::new().estimate(&PromptSize { token_ids: 7, ..PromptSize::default() }), 7);
}

#[test]
fn the_ratio_stays_within_its_bounds_and_forgets() {
    let size = PromptSize { text_bytes: 1000, ..PromptSize::default() };
    let mut ratio = Ratio::new();
    ratio.learn(&size, 0);
    ratio.learn(&PromptSize { images: 1, ..size }, 2000);
    assert_eq!(ratio.get(), START_RATIO, "nothing to learn from");
    ratio.learn(&size, 1000);
    assert_eq!(ratio.get(), 1.5);
    for _ in 0..CALLS {
        ratio.learn(&size, 100);
    }
    assert_eq!(ratio.get(), 8.0, "the call of 1.0 is forgotten");
    assert_eq!(ratio.calls.len(), CALLS);
    ratio.learn(&PromptSize { text_bytes: u64::MAX, ..size }, u64::MAX);
    assert!(ratio.get() >= 1.5);
}

#[test]
fn the_95th_percentile_of_the_error_is_below_10_percent_on_one_kind_of_text() {
    // words of 1 to 12 letters; a token for each started 4 letters, and one for some of the blanks: a ratio of its own for each text
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut ratio = Ratio::new();
    let mut errors = Vec::new();
    for call in 0..2000 {
        let (mut bytes, mut tokens) = (0, 0);
        for _ in 0..100 + random(900) {
            let letters = 1 + random(12);
            bytes += letters + 1;
            tokens += letters.div_ceil(4) + u64::from(random(5) == 0);
        }
        let messages = 1 + random(8);
        let size = PromptSize { text_bytes: bytes, messages, ..PromptSize::default() };
        let reported = tokens + 4 * messages;
        if call >= 1000 {
            errors.extend(error_ratio(ratio.estimate(&size), reported).map(f64::abs));
        }
        ratio.learn(&size, reported);
    }
    errors.sort_by(f64::total_cmp);
    let p95 = errors[errors.len() * 95 / 100];
    assert!(p95 <= 0.10, "p95 of the error is {p95}");
    assert_eq!(error_ratio(5, 0), None);
}
