//! What a decoder of another author reads is what was pushed, whatever the pieces and pauses.

use std::io::Read;

use compress::{Coding, Encoder};
use proptest::prelude::*;

/// Decodes as much as `coded` holds.
fn decode(coding: Coding, coded: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut chunk = vec![0; 4096];
    let mut read = |from: &mut dyn Read| {
        // A stream that is not complete ends in an error behind what can be read.
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            body.extend_from_slice(&chunk[..count]);
        }
    };
    match coding {
        Coding::Zstd => {
            let mut context = zstd_safe::DCtx::create();
            let mut input = zstd_safe::InBuffer::around(coded);
            loop {
                let mut piece = Vec::with_capacity(4096);
                let decoded = {
                    let mut output = zstd_safe::OutBuffer::around(&mut piece);
                    context.decompress_stream(&mut output, &mut input)
                };
                if decoded.is_err() {
                    break;
                }
                body.extend_from_slice(&piece);
                if piece.is_empty() && input.pos() == coded.len() {
                    break;
                }
            }
        }
        Coding::Brotli => read(&mut brotli::Decompressor::new(coded, 4096)),
        Coding::Gzip => read(&mut flate2::read::GzDecoder::new(coded)),
    }
    body
}

/// A body with repetitions, as text has.
fn body() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let noise = prop::collection::vec(any::<u8>(), 0..5000);
    let text = ("[a-z ]{1,40}", 0_usize..2000).prop_map(|(word, times)| word.repeat(times).into_bytes());
    prop::collection::vec(prop_oneof![noise, text], 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_decoder_reads_what_was_pushed(pieces in body(), flushes in any::<u8>(), level in 1_u8..=6, is_known in any::<bool>()) {
        let whole = pieces.concat();
        for coding in Coding::ALL {
            let length = is_known.then_some(whole.len() as u64);
            let mut encoder = Encoder::new(coding, level, length).unwrap();
            let (mut coded, mut pushed) = (Vec::new(), Vec::new());
            for (number, piece) in pieces.iter().enumerate() {
                encoder.push(piece, &mut coded).unwrap();
                pushed.extend_from_slice(piece);
                if flushes & (1 << number) != 0 {
                    encoder.flush(&mut coded).unwrap();
                    prop_assert!(!encoder.holds_back());
                    prop_assert_eq!(&decode(coding, &coded), &pushed, "{:?} holds back after a flush", coding);
                }
            }
            encoder.finish(&mut coded).unwrap();
            prop_assert_eq!(&decode(coding, &coded), &whole, "{:?}", coding);
        }
    }
}
