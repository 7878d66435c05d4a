//! What changes from one description to the next, and which of it breaks clients.
//!
//! A request that was right has to stay right, and a response must not hold what the old description did not announce. Where that cannot be
//! told (a changed pattern, rearranged alternatives), the change counts as breaking.

mod outline;
mod schemas;

use std::collections::BTreeMap;

use apidoc::Source;

use outline::{Outline, Outlines};
use schemas::{Direction, Side, compare};

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `GET /orders/{id}`, as the newer description that has it says.
    pub operation: String,
    /// What changed, in a sentence.
    pub what: String,
    /// Whether a client of the old description may fail.
    pub is_breaking: bool,
}

/// Compares two descriptions.
///
/// # Errors
/// Why one of them cannot be read.
pub fn diff(old: (&dyn Source, &str), new: (&dyn Source, &str)) -> Result<Vec<Change>, Vec<String>> {
    let old = apidoc_load(old)?;
    let new = apidoc_load(new)?;
    let (mut old, mut new) = (Outlines::of(&old), Outlines::of(&new));
    let problems: Vec<String> = old.problems().chain(new.problems()).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut changes = Vec::new();
    let mut after: BTreeMap<_, _> = std::mem::take(&mut new.operations);
    for (key, before) in std::mem::take(&mut old.operations) {
        match after.remove(&key) {
            None => changes.push(change(&before.title, "the operation was removed".to_owned(), true)),
            Some(now) => {
                let sides = (Side { schemas: &old.schemas }, Side { schemas: &new.schemas });
                compare_operation(&before, &now, sides, &mut changes);
            }
        }
    }
    changes.extend(after.into_values().map(|now| change(&now.title, "the operation is new".to_owned(), false)));
    changes.sort_by_key(|change| std::cmp::Reverse(change.is_breaking));
    Ok(changes)
}

fn apidoc_load((source, name): (&dyn Source, &str)) -> Result<apidoc::Description, Vec<String>> {
    let loaded = apidoc::Description::load(source, name, &apidoc::Limits::default());
    loaded.map_err(|problems| problems.errors.iter().map(ToString::to_string).collect())
}

fn change(operation: &str, what: String, is_breaking: bool) -> Change {
    Change { operation: operation.to_owned(), what, is_breaking }
}

fn compare_operation(before: &Outline, now: &Outline, sides: (Side<'_, '_>, Side<'_, '_>), out: &mut Vec<Change>) {
    let mut add = |what: String, is_breaking: bool| out.push(change(&now.title, what, is_breaking));
    for ((place, name), new) in &now.parameters {
        let what = format!("{place} parameter `{name}`");
        match before.parameters.get(&(place.clone(), name.clone())) {
            None => add(format!("{what} is new{}", if new.required { " and required" } else { "" }), new.required),
            Some(old) => {
                if new.required != old.required {
                    add(format!("{what} is {} required", if new.required { "now" } else { "no longer" }), new.required);
                }
                if new.form != old.form {
                    add(format!("{what} is written in another style"), true);
                }
                if let (Some(old), Some(new)) = (&old.schema, &new.schema) {
                    compare((old, sides.0), (new, sides.1), Direction::Request, &what, &mut add);
                }
            }
        }
    }
    for (place, name) in before.parameters.keys().filter(|key| !now.parameters.contains_key(*key)) {
        add(
            format!(
                "{place} parameter `{name}` was removed; requests that have it pass, unless unknown names are refused"
            ),
            false,
        );
    }
    compare_body(before, now, sides, &mut add);
    compare_responses(before, now, sides, &mut add);
    let takes = |needed: &BTreeMap<String, Vec<String>>| {
        now.security.is_empty()
            || now.security.iter().any(|one| {
                one.iter().all(|(scheme, scopes)| {
                    needed.get(scheme).is_some_and(|given| scopes.iter().all(|scope| given.contains(scope)))
                })
            })
    };
    if before.security.is_empty() && !takes(&BTreeMap::new()) {
        add("credentials are now demanded".to_owned(), true);
    }
    for needed in before.security.iter().filter(|needed| !takes(needed)) {
        let names: Vec<&str> = needed.keys().map(String::as_str).collect();
        add(format!("the credentials `{}` are no longer enough", names.join("` and `")), true);
    }
}

fn compare_body(
    before: &Outline,
    now: &Outline,
    sides: (Side<'_, '_>, Side<'_, '_>),
    add: &mut dyn FnMut(String, bool),
) {
    match (&before.body, &now.body) {
        (None, None) => {}
        (None, Some(new)) => {
            add(format!("a body is now described{}", if new.required { " and required" } else { "" }), new.required);
        }
        (Some(_), None) => add("no body is described any more".to_owned(), false),
        (Some(old), Some(new)) => {
            if old.required != new.required {
                add(format!("the body is {} required", if new.required { "now" } else { "no longer" }), new.required);
            }
            for (range, schema) in &old.media {
                match (new.media.get(range), schema) {
                    (None, _) => add(format!("the body may no longer be `{range}`"), true),
                    (Some(Some(new)), Some(old)) => {
                        compare((old, sides.0), (new, sides.1), Direction::Request, &format!("body `{range}`"), add);
                    }
                    (Some(Some(_)), None) => add(format!("body `{range}` now has a schema"), true),
                    (Some(None), _) => {}
                }
            }
            for range in new.media.keys().filter(|range| !old.media.contains_key(*range)) {
                add(format!("the body may now be `{range}`"), false);
            }
        }
    }
}

fn compare_responses(
    before: &Outline,
    now: &Outline,
    sides: (Side<'_, '_>, Side<'_, '_>),
    add: &mut dyn FnMut(String, bool),
) {
    for (status, old) in &before.responses {
        let Some(new) = now.responses.get(status) else {
            add(format!("the response {status} was removed"), status.starts_with('2'));
            continue;
        };
        for (range, schema) in old {
            match (new.get(range), schema) {
                (None, _) => add(format!("the response {status} is no longer `{range}`"), true),
                (Some(Some(new)), Some(old)) => {
                    let what = format!("response {status} `{range}`");
                    compare((old, sides.0), (new, sides.1), Direction::Response, &what, add);
                }
                (Some(None), Some(_)) => add(format!("response {status} `{range}` no longer has a schema"), true),
                (Some(_), None) => {}
            }
        }
    }
    for status in now.responses.keys().filter(|status| !before.responses.contains_key(*status)) {
        add(format!("the response {status} is new"), false);
    }
}
