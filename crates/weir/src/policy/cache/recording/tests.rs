use proptest::prelude::*;

use super::*;

fn mark(gap_ms: u32, is_between: bool) -> Mark {
    Mark { gap_ms, is_between, has_failed: false }
}

proptest! {
    /// In whatever split a recording comes, its pieces and pauses are those that were written.
    #[test]
    fn what_was_written_is_read_in_any_split(
        pieces in prop::collection::vec((any::<u32>(), any::<bool>(), prop::collection::vec(any::<u8>(), 1..40)), 0..8),
        step in 1_usize..30,
    ) {
        let mut recording = Vec::new();
        for (gap_ms, is_between, piece) in &pieces {
            write(mark(*gap_ms, *is_between), piece, &mut recording);
        }
        let (mut player, mut read) = (Player::default(), Vec::<(u32, Vec<u8>)>::new());
        for mut part in recording.chunks(step) {
            while let Some(part) = player.next(&mut part) {
                match part {
                    Part::Pause(ms) => read.push((ms, Vec::new())),
                    Part::Bytes(bytes) => read.last_mut().unwrap().1.extend_from_slice(bytes),
                }
            }
        }
        let written: Vec<(u32, Vec<u8>)> = pieces.iter().map(|(ms, _, piece)| (*ms, piece.clone())).collect();
        prop_assert_eq!(&read, &written);
        prop_assert_eq!(player.is_between(), pieces.last().is_some_and(|last| last.1));
        let length = written.iter().map(|(_, piece)| piece.len() as u64).sum();
        prop_assert_eq!(length_of(&recording), Some(length));
        for end in 1..recording.len() {
            prop_assert!(length_of(&recording[..end]).is_none_or(|cut| cut < length), "a part passes for the whole");
        }
    }

    /// Anybody may have written it to Redis.
    #[test]
    fn any_bytes_are_read_to_their_end(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let length = length_of(&bytes);
        prop_assert!(length.is_none_or(|length| length as usize <= bytes.len()));
    }
}

#[test]
fn one_that_broke_off_is_not_whole() {
    let mut recording = Vec::new();
    write(mark(0, true), b"data: a\n\n", &mut recording);
    write(Mark { gap_ms: 3, is_between: true, has_failed: true }, b"data: {\"error\":{}}\n\n", &mut recording);
    assert_eq!(length_of(&recording), None);
    assert_eq!(length_of(&[0, 0, 0, 0, 0, 0, 0, 0]), None, "an empty piece was never written");
    assert_eq!(length_of(b""), Some(0));
}
