use super::pin::{choose, choose_without_generator};
use crate::plan::{Hardware, Pin};

fn pin(system: &[u32], upstream: &[u32], generator: &[u32]) -> Pin {
    Pin { system: system.to_vec(), upstream: upstream.to_vec(), generator: generator.to_vec() }
}

#[test]
fn processors_are_dealt_out_and_never_shared_with_the_system() {
    let one = Hardware { cpus: 1, ..Hardware::default() };
    assert_eq!(choose(&one, &[0, 1]), pin(&[0], &[1], &[1]));
    assert_eq!(choose(&one, &[0, 1, 2, 3]), pin(&[0], &[1], &[2, 3]));
    assert_eq!(choose(&one, &[4, 6, 7]), pin(&[4], &[6], &[7]), "a machine of which only some may be used");
    let two = Hardware { cpus: 2, ..Hardware::default() };
    assert_eq!(choose(&two, &[0, 1]), Pin::default(), "nothing is left for the others: nothing is pinned");
    assert_eq!(choose(&one, &[0]), Pin::default());
    assert_eq!(choose_without_generator(&one, &[0, 1, 2]), pin(&[0], &[1, 2], &[]));
    let own = Hardware { pin: Some(pin(&[3], &[2], &[0, 1])), ..one };
    assert_eq!(choose(&own, &[0, 1, 2, 3]), pin(&[3], &[2], &[0, 1]), "what the evaluation says wins");
}
