//! Whether a schema takes less than before (requests), or allows more (responses).

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::schema::Schemas;
use crate::types::Types;

/// Nesting that is compared.
const MOST_DEPTH: usize = 40;

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// Who sends what a schema is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// The client: the new schema has to take what the old one took.
    Request,
    /// The server: the new schema must not allow what the old one did not.
    Response,
}

/// The description that a schema belongs to.
#[derive(Clone, Copy)]
pub(super) struct Side<'s, 'd> {
    pub(super) schemas: &'s Schemas<'d>,
}

impl<'s> Side<'s, '_> {
    /// The schema behind references that stand alone.
    fn resolve(&self, mut schema: &'s Value) -> &'s Value {
        for _ in 0..MOST_DEPTH {
            let alone = schema.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("$ref"));
            match alone.and_then(Value::as_str).and_then(|reference| self.schemas.definition(reference)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }
}

pub(super) fn compare<'s>(
    old: (&'s Value, Side<'s, '_>),
    new: (&'s Value, Side<'s, '_>),
    direction: Direction,
    what: &str,
    add: &mut dyn FnMut(String, bool),
) {
    let mut walk = Walk { direction, add, seen: HashSet::new() };
    walk.schema(old, new, what, 0);
}

struct Walk<'a> {
    direction: Direction,
    add: &'a mut dyn FnMut(String, bool),
    /// Pairs that are being compared already: schemas refer to themselves.
    seen: HashSet<(usize, usize)>,
}

impl Walk<'_> {
    /// The new one is narrower: that breaks requests. `false`: wider, which breaks responses.
    fn tell(&mut self, what: String, is_narrower: bool) {
        (self.add)(what, is_narrower == (self.direction == Direction::Request));
    }

    fn schema<'s>(&mut self, old: (&'s Value, Side<'s, '_>), new: (&'s Value, Side<'s, '_>), what: &str, depth: usize) {
        let (one, other) = (old.1.resolve(old.0), new.1.resolve(new.0));
        let pair = (std::ptr::from_ref(one) as usize, std::ptr::from_ref(other) as usize);
        if depth > MOST_DEPTH || !self.seen.insert(pair) {
            return;
        }
        let object = |schema: &'s Value| schema.as_object();
        match (one, other) {
            (Value::Bool(before), Value::Bool(now)) if before == now => return,
            (_, Value::Bool(false)) => return self.tell(format!("{what}: nothing is taken any more"), true),
            (Value::Bool(false), _) => return self.tell(format!("{what}: something is taken now"), false),
            _ => {}
        }
        let (before, now) = (object(one).unwrap_or(&EMPTY), object(other).unwrap_or(&EMPTY));
        self.types(one, old.1, other, new.1, what);
        self.values(before, now, what);
        self.bounds(before, now, what);
        self.required(before, now, what);
        for keyword in ["pattern", "format", "const", "uniqueItems", "multipleOf"] {
            match (before.get(keyword), now.get(keyword)) {
                (one, other) if one == other => {}
                (None, Some(value)) => self.tell(format!("{what}: `{keyword}` is now {value}"), true),
                (Some(_), None) => self.tell(format!("{what}: `{keyword}` was removed"), false),
                // Which of the two takes more cannot be told.
                (one, other) => {
                    let text = format!("{what}: `{keyword}` was {}, is {}", show(one), show(other));
                    (self.add)(text, true);
                }
            }
        }
        let members = |object: &'s Map<String, Value>| object.get("properties").and_then(Value::as_object);
        let (old_properties, new_properties) = (members(before), members(now));
        for (name, property) in old_properties.into_iter().flatten() {
            let what = format!("{what} /{name}");
            match new_properties.and_then(|properties| properties.get(name)) {
                Some(now) => self.schema((property, old.1), (now, new.1), &what, depth + 1),
                None if now.get("additionalProperties") == Some(&Value::Bool(false)) => {
                    (self.add)(format!("{what} was removed"), true);
                }
                None => (self.add)(format!("{what} was removed"), self.direction == Direction::Response),
            }
        }
        for name in new_properties.into_iter().flatten().map(|(name, _)| name) {
            if !old_properties.is_some_and(|properties| properties.contains_key(name)) {
                (self.add)(format!("{what} /{name} is new"), false);
            }
        }
        for (keyword, part) in [("items", "/*"), ("additionalProperties", "/*"), ("not", " (not)")] {
            let (before, now) = (before.get(keyword), now.get(keyword));
            let what = format!("{what}{part}");
            match (before, now) {
                (Some(before), Some(now)) => self.schema((before, old.1), (now, new.1), &what, depth + 1),
                (None, Some(Value::Bool(true))) | (Some(Value::Bool(true)), None) | (None, None) => {}
                (None, Some(_)) => self.tell(format!("{what}: `{keyword}` is new"), true),
                (Some(_), None) => self.tell(format!("{what}: `{keyword}` was removed"), false),
            }
        }
        for (keyword, more_is_narrower) in [("allOf", true), ("anyOf", false), ("oneOf", false), ("prefixItems", true)]
        {
            let list = |object: &'s Map<String, Value>| object.get(keyword).and_then(Value::as_array);
            let (before, now) = (list(before).map_or(&[][..], Vec::as_slice), list(now).map_or(&[][..], Vec::as_slice));
            for (index, (before, now)) in before.iter().zip(now).enumerate() {
                self.schema((before, old.1), (now, new.1), &format!("{what} ({keyword} {})", index + 1), depth + 1);
            }
            // Alternatives where there were none, or none where there were some, are another schema altogether.
            match (before.len(), now.len()) {
                (one, other) if one == other => {}
                (0, _) => self.tell(format!("{what}: `{keyword}` is new"), true),
                (_, 0) => self.tell(format!("{what}: `{keyword}` was removed"), false),
                (one, other) => {
                    self.tell(
                        format!("{what}: `{keyword}` had {one} schemas, has {other}"),
                        (other > one) == more_is_narrower,
                    );
                }
            }
        }
    }

    fn types<'s>(&mut self, old: &'s Value, one: Side<'s, '_>, new: &'s Value, other: Side<'s, '_>, what: &str) {
        let (before, _) = Types::of(old, &|reference| one.schemas.definition(reference));
        let (now, _) = Types::of(new, &|reference| other.schemas.definition(reference));
        let lost = Types::NAMES.iter().filter(|(kind, _)| before.has(*kind) && !now.has(*kind));
        let won = Types::NAMES.iter().filter(|(kind, _)| !before.has(*kind) && now.has(*kind));
        let words = |names: Vec<&str>| names.join("`, `");
        let (lost, won): (Vec<&str>, Vec<&str>) =
            (lost.map(|(_, name)| *name).collect(), won.map(|(_, name)| *name).collect());
        if !lost.is_empty() {
            self.tell(format!("{what} is no longer `{}`", words(lost)), true);
        }
        if !won.is_empty() {
            self.tell(format!("{what} may now be `{}`", words(won)), false);
        }
        let whole = |schema: &Value| match schema.get("type") {
            Some(Value::Array(names)) => names.contains(&"integer".into()) && !names.contains(&"number".into()),
            Some(name) => name == "integer",
            None => false,
        };
        if before.has(Types::NUMBER) && now.has(Types::NUMBER) && whole(old) != whole(new) {
            self.tell(
                format!("{what} is {} an integer", if whole(new) { "now" } else { "no longer always" }),
                whole(new),
            );
        }
    }

    fn values(&mut self, before: &Map<String, Value>, now: &Map<String, Value>, what: &str) {
        let list = |object: &Map<String, Value>| object.get("enum").and_then(Value::as_array).cloned();
        match (list(before), list(now)) {
            (None, None) => {}
            (None, Some(_)) => self.tell(format!("{what} now has an `enum`"), true),
            (Some(_), None) => self.tell(format!("{what} no longer has an `enum`"), false),
            (Some(before), Some(now)) => {
                for value in before.iter().filter(|value| !now.contains(value)) {
                    self.tell(format!("{what} is no longer {value}"), true);
                }
                for value in now.iter().filter(|value| !before.contains(value)) {
                    self.tell(format!("{what} may now be {value}"), false);
                }
            }
        }
    }

    fn bounds(&mut self, before: &Map<String, Value>, now: &Map<String, Value>, what: &str) {
        const LOWER: [&str; 5] = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"];
        const UPPER: [&str; 5] = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"];
        for (keywords, is_lower) in [(LOWER, true), (UPPER, false)] {
            for keyword in keywords {
                let bound = |object: &Map<String, Value>| object.get(keyword).and_then(Value::as_f64);
                let is_narrower = match (bound(before), bound(now)) {
                    (Some(one), Some(other)) if one == other => continue,
                    (None, None) => continue,
                    (Some(one), Some(other)) => (other > one) == is_lower,
                    (None, Some(_)) => true,
                    (Some(_), None) => false,
                };
                let text =
                    format!("{what}: `{keyword}` was {}, is {}", show(before.get(keyword)), show(now.get(keyword)));
                self.tell(text, is_narrower);
            }
        }
    }

    fn required(&mut self, before: &Map<String, Value>, now: &Map<String, Value>, what: &str) {
        let names = |object: &Map<String, Value>| -> BTreeSet<String> {
            let list = object.get("required").and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let (before, now) = (names(before), names(now));
        for name in now.difference(&before) {
            self.tell(format!("{what} /{name} is now required"), true);
        }
        for name in before.difference(&now) {
            self.tell(format!("{what} /{name} is no longer required"), false);
        }
    }
}

fn show(value: Option<&Value>) -> String {
    value.map_or("absent".to_owned(), ToString::to_string)
}
