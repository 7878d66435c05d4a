//! Ids of calls. Gemini may leave them out, and wants back the signature of the thoughts that led to a call; clients of other APIs return
//! nothing of a call but its id, so the signature travels inside it.
//!
//! `wg1_`, the length of the encoded id as three hexadecimal digits, the id as base64url, and the signature: `s` and base64url where it is
//! plain base64, as Google's API writes bytes, else `t` and the base64url of its text. Anthropic's API permits letters, digits, `_` and `-`.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

const MARK: &str = "wg1_";
/// Longest id with a signature inside.
const LONGEST: usize = 8 * 1024;

/// Makes ids for what the provider sends without one.
#[derive(Debug, Clone)]
pub struct CallIds(u64);

impl CallIds {
    /// `seed`: a random number.
    pub fn new(seed: u64) -> Self {
        CallIds(seed)
    }

    /// An id of a call.
    pub(super) fn call(&mut self) -> String {
        self.next_with("call_")
    }

    /// An id of a response.
    pub(super) fn response(&mut self) -> String {
        self.next_with("chatcmpl-")
    }

    fn next_with(&mut self, prefix: &str) -> String {
        const LETTERS: &[u8; 32] = b"abcdefghijkmnopqrstuvwxyzABCDEFG";
        let mut id = prefix.to_owned();
        for _ in 0..2 {
            // SplitMix64 (Steele, Lea, Flood 2014).
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut bits = self.0;
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            bits ^= bits >> 31;
            for _ in 0..12 {
                id.push(char::from(LETTERS[(bits & 31) as usize]));
                bits >>= 5;
            }
        }
        id
    }
}

/// The id that carries a signature; `None` if it would be too long.
pub(super) fn join(id: &str, signature: &str) -> Option<String> {
    let id = URL_SAFE_NO_PAD.encode(id);
    // Base64 of base64 would be a third longer.
    let signature = match STANDARD.decode(signature) {
        Ok(bytes) => format!("s{}", URL_SAFE_NO_PAD.encode(bytes)),
        Err(_) => format!("t{}", URL_SAFE_NO_PAD.encode(signature)),
    };
    let whole = format!("{MARK}{:03x}{id}{signature}", id.len());
    (id.len() <= 0xfff && whole.len() <= LONGEST).then_some(whole)
}

/// The provider's id and the signature inside a client's id. Ids that do not carry any are the provider's.
pub(super) fn split(id: &str) -> (String, Option<String>) {
    match try_split(id) {
        Some((id, signature)) => (id, Some(signature)),
        None => (id.to_owned(), None),
    }
}

fn try_split(whole: &str) -> Option<(String, String)> {
    let rest = whole.strip_prefix(MARK)?;
    let length = usize::from_str_radix(rest.get(..3)?, 16).ok()?;
    let id = String::from_utf8(URL_SAFE_NO_PAD.decode(rest.get(3..3 + length)?).ok()?).ok()?;
    let signature = rest.get(3 + length..)?;
    let bytes = URL_SAFE_NO_PAD.decode(signature.get(1..)?).ok()?;
    Some(match signature.get(..1)? {
        "s" => (id, STANDARD.encode(bytes)),
        "t" => (id, String::from_utf8(bytes).ok()?),
        _ => return None,
    })
}
