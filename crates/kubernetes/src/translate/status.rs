//! Statuses as values.

use serde_json::{Value, json};

use crate::objects::{Key, Status};

/// What an object's `status` should be.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusPatch {
    /// Where objects of its kind are listed.
    pub path: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Namespace and name.
    pub key: Key,
    /// `status`, without the times of transitions; of `parents`, a list that several controllers share, those of `controller`.
    pub status: Value,
    /// Who writes it.
    pub controller: String,
    /// `status` as it was seen.
    pub seen: Status,
    /// Version of the object that was seen.
    pub version: String,
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
    /// The parents of `own` in the list as it was seen: the list is one value to the server, so what other controllers wrote stays, and stays where it is.
    /// Two controllers that each put their own first would write without end.
    fn among_others(&self, own: Value) -> Value {
        let Value::Array(mut own) = own else { return own };
        let mut all = Vec::new();
        for seen in self.seen.get("parents").and_then(Value::as_array).into_iter().flatten() {
            if seen["controllerName"] != *self.controller {
                all.push(seen.clone());
            } else if let Some(at) = own.iter().position(|parent| parent["parentRef"] == seen["parentRef"]) {
                all.push(own.remove(at));
            }
        }
        all.append(&mut own);
        all.into()
    }

    /// The status to write at a time (RFC 3339): conditions that hold as before keep the time of their last transition. `None`: nothing changed.
    pub fn at(&self, now: &str) -> Option<Value> {
        let mut status = with_times(&self.status, &self.seen, now);
        if let Some(parents) = status.get_mut("parents") {
            let own = std::mem::take(parents);
            *parents = self.among_others(own);
        }
        (!contains(&self.seen, &status)).then_some(status)
    }
}

/// Whether `seen` has everything that `wanted` has. What is not there is as good as an empty list.
fn contains(seen: &Value, wanted: &Value) -> bool {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
            wanted.iter().all(|(key, value)| match seen.get(key) {
                Some(seen) => contains(seen, value),
                None => is_empty(value),
            })
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
            controller: String::new(),
            seen: seen.into(),
            version: String::new(),
        };
        let first = patch(Value::Null, &conditions).at("t1").unwrap();
        assert_eq!(first["conditions"][0]["lastTransitionTime"], "t1");
        assert_eq!(patch(first.clone(), &conditions).at("t2"), None);
        let changed = [conditions[0].clone(), Condition::fails("Programmed", "Pending", "")];
        let second = patch(first, &changed).at("t2").unwrap();
        assert_eq!(second["conditions"][0]["lastTransitionTime"], "t1");
        assert_eq!(second["conditions"][1]["lastTransitionTime"], "t2");
    }

    #[test]
    fn parents_of_other_controllers_stay_where_they_are() {
        let parent = |name: &str, controller: &str, reason: &str| json!({"parentRef": {"name": name}, "controllerName": controller, "conditions": [{"reason": reason}]});
        let patch = |own: &[Value], seen: &[Value]| StatusPatch {
            path: "",
            kind: "HTTPRoute",
            key: Key::default(),
            status: json!({"parents": own}),
            controller: "weir".into(),
            seen: json!({"parents": seen}).into(),
            version: String::new(),
        };
        let foreign = [parent("x", "other", "A"), parent("y", "other", "B")];
        let (old, new) = (parent("a", "weir", "Old"), parent("a", "weir", "New"));
        let gone = parent("gone", "weir", "Old");
        let seen = [foreign[0].clone(), old, gone, foreign[1].clone()];
        let added = parent("b", "weir", "New");
        let wanted = [new.clone(), added.clone()];
        let written = patch(&wanted, &seen).at("now").unwrap();
        let expected = [foreign[0].clone(), new, foreign[1].clone(), added];
        assert_eq!(written, json!({"parents": expected}));
        // Whoever wrote last, there is nothing left to write.
        let mut other_order = expected.clone();
        other_order.swap(0, 2);
        for seen in [expected, other_order] {
            assert_eq!(patch(&wanted, &seen).at("now"), None, "{seen:?}");
        }
    }

    #[test]
    fn an_empty_list_takes_away_what_was_written_and_is_not_written_for_itself() {
        let patch = |seen: Value| StatusPatch {
            path: "",
            kind: "Gateway",
            key: Key::default(),
            status: json!({"addresses": []}),
            controller: String::new(),
            seen: seen.into(),
            version: String::new(),
        };
        assert_eq!(patch(json!({"addresses": [{"value": "10.0.0.1"}]})).at("now"), Some(json!({"addresses": []})));
        assert_eq!(patch(Value::Null).at("now"), Some(json!({"addresses": []})));
        assert_eq!(patch(json!({})).at("now"), None);
    }
}
