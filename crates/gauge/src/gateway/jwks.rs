//! Public keys of a JSON Web Key Set (RFC 7517) as PEM, for gateways that read no sets.

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use serde_json::Value;

/// A key that signs tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// `kid`.
    pub id: Option<String>,
    /// `RS256`, `RS384`, `RS512` or `ES256`.
    pub algorithm: String,
    /// `SubjectPublicKeyInfo` (RFC 5280, section 4.1) in PEM.
    pub pem: String,
}

/// Object identifier of RSA keys, and NULL (RFC 8017, appendix A.1).
const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
/// Object identifiers of keys on elliptic curves and of P-256 (RFC 5480, section 2.1.1).
const P256: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";

/// More keys than an issuer has at one time.
const MOST_KEYS: usize = 100;
/// Shortest modulus of an RSA key, in bits (RFC 7518, section 3.3).
const MODULUS_BITS: usize = 2048;

/// A set on one line, with only its public keys of the kinds above and only the members that are known here, and the number of the others.
///
/// # Errors
/// When it is not a set, has a private or symmetric key, an RSA key that is too short, too many keys, or no key of these kinds.
pub(super) fn read(text: &str) -> Result<(String, Vec<PublicKey>, usize), String> {
    let set: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let all = set["keys"].as_array().ok_or("it is not a JSON Web Key Set: it has no `keys`")?;
    if all.len() > MOST_KEYS {
        return Err(format!("it has more than {MOST_KEYS} keys"));
    }
    let (mut kept, mut keys) = (Vec::new(), Vec::new());
    for key in all {
        if ["d", "p", "q", "dp", "dq", "qi", "oth", "k"].iter().any(|name| key.get(name).is_some())
            || key["kty"] == "oct"
        {
            return Err("it has a private or shared key; gateways must have public keys only".to_owned());
        }
        if key["use"].as_str().is_none_or(|purpose| purpose == "sig")
            && let Some((public, member)) = public(key)?
        {
            kept.push(member);
            keys.push(public);
        }
    }
    if keys.is_empty() {
        return Err("it has no key of RS256, RS384, RS512 or ES256".to_owned());
    }
    let others = all.len() - keys.len();
    Ok((serde_json::json!({ "keys": kept }).to_string(), keys, others))
}

/// A key, and what of it goes into a set; `None` for keys of other kinds.
fn public(key: &Value) -> Result<Option<(PublicKey, Value)>, String> {
    let number = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(key[name].as_str()?).ok();
    let (algorithm, usual, identifier, bits, numbers) = match key["kty"].as_str() {
        Some("RSA") => {
            let (Some(n), Some(e)) = (number("n"), number("e")) else {
                return Err("an RSA key has no `n` and `e` in base64url without padding".to_owned());
            };
            if length(&n) < MODULUS_BITS {
                return Err(format!("an RSA key has less than {MODULUS_BITS} bits"));
            }
            if length(&e) > 64 || length(&e) < 2 || e.last().is_none_or(|byte| byte.is_multiple_of(2)) {
                return Err("an RSA key has an exponent that is not odd and at least 3".to_owned());
            }
            let pair = [integer(&n), integer(&e)].concat();
            (["RS256", "RS384", "RS512"].as_slice(), "RS256", RSA, der(0x30, &pair), ["n", "e"].as_slice())
        }
        Some("EC") if key["crv"] == "P-256" => {
            let (Some(x), Some(y)) = (number("x"), number("y")) else {
                return Err("a key of P-256 has no `x` and `y` in base64url without padding".to_owned());
            };
            if (x.len(), y.len()) != (32, 32) {
                return Err("a key of P-256 has `x` or `y` of another length than 32 bytes".to_owned());
            }
            let point = [&[4], x.as_slice(), &y].concat();
            (["ES256"].as_slice(), "ES256", P256, point, ["crv", "x", "y"].as_slice())
        }
        _ => return Ok(None),
    };
    for name in ["kid", "alg", "use"] {
        if key.get(name).is_some_and(|value| !value.is_string()) {
            return Err(format!("a key has a `{name}` that is not a text"));
        }
    }
    let named = key["alg"].as_str().unwrap_or(usual);
    let id = key["kid"].as_str().map(str::to_owned);
    let safe = |id: &String| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=:".contains(&byte));
    if !algorithm.contains(&named) || id.as_ref().is_some_and(|id| id.is_empty() || !safe(id)) {
        return Ok(None);
    }
    let names = ["kty", "kid", "alg", "use"].iter().chain(numbers);
    let member: serde_json::Map<String, Value> =
        names.filter_map(|name| Some(((*name).to_owned(), key.get(*name)?.clone()))).collect();
    // A bit string begins with the number of bits that its last byte does not use.
    let info = der(0x30, &[der(0x30, identifier), der(0x03, &[&[0], bits.as_slice()].concat())].concat());
    Ok(Some((PublicKey { id, algorithm: named.to_owned(), pem: pem(&info) }, member.into())))
}

/// Bits of a number.
fn length(bytes: &[u8]) -> usize {
    let bytes = &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len())..];
    bytes.first().map_or(0, |first| bytes.len() * 8 - first.leading_zeros() as usize)
}

fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
}

/// A positive INTEGER: without leading zeros, but for one where the first bit would be a sign.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let sign: &[u8] = if bytes.get(start).is_none_or(|byte| byte & 0x80 != 0) { &[0] } else { &[] };
    der(0x02, &[sign, &bytes[start..]].concat())
}

/// A value with its tag and length (X.690, section 8.1.3).
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let bytes = content.len().to_be_bytes();
    let length: &[u8] = match content.len() {
        0..128 => &bytes[bytes.len() - 1..],
        128..256 => &[0x81, bytes[bytes.len() - 1]],
        _ => &[0x82, bytes[bytes.len() - 2], bytes[bytes.len() - 1]],
    };
    [&[tag], length, content].concat()
}
