use super::*;

fn header() -> Header<'static> {
    Header { event_name: Text::from_proto("LoanCreated"), ..Header::default() }
}

fn update(kind: &str, id: &str, attributes: &str) -> Field<Update<'static>> {
    let text = |s: &str| Text::Is(Cow::Owned(s.to_owned()));
    Field::Is(Update {
        entity_type: text(kind),
        entity_id: text(id),
        attributes: Field::Is(Cow::Owned(attributes.to_owned())),
    })
}

fn event(header: Header<'static>, updates: Vec<Field<Update<'static>>>) -> Submitted<'static> {
    Submitted { header: Field::Is(header), body: Field::Is(Body { entities: Field::Is(updates) }) }
}

fn refusal(event: Submitted<'_>) -> String {
    check(event, 3, true).expect_err("refused").to_string()
}

#[test]
fn the_order_of_entities_is_kept() {
    let checked = check(event(header(), vec![update("b", "2", "{}"), update("a", "1", r#"{"x":1}"#)]), 3, true);
    assert_eq!(
        checked,
        Ok(Event {
            types: vec!["b".into(), "a".into()],
            ids: vec!["2".into(), "1".into()],
            attributes: vec!["{}".into(), r#"{"x":1}"#.into()],
        })
    );
}

#[test]
fn the_header_is_looked_at_before_the_body() {
    assert_eq!(refusal(Submitted::default()), "Event header event_name is required");
    let named = Submitted { header: Field::Is(header()), ..Submitted::default() };
    assert_eq!(refusal(named), "Event body must contain at least one entity");
    let other = Submitted { header: Field::Other, body: Field::Other };
    assert_eq!(refusal(other), "Invalid type: event_header must be an object");
    let dated = Header { saved_date: Text::from_proto("soon"), created_date: Text::Number("1e400"), ..header() };
    assert_eq!(refusal(event(dated, vec![])), "Invalid date: created_date");
}

#[test]
fn names_are_counted_in_characters() {
    let long = "é".repeat(255);
    assert!(check(event(header(), vec![update(&long, &long, "{}")]), 3, true).is_ok());
    let longer = "é".repeat(256);
    assert_eq!(
        refusal(event(header(), vec![update("Car", &longer, "{}")])),
        "Entity ID must not be longer than 255 characters"
    );
    assert_eq!(
        refusal(event(header(), vec![update(&longer, "1", "{}")])),
        "Entity type must not be longer than 255 characters"
    );
}

#[test]
fn the_number_of_entities_is_limited() {
    let many = |n| event(header(), (0..n).map(|_| update("Car", "1", "{}")).collect());
    assert!(check(many(3), 3, true).is_ok());
    assert_eq!(refusal(many(4)), "Event body must not contain more than 3 entities");
}

#[test]
fn attributes_may_have_64_levels() {
    let nested = |n: usize| format!("{{\"a\":{}1{}}}", "[".repeat(n), "]".repeat(n));
    assert!(check(event(header(), vec![update("Car", "1", &nested(64))]), 3, true).is_ok());
    let refused = refusal(event(header(), vec![update("Car", "1", &nested(65))]));
    assert_eq!(refused, "Attributes must not be nested deeper than 64 levels");
    let nul = refusal(event(header(), vec![update("Car", "1", r#"{"a":"\u0000"}"#)]));
    assert_eq!(nul, "Attributes must not contain NUL");
}
