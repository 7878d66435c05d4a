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
    /// Anthropic `POST /v1/messages`.
    Messages,
    /// Gemini `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`.
    Gemini,
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
    pub const ALL: [Api; 6] =
        [Api::Chat, Api::Completions, Api::Responses, Api::Embeddings, Api::Messages, Api::Gemini];

    /// The API that a request path without its query belongs to; the model is in the path for Gemini.
    pub fn of_path(path: &str) -> Option<Api> {
        Some(match path {
            "/v1/chat/completions" => Api::Chat,
            "/v1/completions" => Api::Completions,
            "/v1/responses" => Api::Responses,
            "/v1/embeddings" => Api::Embeddings,
            "/v1/messages" => Api::Messages,
            _ => {
                let (model, method) = path.strip_prefix("/v1beta/models/")?.rsplit_once(':')?;
                let known = matches!(method, "generateContent" | "streamGenerateContent");
                (known && !model.is_empty() && !model.contains('/')).then_some(Api::Gemini)?
            }
        })
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
