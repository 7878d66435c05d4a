use super::*;

#[test]
fn processors_and_memory_have_a_price_by_the_hour() {
    let price = Price { vcpu_hour: 0.04, gib_hour: 0.005 };
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    near(price.of(1800.0, 0.0, 3600.0), 0.02);
    near(price.of(0.0, 2.0 * 1024.0 * 1024.0 * 1024.0, 3600.0), 0.01);
    near(price.of(1800.0, 2.0 * 1024.0 * 1024.0 * 1024.0, 3600.0), 0.03);
}

#[test]
fn small_sums_keep_three_digits() {
    assert_eq!([12.3456, 1.0, 0.034567, 0.000_123_4].map(money), ["12.35", "1.00", "0.0346", "0.000123"]);
}
