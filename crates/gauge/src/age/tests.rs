use super::{Metrics, as_coded, paper_endpoint};

fn close(own: f64, other: f64) {
    assert!((own - other).abs() <= other.abs() * 1e-9 + 1e-9, "{own} is not {other}");
}

/// The worked example of the paper: minimum response times 412, 334 and 587 ms for Kong, KrakenD and Tyk.
#[test]
fn the_example_of_the_paper() {
    let metrics = [412.0, 334.0, 587.0].map(|min| Metrics { min: Some(min), ..Metrics::default() });
    let (scores, count) = paper_endpoint(&metrics);
    assert_eq!(count, 1);
    close(scores[0], 100.0 * 334.0 / 412.0);
    close(scores[1], 100.0);
    close(scores[2], 100.0 * 334.0 / 587.0);
}

fn all(throughput: f64, times: [f64; 8], error_rate: f64) -> Metrics {
    let [min, max, mean, stdev, p50, p90, p95, p99] = times.map(Some);
    Metrics { throughput: Some(throughput), min, max, mean, stdev, p50, p90, p95, p99, error_rate: Some(error_rate) }
}

/// By hand. A: 100/s, all times 10, no errors. B: 50/s, all times 20, 10 % errors.
/// Paper: A 10/10. B: throughput 1/2, eight times 1/2, errors 0: 4.5/10.
/// As coded: B: throughput 1/2, eight times 1/2, errors twice 0.9: 6.3/11 = 57.27, rounded down 57.
#[test]
fn both_variants_by_hand() {
    let gateways = [all(100.0, [10.0; 8], 0.0), all(50.0, [20.0; 8], 0.1)];
    let (paper, count) = paper_endpoint(&gateways);
    assert_eq!(count, 10);
    close(paper[0], 100.0);
    close(paper[1], 45.0);
    assert_eq!(as_coded(&gateways), [100.0, 57.0]);
}

/// Best 0 and value 0 give 1; best 0 and value above 0 give 0.
#[test]
fn zeros_are_defined() {
    let gateways = [all(0.0, [0.0; 8], 0.0), all(0.0, [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 0.0)];
    let (paper, _) = paper_endpoint(&gateways);
    close(paper[0], 100.0);
    close(paper[1], 30.0);
    let failed = [all(1.0, [1.0; 8], 1.0), all(1.0, [1.0; 8], 1.0)];
    assert_eq!(as_coded(&failed), [100.0, 100.0], "every request failed everywhere: 1 - 1 = 0, and 0 of 0 gives 1");
}

#[test]
fn a_metric_that_one_lacks_is_left_out_for_all() {
    let gateways = [all(100.0, [10.0; 8], 0.0), Metrics { p99: None, ..all(50.0, [20.0; 8], 0.1) }];
    assert_eq!(paper_endpoint(&gateways).1, 9);
}

/// What is printed of the case study: min, mean, max, standard deviation, p95, errors of Kong, KrakenD and Tyk; four metrics are not. The published scores
/// must lie between those that the missing four can give: 0 and 1 for each.
#[test]
fn the_published_table_bounds_the_published_scores() {
    let rows = |all: [[f64; 6]; 3]| {
        all.map(|[min, mean, max, stdev, p95, errors]| Metrics {
            min: Some(min),
            mean: Some(mean),
            max: Some(max),
            stdev: Some(stdev),
            p95: Some(p95),
            error_rate: Some(errors / 100.0),
            ..Metrics::default()
        })
    };
    let create = rows([
        [139.0, 202.0, 307.0, 43.0, 282.0, 0.0],
        [136.0, 186.0, 343.0, 36.0, 232.0, 0.0],
        [129.0, 187.0, 1186.0, 146.0, 257.0, 0.0],
    ]);
    let bid = rows([
        [37.0, 74.0, 192.0, 43.0, 161.0, 0.0],
        [34.0, 68.0, 202.0, 50.0, 198.0, 0.0],
        [32.0, 73.0, 181.0, 49.0, 175.0, 2.0],
    ]);
    let retrieve = rows([
        [7548.0, 9670.0, 11592.0, 1408.0, 11429.0, 0.0],
        [826.0, 3360.0, 4812.0, 1140.0, 4583.0, 0.0],
        [728.0, 3416.0, 4618.0, 975.0, 4440.0, 0.0],
    ]);
    let within = |published: f64, six: f64| {
        let (low, high) = (six * 0.6, six * 0.6 + 40.0);
        assert!(low - 1.0 <= published && published <= high + 1.0, "{published} is not between {low} and {high}");
    };
    let (retrieve, count) = paper_endpoint(&retrieve);
    assert_eq!(count, 6);
    // By hand, Kong: 728/7548, 3360/9670, 4618/11592, 975/1408, 4440/11429, 0/0.
    let kong = 728.0 / 7548.0 + 3360.0 / 9670.0 + 4618.0 / 11592.0 + 975.0 / 1408.0 + 4440.0 / 11429.0 + 1.0;
    close(retrieve[0], 100.0 * kong / 6.0);
    for (published, six) in [58.0, 96.0, 99.0].into_iter().zip(&retrieve) {
        within(published, *six);
    }
    let (create, _) = paper_endpoint(&create);
    within(96.0, create[1]);
    let (bid, _) = paper_endpoint(&bid);
    for (gateway, published) in [80.0, 94.0, 90.0].into_iter().enumerate() {
        within(published, (create[gateway] + bid[gateway] + retrieve[gateway]) / 3.0);
    }
    // The order on retrieve is the published one.
    assert!(retrieve[2] > retrieve[1] && retrieve[1] > retrieve[0]);
}
