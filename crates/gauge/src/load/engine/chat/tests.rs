use proptest::prelude::*;

use super::{Chat, End};

const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one \\u00fc\"},\"finish_reason\":null}],\"usage\":null}\r\n\r\n";
const STOP: &str = ": a comment\n\ndata:{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\n\n";
const ERROR: &str = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn end(parts: &[&str], properly: bool) -> End {
    let mut chat = Chat::new(true);
    chat.data(parts.concat().as_bytes());
    chat.end(properly)
}

#[test]
fn only_an_end_reason_and_a_proper_end_make_a_response_complete() {
    assert_eq!(end(&[ROLE, WORD, STOP, DONE], true), End::Complete);
    assert_eq!(end(&[ROLE, WORD, STOP], true), End::Complete, "[DONE] is not needed");
    assert_eq!(end(&[ROLE, WORD, STOP, DONE], false), End::Cut, "the body was cut");
    assert_eq!(end(&[ROLE, WORD, DONE], true), End::Cut, "[DONE] alone proves nothing");
    assert_eq!(end(&[ROLE, WORD], true), End::Cut);
    assert_eq!(end(&[], true), End::Cut);
    assert_eq!(end(&[ROLE, WORD, STOP.trim_end()], true), End::Cut, "an event without its empty line is none");
    assert_eq!(end(&[ROLE, WORD, ERROR, DONE], true), End::ErrorEvent);
    assert_eq!(end(&[ROLE, WORD, STOP, ERROR], true), End::ErrorEvent);
    assert_eq!(end(&[ROLE, WORD, ERROR], false), End::ErrorEvent);
    assert_eq!(end(&["data: <html>\n\n"], true), End::ErrorEvent);
    for whole in ["{\"choices\":[]}", "{\n  \"choices\": []\n}"] {
        assert_eq!(end(&[whole], true), End::ErrorEvent, "a whole response is no stream");
    }
    let second = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"x\"}}]}\n\n";
    assert_eq!(end(&[WORD, second, STOP], true), End::Cut, "one choice of two has no end");
}

#[test]
fn a_whole_response_is_read_as_one() {
    let read = |text: &str| {
        let mut chat = Chat::new(false);
        let (a, b) = text.as_bytes().split_at(text.len() / 2);
        chat.data(a);
        chat.data(b);
        (chat.end(true), chat.output_tokens)
    };
    let whole =
        r#"{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"completion_tokens":3}}"#;
    assert_eq!(read(whole), (End::Complete, Some(3)));
    assert_eq!(read(&whole.replace("\"stop\"", "null")).0, End::Cut);
    assert_eq!(read(r#"{"error":{"message":"x"}}"#).0, End::ErrorEvent);
    assert_eq!(read(r#"{"choices":[{"#).0, End::ErrorEvent);
}

#[test]
fn a_role_is_not_content() {
    let mut chat = Chat::new(true);
    chat.data_at(ROLE.as_bytes(), 5);
    assert_eq!(chat.first, 0);
    chat.data_at(WORD.as_bytes(), 10);
    chat.data_at(WORD.as_bytes(), 17);
    chat.data_at(STOP.as_bytes(), 30);
    assert_eq!((chat.first, chat.last, chat.contents), (10, 17, 2));
    assert_eq!(chat.gaps, [7]);
    chat.reset();
    assert_eq!((chat.first, chat.contents, chat.end(true)), (0, 0, End::Cut));
}

proptest! {
    #[test]
    fn where_the_bytes_are_cut_changes_nothing(words in 0_usize..6, stop: bool, error: bool, cuts in prop::collection::vec(0_usize..2000, 0..12)) {
        let text = [ROLE, &WORD.repeat(words), if error { ERROR } else { "" }, if stop { STOP } else { "" }, USAGE, DONE].concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (text.len() + 1)).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let mut chat = Chat::new(true);
        for pair in cuts.windows(2) {
            chat.data(&text.as_bytes()[pair[0]..pair[1]]);
        }
        let expected = if error { End::ErrorEvent } else if stop { End::Complete } else { End::Cut };
        prop_assert_eq!(chat.end(true), expected);
        prop_assert_eq!(chat.contents, words as u64);
        prop_assert_eq!(chat.gaps.len(), words.saturating_sub(1));
        if !error {
            prop_assert_eq!(chat.output_tokens, Some(7));
        }
    }
}
