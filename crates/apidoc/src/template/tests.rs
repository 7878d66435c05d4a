use super::{anonymous, parse};

fn names(path: &str) -> (String, Vec<String>) {
    let template = parse(path).unwrap();
    (template.path, template.names)
}

#[test]
fn variables_stand_anywhere_in_a_segment() {
    assert_eq!(names("/a/{b}"), ("/a/{b}".to_owned(), vec!["b".to_owned()]));
    assert_eq!(
        names("/{a}.{b}/x{c}y-{d}"),
        ("/{a}.{b}/x{c}y-{d}".to_owned(), ["a", "b", "c", "d"].map(str::to_owned).to_vec())
    );
    assert_eq!(names("/"), ("/".to_owned(), vec![]));
    assert_eq!(names(""), ("/".to_owned(), vec![]));
    assert_eq!(names("a"), ("/a".to_owned(), vec![]));
}

#[test]
fn operators_of_rfc_6570_become_plain_variables() {
    assert_eq!(names("/x/{+path}").0, "/x/{path}");
    assert_eq!(names("{/a,b}").0, "/{a}/{b}");
    assert_eq!(names("/x{.format}").0, "/x.{format}");
    assert_eq!(names("/x{;v}").0, "/x;v={v}");
    assert_eq!(names("/x/{a,b}").0, "/x/{a},{b}");
    assert_eq!(names("/x/{a:3}").1, ["a"]);
    let query = parse("/x{?a,b*}{&c}{#d}").unwrap();
    assert_eq!(query.path, "/x");
    assert_eq!(query.query, [("a".to_owned(), false), ("b".to_owned(), true), ("c".to_owned(), false)]);
    assert_eq!(query.remarks.len(), 1);
}

#[test]
fn a_query_string_in_the_path_becomes_parameters() {
    let template = parse("/x?action=list%20all&n={n}#top").unwrap();
    assert_eq!(template.path, "/x");
    assert_eq!(template.fixed_query, [("action".to_owned(), "list all".to_owned())]);
    assert_eq!(template.query, [("n".to_owned(), false)]);
    assert_eq!(template.remarks.len(), 2);
}

#[test]
fn a_query_string_goes_on_in_an_expression() {
    let template = parse("/x?fixed=1{&a,b*}").unwrap();
    assert_eq!(template.path, "/x");
    assert_eq!(template.fixed_query, [("fixed".to_owned(), "1".to_owned())]);
    assert_eq!(template.query, [("a".to_owned(), false), ("b".to_owned(), true)]);
    let template = parse("/x?fixed=1{&a}&more=2{&b}").unwrap();
    assert_eq!(template.fixed_query, [("fixed", "1"), ("more", "2")].map(|(n, v)| (n.to_owned(), v.to_owned())));
    assert_eq!(template.query, [("a".to_owned(), false), ("b".to_owned(), false)]);
}

/// It is the name before the `=` that is sent; what the variable is called is the description's own business.
#[test]
fn a_query_parameter_is_called_what_is_sent() {
    let template = parse("/search?q={term}&page%5Bsize%5D={n:3}&all").unwrap();
    assert_eq!(template.query, [("q".to_owned(), false), ("page[size]".to_owned(), false)]);
    assert_eq!(template.fixed_query, [("all".to_owned(), String::new())]);
    assert_eq!(["term", "n", "other"].map(|name| template.sent_as(name)), ["q", "page[size]", "other"]);
    let template = parse("/search?between={from,to}").unwrap();
    assert_eq!(template.query, [("between".to_owned(), false)]);
    assert_eq!(["from", "to"].map(|name| template.sent_as(name)), ["between", "between"]);
    // A name that is a variable cannot be said; a variable alone is one.
    let template = parse("/search?{name}={value}&{alone}").unwrap();
    assert_eq!(template.query, [("alone".to_owned(), false)]);
    assert_eq!(template.remarks.len(), 2);
    assert!(parse("/search?q={").unwrap_err().contains("'{' without '}'"));
    assert!(parse("/search?q={}").unwrap_err().contains("without a proper name"));
}

#[test]
fn expressions_of_frameworks_become_patterns() {
    let template = parse("/x/{id:[0-9]{2,4}}/{name}").unwrap();
    assert_eq!(template.path, "/x/{id}/{name}");
    assert_eq!(template.patterns, [("id".to_owned(), "[0-9]{2,4}".to_owned())]);
}

#[test]
fn what_is_no_template_is_an_error() {
    for (path, text) in [
        ("/{", "'{' without '}'"),
        ("/a}", "'}' without '{'"),
        ("/{}", "without a proper name"),
        ("/{a/b}", "without a proper name"),
        ("/{a}/{a}", "the variable 'a' twice"),
        ("/{{a}}", "without a proper name"),
    ] {
        assert!(parse(path).unwrap_err().contains(text), "{path}");
    }
}

#[test]
fn names_do_not_matter_for_what_a_path_matches() {
    assert_eq!(anonymous("/a/{b}.{c}"), "/a/{}.{}");
}
