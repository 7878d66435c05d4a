//! The APIs that clients and providers speak.

/// An API, distinguished by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Api {
    /// OpenAI `POST /v1/chat/completions`.
    Chat,
    /// OpenAI `POST /v1/completions`.
    Completions,
    /// OpenAI `POST /v1/responses`.
    Responses,
    /// OpenAI `POST /v1/embeddings`.
    Embeddings,
    /// OpenAI `POST /v1/moderations`.
    Moderations,
    /// OpenAI `POST /v1/images/generations`.
    Images,
    /// OpenAI `POST /v1/images/edits`.
    ImageEdits,
    /// OpenAI `POST /v1/images/variations`.
    ImageVariations,
    /// OpenAI `POST /v1/audio/speech`.
    Speech,
    /// OpenAI `POST /v1/audio/transcriptions`.
    Transcriptions,
    /// OpenAI `POST /v1/audio/translations`.
    Translations,
    /// Anthropic `POST /v1/messages` and `/v1/messages/count_tokens`.
    Messages,
    /// Gemini `POST /v1beta/models/{model}:generateContent`, `:streamGenerateContent` and `:countTokens`.
    Gemini,
}

/// Anthropic's path for counting the tokens of a prompt.
pub const MESSAGES_COUNT: &str = "/v1/messages/count_tokens";

/// The method in a path of Gemini's API, which has no other place for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeminiMethod {
    /// `generateContent`: a whole response.
    Generate,
    /// `streamGenerateContent`: events with `alt=sse` in the query, else an array.
    Stream,
    /// `countTokens`: generates nothing.
    Count,
}

impl GeminiMethod {
    /// Its name in a path.
    pub fn name(self) -> &'static str {
        match self {
            GeminiMethod::Generate => "generateContent",
            GeminiMethod::Stream => "streamGenerateContent",
            GeminiMethod::Count => "countTokens",
        }
    }

    /// The model and the method that a request path without its query names. Clients use both versions of the API.
    pub fn of_path(path: &str) -> Option<(&str, GeminiMethod)> {
        let rest = path.strip_prefix("/v1beta/models/").or_else(|| path.strip_prefix("/v1/models/"))?;
        let (model, name) = rest.rsplit_once(':')?;
        let method = [GeminiMethod::Generate, GeminiMethod::Stream, GeminiMethod::Count]
            .into_iter()
            .find(|method| method.name() == name)?;
        (!model.is_empty() && !model.contains('/')).then_some((model, method))
    }
}

/// An operation on a response that a provider of OpenAI's API has stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredOperation {
    /// `GET /v1/responses/{id}`.
    Read,
    /// `DELETE /v1/responses/{id}`.
    Delete,
    /// `POST /v1/responses/{id}/cancel`.
    Cancel,
    /// `GET /v1/responses/{id}/input_items`.
    InputItems,
}

/// Longest id of a response; those of providers have about 50 bytes.
pub const LONGEST_ID: usize = 256;

impl StoredOperation {
    /// The id and the operations that a request path without its query names.
    pub fn of_path(path: &str) -> Option<(&str, &'static [StoredOperation])> {
        let (id, operations) = match path.strip_prefix("/v1/responses/")?.split_once('/') {
            // Operations of their own, which are not served.
            None if matches!(path, "/v1/responses/compact" | "/v1/responses/input_tokens") => return None,
            None => (&path["/v1/responses/".len()..], &[StoredOperation::Read, StoredOperation::Delete][..]),
            Some((id, "cancel")) => (id, &[StoredOperation::Cancel][..]),
            Some((id, "input_items")) => (id, &[StoredOperation::InputItems][..]),
            Some(_) => return None,
        };
        is_response_id(id).then_some((id, operations))
    }

    /// Method of its requests.
    pub fn method(self) -> &'static str {
        match self {
            StoredOperation::Read | StoredOperation::InputItems => "GET",
            StoredOperation::Delete => "DELETE",
            StoredOperation::Cancel => "POST",
        }
    }

    /// What follows the id in its path.
    pub fn suffix(self) -> &'static str {
        match self {
            StoredOperation::Read | StoredOperation::Delete => "",
            StoredOperation::Cancel => "/cancel",
            StoredOperation::InputItems => "/input_items",
        }
    }
}

/// Whether it may be the id of a response: a path contains it as it is, and all parsers read it alike.
pub fn is_response_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(is_plain) && !matches!(id, "." | "..")
}

/// The form of errors and of key fields: the provider family that an API belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// OpenAI and the many servers that copy it.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google Gemini.
    Gemini,
}

impl Api {
    /// All of them, for tables and tests.
    pub const ALL: [Api; 13] = [
        Api::Chat,
        Api::Completions,
        Api::Responses,
        Api::Embeddings,
        Api::Moderations,
        Api::Images,
        Api::ImageEdits,
        Api::ImageVariations,
        Api::Speech,
        Api::Transcriptions,
        Api::Translations,
        Api::Messages,
        Api::Gemini,
    ];

    /// Whether a model generates text, which may be a stream; otherwise a response is one document.
    pub fn generates_text(self) -> bool {
        matches!(self, Api::Chat | Api::Completions | Api::Responses | Api::Messages | Api::Gemini)
    }

    /// Whether requests are forms (`multipart/form-data`); those of the others are JSON.
    pub fn takes_form(self) -> bool {
        matches!(self, Api::ImageEdits | Api::ImageVariations | Api::Transcriptions | Api::Translations)
    }

    /// Whether a response may be anything: audio, subtitles, events that nobody here reads.
    pub fn is_opaque(self) -> bool {
        self.takes_form() || self == Api::Speech
    }

    /// The API that a request path without its query belongs to; the model is in the path for Gemini.
    pub fn of_path(path: &str) -> Option<Api> {
        Some(match path {
            "/v1/chat/completions" => Api::Chat,
            "/v1/completions" => Api::Completions,
            "/v1/responses" => Api::Responses,
            "/v1/embeddings" => Api::Embeddings,
            "/v1/moderations" => Api::Moderations,
            "/v1/images/generations" => Api::Images,
            "/v1/images/edits" => Api::ImageEdits,
            "/v1/images/variations" => Api::ImageVariations,
            "/v1/audio/speech" => Api::Speech,
            "/v1/audio/transcriptions" => Api::Transcriptions,
            "/v1/audio/translations" => Api::Translations,
            "/v1/messages" | MESSAGES_COUNT => Api::Messages,
            _ => GeminiMethod::of_path(path).map(|_| Api::Gemini)?,
        })
    }

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Api::Chat => "chat",
            Api::Completions => "completions",
            Api::Responses => "responses",
            Api::Embeddings => "embeddings",
            Api::Moderations => "moderations",
            Api::Images => "images",
            Api::ImageEdits => "image_edits",
            Api::ImageVariations => "image_variations",
            Api::Speech => "speech",
            Api::Transcriptions => "transcriptions",
            Api::Translations => "translations",
            Api::Messages => "messages",
            Api::Gemini => "gemini",
        }
    }

    /// The provider family.
    pub fn family(self) -> Family {
        match self {
            Api::Messages => Family::Anthropic,
            Api::Gemini => Family::Gemini,
            _ => Family::OpenAi,
        }
    }
}

#[cfg(test)]
mod tests;
