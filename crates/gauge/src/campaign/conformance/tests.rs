use serde_json::json;

use super::*;

fn response(status: u16, kind: &str, body: &str) -> Fetched {
    Fetched {
        status,
        headers: vec![("content-type".to_owned(), kind.to_owned())],
        body: body.as_bytes().to_vec(),
        arrived: Vec::new(),
    }
}

fn compared(baseline: &Fetched, own: &Fetched, differs: &[&str]) -> Vec<String> {
    let mut differences = Vec::new();
    let mut found = Comparison { operation: "op", differences: &mut differences };
    found.responses(baseline, own, &["content-type".to_owned()], differs);
    differences.iter().map(|one| format!("{}: {} / {}", one.what, one.expected, one.found)).collect()
}

#[test]
fn equal_responses_have_no_difference_whatever_the_spelling() {
    let baseline = response(200, "application/json; charset=UTF-8", r#"{"a":1,"b":[1,2]}"#);
    let own = response(200, "application/json;charset=utf-8", "{ \"b\": [1, 2],\n \"a\": 1 }");
    assert_eq!(compared(&baseline, &own, &[]), [""; 0]);
}

#[test]
fn a_difference_says_where_what_was_expected_and_what_was_found() {
    let baseline = response(200, "application/json", r#"{"a":1,"b":[{"id":7,"t":1}]}"#);
    let own = response(200, "text/html", r#"{"a":2,"b":[{"id":8,"t":1}],"c":true}"#);
    assert_eq!(
        compared(&baseline, &own, &[]),
        [
            "header content-type: application/json / text/html",
            "body /a: 1 / 2",
            "body /b/0/id: 7 / 8",
            "body /c: absent / true"
        ]
    );
    assert_eq!(
        compared(&baseline, &response(502, "text/html", "<h1>Bad gateway"), &[]),
        ["status: 200 / 502 (<h1>Bad gateway)"]
    );
    assert_eq!(compared(&response(200, "text/plain", "4"), &response(200, "text/plain", "four"), &[]).len(), 1);
    let absent = Fetched { headers: Vec::new(), ..baseline.clone() };
    assert_eq!(compared(&baseline, &absent, &[]), ["header content-type: application/json / absent"]);
}

#[test]
fn a_member_that_is_null_is_not_one_that_is_left_out() {
    let (with, without) = (r#"{"a":1,"b":{"c":null}}"#, r#"{"a":1,"b":{}}"#);
    let response = |body| response(200, "application/json", body);
    assert_eq!(compared(&response(with), &response(without), &[]), ["body /b/c: null / absent"]);
    assert_eq!(compared(&response(without), &response(with), &[]), ["body /b/c: absent / null"]);
    assert_eq!(compared(&response(with), &response(with), &[]), [""; 0]);
    assert_eq!(compared(&response(with), &response(without), &["/b/*"]), [""; 0]);
}

#[test]
fn what_differs_by_nature_is_passed_over_and_nothing_else() {
    let baseline = response(200, "application/json", r#"{"token":"x","items":[{"id":1,"n":1},{"id":2,"n":1}]}"#);
    let own = response(200, "application/json", r#"{"token":"y","items":[{"id":5,"n":1},{"id":6,"n":9}]}"#);
    assert_eq!(compared(&baseline, &own, &["/token", "/items/*/id"]), ["body /items/1/n: 1 / 9"]);
    assert!(covers("/a/*/c", "/a/0/c") && !covers("/a/*", "/a/0/c") && !covers("/a", "/b") && covers("", ""));
}

#[test]
fn a_long_list_of_differences_is_cut_and_counted() {
    let baseline: Vec<u32> = (0..100).collect();
    let own: Vec<u32> = (1..101).collect();
    let found = compared(
        &response(200, "application/json", &json!(baseline).to_string()),
        &response(200, "application/json", &json!(own).to_string()),
        &[],
    );
    assert_eq!(found.len(), 6);
    assert_eq!(found[5], "body: the same / 95 more values differ");
    // Lists of different length are one difference.
    let short = compared(&response(200, "a/json", "[1,2]"), &response(200, "a/json", "[1]"), &[]);
    assert_eq!(short, ["body /: [1,2] / [1]"]);
}

#[test]
fn a_header_that_must_reach_the_upstream_is_looked_for_in_its_echo() {
    let forwarded = plan::Forwarded {
        operation: "echo".to_owned(),
        headers: [("x-forwarded-for".to_owned(), "/headers/x-forwarded-for".to_owned())].into(),
    };
    let check = |body: &str| {
        let mut differences = Vec::new();
        Comparison { operation: "echo", differences: &mut differences }
            .forwarded(&response(200, "a/json", body), &forwarded);
        differences.len()
    };
    assert_eq!(check(r#"{"headers":{"x-forwarded-for":"127.0.0.1"}}"#), 0);
    assert_eq!(check(r#"{"headers":{}}"#), 1);
    assert_eq!(check("not json"), 1);
}
