//! A bound on what one instance may cost.
//!
//! A schema that refers to itself through alternatives (`anyOf: [{$ref: "#/And"}, {$ref: "#/Or"}]`) can take a number of steps that doubles with
//! each level of the instance: a hundred bytes would keep a thread busy for good. The number of steps between two references is bounded by
//! the size of schema and instance, so each reference is one step, and when the steps are used up every further one fails at once.

use std::cell::Cell;

use jsonschema::{Keyword, ValidationError};
use serde_json::{Value, json};

/// Steps that every instance may take.
const LEAST: u64 = 20_000;
/// Further ones for each of its bytes: several alternatives for each value.
const EACH: u64 = 4;
/// Steps for telling what is wrong with one, each of which costs many times more.
const TELLING: u64 = 2_000;
/// Bytes of an instance for a further one of these.
const FOR_ONE_MORE: u64 = 8;
/// Keyword that takes a step.
pub(crate) const KEYWORD: &str = "x-weir-step";

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Steps for an instance of so many bytes.
pub(crate) fn of(bytes: usize) -> u64 {
    LEAST.saturating_add(EACH.saturating_mul(bytes as u64))
}

/// Steps for telling what is wrong with an instance of so many bytes.
pub(crate) fn of_telling(bytes: usize) -> u64 {
    TELLING.saturating_add(bytes as u64 / FOR_ONE_MORE)
}

/// Calls a function that may take so many steps; none if they did not suffice, whatever it returned.
pub(crate) fn within<T>(steps: u64, call: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(steps);
    let result = call();
    let is_enough = !are_used_up();
    LEFT.set(u64::MAX);
    is_enough.then_some(result)
}

/// Whether the steps of the call in flight did not suffice.
pub(crate) fn are_used_up() -> bool {
    LEFT.get() == 0
}

/// The schema, preceded by a step: `if` is looked at first, and nothing of `then` where it does not hold. Both mean what the schema alone means, also to
/// `unevaluatedProperties` of a schema that refers to it.
pub(crate) fn counted(schema: Value) -> Value {
    json!({"if": {KEYWORD: true}, "then": schema, "else": false})
}

/// Takes a step.
struct Step;

impl<'i> Keyword<'i> for Step {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) { Ok(()) } else { Err(ValidationError::custom("too many steps")) }
    }

    fn is_valid(&self, _instance: &'i Value) -> bool {
        let left = LEFT.get();
        if left != u64::MAX {
            LEFT.set(left.saturating_sub(1));
        }
        left > 0
    }
}

/// Makes the keyword.
pub(crate) fn keyword() -> Box<dyn for<'i> Keyword<'i>> {
    Box::new(Step)
}
