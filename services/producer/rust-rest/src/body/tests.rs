use super::*;

fn read(body: &str) -> Field<Submitted<'_>> {
    event(body.as_bytes()).expect("JSON").value
}

#[test]
fn a_member_of_another_type_is_no_syntax_error() {
    for (body, absent) in
        [("null", true), ("1", false), ("1.5", false), ("\"x\"", false), ("[1,{}]", false), ("false", false)]
    {
        assert!(matches!((read(body), absent), (Field::Absent, true) | (Field::Other, false)), "{body}");
    }
    let Field::Is(submitted) =
        read(r#"{"eventHeader":{"eventName":7,"createdDate":1e400},"eventBody":{"entities":{}}}"#)
    else {
        panic!("an object");
    };
    let (Field::Is(header), Field::Is(body)) = (submitted.header, submitted.body) else { panic!("objects") };
    assert!(matches!(header.event_name, Text::Number("7")));
    assert!(matches!(header.created_date, Text::Number("1e400")));
    assert!(matches!(body.entities, Field::Other));
}

#[test]
fn unknown_members_are_passed_over_and_the_last_of_two_counts() {
    let body =
        r#"{"eventheader":0,"eventHeader":{"eventName":"a","x":[1e999]},"eventHeader":{"eventName":"b\u00e9"},"y":{}}"#;
    let Field::Is(Submitted { header: Field::Is(header), body: Field::Absent }) = read(body) else {
        panic!("a header")
    };
    assert!(matches!(header.event_name, Text::Is(name) if name == "bé"));
}

#[test]
fn attributes_stay_as_they_were_written() {
    let body =
        r#"{"eventBody":{"entities":[{"updatedAttributes": {"a": 1.10, "b":1e400} },null,{"updatedAttributes":[]}]}}"#;
    let Field::Is(Submitted { body: Field::Is(Body { entities: Field::Is(entities) }), .. }) = read(body) else {
        panic!("a body")
    };
    assert!(
        matches!(&entities[0], Field::Is(Update { attributes: Field::Is(text), .. }) if text == r#"{"a": 1.10, "b":1e400}"#)
    );
    assert!(matches!(&entities[1], Field::Absent));
    assert!(matches!(&entities[2], Field::Is(Update { attributes: Field::Other, .. })));
}

#[test]
fn what_is_not_json_is_malformed() {
    for bad in [
        "",
        " ",
        "{",
        "{}x",
        "{'a':1}",
        "[1,]",
        "01",
        "{\"a\":\"\u{1}\"}",
        r#"{"a":"\ud800"}"#,
        "\u{feff}{}",
        "nul",
        "NaN",
    ] {
        assert_eq!(event(bad.as_bytes()).expect_err(bad), Malformed::Json);
    }
    assert_eq!(event(b"{\"a\":\"\xff\"}").expect_err("not UTF-8"), Malformed::Json);
    assert_eq!(event("[".repeat(100_000).as_bytes()).expect_err("deep"), Malformed::Depth);
    let nested = |n| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(event(nested(256).as_bytes()).is_ok());
    assert_eq!(event(nested(257).as_bytes()).expect_err("deep"), Malformed::Depth);
}

#[test]
fn a_body_says_whether_its_attributes_need_a_closer_look() {
    assert!(!event(b"{}").expect("JSON").scan_attributes);
    assert!(event(br#"{"a":"\u0000"}"#).expect("JSON").scan_attributes);
    assert!(events(format!("{}{}", "[".repeat(65), "]".repeat(65)).as_bytes()).expect("JSON").scan_attributes);
}
