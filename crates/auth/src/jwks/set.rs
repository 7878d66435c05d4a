//! A JSON Web Key Set.

use serde_json::Value;

use crate::jwt::{Algorithm, KeyProblem, VerifyKey};

/// Bytes of a set that are read.
pub const LARGEST: usize = 512 * 1024;
/// Keys of a set that are read.
const MOST: usize = 100;

/// The keys of a set that can be used, and what was left out.
#[derive(Debug)]
pub struct KeySet {
    /// Keys that verify signatures of an allowed algorithm.
    pub keys: Vec<VerifyKey>,
    /// Keys that were left out: their `kid` (or place in the set) and why.
    pub skipped: Vec<(String, KeyProblem)>,
}

/// Why a set cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// More than 512 KiB.
    #[error("the key set has more than 512 KiB")]
    Large,
    /// Not a JSON object with a list `keys`, or a member name occurs twice.
    #[error("not a key set: a JSON object with a list `keys`, each member name once")]
    Form,
    /// More than 100 keys.
    #[error("the key set has {0} keys; at most 100 are read")]
    Many(usize),
    /// No key can be used.
    #[error("no key of the set can be used: {0}")]
    Unusable(String),
}

impl KeySet {
    /// Reads a set for the algorithms that the configuration allows. Keys of other types and purposes are left out.
    ///
    /// # Errors
    /// [`SetError`]
    pub fn parse(bytes: &[u8], allowed: &[Algorithm]) -> Result<Self, SetError> {
        if bytes.len() > LARGEST {
            return Err(SetError::Large);
        }
        let document = strict_json::object(bytes).ok_or(SetError::Form)?;
        let Some(Value::Array(listed)) = document.get("keys") else {
            return Err(SetError::Form);
        };
        if listed.len() > MOST {
            return Err(SetError::Many(listed.len()));
        }
        let mut set = Self { keys: Vec::new(), skipped: Vec::new() };
        for (at, jwk) in listed.iter().enumerate() {
            let jwk = jwk.as_object().ok_or(SetError::Form)?;
            match VerifyKey::from_jwk(jwk, allowed) {
                Ok(key) => set.keys.push(key),
                Err(problem) => {
                    let name =
                        jwk.get("kid").and_then(Value::as_str).map_or_else(|| format!("key {}", at + 1), str::to_owned);
                    set.skipped.push((name, problem));
                }
            }
        }
        if set.keys.is_empty() {
            let why =
                set.skipped.iter().map(|(name, problem)| format!("{name}: {problem}")).collect::<Vec<_>>().join("; ");
            return Err(SetError::Unusable(if why.is_empty() { "it is empty".to_owned() } else { why }));
        }
        Ok(set)
    }
}
