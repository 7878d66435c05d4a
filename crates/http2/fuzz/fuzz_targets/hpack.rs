//! Field blocks: no panic, and what one decoder reads our encoder writes so that another reads the same.
#![no_main]

use http2::hpack::{Decoder, Encoder, FieldKind, Sink};
use libfuzzer_sys::fuzz_target;
use message::Known;

#[derive(Default)]
struct Lines(Vec<u8>, Vec<(usize, Known, Vec<u8>)>);

impl Sink for Lines {
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    fn line(&mut self, start: usize, name_len: usize, known: Known, _: FieldKind) {
        self.1.push((name_len, known, self.0[start..].to_vec()));
    }
}

fuzz_target!(|input: &[u8]| {
    let (mut decoder, mut encoder, mut again) = (Decoder::default(), Encoder::default(), Decoder::default());
    for block in input.split(|&byte| byte == 0xfe) {
        let mut lines = Lines::default();
        if decoder.decode(block, &mut lines).is_err() {
            return;
        }
        assert!(decoder.table_size() <= 4096);
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        encoder.begin(&mut out);
        for (name_len, known, line) in &lines.1 {
            let (name, value) = (&line[..*name_len], &line[name_len + 2..line.len() - 2]);
            encoder.field(&mut out, *known, name, value);
            expected.push((name.to_ascii_lowercase(), value.to_vec()));
        }
        let mut lines = Lines::default();
        again.decode(&out, &mut lines).expect("what was encoded is decoded");
        let got: Vec<_> = lines
            .1
            .iter()
            .map(|(name_len, _, line)| (line[..*name_len].to_vec(), line[name_len + 2..line.len() - 2].to_vec()))
            .collect();
        assert_eq!(got, expected);
    }
});
