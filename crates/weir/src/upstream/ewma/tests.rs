use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn close(actual: Option<f32>, expected: f32) {
    let actual = actual.expect("measured");
    assert!((actual - expected).abs() <= expected * 1e-3, "{actual} is not {expected}");
}

#[test]
fn nothing_is_known_before_the_first_response() {
    let ewma = PeakEwma::default();
    assert_eq!(ewma.read_us(Moment::from_millis(5)), None);
    assert_eq!(ewma.last_us(), None);
}

#[test]
fn a_peak_counts_at_once_and_a_trough_by_time() {
    let ewma = PeakEwma::default();
    ewma.observe(ms(10), Moment::from_millis(0));
    close(ewma.last_us(), 10_000.0);
    ewma.observe(ms(200), Moment::from_millis(1));
    close(ewma.last_us(), 200_000.0);
    // After one decay time the old value keeps 1/e of its weight.
    ewma.observe(ms(10), Moment::from_millis(10_001));
    let weight = (-1.0f32).exp();
    close(ewma.last_us(), 200_000.0 * weight + 10_000.0 * (1.0 - weight));
    // Without time nothing is won back.
    let before = ewma.last_us().unwrap();
    ewma.observe(ms(10), Moment::from_millis(10_001));
    close(ewma.last_us(), before);
}

#[test]
fn what_is_read_decays_and_what_is_shown_does_not() {
    let ewma = PeakEwma::default();
    ewma.observe(ms(100), Moment::from_millis(500));
    close(ewma.read_us(Moment::from_millis(500)), 100_000.0);
    close(ewma.read_us(Moment::from_millis(10_500)), 100_000.0 * (-1.0f32).exp());
    close(ewma.last_us(), 100_000.0);
}

#[test]
fn a_measured_zero_is_not_unknown() {
    let ewma = PeakEwma::default();
    ewma.observe(Duration::ZERO, Moment::START);
    assert_eq!(ewma.read_us(Moment::START), Some(1.0));
}

#[test]
fn a_worker_whose_clock_lags_sees_no_age_of_49_days() {
    let ewma = PeakEwma::default();
    ewma.observe(ms(100), Moment::from_millis(1000));
    close(ewma.read_us(Moment::from_millis(990)), 100_000.0);
    ewma.observe(ms(10), Moment::from_millis(990));
    close(ewma.last_us(), 100_000.0);
}

#[test]
fn the_stamp_may_wrap() {
    let ewma = PeakEwma::default();
    let wrap = u64::from(u32::MAX);
    ewma.observe(ms(100), Moment::from_millis(wrap - 5_000));
    close(ewma.read_us(Moment::from_millis(wrap + 5_000)), 100_000.0 * (-1.0f32).exp());
}
