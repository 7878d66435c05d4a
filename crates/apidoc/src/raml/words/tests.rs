use super::apply;

#[test]
fn english_is_inflected() {
    for (one, many) in [
        ("user", "users"),
        ("category", "categories"),
        ("box", "boxes"),
        ("bus", "buses"),
        ("person", "people"),
        ("day", "days"),
        ("index", "indices"),
        ("match", "matches"),
    ] {
        assert_eq!(apply("!pluralize", one), many);
        assert_eq!(apply("!singularize", many), one);
    }
    assert_eq!(apply("!singularize", "status"), "status");
    assert_eq!(apply("!singularize", "Users"), "User");
    assert_eq!(apply("!singularize", ""), "");
    assert_eq!(apply("!pluralize", ""), "s");
}

#[test]
fn cases_are_changed() {
    for (function, expected) in [
        ("!uppercase", "USERID-X"),
        ("!lowercase", "userid-x"),
        ("!lowercamelcase", "userIdX"),
        ("!uppercamelcase", "UserIdX"),
        ("!lowerunderscorecase", "user_id_x"),
        ("!upperunderscorecase", "USER_ID_X"),
        ("!lowerhyphencase", "user-id-x"),
        ("!upperhyphencase", "USER-ID-X"),
        ("!unknown", "userId-x"),
    ] {
        assert_eq!(apply(function, "userId-x"), expected, "{function}");
    }
}

#[test]
fn letters_outside_of_ascii_do_no_harm() {
    for word in ["ÄÖÜs", "ies", "İes", "日本", "ſ", "straßes"] {
        for function in ["!singularize", "!pluralize", "!lowercamelcase", "!uppercamelcase"] {
            apply(function, word);
        }
    }
}
