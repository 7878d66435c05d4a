//! Makes an instance from a schema: small, valid as far as can be told, and the same every time.
//!
//! An object gets its required fields; one that requires none gets all of its fields at the top level, as an empty
//! body would exercise nothing, and none below. Fields that are only read are left out. Cycles end at an optional
//! field or an empty list where that is allowed, at null otherwise, with a warning.

mod text;

use crate::diagnostic::{Code, Report};
use crate::model::{Parameter, Type};
use crate::shape::{Schemas, Shape};
use serde_json::{Map, Number, Value as Json};

/// Levels of schemas in each other: far more than people write, few enough for the stack.
const DEEPEST: usize = 40;

/// An instance of `key` with at most `limit` values; `None` when nothing sensible can be made, such as a file.
pub(crate) fn instance<S: Schemas>(schemas: &S, key: &S::Key, limit: usize, report: &mut Report) -> Option<Json> {
    let mut maker = Maker { schemas, report, left: limit, open: Vec::new(), told: false };
    let made = maker.make(key);
    if maker.left == 0 {
        let text = format!("the schema's smallest instance has more than {limit} values; the example is cut");
        let warning = schemas.diagnostic(key, Code::PassedOver, text);
        report.warn(warning);
    }
    made
}

struct Maker<'m, S: Schemas> {
    schemas: &'m S,
    report: &'m mut Report,
    left: usize,
    open: Vec<S::Key>,
    told: bool,
}

impl<S: Schemas> Maker<'_, S> {
    fn make(&mut self, key: &S::Key) -> Option<Json> {
        if self.left == 0 {
            return Some(Json::Null);
        }
        self.left -= 1;
        let key = &self.schemas.canonical(key);
        let shape = self.schemas.shape(key, self.report);
        if let Some(given) = given(&shape) {
            return Some(given);
        }
        if self.open.contains(key) || self.open.len() >= DEEPEST {
            if shape.kind == Type::Array && shape.min_length.unwrap_or(0) == 0 {
                return Some(Json::Array(Vec::new()));
            }
            if !shape.nullable && !self.told {
                self.told = true;
                let text = "the schema requires itself without end; the example has null there".to_owned();
                self.report.warn(self.schemas.diagnostic(key, Code::Assumed, text));
            }
            return Some(Json::Null);
        }
        self.open.push(key.clone());
        let made = self.fresh(key, &shape);
        self.open.pop();
        made
    }

    fn is_open(&self, key: &S::Key) -> bool {
        self.open.contains(&self.schemas.canonical(key))
    }

    fn fresh(&mut self, key: &S::Key, shape: &Shape<S::Key>) -> Option<Json> {
        Some(match shape.kind {
            Type::File => return None,
            Type::Boolean => Json::Bool(true),
            Type::Integer | Type::Number => number(shape),
            Type::String => {
                let (text, sure) =
                    text::string(shape.format.as_deref(), shape.min_length, shape.max_length, shape.pattern.as_deref());
                if !sure {
                    let text = "an example that fits the pattern could not be made; give the schema one".to_owned();
                    self.report.warn(self.schemas.diagnostic(key, Code::Assumed, text));
                }
                Json::String(text)
            }
            Type::Array => self.array(shape),
            Type::Object => self.object(shape),
            Type::Any if !shape.properties.is_empty() => self.object(shape),
            Type::Any if shape.items.is_some() => self.array(shape),
            Type::Any => Json::Object(Map::new()),
        })
    }

    fn array(&mut self, shape: &Shape<S::Key>) -> Json {
        let mut list: Vec<Json> = Vec::new();
        for item in &shape.prefix_items {
            list.push(self.make(item).unwrap_or(Json::Null));
        }
        let Some(item) = &shape.items else {
            let wanted = shape.min_length.unwrap_or(0).min(self.left as u64) as usize;
            list.resize(wanted.max(list.len()), Json::Null);
            return Json::Array(list);
        };
        // One item shows the form, unless the list may not have one or would never end.
        let own = self.is_open(item) || shape.max_length == Some(0);
        let wanted = shape.min_length.unwrap_or(if own { 0 } else { 1 });
        for n in list.len() as u64..wanted {
            if self.left == 0 {
                break;
            }
            let Some(made) = self.make(item) else { break };
            list.push(if shape.unique { distinct(made, n) } else { made });
        }
        Json::Array(list)
    }

    fn object(&mut self, shape: &Shape<S::Key>) -> Json {
        let mut map = Map::new();
        for (name, value) in &shape.fixed {
            map.insert(name.clone(), value.clone());
        }
        let all = self.open.len() == 1 && !shape.properties.iter().any(|p| p.required);
        for property in &shape.properties {
            if map.contains_key(&property.name) || !(property.required || all) {
                continue;
            }
            let Some(schema) = &property.schema else {
                map.insert(property.name.clone(), Json::String("string".to_owned()));
                continue;
            };
            let inner = self.schemas.shape(schema, self.report);
            if inner.read_only || (!property.required && (self.is_open(schema) || inner.kind == Type::File)) {
                continue;
            }
            // a file in a form: what is sent is bytes, the name stands for them
            let made = self.make(schema).unwrap_or_else(|| Json::String("file".to_owned()));
            map.insert(property.name.clone(), made);
        }
        if let Some(additional) = &shape.additional {
            let wanted = shape.min_properties.max(u64::from(shape.properties.is_empty() && self.open.len() == 1));
            for n in map.len() as u64..wanted {
                if self.left == 0 || self.is_open(additional) {
                    break;
                }
                let made = self.make(additional).unwrap_or(Json::Null);
                map.insert(format!("key{}", n + 1), made);
            }
        }
        Json::Object(map)
    }
}

/// What the schema itself offers.
fn given<K>(shape: &Shape<K>) -> Option<Json> {
    let null = |v: &&Json| !v.is_null();
    shape
        .constant
        .clone()
        .or_else(|| shape.example.clone())
        .or_else(|| shape.default.clone().filter(|d| !d.is_null()))
        .or_else(|| shape.values.iter().find(null).or(shape.values.first()).cloned())
}

/// The number nearest to zero that the bounds allow.
fn number<K>(shape: &Shape<K>) -> Json {
    let float = |n: &Option<Number>| n.as_ref().and_then(Number::as_f64);
    let integer = shape.kind == Type::Integer;
    let (min, max) = (float(&shape.min), float(&shape.max));
    let step = float(&shape.multiple_of).filter(|s| *s > 0.0 && s.is_finite());
    let unit = step.unwrap_or(1.0);
    let low_enough = |x: f64| max.is_none_or(|m| if shape.exclusive_max { x < m } else { x <= m });
    let high_enough = |x: f64| min.is_none_or(|m| if shape.exclusive_min { x > m } else { x >= m });
    let mut x = 0.0;
    if !high_enough(x) {
        let m = min.unwrap_or(0.0);
        x = if integer || step.is_some() { (m / unit).ceil() * unit } else { m };
        if !high_enough(x) {
            x = if integer || step.is_some() { x + unit } else { between(m, max) };
        }
    } else if !low_enough(x) {
        let m = max.unwrap_or(0.0);
        x = if integer || step.is_some() { (m / unit).floor() * unit } else { m };
        if !low_enough(x) {
            x = if integer || step.is_some() { x - unit } else { m - 1.0 };
        }
    }
    // Bounds that are integers are kept exactly: a float would round a large one.
    let exact = |n: &Option<Number>| n.clone().filter(|n| n.as_f64() == Some(x) && !n.is_f64());
    let number = exact(&shape.min).or_else(|| exact(&shape.max)).or_else(|| {
        let whole = x.fract() == 0.0 && x.abs() < 9e15;
        if whole { Some(Number::from(x as i64)) } else { Number::from_f64(x) }
    });
    number.map_or(Json::from(0), Json::Number)
}

/// A number above `min`, and below `max` where there is one.
fn between(min: f64, max: Option<f64>) -> f64 {
    match max {
        Some(max) if max <= min + 1.0 => f64::midpoint(min, max),
        _ => min + 1.0,
    }
}

/// The `n`-th of several items that must differ.
fn distinct(item: Json, n: u64) -> Json {
    match item {
        Json::String(s) if n > 0 => Json::String(format!("{s}{n}")),
        Json::Number(i) if n > 0 => match i.as_i64() {
            Some(i) => Json::from(i.saturating_add(n as i64)),
            None => Json::Number(i),
        },
        Json::Bool(b) => Json::Bool(b ^ (n % 2 == 1)),
        other => other,
    }
}

impl Parameter {
    /// A value to send: the example, the default, the first of the allowed values, or one made from type, format and
    /// bounds. The same every time.
    #[must_use]
    pub fn sample(&self) -> Json {
        let shape: Shape<()> = Shape {
            kind: self.kind,
            example: self.example.clone(),
            default: self.default.clone(),
            values: self.values.clone(),
            min: self.min.clone(),
            max: self.max.clone(),
            ..Shape::default()
        };
        if let Some(given) = given(&shape) {
            return given;
        }
        match self.kind {
            Type::Boolean => Json::Bool(true),
            Type::Integer | Type::Number => number(&shape),
            Type::Array => {
                let item = Parameter { kind: self.items.unwrap_or(Type::String), ..Parameter::default() }.sample();
                let wanted = self.min_length.unwrap_or(1).clamp(1, 100) as usize;
                Json::Array(vec![item; wanted])
            }
            Type::Object => Json::Object(Map::new()),
            Type::File => Json::String("file".to_owned()),
            Type::String | Type::Any => {
                let (text, _) =
                    text::string(self.format.as_deref(), self.min_length, self.max_length, self.pattern.as_deref());
                Json::String(text)
            }
        }
    }
}
