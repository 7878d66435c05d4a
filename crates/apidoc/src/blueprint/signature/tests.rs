use super::{Signature, parse};

fn read(text: &str) -> (String, Option<String>, Vec<String>) {
    let Signature { name, value, attributes, .. } = parse(text);
    (name, value, attributes)
}

fn expect(text: &str, name: &str, value: Option<&str>, attributes: &[&str]) {
    let attributes = attributes.iter().map(|a| (*a).to_owned()).collect();
    assert_eq!(read(text), (name.to_owned(), value.map(str::to_owned), attributes), "{text}");
}

#[test]
fn declarations_are_parsed() {
    expect("id", "id", None, &[]);
    expect("id: 1 (required, number) - The id - of it", "id", Some("1"), &["required", "number"]);
    expect("`a-b`: `x (y), - z` (enum[string], optional)", "a-b", Some("x (y), - z"), &["enum[string]", "optional"]);
    expect("url: http://a/b (string)", "url", Some("http://a/b"), &["string"]);
    expect("when: 12:30", "when", Some("12:30"), &[]);
    expect("a%20b (required)", "a b", None, &["required"]);
    expect("list: a, b (array[string, number])", "list", Some("a, b"), &["array[string, number]"]);
    expect("id (required, string, `x`) ... Older form", "id", None, &["required", "string", "`x`"]);
    expect("Base (Other)", "Base", None, &["Other"]);
    expect("(NoteData)", "", None, &["NoteData"]);
    expect("", "", None, &[]);
    expect(")(", ")(", None, &[]);
}

#[test]
fn the_older_form_has_defaults_and_examples() {
    let old = parse("page = `2` (optional, number, `5`) ... Page");
    assert_eq!(
        (old.name.as_str(), old.default.as_deref(), old.quoted().as_deref(), old.kind()),
        ("page", Some("2"), Some("5"), Some("number"))
    );
    assert!(old.has("Optional"));
}
