//! What counts as a breaking change.

use std::collections::BTreeMap;

use openapi::diff;

fn description(rest: &str) -> String {
    format!("openapi: 3.1.0\ninfo: {{title: T, version: '1'}}\npaths:\n{rest}")
}

fn changes(old: &str, new: &str) -> (Vec<String>, Vec<String>) {
    let source = |text: &str| BTreeMap::from([("api.yaml".to_owned(), description(text).into_bytes())]);
    let (old, new) = (source(old), source(new));
    let all = diff((&old, "api.yaml"), (&new, "api.yaml")).unwrap_or_else(|problems| panic!("{problems:?}"));
    let told = |is_breaking: bool| {
        let some = all.iter().filter(|change| change.is_breaking == is_breaking);
        some.map(|change| format!("{}: {}", change.operation, change.what)).collect()
    };
    (told(true), told(false))
}

fn request(schema: &str) -> String {
    format!("  /a: {{post: {{requestBody: {{content: {{application/json: {{schema: {schema}}}}}}}}}}}\n")
}

fn response(schema: &str) -> String {
    format!(
        "  /a: {{post: {{responses: {{'200': {{description: ok, content: {{application/json: {{schema: {schema}}}}}}}}}}}}}\n"
    )
}

/// In a request `narrow` after `wide` breaks, in a response the reverse; the other way round neither does.
#[track_caller]
fn narrows(wide: &str, narrow: &str) {
    for (old, new, is_breaking) in [
        (request(wide), request(narrow), true),
        (request(narrow), request(wide), false),
        (response(wide), response(narrow), false),
        (response(narrow), response(wide), true),
    ] {
        let (breaking, other) = changes(&old, &new);
        assert_eq!(!breaking.is_empty(), is_breaking, "{old}{new}{breaking:?} {other:?}");
        assert!(!breaking.is_empty() || !other.is_empty(), "nothing was seen: {old}{new}");
    }
}

#[test]
fn what_takes_less_breaks_requests_and_what_allows_more_breaks_responses() {
    narrows("{type: object, required: [a]}", "{type: object, required: [a, b]}");
    narrows("{type: [string, 'null']}", "{type: string}");
    narrows("{type: number}", "{type: integer}");
    narrows("{enum: [a, b]}", "{enum: [a]}");
    narrows("{type: string}", "{type: string, enum: [a]}");
    narrows("{type: integer, maximum: 10}", "{type: integer, maximum: 9}");
    narrows("{type: integer}", "{type: integer, exclusiveMinimum: 0}");
    narrows("{type: string, maxLength: 5}", "{type: string, maxLength: 4}");
    narrows("{type: string}", "{type: string, pattern: a}");
    narrows("{type: array, items: {type: [string, integer]}}", "{type: array, items: {type: string}}");
    narrows(
        "{properties: {a: {properties: {b: {maxItems: 2}}}}}",
        "{properties: {a: {properties: {b: {maxItems: 1}}}}}",
    );
    narrows("{anyOf: [{type: string}, {type: integer}]}", "{anyOf: [{type: string}]}");
    narrows("{allOf: [{type: object}]}", "{allOf: [{type: object}, {required: [a]}]}");
}

#[test]
fn operations_parameters_bodies_and_credentials_are_compared() {
    let path = |rest: &str| {
        format!(
            "  /a/{{id}}:\n    get: {{parameters: [{{name: id, in: path, required: true, schema: {{type: string}}}}{rest}]}}\n"
        )
    };
    assert_eq!(changes(&path(""), "  /b: {get: {}}\n").0, ["GET /a/{id}: the operation was removed"]);
    // The name of a path parameter is no part of a request.
    assert_eq!(
        changes(&path(""), &path("").replace("{id}", "{key}").replace("name: id", "name: key")),
        (vec![], vec![])
    );
    let (breaking, other) = changes(&path(""), &path(", {name: q, in: query, required: true, schema: {type: string}}"));
    assert_eq!(
        (breaking.as_slice(), other.len()),
        (&["GET /a/{id}: query parameter `q` is new and required".to_owned()][..], 0)
    );
    let (breaking, other) = changes(&path(""), &path(", {name: q, in: query, schema: {type: string}}"));
    assert_eq!((breaking.len(), other.len()), (0, 1));
    let limit = |most: u32| {
        path(", {name: n, in: query, schema: {$ref: '#/components/schemas/N'}}")
            + &format!("components: {{schemas: {{N: {{type: integer, maximum: {most}}}}}}}\n")
    };
    assert_eq!(changes(&limit(9), &limit(8)).0, ["GET /a/{id}: query parameter `n`: `maximum` was 9, is 8"]);

    let secured = |alternatives: &str| {
        format!(
            "  /a: {{get: {{security: [{alternatives}]}}}}\ncomponents: {{securitySchemes: {{k: {{type: apiKey, in: header, name: K}}, t: {{type: http, scheme: bearer}}}}}}\n"
        )
    };
    assert_eq!(changes(&secured(""), &secured("{k: []}")).0, ["GET /a: credentials are now demanded"]);
    assert_eq!(
        changes(&secured("{k: []}, {t: []}"), &secured("{k: []}")).0,
        ["GET /a: the credentials `t` are no longer enough"]
    );
    assert_eq!(changes(&secured("{k: []}"), &secured("{k: []}, {t: []}")), (vec![], vec![]));
    assert_eq!(changes(&secured("{t: [a]}"), &secured("{t: [a, b]}")).0.len(), 1);
    assert_eq!(
        changes(&request("true"), "  /a: {post: {requestBody: {content: {text/plain: {}}}}}\n").0,
        ["POST /a: the body may no longer be `application/json`"]
    );
}

#[test]
fn a_description_differs_in_nothing_from_itself() {
    let tree = "{type: object, required: [v], properties: {v: {type: integer}, next: {$ref: '#/components/schemas/T'}, any: {oneOf: [{$ref: '#/components/schemas/T'}, {type: 'null'}]}}}";
    let text = request("{$ref: '#/components/schemas/T'}") + &format!("components: {{schemas: {{T: {tree}}}}}\n");
    assert_eq!(changes(&text, &text), (vec![], vec![]));
    // One step into the circle.
    let changed = text.replace("v: {type: integer}", "v: {type: integer, minimum: 1}");
    assert_eq!(changes(&text, &changed).0, ["POST /a: body `application/json` /v: `minimum` was absent, is 1"]);
}
