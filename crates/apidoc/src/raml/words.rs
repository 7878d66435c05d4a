//! The text functions of RAML's parameters (`<<name | !singularize>>`), for English as the specification requires.

/// Applies `!function`; an unknown one leaves the text as it is.
pub(super) fn apply(function: &str, text: &str) -> String {
    match function {
        "!singularize" => singular(text),
        "!pluralize" => plural(text),
        "!uppercase" => text.to_uppercase(),
        "!lowercase" => text.to_lowercase(),
        "!lowercamelcase" => camel(text, false),
        "!uppercamelcase" => camel(text, true),
        "!lowerunderscorecase" => words(text).join("_"),
        "!upperunderscorecase" => words(text).join("_").to_uppercase(),
        "!lowerhyphencase" => words(text).join("-"),
        "!upperhyphencase" => words(text).join("-").to_uppercase(),
        _ => text.to_owned(),
    }
}

const IRREGULAR: [(&str, &str); 8] = [
    ("person", "people"),
    ("child", "children"),
    ("man", "men"),
    ("woman", "women"),
    ("foot", "feet"),
    ("tooth", "teeth"),
    ("mouse", "mice"),
    ("index", "indices"),
];

/// Replaces the ending `from` by `to` when `text` has it.
fn ending(text: &str, from: &str, to: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    lower.ends_with(from).then(|| format!("{}{to}", &text[..text.len() - from.len()]))
}

fn singular(text: &str) -> String {
    let irregular = IRREGULAR.iter().find_map(|(one, many)| {
        ending(text, &many[1..], &one[1..]).filter(|_| text.to_ascii_lowercase().ends_with(many))
    });
    let kept = ["ss", "us", "is", "news", "series"].iter().any(|e| text.to_ascii_lowercase().ends_with(e));
    if let Some(word) = irregular {
        return word;
    }
    if kept {
        return text.to_owned();
    }
    ending(text, "ies", "y")
        .or_else(|| ["sses", "shes", "ches", "xes", "zes"].iter().find_map(|e| ending(text, e, &e[..e.len() - 2])))
        .or_else(|| ending(text, "ves", "ve"))
        .or_else(|| ending(text, "uses", "us"))
        .or_else(|| ending(text, "s", ""))
        .unwrap_or_else(|| text.to_owned())
}

fn plural(text: &str) -> String {
    if let Some(word) = IRREGULAR.iter().find_map(|(one, many)| {
        ending(text, &one[1..], &many[1..]).filter(|_| text.to_ascii_lowercase().ends_with(one))
    }) {
        return word;
    }
    let lower = text.to_ascii_lowercase();
    let before_y = lower.chars().rev().nth(1);
    if lower.ends_with('y') && before_y.is_some_and(|c| !"aeiou".contains(c)) {
        return ending(text, "y", "ies").unwrap_or_default();
    }
    let sibilant = ["s", "x", "z", "ch", "sh"].iter().any(|e| lower.ends_with(e));
    format!("{text}{}", if sibilant { "es" } else { "s" })
}

/// `userId`, `user-id` and `user_id` are "user" and "id".
fn words(text: &str) -> Vec<String> {
    let mut out: Vec<String> = vec![String::new()];
    let mut lower_before = false;
    for c in text.chars() {
        if !c.is_alphanumeric() {
            out.push(String::new());
        } else {
            if c.is_uppercase() && lower_before {
                out.push(String::new());
            }
            out.last_mut().expect("never empty").extend(c.to_lowercase());
        }
        lower_before = c.is_lowercase();
    }
    out.retain(|word| !word.is_empty());
    out
}

fn camel(text: &str, first_upper: bool) -> String {
    let mut out = String::new();
    for (i, word) in words(text).iter().enumerate() {
        let mut chars = word.chars();
        match chars.next() {
            Some(c) if i > 0 || first_upper => out.extend(c.to_uppercase()),
            Some(c) => out.push(c),
            None => {}
        }
        out.push_str(chars.as_str());
    }
    out
}

#[cfg(test)]
mod tests;
