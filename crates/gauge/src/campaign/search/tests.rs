use super::*;
use crate::results::report::{Latency, Rate, Requests};

/// Searches a server that carries up to `capacity`; how many rates it took, and what was found.
fn found(capacity: f64, from: f64, to: f64) -> (usize, Option<f64>) {
    let mut bisection = Bisection::new(from, to, 0.05);
    for count in 0..MOST_POINTS {
        match bisection.next() {
            Step::Found(rate) => return (count, Some(rate)),
            Step::Nothing => return (count, None),
            step @ (Step::Try(rate) | Step::Confirm(rate)) => bisection.tried(step, rate <= capacity),
        }
    }
    (MOST_POINTS, None)
}

#[test]
fn the_highest_rate_is_found_within_the_precision_from_wherever_it_begins() {
    for capacity in [1.5, 40.0, 99.0, 100.0, 101.0, 3_300.0, 77_000.0] {
        let (count, rate) = found(capacity, 100.0, 200_000.0);
        let rate = rate.unwrap_or_else(|| panic!("nothing found for {capacity}"));
        assert!(rate <= capacity && rate >= capacity / 1.06, "{rate} for {capacity}");
        assert!(count < 25, "{count} rates for {capacity}");
    }
}

#[test]
fn no_rate_above_the_highest_is_tried_and_none_is_found_where_none_holds() {
    assert_eq!(found(1e9, 100.0, 5_000.0).1, Some(5_000.0));
    assert_eq!(found(0.0, 100.0, 5_000.0).1, None);
}

#[test]
fn a_rate_that_held_by_luck_is_not_what_is_found() {
    // It carries 1,000, and once, by luck, 1,600.
    let mut lucky = true;
    let mut bisection = Bisection::new(1_600.0, 10_000.0, 0.05);
    let rate = loop {
        match bisection.next() {
            Step::Found(rate) => break rate,
            Step::Nothing => panic!("there is a rate"),
            step @ (Step::Try(rate) | Step::Confirm(rate)) => {
                let met = rate <= 1_000.0 || ((rate - 1_600.0).abs() < 1.0 && std::mem::take(&mut lucky));
                bisection.tried(step, met);
            }
        }
    };
    assert!((940.0..=1_000.0).contains(&rate), "{rate}");
}

/// One bad measurement at any step must not make a rate out of reach: the failing end is confirmed as the other is.
#[test]
fn one_bad_measurement_does_not_bound_the_rate() {
    for bad in 0..12 {
        let mut bisection = Bisection::new(100.0, 200_000.0, 0.05);
        let mut count = 0;
        let rate = loop {
            match bisection.next() {
                Step::Found(rate) => break rate,
                Step::Nothing => panic!("there is a rate"),
                step @ (Step::Try(rate) | Step::Confirm(rate)) => {
                    bisection.tried(step, rate <= 3_300.0 && count != bad);
                    count += 1;
                    assert!(count <= MOST_POINTS, "{bad}: it does not settle");
                }
            }
        };
        assert!((3_300.0 / 1.06..=3_300.0).contains(&rate), "measurement {bad} was bad: {rate}");
    }
}

/// And one that was good by luck does not hold either, whatever the step.
#[test]
fn one_good_measurement_does_not_hold_a_rate() {
    for lucky in 0..20 {
        let mut bisection = Bisection::new(100.0, 200_000.0, 0.05);
        let mut count = 0;
        let rate = loop {
            match bisection.next() {
                Step::Found(rate) => break rate,
                Step::Nothing => panic!("there is a rate"),
                step @ (Step::Try(rate) | Step::Confirm(rate)) => {
                    bisection.tried(step, rate <= 3_300.0 || count == lucky);
                    count += 1;
                    assert!(count <= MOST_POINTS, "{lucky}: it does not settle");
                }
            }
        };
        assert!((3_300.0 / 1.06..=3_300.0).contains(&rate), "measurement {lucky} was lucky: {rate}");
    }
}

#[test]
fn the_slo_is_met_by_latency_and_errors_of_enough_samples() {
    let latency = Latency { count: Some(5_000), p50_ms: Some(2.0), p99_ms: Some(9.0), ..Latency::default() };
    let good = Measurement {
        requests: Requests { scheduled: Some(5_000), responses: Some(5_000), dropped: Some(0), ..Requests::default() },
        rate: Rate { requested: Some(1_000.0), achieved: Some(999.0) },
        errors: crate::results::report::Errors::none(),
        latency: Some(latency),
        ..Measurement::default()
    };
    let slo = Slo { p50_ms: None, p95_ms: None, p99_ms: Some(10.0), errors: Some(0.001) };
    assert!(meets(&slo, &good));
    assert!(!meets(&Slo { p99_ms: Some(8.0), ..slo }, &good), "too slow");
    assert!(!meets(&Slo { p95_ms: Some(50.0), ..slo }, &good), "a percentile that was not measured is not met");
    let mut wrong = good.clone();
    wrong.errors.total = Some(6);
    wrong.errors.status = Some(6);
    assert!(!meets(&slo, &wrong), "6 of 5,000 are more than 0.1 %");
    let mut few = good;
    few.latency.as_mut().expect("times").count = Some(999);
    assert!(too_few(&slo, &few).is_some_and(|why| why.contains("p99 takes 1000 responses, and there are 999")));
    assert_eq!(too_few(&Slo { p99_ms: None, p50_ms: Some(1.0), ..slo }, &few), None);
    few.errors.total = Some(1);
    assert!(too_few(&slo, &few).is_some(), "an allowed error does not make few samples enough");
    few.errors.total = Some(100);
    assert_eq!(too_few(&slo, &few), None, "what fails for its errors needs no percentile");
}
