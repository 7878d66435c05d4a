use super::{Node, read};

const DOCUMENT: &str = r##"# a comment
name: "a: b"
env: &env {PORT: "8080", RATIO: 1.50, OCTAL: 007, YES: yes, EMPTY: "", NONE: ~, TEXT: 'it''s', QUOTE: 'a"b\c', URL: "http://{address}:{http}"}
list:
  - [python3, ../../stack.py, "{db}", --port=1, "- x"]
  - &one
    command: [a, "b\n\"c\"", 'ü€', "# no comment"]
    nested: [[1, 2], {a: [b]}]
    empty: []
    none: {}
  - <<: *one
    command: [other]
  - <<: [*one, *env]
    own: |
      two
      lines
"##;

#[test]
fn what_is_written_has_the_same_values() {
    let tree = read(DOCUMENT).expect("a tree");
    let written = tree.document();
    let again = read(&written).expect("a tree");
    assert_eq!(again.document(), written);
    let value = |text: &str| {
        serde_saphyr::from_str::<serde_json::Value>(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    };
    let (before, after) = (value(DOCUMENT), value(&written));
    // Merge keys are written out; the reader of evaluations merges them too.
    assert_eq!(before, after, "{written}");
    for kept in ["PORT: \"8080\"", "RATIO: 1.50", "OCTAL: 007", "YES: yes", "EMPTY: \"\"", r#"QUOTE: 'a"b\c'"#] {
        assert!(written.contains(kept), "no `{kept}` in {written}");
    }
}

#[test]
fn own_keys_win_over_merged_ones() {
    let tree = read(DOCUMENT).expect("a tree");
    let Some(Node::List(items)) = tree.get("list") else { panic!("{tree:?}") };
    assert_eq!(items[2].get("command"), Some(&Node::List(vec![Node::plain("other")])));
    assert_eq!(items[2].get("empty"), Some(&Node::List(Vec::new())));
    assert_eq!(items[3].get("PORT"), Some(&Node::Text("8080".to_owned())));
}

#[test]
fn keys_are_set_in_their_place_and_removed() {
    let mut tree = read("{a: 1, b: 2}").expect("a tree");
    tree.set("a", Node::Text("x\ny: z".to_owned()));
    tree.set("c", Node::map([("mode", Node::plain("short"))]));
    tree.remove("b");
    assert_eq!(tree.document(), "a: \"x\\ny: z\"\nc:\n  mode: short\n");
}

#[test]
fn what_cannot_be_kept_is_refused_with_its_line() {
    let bomb = (0..30).fold("a0: &a0 [x, x]\n".to_owned(), |text, level| {
        format!("{text}a{}: &a{} [*a{level}, *a{level}]\n", level + 1, level + 1)
    });
    let deep = "[".repeat(100) + &"]".repeat(100);
    for (text, expected) in [
        ("a: !!binary aGk=", "line 1: a tag"),
        ("a: 1\n? [b]\n: 2\n", "a key that is not a scalar"),
        ("a: &a [*a]", "an alias inside of what it names"),
        ("a: 1\n---\nb: 2\n", "a second document"),
        ("<<: 1", "names no mapping"),
        ("", "it is empty"),
        ("a: [", ""),
        (&bomb, "more than 100000 values"),
        (&deep, "more than 64 levels"),
    ] {
        let why = read(text).expect_err(text);
        assert!(why.contains(expected), "{why}");
    }
}
