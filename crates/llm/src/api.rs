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
    pub const ALL: [Api; 8] = [
        Api::Chat,
        Api::Completions,
        Api::Responses,
        Api::Embeddings,
        Api::Moderations,
        Api::Images,
        Api::Messages,
        Api::Gemini,
    ];

    /// Whether a model generates text, which may be a stream; otherwise a response is one document.
    pub fn generates_text(self) -> bool {
        !matches!(self, Api::Embeddings | Api::Moderations | Api::Images)
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
