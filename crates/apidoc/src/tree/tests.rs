use super::load::Set;
use super::{Node, decode, parse};
use crate::Limits;
use crate::diagnostic::{Code, Report};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

fn files(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
}

fn load(all: &[(&str, &str)]) -> Set {
    let mut report = Report::default();
    let set = Set::load(&files(all), all[0].0, all[0].1.as_bytes(), &Limits::default(), &mut report).unwrap();
    let ((), _) = report.conclude(()).unwrap();
    set
}

fn json_of(text: &str) -> Json {
    load(&[("a.yaml", text)]).root().json(10_000).unwrap()
}

/// The errors that parsing gives, as code and text.
fn errors(text: &[u8], limits: &Limits) -> Vec<(Code, String)> {
    parse::parse("a.yaml", text, limits).unwrap_err().into_iter().map(|d| (d.code, d.to_string())).collect()
}

#[test]
fn scalars_follow_the_core_schema() {
    let text = "[yes, no, on, true, True, ~, null, '', 1, -1, +1, 0777, 0o17, 0x1F, 1.5, 1., .5, 1e3, 1.2.3, 12:30, 2024-01-01, 1_000, \"1\", '1', .inf, 0x, -a]";
    let expected = json!([
        "yes",
        "no",
        "on",
        true,
        true,
        null,
        null,
        "",
        1,
        -1,
        1,
        777,
        15,
        31,
        1.5,
        1.0,
        0.5,
        1000.0,
        "1.2.3",
        "12:30",
        "2024-01-01",
        "1_000",
        "1",
        "1",
        ".inf",
        "0x",
        "-a"
    ]);
    assert_eq!(json_of(text), expected);
}

#[test]
fn numbers_are_exact_as_far_as_json_goes() {
    assert_eq!(
        json_of("[18446744073709551615, -9223372036854775808, 0.1]").to_string(),
        "[18446744073709551615,-9223372036854775808,0.1]"
    );
    let set = load(&[("a.json", "{\"version\": 1.10, \"large\": 123456789012345678901234567890}")]);
    assert_eq!(set.root().get("version").unwrap().text(), Some("1.10"));
    assert_eq!(set.root().get("large").unwrap().number().unwrap().as_f64(), Some(1.2345678901234568e29));
}

#[test]
fn a_number_that_nothing_can_hold_is_null_and_told() {
    let document = parse::parse("a.json", b"[1e999]", &Limits::default()).unwrap();
    assert_eq!(document.remarks.len(), 1);
    assert_eq!(json_of("[1e999]"), json!([null]));
}

#[test]
fn json_that_yaml_would_refuse_is_read() {
    assert_eq!(
        json_of("{\"a\":\"\u{7f}\\ud83d\\ude80\\/\\ud800\",\n\t\"b\":[]}"),
        json!({"a": "\u{7f}🚀/\u{fffd}", "b": []})
    );
    let long = "k".repeat(5_000);
    assert_eq!(json_of(&format!("{{\"{long}\": 1}}")), json!({long: 1}));
}

#[test]
fn yaml_that_begins_as_json_is_read() {
    assert_eq!(json_of("{a: 1, b: [x, 'y',]} # flow"), json!({"a": 1, "b": ["x", "y"]}));
}

#[test]
fn broken_json_is_told_as_json() {
    let limits = Limits::default();
    for (text, expected) in [
        ("{\"a\": 1,\n  \"b\" 2}", "a.yaml:2:7: not JSON: ':' is expected after a key"),
        ("{\"a\": tru}}", "a.yaml:1:11: misplaced bracket"),
        ("{\"a\": \"x\ny\"", "a.yaml:1:9: not JSON: a control character in a string must be escaped"),
        ("[1, 2", "a.yaml:1:6: not JSON: the text ends in the middle"),
        ("[\"\\q\"]", "a.yaml:1:3: not JSON: there is no such escape"),
    ] {
        assert_eq!(errors(text.as_bytes(), &limits), [(Code::Syntax, expected.to_owned())], "{text}");
    }
}

#[test]
fn duplicate_keys_are_all_told_in_yaml_and_json() {
    let limits = Limits::default();
    for text in ["a: 1\nb: {c: 1, c: 2}\na: 3\n", "{\"a\": 1,\n\"b\": {\"c\": 1, \"c\": 2},\n\"a\": 3}"] {
        let found = errors(text.as_bytes(), &limits);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].1.contains(":2:") && found[0].1.ends_with("the key 'c' is there twice, first on line 2"),
            "{found:?}"
        );
        assert!(
            found[1].1.contains(":3:") && found[1].1.ends_with("the key 'a' is there twice, first on line 1"),
            "{found:?}"
        );
    }
}

#[test]
fn merge_keys_and_aliases_are_followed() {
    let text = "base: &b {x: 1, y: &l [1, 2]}\nmore: &m {y: 3, z: 4}\none: {<<: *b, x: 5}\nboth: {<<: [*b, *m]}\nquoted: {\"<<\": 1}\nlist: *l\n";
    let read = json_of(text);
    assert_eq!(read["one"], json!({"x": 5, "y": [1, 2]}));
    assert_eq!(read["both"], json!({"x": 1, "y": [1, 2], "z": 4}));
    assert_eq!(read["quoted"], json!({"<<": 1}));
    assert_eq!(read["list"], json!([1, 2]));
    assert!(errors(b"a: {<<: 1}", &Limits::default())[0].1.contains("'<<' takes a mapping"));
}

#[test]
fn bombs_are_refused() {
    let limits = Limits::default();
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        laughs += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(", "));
    }
    assert_eq!(errors(laughs.as_bytes(), &limits)[0].0, Code::TooLarge);
    // aliases that make depth instead of size
    let mut deep = String::from("a0: &a0 []\n");
    for i in 1..200 {
        deep += &format!("a{i}: &a{i} [*a{}]\n", i - 1);
    }
    assert_eq!(errors(deep.as_bytes(), &limits)[0].0, Code::TooLarge);
    for open in ["[", "{\"a\":", "{a: ", "- "] {
        assert_eq!(errors(open.repeat(100_000).as_bytes(), &limits)[0].0, Code::TooLarge, "{open}");
    }
    let mut indented = String::new();
    for i in 0..300 {
        indented += &format!("{}a:\n", " ".repeat(i));
    }
    assert_eq!(errors(indented.as_bytes(), &limits)[0].0, Code::TooLarge);
    let few = Limits { values: 10, ..Limits::default() };
    assert_eq!(errors(b"[1,2,3,4,5,6,7,8,9,10,11]", &few)[0].0, Code::TooLarge);
    assert!(errors(b"a: &a [*a]", &limits)[0].1.contains("own anchor"));
}

#[test]
fn what_is_no_text_is_refused() {
    let limits = Limits::default();
    assert!(errors(b"a: 1\nb: \xff", &limits)[0].1.starts_with("a.yaml:2: the file is not UTF-8"));
    assert!(errors(&[0xff, 0xfe, 0x61, 0], &limits)[0].1.contains("UTF-16"));
    assert!(errors(b"", &limits)[0].1.contains("empty"));
    assert!(errors(b"# only a comment\n", &limits)[0].1.contains("empty"));
    assert_eq!(json_of("\u{feff}a: 1"), json!({"a": 1}));
}

#[test]
fn values_know_their_place() {
    let set = load(&[("dir/a.yaml", "paths:\n  /a/~b:\n    get:\n    - {x: 1}\n")]);
    let x = set
        .root()
        .get("paths")
        .unwrap()
        .get("/a/~b")
        .unwrap()
        .get("get")
        .unwrap()
        .items()
        .next()
        .unwrap()
        .get("x")
        .unwrap();
    assert_eq!(x.pointer(), "#/paths/~1a~1~0b/get/0/x");
    assert_eq!(x.diagnostic(Code::Invalid, "text").to_string(), "dir/a.yaml:4:11: text (at #/paths/~1a~1~0b/get/0/x)");
    assert_eq!(x.key(), Some("x"));
}

#[test]
fn references_lead_within_and_across_documents() {
    let set = load(&[
        (
            "api/a.yaml",
            "a: {$ref: 'sub/b.json#/x~1y/0'}\nb: {$ref: '../c%20d.yml'}\nc: {k: {$anchor: here}}\nd: {$ref: 'sub/../a.yaml#/c'}",
        ),
        ("api/sub/b.json", "{\"x/y\": [{\"z\": 1}]}"),
        ("c d.yml", "whole: true"),
    ]);
    let target = |key: &str| {
        let reference = set.root().get(key).unwrap().get("$ref").unwrap();
        set.resolve(reference.doc(), reference.str().unwrap()).unwrap()
    };
    assert_eq!(target("a").json(10), Some(json!({"z": 1})));
    assert_eq!(target("b").json(10), Some(json!({"whole": true})));
    assert_eq!(target("d"), set.root().get("c").unwrap());
    assert_eq!(set.resolve(0, "#here").unwrap().pointer(), "#/c/k");
    assert_eq!(set.resolve(0, "#").unwrap(), set.root());
    for (reference, code, text) in [
        ("#/a/b/c", Code::BadReference, "there is no 'b' in #/a"),
        ("#nowhere", Code::BadReference, "no schema has the anchor"),
        ("https://example.com/a.yaml#/x", Code::RemoteReference, "nothing is fetched"),
        ("//example.com/a.yaml", Code::RemoteReference, "nothing is fetched"),
    ] {
        let (found, message) = set.resolve(0, reference).unwrap_err();
        assert_eq!(found, code, "{reference}");
        assert!(message.contains(text), "{message}");
    }
}

#[test]
fn a_file_that_is_not_there_is_told_only_where_it_is_needed() {
    let set = load(&[("a.yaml", "example: {$ref: 'gone.yaml'}")]);
    let (code, message) = set.resolve(0, "gone.yaml#/x").unwrap_err();
    assert_eq!(code, Code::BadReference);
    assert_eq!(message, "'gone.yaml' cannot be read: gone.yaml: the file cannot be read: no such document");
}

#[test]
fn limits_hold_across_documents() {
    let mut all: Vec<(String, String)> =
        (0..20).map(|i| (format!("{i}.yaml"), format!("a: {{$ref: '{}.yaml'}}", i + 1))).collect();
    all.push(("20.yaml".to_owned(), "end: 1".to_owned()));
    let source: BTreeMap<String, Vec<u8>> = all.iter().map(|(n, t)| (n.clone(), t.clone().into_bytes())).collect();
    let code = |limits: Limits| {
        let mut report = Report::default();
        Set::load(&source, "0.yaml", source["0.yaml"].as_slice(), &limits, &mut report)
            .map(|_| ())
            .map_err(|p| p.errors[0].code)
    };
    assert_eq!(code(Limits::default()), Ok(()));
    assert_eq!(code(Limits { documents: 10, ..Limits::default() }), Err(Code::TooLarge));
    assert_eq!(code(Limits { total_bytes: 100, ..Limits::default() }), Err(Code::TooLarge));
}

#[test]
fn includes_that_never_end_or_multiply_are_refused() {
    let code = |all: &[(&str, &str)]| {
        let mut report = Report::default();
        let loaded = Set::load(&files(all), all[0].0, all[0].1.as_bytes(), &Limits::default(), &mut report);
        loaded.map(|_| ()).and_then(|()| report.conclude(()).map(|_| ())).map_err(|p| p.errors[0].code)
    };
    assert_eq!(code(&[("a.raml", "#%RAML 1.0\nx: !include b.raml"), ("b.raml", "y: 1")]), Ok(()));
    assert_eq!(
        code(&[("a.raml", "#%RAML 1.0\nx: !include b.raml"), ("b.raml", "y: !include a.raml")]),
        Err(Code::BadReference)
    );
    assert_eq!(code(&[("a.raml", "#%RAML 1.0\nx: !include a.raml")]), Err(Code::BadReference));
    assert_eq!(code(&[("a.raml", "#%RAML 1.0\nx: !include gone.raml")]), Err(Code::BadReference));
    assert_eq!(code(&[("a.raml", "#%RAML 1.0\nx: !include http://a/b.raml")]), Err(Code::RemoteReference));
    let ten = |next: &str| format!("[{}]", vec![format!("!include {next}"); 10].join(", "));
    let bodies: Vec<(String, String)> =
        (0..9).map(|i| (format!("{i}.yaml"), ten(&format!("{}.yaml", i + 1)))).collect();
    let mut all: Vec<(&str, &str)> = bodies.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    all.push(("9.yaml", "[1]"));
    assert_eq!(code(&all), Err(Code::TooLarge));
}

#[test]
fn serde_faults_have_the_innermost_place() {
    let fault = |text: &str| {
        let set = load(&[("a.yaml", text)]);
        let node: Node<'_> = set.root();
        decode::<crate::Record>(node).unwrap_err().to_string()
    };
    assert_eq!(
        fault("endpoint_path: /a\nmethod: FETCH"),
        "a.yaml:2:9: 'FETCH' is not a method that is read (GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE) (at #/method)"
    );
    assert!(
        fault("endpoint_path: /a\nmethod: GET\nservers:\n- {url: a}\n- {uri: b}")
            .starts_with("a.yaml:5:4: unknown field `uri`")
    );
    assert!(fault("method: GET").contains("missing field `endpoint_path`"));
    assert!(fault("[1]").contains("a.yaml:1:1"));
}
