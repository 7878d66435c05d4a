use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::raw::shape::{Map, OneOrMany, OrNone, Spanned};

fn environment(name: &str) -> Option<String> {
    let value = match name {
        "NUMBER" => "7",
        "TRUE" => "true",
        "NONE" => "none",
        "EMPTY" => "",
        "DOLLAR" => "${NUMBER}",
        "YAML" => "a: b\n- c: {d: [e]}\n# x",
        _ => return None,
    };
    Some(value.to_owned())
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Problem>> {
    parse(text, &environment)
}

/// What is wrong with a document, as `LINE:COLUMN message`.
fn wrong<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> Vec<String> {
    let place = |problem: &Problem| match problem.origin {
        Origin::File { line, column } => format!("{line}:{column} {}", problem.message),
        other => format!("{other:?} {}", problem.message),
    };
    read::<T>(text).unwrap_err().iter().map(place).collect()
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Sample {
    text: String,
    number: u32,
    flag: bool,
    share: f64,
    list: Vec<Sample>,
    map: BTreeMap<String, u8>,
    maybe: Option<u16>,
    or_none: OrNone<u16>,
    many: OneOrMany<Spanned<u16>>,
    word: Word,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    #[default]
    One,
    Two(u8),
    Three {
        a: u8,
    },
}

#[test]
fn the_type_that_is_wanted_decides_how_a_scalar_is_read() {
    let sample: Sample =
        read("text: 1.10\nnumber: \"5\"\nflag: true\nshare: 0.5\nmap: {on: 1, yes: 2, 3: 4}\nmaybe: 6\n").unwrap();
    let map = [("on", 1), ("yes", 2), ("3", 4)].map(|(key, value)| (key.to_owned(), value)).into();
    let expected =
        Sample { text: "1.10".to_owned(), number: 5, flag: true, share: 0.5, map, maybe: Some(6), ..Sample::default() };
    assert_eq!(sample, expected);
}

#[test]
fn quoted_text_is_never_empty_by_accident() {
    assert_eq!(read::<Sample>("text: \"\"").unwrap().text, "");
    assert_eq!(read::<Sample>("text: 'null'").unwrap().text, "null");
    for text in ["text:", "text: ~", "text: null", "number:", "list:", "maybe:", "or_none:", "many:", "map:"] {
        let key = text.split(':').next().unwrap();
        assert!(wrong::<Sample>(text)[0].contains(&format!("`{key}` has no value")), "{text}");
    }
}

#[test]
fn shapes_of_the_raw_types_are_read() {
    assert_eq!(read::<Sample>("or_none: none").unwrap().or_none, OrNone::None);
    assert_eq!(read::<Sample>("or_none: 5").unwrap().or_none, OrNone::Some(5));
    assert_eq!(read::<Sample>("many: 5").unwrap().many.0, vec![Spanned::from(5)]);
    let many = read::<Sample>("many: [5,\n  6]").unwrap().many;
    let origins: Vec<Origin> = many.iter().map(|at| at.origin).collect();
    assert_eq!(origins, [Origin::File { line: 1, column: 8 }, Origin::File { line: 2, column: 3 }]);
    let map: Map<Spanned<u8>> = read("b: 1\na: 2\n").unwrap();
    let entries: Vec<_> = map.iter().map(|(key, value)| (key.as_str(), key.origin, value.value)).collect();
    let line = |line| Origin::File { line, column: 1 };
    assert_eq!(entries, [("b", line(1), 1), ("a", line(2), 2)], "in the order of the file");
}

#[test]
fn words_with_and_without_a_value_are_read() {
    assert_eq!(read::<Sample>("word: one").unwrap().word, Word::One);
    assert_eq!(read::<Sample>("word: {two: 2}").unwrap().word, Word::Two(2));
    assert_eq!(read::<Sample>("word: {three: {a: 1}}").unwrap().word, Word::Three { a: 1 });
    assert_eq!(wrong::<Sample>("word: {two: x}"), ["1:13 expected a whole number, found `x`"]);
    assert_eq!(wrong::<Sample>("word: {four: 4}"), ["1:8 expected `one`, `two` or `three`, found `four`"]);
    assert_eq!(wrong::<Sample>("word: two"), ["1:7 `two` needs a value: `{two: ...}`"]);
    assert_eq!(wrong::<Sample>("word: three"), ["1:7 `three` needs a value: `{three: ...}`"]);
}

#[test]
fn variables_are_replaced_in_values_and_keep_their_type() {
    let sample: Sample = read(
        "text: a ${NUMBER} b ${UNSET:-c} ${EMPTY:-d}${EMPTY}\nnumber: ${NUMBER}\nflag: ${TRUE}\nor_none: ${NONE}\nmany: [\"${NUMBER}\", 8]\nmap: {\"${NUMBER}\": 1}\n",
    )
    .unwrap();
    assert_eq!(sample.text, "a 7 b c d");
    assert_eq!((sample.number, sample.flag, sample.or_none), (7, true, OrNone::None));
    assert_eq!(sample.many.0, vec![Spanned::from(7), Spanned::from(8)]);
    assert_eq!(sample.map.keys().next().unwrap(), "${NUMBER}", "keys are left alone");
}

#[test]
fn what_a_variable_holds_stays_one_value() {
    assert_eq!(read::<Sample>("text: ${YAML}").unwrap().text, environment("YAML").unwrap());
    assert_eq!(read::<Sample>("text: ${DOLLAR}").unwrap().text, "${NUMBER}", "and is not looked at again");
    assert_eq!(wrong::<Sample>("list: ${YAML}").len(), 1);
    assert_eq!(read::<Sample>("text: a # ${UNSET}").unwrap().text, "a", "comments are left alone");
}

#[test]
fn a_dollar_can_be_written() {
    assert_eq!(
        read::<Sample>("text: $ $$ $a ${NUMBER}$ $${NUMBER} $$${NUMBER}").unwrap().text,
        "$ $$ $a 7$ ${NUMBER} $${NUMBER}"
    );
    assert_eq!(read::<Sample>("text: \"${UNSET:-a:-b}\"").unwrap().text, "a:-b");
    assert_eq!(read::<Sample>("text: \"${UNSET:-}\"").unwrap().text, "");
}

#[test]
fn every_problem_is_found_in_one_go() {
    let text = "text: [a]\nnumbr: 1\nnumber: -1\nlist:\n  - {flag: maybe, share: x, text: ok}\n  - {list: [{number: x}, {zzz: 1}]}\n  - {word: four}\n";
    let mut problems = wrong::<Sample>(text);
    problems.sort();
    assert_eq!(
        problems,
        [
            "1:7 expected a text, found a list",
            "2:1 unknown key `numbr`; did you mean `number`?",
            "3:9 expected a whole number, found `-1`",
            "5:12 expected true or false, found `maybe`",
            "5:26 expected a number, found `x`",
            "6:22 expected a whole number, found `x`",
            "6:27 unknown key `zzz`; known here: text, number, flag, share, list, map, maybe, or_none, many, word",
            "7:12 expected `one`, `two` or `three`, found `four`",
        ]
    );
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Strict {
    needed: u8,
    inner: Option<Box<Strict>>,
}

#[test]
fn what_is_missing_because_it_was_wrong_is_not_reported_twice() {
    assert_eq!(wrong::<Strict>("inner: {needed: 1}"), ["1:1 `needed` is missing"]);
    assert_eq!(wrong::<Strict>("needed: x"), ["1:9 expected a whole number, found `x`"]);
    assert_eq!(wrong::<Strict>("needed: 1\ninner: {needed: x}"), ["2:17 expected a whole number, found `x`"]);
    assert_eq!(
        wrong::<Strict>("needed: x\ninner: {inner: {needed: 1}}"),
        ["1:9 expected a whole number, found `x`", "2:8 `needed` is missing"]
    );
}

#[test]
fn anchors_may_be_used_and_the_place_is_where_the_value_stands() {
    let sample: Sample = read("list:\n  - &a {number: 1}\n  - *a\n").unwrap();
    assert_eq!(sample.list[0], sample.list[1]);
    assert_eq!(wrong::<Sample>("map: {a: &a x}\nnumber: *a\n").len(), 2);
}

#[test]
fn line_ends_and_byte_order_marks_do_not_shift_places() {
    assert_eq!(wrong::<Sample>("\u{feff}number: x\r\nflag: 1\r\n").len(), 2);
    let problems = wrong::<Sample>("text: é\r\n\r\nflag: 1\r\n");
    assert_eq!(problems, ["3:7 expected true or false, found `1`"]);
}

#[test]
fn a_document_without_end_to_its_problems_is_left_after_a_while() {
    let text: String = (0..500).map(|number| format!("k{number}: 1\n")).collect();
    assert_eq!(wrong::<Sample>(&text).len(), MAX_PROBLEMS);
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let text = format!("# {}\ntext: a\n", "x".repeat(16 << 20));
    assert!(wrong::<Sample>(&text)[0].contains("more than 16 MiB"));
}

#[test]
fn the_nearest_name_is_one_that_may_have_been_meant() {
    let known = ["timeouts", "targets", "retry", "keep_alive"];
    for (word, expected) in [
        ("timeot", Some("timeouts")),
        ("timeout", Some("timeouts")),
        ("Targets", Some("targets")),
        ("keep-alive", Some("keep_alive")),
        ("keepalive", Some("keep_alive")),
        ("rtery", Some("retry")),
        ("banana", None),
        ("x", None),
        ("", None),
    ] {
        assert_eq!(nearest(word, &known), expected, "{word}");
    }
}

proptest! {
    #[test]
    fn no_text_does_harm(text in any::<String>()) {
        let _ = read::<Sample>(&text);
    }

    #[test]
    fn no_yaml_does_harm(pieces in prop::collection::vec(prop::sample::select(vec![
        "text", "list", "map", "word", "many", ": ", "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", ",", "\"", "'", "&a ", "*a", "!t ", "|", ">",
        "${NUMBER}", "${", "}", "$${", "? ", "<<", "~", "#", "%", "---\n", "...\n", "\t", "é",
    ]), 0..40)) {
        let _ = read::<Sample>(&pieces.concat());
    }

    #[test]
    fn what_is_written_is_read_again(text in any::<String>(), lines in prop::collection::vec("[ -~]{0,90}", 0..6)) {
        let mut map = BTreeMap::new();
        map.insert("text".to_owned(), text.replace('$', ""));
        map.insert("more".to_owned(), lines.join("\n").replace('$', ""));
        let written = to_string(&map);
        prop_assert_eq!(read::<BTreeMap<String, String>>(&written).unwrap(), map, "{}", written);
    }
}
