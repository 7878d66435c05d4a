use super::*;
use proptest::prelude::*;

/// The tokens of `input` in pieces of the given lengths, fragments joined.
fn tokens(input: &[u8], pieces: &[usize]) -> Result<Vec<(String, Vec<u8>)>, JsonError> {
    let mut lexer = Lexer::new();
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    let mut open = false;
    let mut rest = input;
    let mut lengths = pieces.iter().copied().chain(std::iter::repeat(usize::MAX));
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(lengths.next().unwrap_or(1).clamp(1, rest.len()));
        rest = behind;
        let mut at = 0;
        while let Some(token) = lexer.next(piece, &mut at)? {
            let bytes = &piece[token.start..token.end];
            let (name, first, last) = match token.kind {
                TokenKind::Key(part) => ("key".to_owned(), part.first, part.last),
                TokenKind::String(part) => ("string".to_owned(), part.first, part.last),
                TokenKind::Number(part) => ("number".to_owned(), part.first, part.last),
                other => (format!("{other:?}"), true, true),
            };
            assert_eq!(first, !open, "a fragment is the first of its string or not: {token:?}");
            match found.last_mut() {
                Some((_, text)) if open => text.extend_from_slice(bytes),
                _ => {
                    let scalar = matches!(name.as_str(), "key" | "string" | "number");
                    found.push((name, if scalar { bytes.to_vec() } else { Vec::new() }));
                }
            }
            open = !last;
        }
        assert_eq!(at, piece.len());
    }
    lexer.finish().map(|()| found)
}

#[test]
fn the_grammar_is_that_of_rfc_8259() {
    let deepest = format!("{}{}", "[".repeat(128), "]".repeat(128));
    for good in [
        "{}",
        "[]",
        " {\"a\" : [1, -0, 1.5e+3, 0e1, 2E-7] ,\"b\":{}}\n",
        "\"\"",
        "\"\\u00e9\\n\\/\"",
        "true",
        "null",
        "0",
        "-1",
        "12",
        "[true,false,null]",
        &deepest,
    ] {
        assert!(is_valid(good.as_bytes()), "{good}");
    }
    let deeper = format!("[{deepest}]");
    for bad in [
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "{]",
        "[}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "[1,]",
        "[,1]",
        "{a:1}",
        "'a'",
        "\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12\"",
        "\"\n\"",
        "\"\t\"",
        "\"\u{1f}\"",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "nul",
        "True",
        "nan",
        "{} {}",
        "1 2",
        "{}x",
        "\u{feff}{}",
        "[1 2]",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "/**/1",
        "tru e",
        "NaN",
        "--1",
        "0x10",
        &deeper,
    ] {
        assert!(!is_valid(bad.as_bytes()), "{bad}");
    }
}

#[test]
fn escapes_resolve() {
    for (raw, text) in [
        ("plain", "plain"),
        ("m\\u006fdel", "model"),
        ("\\u00E9\\u20ac", "é€"),
        ("\\ud83d\\ude00", "😀"),
        ("\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\u{8}\u{c}\n\r\t"),
    ] {
        assert_eq!(unescape(raw.as_bytes()).as_deref(), Ok(text), "{raw}");
    }
    for raw in ["\\ud83d", "\\ud83dx", "\\ud83d\\n", "\\ude00", "\\ud83d\\u0041"] {
        assert_eq!(unescape(raw.as_bytes()), Err(StringError::LoneSurrogate), "{raw}");
    }
    for raw in ["\\", "\\x", "\\u12", "\\u12g4", "\\ud83d\\u12"] {
        assert_eq!(unescape(raw.as_bytes()), Err(StringError::Invalid), "{raw}");
    }
}

fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"model\"",
        "\"x\\u0041\"",
        "\"\\",
        "\"",
        "1",
        "-0.5e2",
        "01",
        "true",
        "null",
        " ",
        "\n",
        "é",
    ]);
    prop_oneof![
        prop::collection::vec(word, 0..24).prop_map(|words| words.concat().into_bytes()),
        any_json().prop_map(|value| value.to_string().into_bytes()),
        any_json().prop_map(|value| serde_json::to_vec_pretty(&value).expect("a value")),
    ]
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".{0,20}".prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::Array),
            prop::collection::hash_map(".{0,8}", inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn valid_is_what_another_parser_calls_valid(input in nearly_json()) {
        let other = serde_json::from_slice::<serde::de::IgnoredAny>(&input).is_ok();
        prop_assert_eq!(is_valid(&input), other);
    }

    #[test]
    fn any_split_gives_the_same_tokens(input in nearly_json(), pieces in prop::collection::vec(1usize..9, 0..40)) {
        let (whole, split) = (tokens(&input, &[]), tokens(&input, &pieces));
        prop_assert_eq!(whole, split);
    }

    #[test]
    fn a_written_string_reads_back(text in any::<String>()) {
        let mut raw = Vec::new();
        push_escaped(&text, &mut raw);
        prop_assert!(is_valid(&raw));
        let read = unescape(&raw[1..raw.len() - 1]).map(|read| read.into_owned());
        prop_assert_eq!(read, Ok(text));
    }
}

#[test]
fn the_end_of_a_string_is_found_at_every_place_and_behind_every_byte() {
    for length in 0..=100 {
        for before in [b'a', b' ', b'!', b'#', b'[', b']', 0x7f, 0xc3, 0xff] {
            let mut text = vec![b'"'];
            text.resize(1 + length, before);
            let plain = text.len();
            text.extend_from_slice(b"\"  \"another one, long enough for a whole block\"");
            let mut at = 0;
            let token = Lexer::new().next(&text, &mut at).unwrap().unwrap();
            assert_eq!((token.start, token.end, at), (1, plain, plain + 1), "{length} times {before:#x}");
            for control in [0, b'\n', 0x1f] {
                text[plain] = control;
                assert_eq!(Lexer::new().next(&text, &mut 0), Err(JsonError::Syntax), "{length} times {before:#x}");
            }
        }
    }
}
