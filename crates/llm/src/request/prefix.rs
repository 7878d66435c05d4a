//! The prefix hash: which replica has already computed the start of this prompt.

use super::{Member, RequestScan};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 512;
/// Blocks that are hashed at most: 64 KiB of prompt.
pub const MAX_BLOCKS: usize = 128;

/// The order in which servers put a prompt together: what changes least comes first.
const ORDER: [Member; 9] = [
    Member::Model,
    Member::Tools,
    Member::System,
    Member::SystemInstruction,
    Member::Instructions,
    Member::Messages,
    Member::Contents,
    Member::Input,
    Member::Prompt,
];

/// `h[i] = xxh3(block[i], seed: h[i-1])`: two requests share `h[i]` if their first `i + 1` blocks are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixHashes {
    hashes: [u64; MAX_BLOCKS],
    blocks: usize,
    /// Bytes of the whole prompt, hashed or not.
    pub prompt_bytes: usize,
}

impl PrefixHashes {
    /// Hashes the prompt's bytes as they are in the body. `salt` separates tenants: a shared prefix shows in the time to the first
    /// token. `model` replaces the request's, so that two names of one model share prefixes.
    pub fn of(request: &RequestScan, body: &[u8], model: Option<&str>, salt: u64) -> Self {
        let mut hashes = PrefixHashes { hashes: [0; MAX_BLOCKS], blocks: 0, prompt_bytes: 0 };
        let mut block = [0; BLOCK_BYTES];
        let mut filled = 0;
        let mut previous = salt;
        for member in ORDER {
            let bytes = match (member, model) {
                (Member::Model, Some(model)) => Some(model.as_bytes()),
                _ => request.value(member).and_then(|value| body.get(value.range())),
            };
            let Some(mut bytes) = bytes else { continue };
            hashes.prompt_bytes += bytes.len();
            while !bytes.is_empty() && hashes.blocks < MAX_BLOCKS {
                if filled == 0
                    && let Some((whole, rest)) = bytes.split_at_checked(BLOCK_BYTES)
                {
                    previous = hashes.push(whole, previous);
                    bytes = rest;
                    continue;
                }
                let (part, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - filled));
                block[filled..filled + part.len()].copy_from_slice(part);
                filled += part.len();
                bytes = rest;
                if filled == BLOCK_BYTES {
                    previous = hashes.push(&block, previous);
                    filled = 0;
                }
            }
        }
        hashes
    }

    fn push(&mut self, block: &[u8], previous: u64) -> u64 {
        let hash = xxh3_64_with_seed(block, previous);
        self.hashes[self.blocks] = hash;
        self.blocks += 1;
        hash
    }

    /// The hashes of the whole blocks, in order.
    pub fn as_slice(&self) -> &[u64] {
        &self.hashes[..self.blocks]
    }
}
