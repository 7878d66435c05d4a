use super::*;
use proptest::prelude::*;

proptest! {
    /// Model of a receive window: whatever arrives and is consumed, the sum of credit stays the size of the window, and a peer that
    /// keeps to the updates it was sent is never refused.
    #[test]
    fn the_sum_of_credit_is_invariant(size in 1..200_000_u32, steps in proptest::collection::vec((any::<bool>(), 0..80_000_usize), 0..100)) {
        let mut window = Receive::new(size);
        let mut peer = i64::from(size);
        for (is_data, bytes) in steps {
            if is_data {
                let is_allowed = bytes as i64 <= peer;
                prop_assert_eq!(window.receive(bytes), is_allowed);
                peer -= if is_allowed { bytes as i64 } else { 0 };
            } else {
                window.consume(bytes);
            }
            peer += window.take_update().map_or(0, i64::from);
            prop_assert!(window.is_balanced());
            // However much is held, the rest can be had.
            prop_assert!(peer > 0 || window.held() == size as usize);
        }
        window.consume(window.held());
        // With nothing held the peer can always go on: half a window at least.
        peer += window.take_update().map_or(0, i64::from);
        prop_assert!(peer > 0 && peer >= i64::from(size / 2));
    }
}
