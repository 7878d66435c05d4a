//! Requests against contracts: what each rule takes and refuses, whatever dialect the description is in.

use std::collections::BTreeMap;

use openapi::{BodyLength, Contract, Head, Options, Patterns, Violations};
use proptest::prelude::*;

/// Loads a description with one path, `/things/{id}`.
fn load(text: &str, options: &Options) -> Result<openapi::Api, Vec<String>> {
    openapi::load(&BTreeMap::from([("api.yaml".to_owned(), text.as_bytes().to_vec())]), "api.yaml", options)
}

fn options() -> Options {
    Options { validates: true, ..Options::default() }
}

fn operation(version: &str, rest: &str) -> String {
    format!(
        "openapi: {version}\ninfo: {{title: T, version: '1'}}\npaths:\n  /things/{{id}}:\n    put:\n      operationId: put\n{rest}"
    )
}

fn contract(text: &str) -> std::sync::Arc<Contract> {
    let mut api = load(text, &options()).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
    api.operations.remove(0).contract.expect("a contract")
}

struct Sent<'r> {
    target: &'r str,
    fields: &'r [(&'r str, &'r str)],
    body: &'r str,
}

fn told(violations: &Violations) -> Vec<String> {
    violations.list().iter().map(|one| format!("{} {} {}", one.place.as_str(), one.pointer, one.rule)).collect()
}

/// What is wrong with a request, in words.
fn check(contract: &Contract, sent: &Sent<'_>) -> Vec<String> {
    let (path, query) = sent.target.split_once('?').map_or((sent.target, None), |(path, query)| (path, Some(query)));
    let head = Head {
        path: path.as_bytes(),
        query: query.map(str::as_bytes),
        fields: &|each| sent.fields.iter().for_each(|(name, value)| each(name.as_bytes(), value.as_bytes())),
        body: if sent.body.is_empty() { BodyLength::None } else { BodyLength::Some },
    };
    let (mut violations, body) = contract.check_head(&head);
    if let Some(body) = body {
        violations.extend(contract.check_body(&body, sent.body.as_bytes()));
    }
    told(&violations)
}

fn get(contract: &Contract, target: &str) -> Vec<String> {
    check(contract, &Sent { target, fields: &[], body: "" })
}

fn with(contract: &Contract, fields: &[(&str, &str)]) -> Vec<String> {
    check(contract, &Sent { target: "/things/1", fields, body: "" })
}

fn json(contract: &Contract, body: &str) -> Vec<String> {
    check(contract, &Sent { target: "/things/1", fields: &[("content-type", "application/json")], body })
}

fn parameter(described: &str) -> std::sync::Arc<Contract> {
    let id = "{name: id, in: path, required: true, schema: {type: integer, minimum: 1}}";
    contract(&operation("3.1.0", &format!("      parameters: [{id}, {described}]\n")))
}

#[test]
fn a_parameter_of_the_path_has_its_type() {
    let contract = parameter("{name: unused, in: query, schema: {type: string}}");
    assert!(get(&contract, "/things/7").is_empty());
    assert_eq!(get(&contract, "/things/seven"), ["path /id type"]);
    assert_eq!(get(&contract, "/things/0"), ["path /id minimum"]);
    assert_eq!(get(&contract, "/things/%37x"), ["path /id type"]);
    assert!(get(&contract, "/things/%37").is_empty(), "7 in another spelling");
    assert_eq!(get(&contract, "/things/%ff"), ["path /id syntax"]);
    // What readers of numbers differ in.
    for odd in ["+7", "07", "0x7", "7_0", "７", " 7", "NaN", "1e400"] {
        assert_eq!(get(&contract, &format!("/things/{odd}")), ["path /id type"], "{odd}");
    }
}

#[test]
fn queries_have_scalars_and_lists_in_every_style() {
    let scalar = parameter("{name: q, in: query, required: true, schema: {type: string, maxLength: 3}}");
    assert_eq!(get(&scalar, "/things/1"), ["query /q required"]);
    assert!(get(&scalar, "/things/1?q=a+b").is_empty());
    assert!(get(&scalar, "/things/1?%71=%61").is_empty(), "a name may be encoded");
    assert_eq!(get(&scalar, "/things/1?q=abcd"), ["query /q maxLength"]);
    assert_eq!(get(&scalar, "/things/1?q=a&q=b"), ["query /q duplicate"]);
    assert_eq!(get(&scalar, "/things/1?q=%zz"), ["query /q syntax"]);
    assert_eq!(get(&scalar, "/things/1?q=a&%zz=b"), ["query  syntax"]);

    let list = |style: &str| {
        parameter(&format!(
            "{{name: q, in: query, {style} schema: {{type: array, maxItems: 2, items: {{type: integer}}}}}}"
        ))
    };
    for (style, good, bad, many) in [
        ("", "q=1&q=2", "q=1&q=x", "q=1&q=2&q=3"),
        ("explode: false,", "q=1,2", "q=1,x", "q=1,2,3"),
        ("style: spaceDelimited, explode: false,", "q=1%202", "q=1+x", "q=1%202%203"),
        ("style: pipeDelimited, explode: false,", "q=1%7C2", "q=1|x", "q=1|2%7c3"),
    ] {
        let contract = list(style);
        assert!(get(&contract, &format!("/things/1?{good}")).is_empty(), "{style}");
        assert_eq!(get(&contract, &format!("/things/1?{bad}")), ["query /q/1 type"], "{style}");
        assert_eq!(get(&contract, &format!("/things/1?{many}")), ["query /q maxItems"], "{style}");
    }
    let either =
        parameter("{name: q, in: query, schema: {anyOf: [{type: boolean}, {type: array, items: {type: integer}}]}}");
    for good in ["q=true", "q=1", "q=1&q=2"] {
        assert!(get(&either, &format!("/things/1?{good}")).is_empty(), "{good}");
    }
    assert_eq!(get(&either, "/things/1?q=yes"), ["query /q anyOf"]);
    let empty = parameter("{name: q, in: query, allowEmptyValue: true, schema: {type: integer}}");
    assert!(get(&empty, "/things/1?q").is_empty());
    let content =
        parameter("{name: q, in: query, content: {application/json: {schema: {type: object, required: [a]}}}}");
    assert!(get(&content, "/things/1?q=%7B%22a%22:1%7D").is_empty());
    assert_eq!(get(&content, "/things/1?q=%7B%7D"), ["query /q/a required"]);
    assert_eq!(get(&content, "/things/1?q=%7B"), ["query /q syntax"]);
}

#[test]
fn header_fields_and_cookies_are_checked() {
    let header = parameter(
        "{name: X-Tags, in: header, required: true, schema: {type: array, items: {type: string, maxLength: 2}}}",
    );
    assert_eq!(with(&header, &[]), ["header /X-Tags required"]);
    assert!(with(&header, &[("x-tags", "a, bb"), ("X-TAGS", "c")]).is_empty());
    assert_eq!(with(&header, &[("x-tags", "a,bbb")]), ["header /X-Tags/1 maxLength"]);
    let scalar = parameter("{name: X-Trace, in: header, schema: {type: string, format: uuid}}");
    assert!(with(&scalar, &[("x-trace", "6b1c1a3e-0d8b-4c8e-9a52-1d9d6a4f0d11")]).is_empty());
    assert_eq!(with(&scalar, &[("x-trace", "no")]), ["header /X-Trace format"]);
    assert_eq!(with(&scalar, &[("x-trace", "a"), ("X-Trace", "b")]), ["header /X-Trace duplicate"]);
    let cookie = parameter("{name: session, in: cookie, required: true, schema: {type: string, minLength: 3}}");
    assert!(with(&cookie, &[("cookie", "a=b; session=abc")]).is_empty());
    assert_eq!(with(&cookie, &[("cookie", "a=b")]), ["cookie /session required"]);
    assert_eq!(with(&cookie, &[("cookie", "session=ab")]), ["cookie /session minLength"]);
    assert_eq!(with(&cookie, &[("cookie", "session=abc; session=def")]), ["cookie /session duplicate"]);
    // What other parts of a description say.
    let ignored = parameter("{name: Authorization, in: header, required: true, schema: {type: string}}");
    assert!(with(&ignored, &[]).is_empty());
}

#[test]
fn unknown_names_in_the_query_are_refused_where_that_is_configured() {
    let text = operation(
        "3.1.0",
        "      security: [{k: []}]\n      parameters:\n      - {name: id, in: path, required: true, schema: {type: string}}\n      - {name: q, in: query, schema: {type: string}}\n      - {name: filter, in: query, style: deepObject, schema: {type: object, properties: {a: {type: string}}}}\ncomponents: {securitySchemes: {k: {type: apiKey, in: query, name: key}}}\n",
    );
    let mut api = load(&text, &Options { refuses_unknown_query: true, ..options() }).unwrap();
    let contract = api.operations.remove(0).contract.unwrap();
    assert!(get(&contract, "/things/1?q=1&key=x&filter[a]=b").is_empty());
    assert_eq!(get(&contract, "/things/1?Q=1&a%0Ab=2"), ["query /Q unknown", "query /a\u{fffd}b unknown"]);
    assert!(api.notes.iter().any(|note| note.contains("`filter`")), "{:?}", api.notes);
}

const SCHEMA: &str = "{type: object, required: [items], additionalProperties: false, properties: {items: {type: array, items: {$ref: '#/components/schemas/Item'}}}}";
const ITEM: &str = "components: {schemas: {Item: {type: object, required: [qty], properties: {qty: {type: integer, minimum: 1}, sku: {type: string, pattern: '^[A-Z]+$'}, part: {$ref: '#/components/schemas/Item'}}}}}\n";

fn body(version: &str, schema: &str, rest: &str) -> std::sync::Arc<Contract> {
    let text = format!(
        "      parameters: [{{name: id, in: path, required: true, schema: {{type: string}}}}]\n      requestBody: {{required: true, content: {{application/json: {{schema: {schema}}}, 'text/*': {{}}}}}}\n{rest}"
    );
    contract(&operation(version, &text))
}

#[test]
fn a_body_is_checked_to_its_depth_and_told_without_values() {
    for version in ["3.0.3", "3.1.0"] {
        let contract = body(version, SCHEMA, ITEM);
        assert!(json(&contract, r#"{"items":[{"qty":1,"sku":"A","part":{"qty":2}}]}"#).is_empty());
        assert_eq!(json(&contract, r#"{"items":[{"qty":0}]}"#), ["body /items/0/qty minimum"]);
        assert_eq!(
            json(&contract, r#"{"items":[{"sku":"secret"}]}"#),
            ["body /items/0/qty required", "body /items/0/sku pattern"]
        );
        assert_eq!(json(&contract, r#"{"items":[{"qty":1,"part":{"qty":"2"}}]}"#), ["body /items/0/part/qty type"]);
        assert_eq!(json(&contract, r#"{"items":[],"a/b":1}"#), ["body /a~1b additionalProperties"]);
        assert_eq!(json(&contract, r#"{"items":[],"items":[]}"#), ["body  duplicate"]);
        assert_eq!(json(&contract, "{"), ["body  syntax"]);
        let many: Vec<&str> = vec![r#"{"qty":0}"#; 50];
        assert_eq!(json(&contract, &format!(r#"{{"items":[{}]}}"#, many.join(","))).len(), 10);
    }
}

/// How a body of unknown length is checked.
fn plan(contract: &Contract, fields: &[(&str, &str)]) -> openapi::BodyCheck {
    let head = Head {
        path: b"/things/1",
        query: None,
        fields: &|each| fields.iter().for_each(|(name, value)| each(name.as_bytes(), value.as_bytes())),
        body: BodyLength::Unknown,
    };
    contract.check_head(&head).1.unwrap()
}

#[test]
fn a_body_has_a_described_media_type() {
    let contract = body("3.1.0", SCHEMA, ITEM);
    let sent =
        |fields: &[(&str, &str)]| check(&contract, &Sent { target: "/things/1", fields, body: r#"{"items":[]}"# });
    for good in ["application/json", "Application/JSON; charset=UTF-8", "text/csv"] {
        assert!(sent(&[("Content-Type", good)]).is_empty(), "{good}");
    }
    for bad in ["application/xml", "application/json; charset=utf-16", "", "json"] {
        assert_eq!(sent(&[("Content-Type", bad)]), ["header /Content-Type content_type"], "{bad}");
    }
    assert_eq!(sent(&[]), ["header /Content-Type content_type"]);
    let two = [("content-type", "application/json"), ("content-type", "text/csv")];
    assert_eq!(sent(&two), ["header /Content-Type content_type"]);
    let coded = [("content-type", "application/json"), ("content-encoding", "gzip")];
    assert_eq!(sent(&coded), ["header /Content-Encoding content_type"]);
    assert_eq!(get(&contract, "/things/1"), ["body  required"]);
    // One that turns out to be empty, and one without a media type.
    let head = |fields: &[(&str, &str)]| plan(&contract, fields);
    assert_eq!(told(&contract.check_body(&head(&[]), b"")), ["body  required"]);
    assert_eq!(told(&contract.check_body(&head(&[]), b"{}")), ["header /Content-Type content_type"]);
    assert_eq!(told(&contract.check_body(&head(&[("content-type", "application/json")]), b"")), ["body  required"]);
}

#[test]
fn forms_are_checked_by_their_fields() {
    let text = "      parameters: [{name: id, in: path, required: true, schema: {type: string}}]\n      requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object, required: [n], properties: {n: {type: integer, maximum: 5}, tags: {type: array, items: {type: string}, maxItems: 2}}}}}}\n";
    let contract = contract(&operation("3.0.3", text));
    let sent = |body: &str| {
        check(
            &contract,
            &Sent { target: "/things/1", fields: &[("content-type", "application/x-www-form-urlencoded")], body },
        )
    };
    assert!(sent("n=5&tags=a&tags=b").is_empty());
    assert_eq!(sent("n=6"), ["body /n maximum"]);
    assert_eq!(sent("n=x"), ["body /n type"]);
    assert_eq!(sent("tags=a"), ["body /n required"]);
    assert_eq!(sent("n=1&n=2"), ["body  duplicate"]);
    assert_eq!(sent("n=1&tags=a&tags=b&tags=c"), ["body /tags maxItems"]);
}

#[test]
fn dialects_say_the_same_in_their_own_words() {
    // 3.0: flags and `nullable`; what stands beside a `$ref` is nothing.
    let old = body(
        "3.0.3",
        "{type: object, properties: {a: {type: integer, minimum: 1, exclusiveMinimum: true, nullable: true}, b: {nullable: true, allOf: [{type: string}]}, c: {type: string, enum: [x], nullable: true}, d: {type: integer, format: int32}, e: {$ref: '#/components/schemas/E', maxLength: 1}}}",
        "components: {schemas: {E: {type: string}}}\n",
    );
    assert!(json(&old, r#"{"a":2,"b":"x","c":"x","d":5,"e":"long"}"#).is_empty());
    assert!(json(&old, r#"{"a":null,"b":null,"c":null}"#).is_empty());
    assert_eq!(
        json(&old, r#"{"a":1,"c":"y","d":3000000000}"#),
        ["body /a exclusiveMinimum", "body /c enum", "body /d maximum"]
    );
    // 3.1: numbers, lists of types, conditions; both count beside a `$ref`.
    let new = body(
        "3.1.0",
        "{type: object, properties: {a: {type: [integer, 'null'], exclusiveMinimum: 1}, e: {$ref: '#/components/schemas/E', maxLength: 1}, t: {prefixItems: [{type: string}], items: false}}, if: {required: [t]}, then: {required: [a]}, dependentRequired: {e: [a]}}",
        "components: {schemas: {E: {type: string}}}\n",
    );
    assert!(json(&new, r#"{"a":2,"e":"x","t":["x"]}"#).is_empty());
    assert_eq!(
        json(&new, r#"{"a":1,"e":"xx","t":[1]}"#),
        ["body /a exclusiveMinimum", "body /e maxLength", "body /t/0 type"]
    );
    assert_eq!(json(&new, r#"{"t":[]}"#), ["body /a required"]);
    // What only responses have is not demanded of requests.
    let read_only = body(
        "3.0.3",
        "{type: object, required: [id, name], properties: {id: {type: string, readOnly: true}, name: {type: string}}}",
        "",
    );
    assert_eq!(json(&read_only, "{}"), ["body /name required"]);
}

#[test]
fn swagger_2_has_its_own_parameters() {
    let text = "swagger: '2.0'\ninfo: {title: T, version: '1'}\nbasePath: /v1\nconsumes: [application/json]\npaths:\n  /things/{id}:\n    put:\n      operationId: put\n      parameters:\n      - {name: id, in: path, required: true, type: integer}\n      - {name: q, in: query, type: array, items: {type: integer}}\n      - {name: m, in: query, type: array, collectionFormat: multi, items: {type: string, maxLength: 1}}\n      - {name: body, in: body, required: true, schema: {type: object, required: [a]}}\n";
    let contract = contract(text);
    let sent = |target: &str, body: &str| {
        check(&contract, &Sent { target, fields: &[("content-type", "application/json")], body })
    };
    assert!(sent("/v1/things/7?q=1,2&m=a&m=b", r#"{"a":1}"#).is_empty());
    assert_eq!(
        sent("/v1/things/x?q=1,b&m=aa", "{}"),
        ["path /id type", "query /q/1 type", "query /m/0 maxLength", "body /a required"]
    );
}

#[test]
fn what_cannot_be_compiled_is_said_with_its_place() {
    let body = |schema: &str| {
        operation("3.1.0", &format!("      requestBody: {{content: {{application/json: {{schema: {schema}}}}}}}\n"))
    };
    let deep = format!("{}{{}}{}", "{items: ".repeat(70), "}".repeat(70));
    for (schema, expected) in [
        ("{type: string, pattern: '^(?=a)b'}", "cannot be matched in linear time"),
        ("{type: string, pattern: '('}", "cannot be matched in linear time"),
        ("{type: text}", "there is no type `text`"),
        ("{$ref: '#/components/schemas/None'}", "leads nowhere"),
        ("{$ref: 'https://example.com/a.json'}", "https://example.com/a.json"),
        ("{type: string, minLength: -1}", "the schema cannot be compiled"),
        (&*deep, "nests deeper"),
        ("7", "a schema is a mapping"),
    ] {
        let problems = load(&body(schema), &options()).err().unwrap_or_else(|| panic!("{schema} was taken"));
        assert!(
            problems.iter().any(|one| one.contains(expected) && one.starts_with("api.yaml:")),
            "{schema}: {problems:?}"
        );
    }
    let skipping = Options { patterns: Patterns::Skip, ..options() };
    let api = load(&body("{type: string, maxLength: 3, pattern: '^(?=a)b'}"), &skipping).unwrap();
    assert!(api.notes.iter().any(|note| note.contains("`^(?=a)b` is not checked")), "{:?}", api.notes);
    let contract = api.operations[0].contract.as_ref().unwrap();
    assert_eq!(json(contract, r#""abcd""#), ["body  maxLength"]);
}

proptest! {
    /// No bytes make a check panic, no response holds more than ten, and pointers never hold what a log cannot.
    #[test]
    fn no_request_breaks_a_check(
        path in "/things/[ -~é%]{0,12}", query in "[ -~é%&=|,+]{0,40}", field in "[ -~]{0,20}", bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let text = operation("3.1.0", "      parameters:\n      - {name: id, in: path, required: true, schema: {type: integer}}\n      - {name: q, in: query, explode: false, schema: {type: array, items: {type: [integer, boolean, 'null']}}}\n      - {name: session, in: cookie, schema: {type: number}}\n      requestBody: {content: {application/json: {schema: {type: object, properties: {a: {type: array}}, additionalProperties: false}}}}\n");
        let mut api = load(&text, &Options { refuses_unknown_query: true, ..options() }).unwrap();
        let contract = api.operations.remove(0).contract.unwrap();
        let cookie = format!("session={field}");
        let head = Head {
            path: path.as_bytes(),
            query: Some(query.as_bytes()),
            fields: &|each| { each(b"content-type", b"application/json"); each(b"cookie", cookie.as_bytes()); },
            body: BodyLength::Some,
        };
        let (mut violations, body) = contract.check_head(&head);
        if let Some(body) = body { violations.extend(contract.check_body(&body, &bytes)); }
        prop_assert!(violations.list().len() <= 10);
        for one in violations.list() {
            prop_assert!(!one.pointer.contains(char::is_control) && one.pointer.len() <= 300);
            prop_assert!(openapi::RULES.contains(&one.rule));
        }
        let mut written = Vec::new();
        violations.write_json(&mut written);
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&written).is_ok());
    }

    /// A value that is written as its style says is read as what it was.
    #[test]
    fn lists_survive_their_styles(items in prop::collection::vec(any::<i32>(), 1..6), style in 0..4usize) {
        let (said, separator) = [("", "&q="), ("explode: false,", ","), ("style: spaceDelimited, explode: false,", "%20"), ("style: pipeDelimited, explode: false,", "|")][style];
        let values: Vec<String> = items.iter().map(i32::to_string).collect();
        let described = format!("{{name: q, in: query, {said} schema: {{const: [{}]}}}}", values.join(", "));
        let contract = parameter(&described);
        let target = format!("/things/1?q={}", values.join(separator));
        prop_assert_eq!(get(&contract, &target), Vec::<String>::new());
    }

    /// Whatever JSON says, what the strict reader takes is what the ordinary one reads.
    #[test]
    fn what_is_taken_is_read_alike(value in any_json()) {
        let contract = body("3.1.0", "true", "");
        prop_assert_eq!(json(&contract, &value.to_string()), Vec::<String>::new());
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_filter_map("finite", |number| serde_json::Number::from_f64(number).map(Into::into)),
        ".{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(".{0,4}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A schema whose alternatives overlap and refer to themselves: each level of an instance doubles what a naive check does.
#[test]
fn overlapping_alternatives_cost_no_more_than_the_body_allows() {
    let schemas = "components:\n  schemas:
    Expression: {anyOf: [{$ref: '#/components/schemas/And'}, {$ref: '#/components/schemas/Or'}]}
    And: {type: object, properties: {of: {$ref: '#/components/schemas/Expression'}, n: {type: integer}}}
    Or: {type: object, properties: {of: {$ref: '#/components/schemas/Expression'}, n: {type: integer}}}
    Exact: {oneOf: [{$ref: '#/components/schemas/Both'}, {$ref: '#/components/schemas/Neither'}]}
    Both: {allOf: [{$ref: '#/components/schemas/Inner'}], unevaluatedProperties: false}
    Neither: {not: {$ref: '#/components/schemas/Inner'}, required: [z]}
    Inner: {type: object, properties: {of: {$ref: '#/components/schemas/Exact'}}}\n";
    for (name, inner) in
        [("Expression", "1"), ("Expression", "{\"n\": \"x\"}"), ("Exact", "1"), ("Exact", "{\"z\": 1}")]
    {
        let body = format!(
            "      requestBody: {{content: {{application/json: {{schema: {{$ref: '#/components/schemas/{name}'}}}}}}}}\n{schemas}"
        );
        let contract = contract(&operation("3.1.0", &body));
        let nested = |levels: usize, inner: &str| format!("{}{inner}{}", "{\"of\":".repeat(levels), "}".repeat(levels));
        for levels in [3, 30, 120] {
            let sent = nested(levels, inner);
            let fields = [("Content-Type", "application/json")];
            let told = check(&contract, &Sent { target: "/things/1", fields: &fields, body: &sent });
            assert!(name == "Exact" || !told.is_empty(), "{name} takes {sent}");
            let sent = nested(levels, "{}");
            let told = check(&contract, &Sent { target: "/things/1", fields: &fields, body: &sent });
            assert!(told.is_empty() || told == ["body  complexity"], "{name} at {levels}: {told:?}");
            assert!(levels > 3 || told.is_empty(), "{name} refuses {sent}: {told:?}");
        }
    }
}

#[test]
fn what_a_reference_evaluates_is_evaluated() {
    let body = "      requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/A', unevaluatedProperties: false}}}}
components: {schemas: {A: {properties: {a: {type: integer}}, allOf: [{$ref: '#/components/schemas/B'}]}, B: {properties: {b: {type: integer}}}}}\n";
    let contract = contract(&operation("3.1.0", body));
    let sent = |body: &str| {
        check(&contract, &Sent { target: "/things/1", fields: &[("Content-Type", "application/json")], body })
    };
    assert_eq!(sent("{\"a\":1,\"b\":2}"), [""; 0]);
    assert_eq!(sent("{\"a\":1,\"c\":2}"), ["body  unevaluatedProperties"]);
    assert!(sent("{\"b\":\"x\"}").contains(&"body /b type".to_owned()));
}

#[test]
fn blanks_before_the_sign_are_no_part_of_a_cookies_name() {
    let contract =
        contract(&operation("3.1.0", "      parameters: [{name: n, in: cookie, schema: {type: integer}}]\n"));
    assert_eq!(with(&contract, &[("Cookie", "n =x")]), ["cookie /n type"]);
    assert_eq!(with(&contract, &[("Cookie", "n=1; n =2")]), ["cookie /n duplicate"]);
}
