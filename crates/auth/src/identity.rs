//! The identity that an authenticator found.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::Priority;

/// Who sends a request. Limits, cache partitions, rules and upstream fields read it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Identity {
    /// The name that limits and logs know the sender by: of the key's entry, or the claim that the configuration names.
    pub consumer: Option<Arc<str>>,
    /// Id of the API key, as its entry has it; none for other authenticators.
    pub key_id: Option<Arc<str>>,
    /// The consumer's plan; limits have windows per tier.
    pub tier: Option<Arc<str>>,
    /// What the sender may do, as `allow.scopes` requires: of the key's entry, or `scope` and `scp` of a token.
    pub scopes: Vec<Box<str>>,
    /// Every claim of a verified token; empty for other authenticators.
    pub claims: Map<String, Value>,
    /// `meta` of a key's entry: names and values that the operator chose.
    pub meta: BTreeMap<Box<str>, Box<str>>,
    /// Models that the key may use, by their names in the configuration; `None`: all.
    pub models: Option<Box<[Box<str>]>>,
    /// Class of its requests in fair queues.
    pub priority: Priority,
    /// Whether the sender is told, on request, how its calls of AI models were served.
    pub may_explain: bool,
}

impl Identity {
    /// Whether the sender may use a model.
    #[must_use]
    pub fn may_use_model(&self, name: &str) -> bool {
        self.models.as_ref().is_none_or(|models| models.iter().any(|model| **model == *name))
    }

    /// The claim at a path of member names joined by dots, such as `realm_access.roles`. A member whose name contains the dots itself
    /// (`https://example.com/tenant`) is found first.
    #[must_use]
    pub fn claim(&self, path: &str) -> Option<&Value> {
        if let Some(whole) = self.claims.get(path) {
            return Some(whole);
        }
        let mut names = path.split('.');
        let mut value = self.claims.get(names.next()?)?;
        for name in names {
            value = value.as_object()?.get(name)?;
        }
        Some(value)
    }

    /// A claim as one line of text for a limit's key or an upstream field: text, numbers and booleans; `None` for anything else, and for
    /// text with control characters, which must not reach a field.
    #[must_use]
    pub fn claim_text(&self, path: &str) -> Option<String> {
        let text = match self.claim(path)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            _ => return None,
        };
        (!text.chars().any(char::is_control)).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(claims: Value) -> Identity {
        let Value::Object(claims) = claims else { panic!("an object") };
        Identity { claims, ..Identity::default() }
    }

    #[test]
    fn a_claim_is_found_by_its_path_and_by_its_whole_name() {
        let who = identity(json!({"a": {"b": 1}, "https://x.example/t": "north"}));
        assert_eq!(who.claim("a.b"), Some(&json!(1)));
        assert_eq!(who.claim("https://x.example/t"), Some(&json!("north")));
        assert_eq!(who.claim("a.c"), None);
        assert_eq!(who.claim("a.b.c"), None);
    }

    #[test]
    fn text_of_a_claim_never_holds_a_line_break() {
        let who = identity(json!({"a": "x\r\nX-Admin: 1", "b": "north", "c": [1]}));
        assert_eq!(who.claim_text("a"), None);
        assert_eq!(who.claim_text("b").as_deref(), Some("north"));
        assert_eq!(who.claim_text("c"), None);
    }
}
