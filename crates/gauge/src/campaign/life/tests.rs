//! What requests say of a scenario.

use std::time::{Duration, Instant};

use super::*;
use crate::load::Lost;

const MS: Duration = Duration::from_millis(1);

/// A request every 10 ms for a second, from 500 ms before the event; those due in `wrong` (ms after the event) end 5 ms later so.
fn sent(event: Instant, wrong: std::ops::Range<i64>, outcome: Result<u16, Lost>) -> Vec<Sent> {
    (-50..50)
        .map(|n: i64| {
            let due = if n < 0 { event - MS * (-n * 10) as u32 } else { event + MS * (n * 10) as u32 };
            let outcome = if wrong.contains(&(n * 10)) { outcome } else { Ok(200) };
            Sent { due, done: due + 5 * MS, outcome }
        })
        .collect()
}

fn happened(begun: Instant, fault: Duration) -> Happened {
    Happened { begun, ended: begun + fault, took: None, memory: Vec::new() }
}

#[test]
fn recovery_counts_from_the_end_of_the_fault() {
    let event = Instant::now() + Duration::from_secs(10);
    let trial = judge(Scenario::UpstreamKilled, &sent(event, 0..300, Ok(502)), &happened(event, 200 * MS));
    assert_eq!(trial.state, LifeState::Counts);
    assert_eq!((trial.sent, trial.failed["status 502"]), (100, 30));
    assert!((trial.recovery_ms.unwrap() - 95.0).abs() < 0.1, "the last was due 290 ms after the event: {trial:?}");
    let none = judge(Scenario::Reload, &sent(event, 0..0, Ok(200)), &happened(event, Duration::ZERO));
    assert_eq!((none.recovery_ms, none.failed.len()), (Some(0.0), 0));
    assert!((none.slowest_ms.unwrap() - 5.0).abs() < 0.1);
}

#[test]
fn what_goes_wrong_before_anything_happens_is_not_the_gateways() {
    let event = Instant::now() + Duration::from_secs(10);
    let trial = judge(Scenario::Reload, &sent(event, -100..-90, Err(Lost::Timeout)), &happened(event, Duration::ZERO));
    assert!(matches!(trial.state, LifeState::Void(_)), "{trial:?}");
}

#[test]
fn a_gateway_that_drains_may_refuse_and_not_reset() {
    let event = Instant::now() + Duration::from_secs(10);
    let refused = judge(Scenario::Drain, &sent(event, 0..500, Err(Lost::Refused)), &happened(event, Duration::ZERO));
    assert_eq!((refused.sent, refused.failed.len()), (50, 0), "what is refused was not lost");
    let reset = judge(Scenario::Drain, &sent(event, 0..50, Err(Lost::Reset)), &happened(event, Duration::ZERO));
    assert_eq!(reset.failed["reset"], 5);
    let reload = judge(Scenario::Reload, &sent(event, 0..50, Err(Lost::Refused)), &happened(event, Duration::ZERO));
    assert_eq!(reload.failed["refused"], 5, "in a reload a refused connection is lost");
}

#[test]
fn what_others_use_of_the_machine_is_counted_separately_from_the_trial() {
    let ticks =
        |busy: u64| Ticks::parse(&format!("cpu {busy} 0 0 {} 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\n", 400 - busy));
    // Two processors for a second at 100 ticks each: 120 of 200 ticks were used, 50 of them by the trial.
    let end = ticks(120).map(|mut end| {
        end.all.total -= 200;
        end.all.idle -= 200;
        end
    });
    let begin = ticks(0).map(|mut begin| {
        (begin.all.total, begin.all.idle) = (0, 0);
        begin
    });
    let share = others(begin.as_ref(), end.as_ref(), 0.5, Duration::from_secs(1));
    assert!((share - 0.35).abs() < 0.01, "{share}");
    assert_eq!(others(None, None, 0.5, Duration::from_secs(1)), 0.0, "what is not known voids nothing");
}
