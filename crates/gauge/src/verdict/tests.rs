use super::*;
use crate::results::report::{Errors, Events, Histogram, Latency, LatencyFrom, Operation};
use crate::results::{GeneratorPart, Machine, Reached, Usage};

/// A closed loop that nothing is wrong with: 64 users, 10 s, 1 ms.
fn sound() -> Report {
    let mut report = Report::of("gauge");
    report.generator.latency_from = Some(LatencyFrom::Due);
    let mut histogram = Histogram::default();
    histogram.record_n(1_000_000, 640_000);
    let total = &mut report.total;
    total.duration_s = Some(10.0);
    total.concurrency = Some(64.0);
    total.requests.responses = Some(640_000);
    total.rate.achieved = Some(64_000.0);
    total.errors = Errors::none();
    total.latency = Latency::of(histogram);
    report
}

/// An open loop that nothing is wrong with: 1,000/s for 10 s.
fn sound_open() -> Report {
    let mut report = sound();
    let mut histogram = Histogram::default();
    histogram.record_n(50_000, 10_000);
    let total = &mut report.total;
    total.requests.responses = Some(10_000);
    total.requests.scheduled = Some(10_000);
    total.requests.dropped = Some(0);
    total.rate.achieved = Some(1_000.0);
    total.rate.requested = Some(1_000.0);
    total.lag = Latency::of(histogram.clone());
    total.generator_lag = Latency::of(histogram);
    report
}

fn users(concurrency: f64, think_s: f64) -> Context<'static> {
    let planned = Planned { concurrency: Some(concurrency), think_s: Some(think_s), ..Planned::default() };
    Context { planned, ..Context::default() }
}

/// The evidence of one verdict, and that there is no other.
fn only(report: &Report, context: &Context<'_>, name: Name) -> String {
    let verdicts = look(report, context);
    assert_eq!(verdicts.iter().map(|verdict| verdict.name).collect::<Vec<_>>(), [name], "{verdicts:?}");
    verdicts[0].evidence.clone()
}

fn nothing(report: &Report, context: &Context<'_>) {
    let verdicts = look(report, context);
    assert_eq!(verdicts, [], "nothing is wrong");
}

fn used(cpus: u32, processors: f64) -> Option<Usage> {
    Some(Usage {
        user_s: Some(processors * 4.0),
        system_s: Some(processors * 6.0),
        cpus: Some(cpus),
        ..Usage::default()
    })
}

/// Ten seconds in which the parts used so many of their processors.
fn observed(system: f64, upstream: f64, generator: f64) -> Observed {
    Observed {
        duration_s: 10.0,
        system: used(1, system),
        upstream: used(1, upstream),
        generator: used(1, generator),
        machine: Machine::default(),
        reached: None,
        generators: Vec::new(),
    }
}

#[test]
fn nothing_is_wrong_with_sound_runs() {
    nothing(&sound(), &Context::default());
    nothing(&sound(), &users(64.0, 0.0));
    nothing(&sound_open(), &Context::default());
}

#[test]
fn names_are_those_of_the_contract() {
    let names: Vec<&str> = Name::ALL.iter().map(|name| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "littles-law",
            "generator-lag",
            "generator-bound",
            "upstream-bound",
            "rate-not-achieved",
            "truncated",
            "not-measured",
            "errors",
            "too-many-errors",
            "events-lost",
            "errors-unmeasured",
            "few-samples",
            "little-cpu",
            "treatment-not-applied",
            "upstream-mismatch",
            "noisy-control",
            "steal",
            "throttled",
            "frequency"
        ]
    );
    for name in Name::ALL {
        assert_eq!(serde_json::to_string(&name).expect("JSON"), format!("\"{name}\""));
    }
}

#[test]
fn more_requests_than_the_users_can_have_waited_for() {
    let mut report = sound();
    report.total.rate.achieved = Some(83_200.0);
    assert_eq!(
        only(&report, &Context::default(), Name::LittlesLaw),
        "64 users that wait 1.00 ms for each response make at most 63,988 requests/s, and 83,200 are claimed: 30 % more"
    );
    // Within what tools round.
    report.total.rate.achieved = Some(69_000.0);
    nothing(&report, &Context::default());
}

#[test]
fn think_time_counts() {
    let report = sound();
    // 64 users that think 9 ms and wait 1 ms make 6,400/s.
    let evidence = look(&report, &users(64.0, 0.009)).into_iter().find(|verdict| verdict.name == Name::LittlesLaw);
    assert!(evidence.expect("a verdict").evidence.contains("and think 9.00 ms"));
}

#[test]
fn fewer_requests_than_the_users_must_have_made() {
    let mut report = sound();
    report.total.rate.achieved = Some(32_000.0);
    let evidence = only(&report, &users(64.0, 0.0), Name::LittlesLaw);
    assert!(evidence.contains("only 32,000 are claimed: for 50 % of the time"), "{evidence}");
    // A script of k6 may think; its results do not say.
    report.generator.name = "k6".to_owned();
    nothing(&report, &Context::default());
    // The ends of a short run.
    let mut report = sound();
    report.generator.name = "wrk".to_owned();
    report.total.rate.achieved = Some(32_000.0);
    report.total.requests.responses = Some(1_000);
    nothing(&report, &Context::default());
}

#[test]
fn an_open_loop_may_wait_before_it_sends() {
    let mut report = sound_open();
    // 1,000/s x 1 s in the queue is more than 64 connections hold, and no contradiction.
    let mut waited = Histogram::default();
    waited.record_n(1_000_000_000, 10_000);
    let mut lag = Histogram::default();
    lag.record_n(990_000_000, 10_000);
    report.total.latency = Latency::of(waited);
    report.total.lag = Latency::of(lag);
    nothing(&report, &Context::default());
}

#[test]
fn the_generator_was_late() {
    let mut report = sound_open();
    let mut late = Histogram::default();
    late.record_n(50_000, 9_800);
    late.record_n(4_000_000, 200);
    report.total.generator_lag = Latency::of(late);
    let evidence = only(&report, &Context::default(), Name::GeneratorLag);
    assert!(evidence.contains("4.00 ms or more too late"), "{evidence}");
}

/// Merged with one that is on schedule, its lag is no longer at the 99th percentile.
#[test]
fn each_of_several_generators_is_judged_by_itself() {
    let mut late = Histogram::default();
    late.record_n(50_000, 1_900);
    late.record_n(4_000_000, 100);
    let mut in_time = Histogram::default();
    in_time.record_n(50_000, 38_000);
    let mut report = sound_open();
    report.total.generator_lag =
        Latency::of(in_time.clone()).zip(Latency::of(late.clone())).and_then(|(one, other)| one.merge(&other));
    let part = |name: &str, lag: Histogram, cpu_s: f64| GeneratorPart {
        name: name.to_owned(),
        cpus: 2,
        cpu_s: Some(cpu_s),
        lag: Latency::of(lag),
        ..GeneratorPart::default()
    };
    let generators =
        |last: Histogram, cpu_s: f64| vec![part("generator-1", in_time.clone(), 3.0), part("generator-2", last, cpu_s)];
    let seen = |generators: Vec<GeneratorPart>| Observed { generators, ..observed(0.5, 0.3, 0.2) };
    nothing(&report, &Context { observed: Some(&seen(generators(in_time.clone(), 3.0))), ..Context::default() });
    let late = seen(generators(late, 3.0));
    let evidence = only(&report, &Context { observed: Some(&late), ..Context::default() }, Name::GeneratorLag);
    assert!(evidence.starts_with("generator-2 sent 1 % of its requests 4.00 ms"), "{evidence}");
    let busy = seen(generators(in_time.clone(), 19.5));
    let evidence = only(&report, &Context { observed: Some(&busy), ..Context::default() }, Name::GeneratorBound);
    assert!(evidence.starts_with("generator-2 used 1.95 of the 2"), "{evidence}");
}

/// Requests that were due while every connection waited were dropped by the server, however fast the few responses were that came before it hung.
#[test]
fn a_server_that_hangs_is_no_late_generator() {
    let mut report = sound_open();
    report.total.concurrency = Some(64.0);
    report.total.requests.responses = Some(500);
    report.total.requests.dropped = Some(9_436);
    report.total.rate.achieved = Some(50.0);
    report.total.errors.timeout = Some(64);
    report.total.errors.total = Some(64);
    let effects: Vec<_> = look(&report, &Context::default()).iter().map(|verdict| verdict.name).collect();
    assert!(!effects.iter().any(|name| name.effect() == Effect::Condition), "{effects:?}");
    assert!(effects.contains(&Name::RateNotAchieved), "{effects:?}");
    // In a closed loop: half of the time no response came.
    let mut report = sound();
    report.total.requests.responses = Some(320_000);
    report.total.rate.achieved = Some(32_000.0);
    report.total.errors.timeout = Some(64);
    report.total.errors.total = Some(64);
    let effects: Vec<_> = look(&report, &users(64.0, 0.0)).iter().map(|verdict| verdict.name).collect();
    assert!(!effects.iter().any(|name| name.effect() == Effect::Condition), "{effects:?}");
}

#[test]
fn the_generator_used_its_processors_up() {
    let observed = observed(0.5, 0.4, 0.95);
    let context = Context { observed: Some(&observed), ..Context::default() };
    let evidence = only(&sound(), &context, Name::GeneratorBound);
    assert!(evidence.contains("0.950 of the 1 processors"), "{evidence}");
}

#[test]
fn users_who_mostly_think_set_the_rate() {
    let mut report = sound();
    report.total.rate.achieved = Some(640.0);
    let evidence = only(&report, &users(64.0, 0.099), Name::GeneratorBound);
    assert!(evidence.contains("99 % of their time is thinking"), "{evidence}");
    // Half of the time, or less, is the server's.
    report.total.rate.achieved = Some(64.0 / 0.0019);
    nothing(&report, &users(64.0, 0.0009));
}

#[test]
fn workers_that_all_wait_cannot_keep_a_rate() {
    let mut report = sound();
    report.total.rate.requested = Some(100_000.0);
    report.generator.latency_from = Some(LatencyFrom::Sent);
    let names: Vec<Name> = look(&report, &Context::default()).iter().map(|verdict| verdict.name).collect();
    assert_eq!(names, [Name::GeneratorBound, Name::RateNotAchieved]);
}

#[test]
fn the_baseline_is_hardly_faster() {
    let direct = {
        let mut direct = sound().total;
        direct.rate.achieved = Some(76_800.0);
        direct
    };
    let context = Context { direct: Some(&direct), ..Context::default() };
    let evidence = only(&sound(), &context, Name::GeneratorBound);
    assert!(evidence.starts_with("the baseline carries 76,800 requests/s, 1.20 times the 64,000 here"), "{evidence}");
    let fast = {
        let mut direct = sound().total;
        direct.rate.achieved = Some(84_000.0);
        direct
    };
    nothing(&sound(), &Context { direct: Some(&fast), ..Context::default() });
    // It had time left: users waited for the network or for a clock, and nobody was the limit.
    let idle = observed(0.0, 0.2, 0.1);
    nothing(&sound(), &Context { direct: Some(&direct), direct_observed: Some(&idle), ..Context::default() });
    // The upstream was the limit.
    let busy = observed(0.0, 0.99, 0.2);
    let context = Context { direct: Some(&direct), direct_observed: Some(&busy), ..Context::default() };
    let evidence = only(&sound(), &context, Name::UpstreamBound);
    assert!(evidence.ends_with("there the upstream used 0.990 of its 1 processors"), "{evidence}");
    // Both on one processor, which together they filled.
    let shared = observed(0.0, 0.5, 0.49);
    let pinned = BTreeMap::from([("generator".to_owned(), vec![1]), ("upstream".to_owned(), vec![1])]);
    let context =
        Context { direct: Some(&direct), direct_observed: Some(&shared), pinned: Some(&pinned), ..Context::default() };
    let evidence = only(&sound(), &context, Name::GeneratorBound);
    assert!(evidence.contains("that they share"), "{evidence}");
}

/// At an equal rate the baseline says nothing of how busy the processor was that generator and upstream share.
#[test]
fn generator_and_upstream_filled_the_processor_that_they_share() {
    let both = observed(0.5, 0.5, 0.45);
    let pinned = BTreeMap::from([("generator".to_owned(), vec![1]), ("upstream".to_owned(), vec![1])]);
    let context = Context { observed: Some(&both), pinned: Some(&pinned), ..Context::default() };
    assert_eq!(
        only(&sound_open(), &context, Name::GeneratorBound),
        "the generator used 0.450 and the upstream 0.500 of the 1 processors that they share (95 %)"
    );
    let separate = BTreeMap::from([("generator".to_owned(), vec![1]), ("upstream".to_owned(), vec![2])]);
    nothing(&sound_open(), &Context { pinned: Some(&separate), ..context });
    nothing(&sound_open(), &Context { pinned: None, ..context });
    // In a closed loop it is the baseline that is looked at; in that system itself there is nothing else.
    nothing(&sound(), &context);
    let direct = Observed { system: None, ..both.clone() };
    nothing(&sound_open(), &Context { observed: Some(&direct), ..context });
    // The upstream alone.
    let upstream = observed(0.5, 0.92, 0.05);
    only(&sound_open(), &Context { observed: Some(&upstream), ..context }, Name::UpstreamBound);
}

#[test]
fn a_rate_that_the_baseline_cannot_keep() {
    let mut direct = sound_open().total;
    direct.requests.dropped = Some(500);
    let evidence = only(&sound_open(), &Context { direct: Some(&direct), ..Context::default() }, Name::GeneratorBound);
    assert!(evidence.contains("dropped 5.0 % of its requests"), "{evidence}");
}

#[test]
fn the_upstream_used_its_processors_up() {
    let observed = observed(0.3, 0.97, 0.3);
    let evidence = only(&sound(), &Context { observed: Some(&observed), ..Context::default() }, Name::UpstreamBound);
    assert!(evidence.contains("while the system used 30 % of its own"), "{evidence}");
    // A gateway that is busy too is the limit as much.
    let both = self::observed(0.97, 0.97, 0.3);
    nothing(&sound(), &Context { observed: Some(&both), ..Context::default() });
}

#[test]
fn less_than_was_requested() {
    let mut report = sound_open();
    report.total.rate.achieved = Some(900.0);
    let evidence = only(&report, &Context::default(), Name::RateNotAchieved);
    assert_eq!(evidence, "1,000 requests/s were requested and 900 responses came, 90 %");
    let mut report = sound_open();
    report.total.requests.dropped = Some(20);
    // One connection, which is busy all the time.
    report.total.concurrency = Some(1.0);
    let evidence = only(&report, &Context::default(), Name::RateNotAchieved);
    assert!(evidence.starts_with("0.20 % of the requests that were due found no free connection"), "{evidence}");
    // A Poisson pace of few requests is off by chance.
    let mut report = sound_open();
    report.total.duration_s = Some(1.0);
    report.total.requests.scheduled = Some(960);
    report.total.rate.achieved = Some(960.0);
    nothing(&report, &Context::default());
}

#[test]
fn it_ended_before_its_plan() {
    let mut report = sound();
    report.truncated = Some("interrupted".to_owned());
    assert_eq!(only(&report, &Context::default(), Name::Truncated), "it ended early after 10 s: interrupted");
    let plan = |planned| Context { planned, ..Context::default() };
    let longer = Planned { duration_s: Some(20.0), ..Planned::default() };
    let evidence = only(&sound(), &plan(longer), Name::Truncated);
    assert!(evidence.starts_with("it ran 10 s of the 20 s that were planned (50 %)"), "{evidence}");
    let more = Planned { requests: Some(1_000_000), ..Planned::default() };
    assert_eq!(only(&sound(), &plan(more), Name::Truncated), "640,000 of the 1,000,000 planned requests were made");
    nothing(&sound(), &plan(Planned { duration_s: Some(10.2), requests: Some(640_000), ..Planned::default() }));
}

#[test]
fn one_error_is_too_many() {
    let mut report = sound();
    report.total.errors.status = Some(1);
    report.total.errors.total = Some(1);
    report.total.statuses = Some(BTreeMap::from([(200, 639_999), (502, 1)]));
    assert_eq!(
        only(&report, &Context::default(), Name::Errors),
        "1 of 640,000 requests went wrong (0.0002 %): 1 unexpected status, responses 639,999 x 200 1 x 502"
    );
}

#[test]
fn errors_that_nobody_counted() {
    let mut report = sound();
    report.total.errors = Errors::default();
    let evidence = only(&report, &Context::default(), Name::ErrorsUnmeasured);
    assert!(evidence.contains("unknown, and not none"), "{evidence}");
    report.total.errors.status = Some(0);
    let evidence = only(&report, &Context::default(), Name::ErrorsUnmeasured);
    assert!(evidence.contains("count unexpected statuses and leave out"), "{evidence}");
}

#[test]
fn too_few_samples() {
    let mut report = sound();
    report.total.latency.as_mut().expect("latency").count = Some(999);
    assert_eq!(
        only(&report, &Context::default(), Name::FewSamples),
        "p99 = 1.00 ms is of 999 samples; it takes 1,000 to say that"
    );
    report.total.latency.as_mut().expect("latency").count = Some(1_000);
    nothing(&report, &Context::default());
    let mean = report.total.latency.as_ref().and_then(|latency| latency.mean_ms);
    report.total.latency = Some(Latency { count: Some(640_000), mean_ms: mean, p50_ms: mean, ..Latency::default() });
    let evidence = only(&report, &Context::default(), Name::FewSamples);
    assert!(evidence.starts_with("the results hold no p90, p95 or p99"), "{evidence}");
}

#[test]
fn a_treatment_that_did_not_differ() {
    let off = Treatment {
        name: "cache off".to_owned(),
        header: Some("x-cache".to_owned()),
        value: Some("HIT".to_owned()),
        at_least: None,
        at_most: Some(0.0),
    };
    let seen = |treatment, share| {
        only(
            &sound(),
            &Context { treatment: Some((treatment, share)), ..Context::default() },
            Name::TreatmentNotApplied,
        )
    };
    assert_eq!(seen(&off, Some(0.75)), "cache off: 75 % of the responses show `x-cache: HIT`, and at most 0 % may");
    assert!(seen(&off, None).contains("was not counted"));
    let on = Treatment { name: "cache on".to_owned(), at_least: Some(0.6), at_most: None, ..off.clone() };
    assert_eq!(seen(&on, Some(0.2)), "cache on: 20 % of the responses show `x-cache: HIT`, and at least 60 % must");
    nothing(&sound(), &Context { treatment: Some((&off, Some(0.0))), ..Context::default() });
    nothing(&sound(), &Context { treatment: Some((&on, Some(0.6))), ..Context::default() });
}

#[test]
fn stolen_time() {
    let mut observed = observed(0.5, 0.3, 0.3);
    observed.machine.steal = Some(0.012);
    let evidence = only(&sound(), &Context { observed: Some(&observed), ..Context::default() }, Name::Steal);
    assert!(evidence.starts_with("the host gave 1.2 % of the processors' time to others"), "{evidence}");
    observed.machine.steal = Some(0.01);
    nothing(&sound(), &Context { observed: Some(&observed), ..Context::default() });
}

/// One processor of 64 that is lost is 0.8 % of all; it is the one that the gateway was pinned to that counts.
#[test]
fn the_time_stolen_from_a_pinned_processor() {
    let mut observed = observed(0.5, 0.3, 0.3);
    observed.machine.steal = Some(0.008);
    observed.machine.steal_by_cpu = [(3, 0.5), (4, 0.0)].into();
    let pinned = BTreeMap::from([("system".to_owned(), vec![3]), ("generator".to_owned(), vec![4])]);
    let context = Context { observed: Some(&observed), pinned: Some(&pinned), ..Context::default() };
    let evidence = only(&sound(), &context, Name::Steal);
    assert!(evidence.starts_with("the host gave 50 % of processor 3 time"), "{evidence}");
    let pinned = BTreeMap::from([("system".to_owned(), vec![4])]);
    nothing(&sound(), &Context { pinned: Some(&pinned), ..context });
}

#[test]
fn a_processor_that_was_held_up() {
    let mut observed = observed(0.5, 0.3, 0.3);
    observed.machine.throttled = Some(3);
    let evidence = only(&sound(), &Context { observed: Some(&observed), ..Context::default() }, Name::Throttled);
    assert!(evidence.ends_with("held processes up 3 times"), "{evidence}");
}

#[test]
fn less_than_100_ms_of_cpu_time_is_not_compared() {
    let observed = Observed {
        system: Some(Usage { user_s: Some(0.03), system_s: Some(0.06), ..Usage::default() }),
        ..Observed::default()
    };
    let evidence = only(&sound(), &Context { observed: Some(&observed), ..Context::default() }, Name::LittleCpu);
    assert!(evidence.starts_with("the system used 90.0 ms of CPU time"), "{evidence}");
}

#[test]
fn requests_that_the_generator_dropped_while_it_had_connections() {
    let mut report = sound_open();
    report.total.requests.dropped = Some(500);
    let names = |report: &Report| -> Vec<Name> {
        look(report, &Context::default()).iter().map(|verdict| verdict.name).collect()
    };
    assert_eq!(names(&report), [Name::RateNotAchieved], "no connection was free");
    report.total.requests.dropped_free = Some(500);
    assert_eq!(names(&report), [Name::GeneratorLag, Name::RateNotAchieved]);
    report.total.requests.dropped_free = Some(9);
    assert_eq!(names(&report), [Name::RateNotAchieved], "9 of 10,000");
}

#[test]
fn more_errors_than_the_objective_allows_fail_a_trial() {
    let mut report = sound();
    report.total.errors.total = Some(640);
    let names = |allowed: f64| -> Vec<Name> {
        let context = Context { allowed_errors: Some(allowed), ..Context::default() };
        look(&report, &context).iter().map(|verdict| verdict.name).collect()
    };
    assert_eq!(names(0.001), [Name::Errors], "640 of 640,000 are 0.1 %");
    assert_eq!(names(0.0), [Name::Errors, Name::TooManyErrors]);
}

#[test]
fn a_control_that_moved() {
    let rates = [100.0, 101.0, 99.0, 100.0, 88.0, 112.0];
    let totals: Vec<Measurement> = rates
        .iter()
        .map(|rate| {
            let mut total = Measurement::default();
            total.rate.achieved = Some(*rate);
            total
        })
        .collect();
    let controls: Vec<Baseline<'_>> = (1..).zip(&totals).map(|(round, total)| Baseline { round, total }).collect();
    let noisy = noisy_rounds(&controls);
    assert_eq!(noisy.iter().map(|(round, _)| *round).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(
        noisy[0].1,
        "in round 5 the baseline had a rate of 88/s, 12 % below the median of the rounds, 100/s (at most 10 % is allowed)"
    );
    assert_eq!(noisy_rounds(&controls[3..5]), [], "two rounds have no middle");
}

#[test]
fn an_open_control_moves_in_its_response_times() {
    let medians = [0.10, 0.10, 0.14, 0.30];
    let totals: Vec<Measurement> = medians
        .iter()
        .map(|p50| {
            let mut total = Measurement::default();
            total.rate.requested = Some(1_000.0);
            total.rate.achieved = Some(1_000.0);
            total.latency = Some(Latency { p50_ms: Some(*p50), ..Latency::default() });
            total
        })
        .collect();
    let controls: Vec<Baseline<'_>> = (1..).zip(&totals).map(|(round, total)| Baseline { round, total }).collect();
    // 20 us are not a machine that is slower.
    assert_eq!(noisy_rounds(&controls).iter().map(|(round, _)| *round).collect::<Vec<_>>(), [4]);
}

#[test]
fn figures_in_sentences() {
    use super::words::{number, percent, size, time};
    assert_eq!(number(1_234_567.8), "1,234,568");
    assert_eq!(number(-1_234.0), "-1,234");
    assert_eq!(number(123.45), "123.5");
    assert_eq!(number(64.0), "64");
    assert_eq!(number(0.98), "0.980");
    assert_eq!(percent(0.3), "30 %");
    assert_eq!(percent(0.0), "0 %");
    assert_eq!(percent(0.012), "1.2 %");
    assert_eq!(percent(0.00002), "0.0020 %");
    assert_eq!(time(0.98), "0.98 ms");
    assert_eq!(time(0.045), "45.0 us");
    assert_eq!(time(12_345.0), "12.3 s");
    assert_eq!(time(0.0), "0 ms");
    assert_eq!(size(10.0 * 1024.0 * 1024.0), "10.0 MiB");
}

/// 10,000 requests with bodies of 100 bytes, of which so many reached the upstream.
fn reached(requests: u64, body_bytes: u64) -> (Report, Observed) {
    let mut report = sound_open();
    report.total.requests.sent = Some(10_000);
    report.total.bytes.sent_bodies = Some(1_000_000);
    (report, Observed { reached: Some(Reached { requests, body_bytes }), ..observed(0.5, 0.5, 0.1) })
}

#[test]
fn what_reached_the_upstream_is_what_was_sent() {
    let name = Name::UpstreamMismatch;
    for (requests, bytes, expected) in [
        (10_000, 1_000_000, None),
        // One in a thousand may have been retried, or be missing.
        (10_020, 1_002_000, None),
        (9_990, 999_000, None),
        (9_980, 998_000, Some("20 of 10,000 requests with a response (0.20 %) did not reach the upstream")),
        (20_000, 2_000_000, Some("20,000 requests reached the upstream, and 10,000 were sent")),
        (10_000, 999_900, Some("request bodies of 1,000,000 bytes were sent, and 999,900 bytes reached the upstream")),
        (0, 0, Some("10,000 of 10,000 requests with a response (100 %) did not reach the upstream")),
    ] {
        let (report, observed) = reached(requests, bytes);
        let context = Context { observed: Some(&observed), ..Context::default() };
        match expected {
            None => nothing(&report, &context),
            Some(expected) => assert_eq!(only(&report, &context, name), expected, "{requests}"),
        }
    }
}

#[test]
fn what_a_gateway_may_serve_by_itself_need_not_reach_the_upstream() {
    let (mut report, observed) = reached(4_000, 400_000);
    let context = Context { observed: Some(&observed), ..Context::default() };
    // A limit.
    report.total.statuses = Some(BTreeMap::from([(200, 4_000), (429, 6_000)]));
    nothing(&report, &context);
    // A cache that is meant to be there; one that doubles requests is wrong nevertheless.
    report.total.statuses = Some(BTreeMap::from([(200, 10_000)]));
    only(&report, &context, Name::UpstreamMismatch);
    let cache = Treatment { name: "cache on".to_owned(), header: None, value: None, at_least: None, at_most: None };
    nothing(&report, &Context { treatment: Some((&cache, Some(0.6))), ..context });
    let (report, observed) = reached(20_000, 2_000_000);
    let twice = Context { observed: Some(&observed), treatment: Some((&cache, Some(0.6))), ..Context::default() };
    only(&report, &twice, Name::UpstreamMismatch);
}

#[test]
fn streams_have_the_events_that_they_have_without_a_gateway() {
    let with = |events: u64| {
        let mut report = sound();
        let responses = report.total.requests.responses.expect("counted");
        let mut total = report.total.clone();
        total.events = Some(Events { received: responses * events, arrivals: responses });
        report.operations = vec![Operation { name: "events".to_owned(), total }];
        report
    };
    let direct = with(5);
    let context = Context { direct_operations: &direct.operations, ..Context::default() };
    nothing(&with(5), &context);
    let evidence = only(&with(4), &context, Name::EventsLost);
    assert_eq!(evidence, "`events` has 4 events in a stream, 80 % of the 5 without a gateway");
    nothing(&with(4), &Context::default());
}
