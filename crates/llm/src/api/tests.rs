use super::{Api, Family, GeminiMethod};

#[test]
fn a_path_names_its_api() {
    for (path, api) in [
        ("/v1/chat/completions", Some(Api::Chat)),
        ("/v1/completions", Some(Api::Completions)),
        ("/v1/responses", Some(Api::Responses)),
        ("/v1/embeddings", Some(Api::Embeddings)),
        ("/v1/moderations", Some(Api::Moderations)),
        ("/v1/images/generations", Some(Api::Images)),
        ("/v1/images/edits", None),
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
