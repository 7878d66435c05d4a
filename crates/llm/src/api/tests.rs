use super::{Api, Family, GeminiMethod, StoredOperation};

#[test]
fn a_path_names_its_api() {
    for (path, api) in [
        ("/v1/chat/completions", Some(Api::Chat)),
        ("/v1/completions", Some(Api::Completions)),
        ("/v1/responses", Some(Api::Responses)),
        ("/v1/embeddings", Some(Api::Embeddings)),
        ("/v1/moderations", Some(Api::Moderations)),
        ("/v1/images/generations", Some(Api::Images)),
        ("/v1/images/edits", Some(Api::ImageEdits)),
        ("/v1/images/variations", Some(Api::ImageVariations)),
        ("/v1/audio/speech", Some(Api::Speech)),
        ("/v1/audio/transcriptions", Some(Api::Transcriptions)),
        ("/v1/audio/translations", Some(Api::Translations)),
        ("/v1/audio", None),
        ("/v1/responses/resp_1", None),
        ("/v1/messages", Some(Api::Messages)),
        ("/v1/messages/count_tokens", Some(Api::Messages)),
        ("/v1/messages/batches", None),
        ("/v1beta/models/gemini-2.5-pro:generateContent", Some(Api::Gemini)),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent", Some(Api::Gemini)),
        ("/v1/models/gemini-2.5-pro:generateContent", Some(Api::Gemini)),
        ("/v1/models/gemini-2.5-pro", None),
        ("/v1beta/models/:generateContent", None),
        ("/v1beta/models/a/b:generateContent", None),
        ("/v1beta/models/a:countTokens", Some(Api::Gemini)),
        ("/v1beta/models/a:embedContent", None),
        ("/v1beta/models/a", None),
        ("/v1/chat/completions/", None),
        ("/v1/models", None),
    ] {
        assert_eq!(Api::of_path(path), api, "{path}");
    }
    let named = GeminiMethod::of_path("/v1beta/models/a:b:streamGenerateContent");
    assert_eq!(named, Some(("a:b", GeminiMethod::Stream)));
    assert_eq!(Api::Messages.family(), Family::Anthropic);
    assert_eq!(Api::Gemini.family(), Family::Gemini);
    assert_eq!(Api::Responses.family(), Family::OpenAi);
}

#[test]
fn a_path_names_a_stored_response() {
    use StoredOperation::{Cancel, Delete, InputItems, Read};
    let longest = format!("/v1/responses/{}", "r".repeat(256));
    for (path, operations) in [
        ("/v1/responses/resp_68a-B.c:d~", Some(&[Read, Delete][..])),
        ("/v1/responses/resp_1/cancel", Some(&[Cancel][..])),
        ("/v1/responses/resp_1/input_items", Some(&[InputItems][..])),
        (&longest, Some(&[Read, Delete][..])),
        (&format!("{longest}r"), None),
        ("/v1/responses/resp_1/", None),
        ("/v1/responses/resp_1/other", None),
        ("/v1/responses/resp_1/cancel/", None),
        ("/v1/responses//cancel", None),
        ("/v1/responses/../cancel", None),
        ("/v1/responses/.", None),
        ("/v1/responses/a%20b", None),
        ("/v1/responses/a?b", None),
        ("/v1/responses/", None),
        ("/v1/responses", None),
        ("/v1/responses/compact", None),
        ("/v1/responses/input_tokens", None),
    ] {
        assert_eq!(StoredOperation::of_path(path).map(|(_, operations)| operations), operations, "{path}");
    }
    assert_eq!(StoredOperation::of_path("/v1/responses/resp_1/cancel").map(|(id, _)| id), Some("resp_1"));
    assert_eq!(StoredOperation::of_path("/v1/responses/cancel").map(|(id, _)| id), Some("cancel"));
    let all = [Read, Delete, Cancel, InputItems].map(|operation| (operation.method(), operation.suffix()));
    assert_eq!(all, [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")]);
}
