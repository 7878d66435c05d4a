use super::*;

/// The definition, without the table: the first bound that is not below the value.
fn by_search(bounds: &Bounds, ns: u64) -> usize {
    bounds.bounds[..bounds.len].partition_point(|&bound| bound < ns)
}

#[test]
fn a_value_falls_into_the_first_bucket_whose_bound_is_not_below_it() {
    for bounds in [&EXCHANGE, &OVERHEAD] {
        let mut values: Vec<u64> =
            (0..64).flat_map(|shift| [1u64 << shift, (1 << shift) - 1, 5 << shift >> 2]).collect();
        values.extend(bounds.bounds[..bounds.len].iter().flat_map(|&b| [b - 1, b, b + 1]));
        values.extend([0, 1, 2, 3, 4, u64::MAX - 1, u64::MAX]);
        // And a walk over all magnitudes in small steps.
        let mut x = 1.0f64;
        while x < 1e19 {
            values.push(x as u64);
            x *= 1.003;
        }
        for ns in values {
            assert_eq!(bounds.bucket(ns), by_search(bounds, ns), "{ns} ns");
        }
    }
}

#[test]
fn ranges_are_those_documented() {
    assert_eq!(EXCHANGE.seconds().next(), Some(20e-6));
    assert_eq!(EXCHANGE.seconds().nth(EXCHANGE.len - 1), Some(60.0));
    assert_eq!(OVERHEAD.seconds().next(), Some(1e-6));
    assert_eq!(OVERHEAD.seconds().nth(OVERHEAD.len - 1), Some(0.1));
    for bounds in [&EXCHANGE, &OVERHEAD] {
        assert_eq!(bounds.seconds().last(), Some(f64::INFINITY));
        assert!(
            bounds.bounds.windows(2).take(bounds.len - 1).all(|w| w[1] <= 2 * w[0]),
            "a gap wider than a factor of 2"
        );
    }
}

#[test]
fn totals_add_up_over_workers() {
    let (a, b) = (Histogram::default(), Histogram::default());
    a.observe(&EXCHANGE, 20_000);
    a.observe(&EXCHANGE, 20_001);
    b.observe(&EXCHANGE, 61_000_000_000);
    let mut total = Total::default();
    total.add(&a);
    total.add(&b);
    assert_eq!(total.count(), 3);
    assert_eq!(total.sum_seconds(), 61.000040001);
    let buckets = total.buckets(&EXCHANGE);
    assert_eq!(buckets.len(), EXCHANGE.len + 1);
    assert_eq!((buckets[0], buckets[1]), ((20e-6, 1), (30e-6, 1)));
    assert_eq!(buckets.last(), Some(&(f64::INFINITY, 1)));
}
