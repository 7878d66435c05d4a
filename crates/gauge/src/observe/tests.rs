use super::machine::{Cpu, Ticks, between, load1, throttled};
use super::process::{Process, Stat, Units, reading, schedstat, switches};
use super::{Reading, Usages, Watcher};

#[test]
fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
    let line =
        "4242 (a ) b (c) S 1 77 77 0 -1 4194560 90 0 0 0 123 45 6 7 20 0 3 0 98765 1000 250 18446744073709551615 1";
    let stat = Stat::parse(line).expect("a line of proc(5)");
    assert_eq!((stat.group, stat.user_ticks, stat.system_ticks), (77, 123, 45));
    assert_eq!((stat.threads, stat.start_ticks, stat.rss_pages, stat.zombie), (3, 98765, 250, false));
    assert_eq!(
        Stat::parse("1 (x) Z 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0").map(|stat| stat.zombie),
        Some(true)
    );
    for broken in ["", "1", "1 (x", "1 (x) S", "1 (x) S a b c"] {
        assert_eq!(Stat::parse(broken), None, "{broken}");
    }
}

#[test]
fn this_process_is_seen_as_it_is() {
    let own = Process::of(std::process::id()).expect("this process");
    assert!(own.threads >= 1 && own.rss_pages > 0 && own.descriptors.is_some_and(|count| count >= 3), "{own:?}");
    let now = reading(&[own], Units::here());
    assert!(now.rss_bytes.is_some_and(|bytes| bytes > 100_000) && now.user_s.is_some(), "{now:?}");
    assert_eq!(Process::of(u32::MAX), None);
    assert_eq!(reading(&[], Units::here()).rss_bytes, None, "what has ended has no memory");
}

#[test]
fn small_files_of_proc() {
    assert_eq!(schedstat("123456 789 10\n"), Some(123_456));
    assert_eq!(schedstat(""), None);
    let status = "Name:\tx\nvoluntary_ctxt_switches:\t15\nnonvoluntary_ctxt_switches:\t3\n";
    assert_eq!(switches(status), Some((15, 3)));
    assert_eq!(switches("Name:\tx\n"), None);
    assert_eq!(throttled("nr_periods 5\nnr_throttled 2\n"), Some(2));
    assert_eq!(load1("0.52 0.58 0.59 3/602 29158\n"), Some(0.52));
}

#[test]
fn steal_and_busy_are_shares_of_what_passed_between_two_moments() {
    let begin =
        Ticks::parse("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 100 0 0 0 0 0 0 0\ncpu7 0 0 0 100 0 0 0 0\nintr 5\n")
            .expect("a line");
    assert_eq!(begin.all, Cpu { total: 1000, idle: 800, steal: 0 });
    let end = Ticks::parse("cpu  300 0 200 1300 189 0 0 11 50 0\ncpu0 149 0 0 0 0 0 0 51\ncpu7 0 0 0 199 0 0 0 1\n")
        .expect("a line");
    let machine = between(Some(&begin), Some(&end), Some(1.5));
    // One tick of those that were counted may have been before.
    assert_eq!(machine.steal, Some(0.01));
    assert_eq!(machine.busy, Some(0.3));
    assert_eq!(machine.steal_by_cpu, [(0, 0.5), (7, 0.0)].into());
    assert_eq!(machine.load1, Some(1.5));
    // No time, no share; and never 0 for what was not seen.
    assert_eq!(between(Some(&begin), Some(&begin), None).steal, None);
    assert_eq!(between(None, Some(&end), None).busy, None);
}

fn at(user_s: f64, system_s: f64, on_cpu_s: f64, rss: u64) -> Usages {
    let reading = Reading {
        user_s: Some(user_s),
        system_s: Some(system_s),
        on_cpu_s: Some(on_cpu_s),
        rss_bytes: Some(rss),
        pss_bytes: Some(rss / 2),
        voluntary: Some((on_cpu_s * 100.0) as u64),
        involuntary: Some(1),
        throttled_s: None,
        processes: 2,
        threads: Some(4),
        descriptors: Some(9),
    };
    Usages { system: Some(reading), ..Usages::default() }
}

#[test]
fn the_fine_clock_gives_the_sum_and_the_coarse_one_the_share() {
    let mut watcher = Watcher::begin(at(1.00, 3.00, 4.0031, 100));
    watcher.take(at(1.01, 3.01, 4.0150, 300));
    watcher.take(at(1.01, 3.03, 4.0431, 200));
    let usage = watcher.finish([Some(1), None, None], None).system.expect("two readings and more");
    let (user, system) = (usage.user_s.expect("known"), usage.system_s.expect("known"));
    assert!((user + system - 0.04).abs() < 1e-9, "{user} + {system}");
    assert!((user - 0.01).abs() < 1e-9, "a quarter of the ticks: {user}");
    assert_eq!((usage.pss_peak_bytes, usage.rss_peak_bytes, usage.rss_mean_bytes), (Some(150), Some(300), Some(200)));
    assert_eq!((usage.voluntary_switches, usage.involuntary_switches), (Some(4), Some(0)));
    assert_eq!(usage.samples.len(), 2);
}

#[test]
fn threads_that_ended_are_known_to_the_coarse_clock_alone() {
    let mut watcher = Watcher::begin(at(1.0, 1.0, 2.0, 100));
    watcher.take(at(2.0, 1.5, 2.1, 100));
    let usage = watcher.finish([None; 3], None).system.expect("two readings");
    assert_eq!((usage.user_s, usage.system_s), (Some(1.0), Some(0.5)));
}

#[test]
fn a_process_that_ended_before_the_last_look_keeps_what_it_had_used() {
    let mut watcher = Watcher::begin(at(0.0, 0.0, 0.0, 100));
    watcher.take(at(1.0, 1.0, 2.0, 100));
    let gone = Reading { user_s: Some(0.0), system_s: Some(0.0), on_cpu_s: Some(0.0), ..Reading::default() };
    watcher.take(Usages { system: Some(gone), ..Usages::default() });
    let observed = watcher.finish([None; 3], None);
    let usage = observed.system.expect("readings");
    assert_eq!((usage.user_s, usage.system_s, usage.rss_mean_bytes), (Some(1.0), Some(1.0), Some(100)));
    assert_eq!(observed.generator, None, "what was not looked at is not there");
    assert_eq!(observed.upstream, None);
}
