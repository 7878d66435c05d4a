use super::*;
use crate::Api;
use crate::json::JsonError;
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(body: &str) -> RequestScan {
    scan(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"))
}

fn refused(body: &str) -> Defect {
    scan(body.as_bytes()).expect_err(body).defect
}

fn text(body: &str, member: Member) -> Option<&str> {
    read(body).value(member).map(|span| &body[span.range()])
}

#[test]
fn spans_of_an_openai_chat_request() {
    let body = r#" {"model":"gpt-x", "messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[
        {"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],
        "stream":true,"stream_options":{"include_usage":false},"n":2,"max_tokens":10,"max_completion_tokens":20,"temperature":0,
        "seed":7,"prompt_cache_key":"k","store":false,"new_member":{"model":"inner","stream":[1,{"n":2}]},
        "tools":[{"type":"function","function":{"name":"f","description":"does"}}]} "#;
    let found = read(body);
    assert_eq!(found.model(body.as_bytes()).as_deref(), Some("gpt-x"));
    assert_eq!(text(body, Member::Model), Some("\"gpt-x\""));
    assert_eq!(text(body, Member::StreamOptions), Some(r#"{"include_usage":false}"#));
    assert_eq!(text(body, Member::IncludeUsage), Some("false"));
    assert!(found.stream(body.as_bytes()));
    assert_eq!(found.choices(Api::Chat, body.as_bytes()), 2);
    assert_eq!(found.max_output(Api::Chat, body.as_bytes()), Some(20), "the larger one");
    assert_eq!(text(body, Member::Temperature), Some("0"));
    assert_eq!(text(body, Member::Seed), Some("7"));
    assert_eq!(found.string(Member::PromptCacheKey, body.as_bytes()).as_deref(), Some("k"));
    assert_eq!((found.messages, found.tools, found.images), (2, 1, 1));
    assert_eq!(found.text_bytes, ("Be brief.What is it?fdoes").len() as u64);
    assert!(!found.has_state(body.as_bytes()));
    assert!(text(body, Member::Messages).is_some_and(|text| text.starts_with("[{") && text.ends_with("}]")));
}

#[test]
fn spans_of_the_other_apis() {
    let completions = r#"{"model":"m","prompt":["once","upon"],"max_tokens":5,"stream":false}"#;
    let found = read(completions);
    assert_eq!((found.text_bytes, found.max_output(Api::Completions, completions.as_bytes())), (8, Some(5)));

    let responses = r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"https://x/y"}]}],
        "instructions":"short","max_output_tokens":64,"previous_response_id":"resp_1"}"#;
    let found = read(responses);
    assert_eq!((found.text_bytes, found.messages, found.images), (7, 1, 1));
    assert_eq!(found.max_output(Api::Responses, responses.as_bytes()), Some(64));
    assert!(found.has_state(responses.as_bytes()));

    let embeddings = r#"{"model":"e","input":[[1,2,3],[4]]}"#;
    assert_eq!((read(embeddings).token_ids, read(embeddings).messages), (4, 2));

    let anthropic = r#"{"model":"c","system":[{"type":"text","text":"Be brief."}],"max_tokens":9,"messages":[{"role":"user","content":[
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAAAAAA"}},{"type":"text","text":"What?"}]}]}"#;
    let found = read(anthropic);
    assert_eq!((found.text_bytes, found.messages, found.images), (14, 1, 1));

    let gemini = r#"{"contents":[{"role":"user","parts":[{"text":"What?"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}],
        "systemInstruction":{"parts":[{"text":"Be brief."}]},"generationConfig":{"maxOutputTokens":12,"candidateCount":3,"x":{"seed":[]},"seed":1}}"#;
    let found = read(gemini);
    assert_eq!((found.text_bytes, found.messages, found.images), (14, 1, 1));
    assert_eq!(
        (found.max_output(Api::Gemini, gemini.as_bytes()), found.choices(Api::Gemini, gemini.as_bytes())),
        (Some(12), 3)
    );
    assert_eq!(text(gemini, Member::ConfigSeed), Some("1"));
    let snake = r#"{"contents":[],"generation_config":{"max_output_tokens":12}}"#;
    assert_eq!(read(snake).max_output(Api::Gemini, snake.as_bytes()), Some(12));
}

#[test]
fn state_is_seen() {
    for (body, state) in [
        (r#"{"conversation":"c"}"#, true),
        (r#"{"conversation":{"id":"c"}}"#, true),
        (r#"{"conversation":null,"previous_response_id":null}"#, false),
        (r#"{"background":true}"#, true),
        (r#"{"background":false}"#, false),
    ] {
        assert_eq!(read(body).has_state(body.as_bytes()), state, "{body}");
    }
}

#[test]
fn what_two_parsers_could_read_differently_is_refused() {
    for (body, defect) in [
        ("", Defect::Json(JsonError::Truncated)),
        ("[]", Defect::NotAnObject),
        ("\"model\"", Defect::NotAnObject),
        ("{", Defect::Json(JsonError::Truncated)),
        (r#"{"model":"a"}{"model":"b"}"#, Defect::Json(JsonError::TrailingBytes)),
        (r#"{"model":"a"} x"#, Defect::Json(JsonError::TrailingBytes)),
        ("{\"model\":\"a\"}\0", Defect::Json(JsonError::TrailingBytes)),
        (r#"{"model":"a",}"#, Defect::Json(JsonError::Syntax)),
        (r#"{"model":"a","model":"b"}"#, Defect::Duplicate(Member::Model)),
        (r#"{"model":null,"model":"b"}"#, Defect::Duplicate(Member::Model)),
        (r#"{"model":"a","mod\u0065l":"b"}"#, Defect::Duplicate(Member::Model)),
        (r#"{"messages":[],"messages":[]}"#, Defect::Duplicate(Member::Messages)),
        (r#"{"stream_options":{"include_usage":true,"include_usage":false}}"#, Defect::Duplicate(Member::IncludeUsage)),
        (r#"{"generationConfig":{},"generation_config":{}}"#, Defect::Duplicate(Member::GenerationConfig)),
        (
            r#"{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":2}}"#,
            Defect::Duplicate(Member::ConfigMaxOutputTokens),
        ),
        (r#"{"Model":"a"}"#, Defect::CaseVariant(Member::Model)),
        (r#"{"model":"a","MODEL":"b"}"#, Defect::CaseVariant(Member::Model)),
        ("{\"me\u{17f}\u{17f}ages\":[]}", Defect::CaseVariant(Member::Messages)),
        ("{\"max_to\u{212a}ens\":1}", Defect::CaseVariant(Member::MaxTokens)),
        (r#"{"model":1}"#, Defect::WrongType(Member::Model)),
        (r#"{"model":["a"]}"#, Defect::WrongType(Member::Model)),
        (r#"{"model":"\ud800"}"#, Defect::InvalidString(Member::Model)),
        (r#"{"stream":"true"}"#, Defect::WrongType(Member::Stream)),
        (r#"{"stream":1}"#, Defect::WrongType(Member::Stream)),
        (r#"{"max_tokens":"1"}"#, Defect::WrongType(Member::MaxTokens)),
        (r#"{"messages":{}}"#, Defect::WrongType(Member::Messages)),
        (r#"{"stream_options":[]}"#, Defect::WrongType(Member::StreamOptions)),
        (r#"{"stream_options":{"include_usage":{}}}"#, Defect::WrongType(Member::IncludeUsage)),
    ] {
        assert_eq!(refused(body), defect, "{body}");
    }
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(128), "]".repeat(128));
    assert_eq!(refused(&deep), Defect::Json(JsonError::TooDeep));
    read(&format!("{{\"x\":{}{}}}", "[".repeat(127), "]".repeat(127)));
    let invalid = scan(b"{\"x\":\"\xff\"}").expect_err("invalid UTF-8");
    assert_eq!((invalid.defect, invalid.at), (Defect::Utf8, 6));
    assert_eq!(
        scan(br#"{"model":"a","model":"b"}"#).expect_err("twice").to_string(),
        "the member 'model' occurs twice (at byte 14)"
    );
}

#[test]
fn members_that_are_not_read_may_occur_twice_and_have_any_type() {
    read(r#"{"logit_bias":{},"logit_bias":[],"":1,"":2,"x":"\ud800","n":null,"nn":"","modelx":1,"\ud800":1}"#);
}

#[test]
fn members_of_other_apis_say_nothing() {
    let body = br#"{"max_tokens":1,"max_completion_tokens":2,"max_output_tokens":3,"n":4,"generationConfig":{"maxOutputTokens":5,"candidateCount":6}}"#;
    let found = scan(body).unwrap();
    let most = [Api::Chat, Api::Completions, Api::Responses, Api::Messages, Api::Gemini]
        .map(|api| found.max_output(api, body));
    assert_eq!(most, [Some(2), Some(1), Some(3), Some(1), Some(5)]);
    assert_eq!((found.choices(Api::Chat, body), found.choices(Api::Gemini, body)), (4, 6));
}

#[test]
fn numbers() {
    for (value, number) in [
        ("0", Some(0)),
        ("12", Some(12)),
        ("1e3", Some(1000)),
        ("1.9", Some(1)),
        ("-1", None),
        ("null", None),
        ("99999999999999999999999", Some(u64::MAX)),
        ("1e999", Some(u64::MAX)),
    ] {
        let body = format!("{{\"max_tokens\":{value}}}");
        assert_eq!(read(&body).max_output(Api::Messages, body.as_bytes()), number, "{value}");
    }
    assert_eq!(read(r#"{"n":0}"#).choices(Api::Chat, br#"{"n":0}"#), 1);
}

fn edited(body: &str, wanted: &Wanted<'_>) -> String {
    let edits = Edits::of(&read(body), body.as_bytes(), wanted);
    let after = edits.apply(body.as_bytes());
    assert_eq!(after.len(), edits.len_after(body.as_bytes()));
    String::from_utf8(after).expect("text")
}

#[test]
fn splices() {
    let model = Wanted { model: Some("meta/\"L\""), ..Wanted::default() };
    let usage = Wanted { include_usage: true, ..Wanted::default() };
    let both = Wanted { model: Some("b"), include_usage: true, max_output: Some(8) };
    for (wanted, before, after) in [
        (&model, r#"{"model" : "a" , "x":1}"#, r#"{"model" : "meta/\"L\"" , "x":1}"#),
        (&model, r#"{"model":null}"#, r#"{"model":"meta/\"L\""}"#),
        (&model, r#"{"x":1}"#, r#"{"model":"meta/\"L\"","x":1}"#),
        (&model, "{ }", r#"{"model":"meta/\"L\"" }"#),
        (&usage, r#"{"stream":true}"#, r#"{"stream_options":{"include_usage":true},"stream":true}"#),
        (&usage, r#"{"stream_options":null}"#, r#"{"stream_options":{"include_usage":true}}"#),
        (&usage, r#"{"stream_options":{ }}"#, r#"{"stream_options":{"include_usage":true }}"#),
        (&usage, r#"{"stream_options":{"y":1}}"#, r#"{"stream_options":{"include_usage":true,"y":1}}"#),
        (&usage, r#"{"stream_options":{"include_usage":false}}"#, r#"{"stream_options":{"include_usage":true}}"#),
        (
            &usage,
            r#"{"stream_options":{"include_usage":null,"y":1}}"#,
            r#"{"stream_options":{"include_usage":true,"y":1}}"#,
        ),
        (&usage, r#"{"stream_options":{"include_usage":true}}"#, r#"{"stream_options":{"include_usage":true}}"#),
        (
            &both,
            r#"{"max_tokens":9,"model":"a"}"#,
            r#"{"stream_options":{"include_usage":true},"max_tokens":8,"model":"b"}"#,
        ),
        (&both, "{}", r#"{"model":"b","stream_options":{"include_usage":true}}"#),
        (
            &both,
            r#"{"max_tokens":8,"model":"b","stream_options":{"include_usage":true}}"#,
            r#"{"max_tokens":8,"model":"b","stream_options":{"include_usage":true}}"#,
        ),
        (
            &both,
            r#"{"generationConfig":{"maxOutputTokens":1e3},"model":"b","stream_options":{"include_usage":true}}"#,
            r#"{"generationConfig":{"maxOutputTokens":8},"model":"b","stream_options":{"include_usage":true}}"#,
        ),
    ] {
        assert_eq!(edited(before, wanted), after, "{before}");
    }
}

#[test]
fn a_conversation_that_goes_on_shares_its_prefix() {
    let said = "word ".repeat(1000);
    let first = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{said}"}}]}}"#);
    let second = format!(
        r#"{{"stream":true,"messages":[{{"role":"user","content":"{said}"}},{{"role":"assistant","content":"{said}"}}],"model":"m"}}"#
    );
    let other = first.replacen("word", "work", 1);
    let of = |body: &str, salt| PrefixHashes::of(&read(body), body.as_bytes(), None, salt);
    let (a, b, c) = (of(&first, 0), of(&second, 0), of(&other, 0));
    assert_eq!(a.as_slice().len(), a.prompt_bytes / BLOCK_BYTES);
    assert!(a.as_slice().len() >= 9);
    assert_eq!(a.as_slice(), &b.as_slice()[..a.as_slice().len()]);
    assert!(
        a.as_slice().iter().zip(c.as_slice()).all(|(a, c)| a != c),
        "a chain: no block after a difference is shared"
    );
    assert!(a.as_slice().iter().zip(of(&first, 1).as_slice()).all(|(a, c)| a != c), "tenants are apart");
    let renamed = first.replace("\"m\"", "\"alias\"");
    let with = |body: &str| PrefixHashes::of(&read(body), body.as_bytes(), Some("served"), 0);
    assert_eq!(with(&first), with(&renamed));
    let long = format!(r#"{{"model":"m","prompt":"{}"}}"#, "x".repeat(200_000));
    assert_eq!(of(&long, 0).as_slice().len(), MAX_BLOCKS);
}

/// Objects as clients write them: known and unknown members in any order, spelled with and without escapes and white space.
fn bodies() -> impl Strategy<Value = (String, Value)> {
    let member = prop_oneof![
        (Just("model"), ".{0,12}".prop_map(Value::from)),
        (Just("stream"), any::<bool>().prop_map(Value::from)),
        (
            Just("stream_options"),
            prop_oneof![
                Just(Value::Null),
                Just(json!({})),
                Just(json!({"include_usage": false})),
                Just(json!({"a": [1], "include_usage": true})),
            ]
        ),
        (Just("max_tokens"), any::<u32>().prop_map(Value::from)),
        (Just("n"), (1u32..5).prop_map(Value::from)),
        (
            Just("messages"),
            prop::collection::vec(".{0,9}".prop_map(|text| json!({"role": "user", "content": text})), 0..4)
                .prop_map(Value::from)
        ),
        (
            prop::sample::select(vec!["logprobs", "x", "metadata"]),
            prop_oneof![Just(json!({"model": "inner"})), Just(json!([null, "]}"])), Just(json!(1.5))]
        ),
    ];
    (prop::collection::vec(member, 0..8), prop::collection::vec(any::<bool>(), 40)).prop_map(|(members, choices)| {
        let mut choices = choices.into_iter().cycle();
        let mut choose = move || choices.next().unwrap_or_default();
        let mut tree = serde_json::Map::new();
        let mut body = String::from("{");
        for (name, value) in members {
            if tree.contains_key(name) {
                continue;
            }
            body.push_str(if tree.is_empty() { "" } else { "," });
            let spelled =
                if choose() { name.to_owned() } else { format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]) };
            let space = if choose() { " \n" } else { "" };
            body.push_str(&format!("{space}\"{spelled}\"{space}:{space}{value}{space}"));
            tree.insert(name.to_owned(), value);
        }
        body.push('}');
        (body, Value::Object(tree))
    })
}

proptest! {
    #[test]
    fn the_scanner_reads_what_another_parser_reads((body, tree) in bodies()) {
        let found = read(&body);
        let bytes = body.as_bytes();
        prop_assert_eq!(serde_json::from_str::<Value>(&body).ok(), Some(tree.clone()));
        prop_assert_eq!(found.model(bytes).map(Value::from).unwrap_or_default(), tree.get("model").cloned().unwrap_or_default());
        prop_assert_eq!(found.stream(bytes), tree["stream"] == true);
        prop_assert_eq!(found.max_output(Api::Completions, bytes), tree["max_tokens"].as_u64());
        prop_assert_eq!(found.choices(Api::Chat, bytes), tree["n"].as_u64().unwrap_or(1));
        prop_assert_eq!(found.messages as usize, tree["messages"].as_array().map_or(0, Vec::len));
        for (member, name) in [(Member::Messages, "messages"), (Member::StreamOptions, "stream_options")] {
            let value = found.value(member).map(|span| serde_json::from_slice::<Value>(&bytes[span.range()]).expect("JSON"));
            prop_assert_eq!(value.as_ref(), tree.get(name).filter(|value| !value.is_null()));
        }
    }

    #[test]
    fn a_splice_changes_its_member_and_no_other_byte((body, mut tree) in bodies(), model in ".{0,12}", include_usage: bool) {
        let edits = Edits::of(&read(&body), body.as_bytes(), &Wanted { model: Some(&model), include_usage, max_output: None });
        let after = edits.apply(body.as_bytes());
        tree["model"] = model.as_str().into();
        if include_usage {
            match &mut tree["stream_options"] {
                Value::Object(options) => { options.insert("include_usage".into(), true.into()); }
                other => *other = json!({"include_usage": true}),
            }
        }
        prop_assert_eq!(serde_json::from_slice::<Value>(&after).ok(), Some(tree));
        prop_assert!(scan(&after).is_ok());
        let again = Edits::of(&scan(&after).expect("read"), &after, &Wanted { model: Some(&model), include_usage, max_output: None });
        prop_assert!(again.is_empty());
    }

    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = scan(&bytes);
    }
}

#[test]
fn completions_generate_for_each_prompt_and_for_the_best_of_them() {
    for (body, choices) in [
        (r#"{"prompt":"a"}"#, 1),
        (r#"{"prompt":["a","b","c"]}"#, 3),
        (r#"{"prompt":[1,2,3]}"#, 1),
        (r#"{"prompt":[[1,2],[3]],"n":2}"#, 4),
        (r#"{"prompt":"a","n":2,"best_of":5}"#, 5),
        (r#"{"prompt":["a","b"],"best_of":3}"#, 6),
        (r#"{"prompt":[],"n":2}"#, 2),
    ] {
        let found = scan(body.as_bytes()).expect(body);
        assert_eq!(found.choices(Api::Completions, body.as_bytes()), choices, "{body}");
    }
    // Chat has neither member.
    let body = br#"{"prompt":["a","b"],"best_of":3,"n":2}"#;
    assert_eq!(scan(body).expect("valid").choices(Api::Chat, body), 2);
}
