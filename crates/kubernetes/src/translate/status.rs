//! Statuses as values.

use serde_json::{Value, json};

use crate::objects::Key;

/// What an object's `status` should be.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusPatch {
    /// Where objects of its kind are listed.
    pub path: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Namespace and name.
    pub key: Key,
    /// `status`, without the times of transitions.
    pub status: Value,
    /// `status` as it was seen.
    pub seen: Value,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Condition {
    /// A condition that holds.
    pub fn holds(kind: &'static str, reason: &'static str) -> Self {
        Condition { kind, holds: true, reason, message: String::new() }
    }

    /// A condition that does not hold.
    pub fn fails(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Condition { kind, holds: false, reason, message: message.into() }
    }

    /// The same with a message.
    #[must_use]
    pub fn with(self, message: impl Into<String>) -> Self {
        Condition { message: message.into(), ..self }
    }

    /// Whether it is of this type.
    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }

    /// As it is written, for this generation of the object.
    pub fn value(&self, generation: i64) -> Value {
        json!({
            "type": self.kind,
            "status": if self.holds { "True" } else { "False" },
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": generation,
        })
    }
}

/// The conditions as they are written.
pub(super) fn values(conditions: &[Condition], generation: i64) -> Value {
    conditions.iter().map(|condition| condition.value(generation)).collect()
}

impl StatusPatch {
    /// The status to write at a time (RFC 3339): conditions that hold as before keep the time of their last transition. `None`: nothing changed.
    pub fn at(&self, now: &str) -> Option<Value> {
        let status = with_times(&self.status, &self.seen, now);
        (!contains(&self.seen, &status)).then_some(status)
    }
}

/// Whether `seen` has everything that `wanted` has.
fn contains(seen: &Value, wanted: &Value) -> bool {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| seen.get(key).is_some_and(|seen| contains(seen, value)))
        }
        (Value::Array(seen), Value::Array(wanted)) => {
            seen.len() == wanted.len() && seen.iter().zip(wanted).all(|(seen, wanted)| contains(seen, wanted))
        }
        _ => seen == wanted,
    }
}

/// `status` with the times of transitions, those of `seen` where the condition is the same.
fn with_times(status: &Value, seen: &Value, now: &str) -> Value {
    match status {
        Value::Object(map) => {
            let is_condition = map.contains_key("type") && map.contains_key("observedGeneration");
            let mut out: serde_json::Map<String, Value> = map
                .iter()
                .map(|(key, value)| (key.clone(), with_times(value, seen.get(key).unwrap_or(&Value::Null), now)))
                .collect();
            if is_condition && !map.contains_key("lastTransitionTime") {
                let same = seen.get("status") == map.get("status");
                let time = seen.get("lastTransitionTime").filter(|_| same).cloned();
                out.insert("lastTransitionTime".into(), time.unwrap_or_else(|| now.into()));
            }
            Value::Object(out)
        }
        Value::Array(items) => {
            let find = |item: &Value| {
                ["type", "name", "parentRef"].iter().find_map(|key| {
                    let wanted = item.get(*key)?;
                    seen.as_array()?.iter().find(|seen| seen.get(*key) == Some(wanted))
                })
            };
            items.iter().map(|item| with_times(item, find(item).unwrap_or(&Value::Null), now)).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_when_it_changed_and_keeps_the_times_of_what_did_not() {
        let conditions = [Condition::holds("Accepted", "Accepted"), Condition::holds("Programmed", "Programmed")];
        let patch = |seen: Value, conditions: &[Condition]| StatusPatch {
            path: "",
            kind: "Gateway",
            key: Key::default(),
            status: json!({"conditions": values(conditions, 2)}),
            seen,
        };
        let first = patch(Value::Null, &conditions).at("t1").unwrap();
        assert_eq!(first["conditions"][0]["lastTransitionTime"], "t1");
        assert_eq!(patch(first.clone(), &conditions).at("t2"), None);
        let changed = [conditions[0].clone(), Condition::fails("Programmed", "Pending", "")];
        let second = patch(first, &changed).at("t2").unwrap();
        assert_eq!(second["conditions"][0]["lastTransitionTime"], "t1");
        assert_eq!(second["conditions"][1]["lastTransitionTime"], "t2");
    }
}
