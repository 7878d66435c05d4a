use std::collections::BTreeMap;

use super::order;

#[test]
fn no_system_has_a_place_or_a_neighbour_before_it_more_often_than_another() {
    for count in 1..=9_usize {
        let systems: Vec<usize> = (0..count).collect();
        let rounds = if count % 2 == 0 { count } else { 2 * count };
        let (mut places, mut before) = (BTreeMap::new(), BTreeMap::new());
        for round in 1..=rounds as u32 {
            let order = order(round, &systems);
            for (place, system) in order.iter().enumerate() {
                *places.entry((*system, place)).or_insert(0) += 1;
            }
            for pair in order.windows(2) {
                *before.entry((pair[0], pair[1])).or_insert(0) += 1;
            }
            if round % 2 == 0 {
                for ((a, b), times) in &before {
                    assert_eq!(before.get(&(*b, *a)), Some(times), "{a} and {b} of {count} after round {round}");
                }
            }
        }
        assert_eq!(places.len(), count * count);
        assert!(places.values().all(|times| *times == rounds / count), "{count} systems: {places:?}");
        assert_eq!(before.len(), count * (count - 1));
        assert!(before.values().all(|times| *times == rounds / count), "{count} systems: {before:?}");
    }
    assert_eq!(order(1, &["a", "b", "c", "d"]), ["a", "b", "d", "c"]);
    assert_eq!(order(2, &["a", "b", "c", "d"]), ["c", "d", "b", "a"]);
    assert_eq!(order(3, &["a", "b", "c", "d"]), ["b", "c", "a", "d"]);
    assert!(order::<u8>(1, &[]).is_empty());
}
