//! Order, shares and places, against models that are written down plainly.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn entry(priority: Priority, tenant: u64, cost: u64) -> QueueEntry {
    QueueEntry { priority, tenant, cost, left: None }
}

fn standard(tenant: u64, cost: u64) -> QueueEntry {
    entry(Priority::Standard, tenant, cost)
}

/// Serves `count`, and returns their values.
fn served<T>(line: &mut Line<T>, count: usize) -> Vec<T> {
    (0..count).map_while(|_| line.serve()).collect()
}

#[test]
fn without_tenants_it_is_first_come_first_served() {
    let mut line = Line::default();
    let places: Vec<_> = (0..5).map(|number| line.acquire(QueueEntry::default(), number)).collect();
    assert_eq!(line.release(places[2]), Some(2));
    assert_eq!(line.release(places[2]), None);
    assert_eq!(line.release(places[0]), Some(0));
    assert_eq!(line.first().map(|(place, &value)| (place == places[1], value)), Some((true, 1)));
    assert_eq!(served(&mut line, 9), [1, 3, 4]);
    assert_eq!(line.len(), 0);
}

#[test]
fn a_tenant_that_comes_late_does_not_wait_behind_all_of_a_busy_one() {
    let mut line = Line::default();
    for number in 0..50 {
        line.acquire(standard(1, 10), number);
    }
    line.acquire(standard(2, 10), 100);
    line.acquire(standard(2, 10), 101);
    assert_eq!(served(&mut line, 6), [0, 100, 1, 101, 2, 3]);
}

#[test]
fn a_tenant_with_dear_requests_has_fewer_of_them() {
    let mut line = Line::default();
    for number in 0..20 {
        line.acquire(standard(1, 30), ('a', number));
        line.acquire(standard(2, 10), ('b', number));
    }
    let dear = served(&mut line, 16).iter().filter(|(who, _)| *who == 'a').count();
    assert_eq!(dear, 4);
}

#[test]
fn requests_that_left_cost_their_tenant_nothing() {
    let mut line = Line::default();
    let places: Vec<_> = (0..100).map(|number| line.acquire(standard(1, 1000), number)).collect();
    line.acquire(standard(2, 1000), 200);
    line.acquire(standard(2, 1000), 201);
    for place in &places[..99] {
        line.release(*place);
    }
    // As the first of its tenant it is in front of the second of the other.
    assert_eq!(served(&mut line, 3), [99, 200, 201]);
}

#[test]
fn a_lower_class_has_one_slot_in_sixteen_and_two_of_them_alternate() {
    let mut line = Line::default();
    for number in 0..200 {
        for class in Priority::ALL {
            line.acquire(entry(class, number, 1), class);
        }
    }
    let order = served(&mut line, 64);
    for (index, class) in order.iter().enumerate() {
        let expected = match (index + 1) % 32 {
            16 => Priority::Standard,
            0 => Priority::Batch,
            _ => Priority::Interactive,
        };
        assert_eq!(*class, expected, "turn {index}");
    }
}

#[test]
fn a_class_alone_is_not_held_back_and_counts_no_rounds() {
    let mut line = Line::default();
    for number in 0..40 {
        line.acquire(entry(Priority::Interactive, number, 1), number);
    }
    served(&mut line, 30);
    line.acquire(entry(Priority::Batch, 1, 1), 1000);
    // Only turns over its head count.
    assert_eq!(served(&mut line, 10), (30..40).collect::<Vec<_>>());
    assert_eq!(served(&mut line, 1), [1000]);
}

#[test]
fn a_full_line_makes_room_for_those_with_fewer_places() {
    const SIZE: usize = 4;
    let mut line = Line::default();
    for number in 0..4 {
        line.acquire(standard(1, 1), number);
    }
    // Its own requests, and those of a tenant with as many, have no better right.
    assert_eq!(line.give_up_for(&standard(1, 1), SIZE), None);
    assert_eq!(line.give_up_for(&standard(2, 1), SIZE), Some(3));
    line.acquire(standard(2, 1), 10);
    assert_eq!(line.give_up_for(&standard(2, 1), SIZE), Some(2));
    line.acquire(standard(2, 1), 11);
    assert_eq!(line.give_up_for(&standard(2, 1), SIZE), None);
    // Each class has a place for itself, and no more.
    let batch = |tenant| entry(Priority::Batch, tenant, 1);
    assert_eq!(line.give_up_for(&batch(3), SIZE), Some(11));
    line.acquire(batch(3), 20);
    assert_eq!(line.give_up_for(&batch(4), SIZE), None);
    // What a class has beyond that is for higher ones.
    let urgent = entry(Priority::Interactive, 1, 1);
    let given: Vec<_> = std::iter::from_fn(|| line.give_up_for(&urgent, SIZE)).collect();
    assert_eq!(given, [1, 10]);
    assert_eq!(served(&mut line, 9), [0, 20]);
}

#[test]
fn what_is_served_before_is_what_is_not_behind() {
    let mut line = Line::default();
    line.acquire(entry(Priority::Interactive, 1, 7), ());
    for _ in 0..10 {
        line.acquire(standard(1, 10), ());
    }
    line.acquire(standard(2, 4), ());
    line.acquire(entry(Priority::Batch, 1, 1000), ());
    // All of the higher class; of the first tenant three, which cost as much as it does; all of the second.
    assert_eq!(line.served_before(&standard(3, 30)), 1 + 3 + 1);
    // Behind its own.
    assert_eq!(line.served_before(&standard(1, 30)), 1 + 10 + 1);
    assert_eq!(line.served_before_at_most(&standard(3, 30)), 1 + 11);
}

#[test]
fn a_lower_class_is_not_behind_all_of_a_higher_one() {
    let mut line = Line::default();
    let batch = entry(Priority::Batch, 1, 1);
    for _ in 0..100 {
        line.acquire(entry(Priority::Interactive, 1, 1), false);
    }
    assert_eq!(line.served_before(&batch), 15);
    line.acquire(batch, true);
    assert_eq!(served(&mut line, 200).iter().position(|is_batch| *is_batch), Some(15));
}

#[test]
fn one_that_may_be_served_passes_others_that_may_not() {
    let mut line = Line::default();
    let places: Vec<_> = (0..4).map(|number| line.acquire(QueueEntry::default(), number)).collect();
    assert_eq!(line.serve_where(|number| *number == 2), Some(2));
    assert_eq!(line.serve_where(|number| *number == 2), None);
    assert_eq!(line.first().map(|(place, _)| place), Some(places[0]));
    assert_eq!(line.serve_where(|number| *number == 0), Some(0));
    assert_eq!(served(&mut line, 9), [1, 3]);
}

/// Absurd costs are bounded where turns are made; here they must not spoil the line for those who come later.
#[test]
fn a_dear_request_costs_its_own_tenant_only() {
    let mut line = Line::default();
    line.acquire(standard(1, 1 << 24), 100);
    for number in 0..5 {
        line.acquire(standard(1, 10), 101 + number);
        line.acquire(standard(2, 10), number);
        line.acquire(standard(3, 10), 10 + number);
    }
    assert_eq!(served(&mut line, 10), [0, 10, 1, 11, 2, 12, 3, 13, 4, 14]);
    assert_eq!(served(&mut line, 1), [100]);
    for number in 20..23 {
        line.acquire(standard(2, 10), number);
    }
    assert_eq!(served(&mut line, 9), [20, 101, 102, 21, 103, 22, 104, 105]);
}

#[derive(Debug, Clone)]
enum Step {
    Push(usize, u64, u64),
    Serve,
    Remove(usize),
    MakeRoom(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3usize, 0..4u64, 0..100u64).prop_map(|(class, tenant, cost)| Step::Push(class, tenant, cost)),
        3 => Just(Step::Serve),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => (0..3usize, 0..5u64).prop_map(|(class, tenant)| Step::MakeRoom(class, tenant)),
    ]
}

proptest! {
    /// Everybody is taken out once, with what was told, in the order of arrival within a tenant; and `first` says who is next.
    #[test]
    fn everyone_leaves_once(steps in vec(step(), 0..200)) {
        let mut line = Line::default();
        let mut there: HashMap<u64, (QueueSlot, QueueEntry)> = HashMap::new();
        let mut next = 0;
        for step in steps {
            match step {
                Step::Push(class, tenant, cost) => {
                    let entry = entry(Priority::ALL[class], tenant, cost);
                    there.insert(next, (line.acquire(entry, next), entry));
                    next += 1;
                }
                Step::Serve => {
                    let first = line.first().map(|(place, &value)| (place, value));
                    let served = line.serve();
                    prop_assert_eq!(served, first.map(|(_, value)| value));
                    let Some(value) = served else { prop_assert!(there.is_empty()); continue };
                    let (place, entry) = there.remove(&value).expect("it was there");
                    prop_assert_eq!(first.map(|(place, _)| place), Some(place));
                    let is_before = |(other, (_, one)): (&u64, &(QueueSlot, QueueEntry))| *other < value && one.tenant == entry.tenant && one.priority == entry.priority;
                    prop_assert!(!there.iter().any(is_before));
                }
                Step::Remove(which) => {
                    if next > 0 {
                        let value = which as u64 % next;
                        if let Some((place, _)) = there.remove(&value) {
                            prop_assert_eq!(line.release(place), Some(value));
                            prop_assert_eq!(line.release(place), None);
                        }
                    }
                }
                Step::MakeRoom(class, tenant) => {
                    let entry = entry(Priority::ALL[class], tenant, 1);
                    if let Some(value) = line.give_up_for(&entry, 32) {
                        there.remove(&value).expect("it was there");
                    }
                }
            }
            prop_assert_eq!(line.len(), there.len());
        }
    }

    /// Golestani's bound: of two tenants that always wait, neither is ahead by more than the dearest request of each.
    #[test]
    fn shares_are_even(costs in vec((1..50u64, 1..500u64), 50..100)) {
        let mut line = Line::default();
        for &(own, other) in &costs {
            line.acquire(standard(1, own), (1, own));
            line.acquire(standard(2, other), (2, other));
        }
        let most = (costs.iter().map(|one| one.0).max().unwrap_or(0), costs.iter().map(|one| one.1).max().unwrap_or(0));
        let (mut left, mut sums) = ([costs.len(), costs.len()], [0i64, 0]);
        while left.iter().all(|&left| left > 0) {
            let (tenant, cost): (usize, u64) = line.serve().expect("both wait");
            left[tenant - 1] -= 1;
            sums[tenant - 1] += cost as i64;
            prop_assert!(sums[0].abs_diff(sums[1]) <= most.0 + most.1, "{sums:?}");
        }
    }
}

/// A server with eight places, each of which serves a request in a hundred ticks. `arrivals` says in each tick who comes; returns the times from arrival to end of
/// each class, and what each tenant was served.
fn simulate(ticks: u64, mut arrivals: impl FnMut(u64, usize) -> Vec<QueueEntry>) -> ([Vec<u64>; 3], HashMap<u64, u64>) {
    const PLACES: usize = 8;
    const SERVICE: u64 = 100;
    let mut line: Line<(QueueEntry, u64)> = Line::default();
    let (mut ends, mut times, mut served) = (Vec::new(), [const { Vec::new() }; 3], HashMap::new());
    for now in 0..ticks {
        ends.retain(|end| *end > now);
        for entry in arrivals(now, line.len()) {
            line.acquire(entry, (entry, now));
        }
        while ends.len() < PLACES
            && let Some((entry, since)) = line.serve()
        {
            ends.push(now + SERVICE);
            times[entry.priority as usize].push(now + SERVICE - since);
            *served.entry(entry.tenant).or_default() += entry.cost;
        }
    }
    (times, served)
}

/// Numbers that are the same on every machine (Knuth, MMIX).
fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64
    }
}

#[test]
fn a_tenant_at_fifty_times_the_load_takes_its_share() {
    let mut next = random(1);
    // Both want more than half of the server: 4 and 200 places' worth.
    let (_, served) = simulate(100_000, |_, _| {
        let mut came = Vec::new();
        if next() < 0.045 {
            came.push(standard(1, 10));
        }
        (0..2).for_each(|_| came.push(standard(2, 10)));
        came
    });
    let share = served[&2] as f64 / (served[&1] + served[&2]) as f64;
    assert!(share <= 0.6, "{share}: 0.5 is its share");
}

#[test]
fn interactive_requests_are_as_quick_under_a_flood_of_batch() {
    let p99 = |is_flooded: bool| {
        let mut next = random(2);
        let (mut times, _) = simulate(200_000, |_, waiting| {
            let mut came = Vec::new();
            if next() < 0.024 {
                came.push(entry(Priority::Interactive, 1, 10));
            }
            if is_flooded {
                (waiting..200).for_each(|_| came.push(entry(Priority::Batch, 2, 10)));
            }
            came
        });
        let times = &mut times[Priority::Interactive as usize];
        times.sort_unstable();
        times[times.len() * 99 / 100]
    };
    let (alone, flooded) = (p99(false), p99(true));
    assert!(flooded <= 2 * alone, "{flooded} ticks, {alone} without the flood");
}
