//! What the model "says": a pure function of the seed and the prompt, equal in every implementation.

const WORDS: [&str; 32] = [
    "river",
    "weir",
    "water",
    "flow",
    "stone",
    "bank",
    "level",
    "gauge",
    "stream",
    "gate",
    "lock",
    "mill",
    "pool",
    "rapid",
    "delta",
    "source",
    "mouth",
    "reed",
    "heron",
    "otter",
    "trout",
    "bridge",
    "ferry",
    "canal",
    "sluice",
    "basin",
    "Flüsse",
    "źródło",
    "río",
    "вода",
    "水",
    "🌊",
];

/// The finalizer of MurmurHash3: every bit of `x` moves every bit of the result.
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85EB_CA6B);
    x ^= x >> 13;
    x = x.wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}

/// CRC-32 of gzip (RFC 1952 section 8), a byte at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crc32(u32);

impl Crc32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut c = i as u32;
            let mut bit = 0;
            while bit < 8 {
                c = if c & 1 == 1 { 0xEDB8_8320 ^ (c >> 1) } else { c >> 1 };
                bit += 1;
            }
            table[i] = c;
            i += 1;
        }
        table
    };

    pub(super) fn new() -> Self {
        Crc32(!0)
    }

    #[must_use]
    pub(super) fn update(self, bytes: &[u8]) -> Self {
        Crc32(bytes.iter().fold(self.0, |c, &byte| Self::TABLE[((c ^ u32::from(byte)) & 0xFF) as usize] ^ (c >> 8)))
    }

    pub(super) fn finish(self) -> u32 {
        !self.0
    }
}

/// The numbers drawn for one prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws {
    pub(super) hash: u32,
}

impl Draws {
    pub(super) fn of(seed: u32, prompt: Crc32) -> Self {
        Draws { hash: mix(prompt.finish() ^ seed) }
    }

    fn draw(self, i: u32) -> u32 {
        mix(self.hash.wrapping_add(i.wrapping_mul(0x9E37_79B9)))
    }

    /// Where no setting says otherwise: 30 to 50.
    pub(super) fn latency_ms(self) -> u32 {
        30 + self.draw(0) % 21
    }

    /// Token `i` of the completion, from 0: a word, behind a space but for the first.
    pub(super) fn push_token(self, i: u32, out: &mut String) {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(WORDS[(self.draw(i + 1) >> 27) as usize]);
    }
}
