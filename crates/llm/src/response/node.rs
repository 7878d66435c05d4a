//! Where in a response a value stands: the paths that are read.

use crate::Api;
use crate::api::Family;

/// A place in the JSON of a response or an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Other,
    Root,
    /// `choices`, `candidates`.
    Choices,
    Choice,
    Index,
    /// `delta`, `message` of a choice.
    Delta,
    /// Text, reasoning or a refusal: content if it is not empty.
    Text,
    /// Tool calls: content as soon as there is one.
    ToolCalls,
    /// Audio, images, code: content as soon as there is something.
    Media,
    EndReason,
    /// Gemini's `promptFeedback.blockReason`.
    BlockReason,
    Feedback,
    Usage,
    InputDetails,
    Input,
    Output,
    Cached,
    CacheWrite,
    Thoughts,
    ToolInput,
    Error,
    ErrorMessage,
    ErrorType,
    ErrorCode,
    /// `type` of an event.
    Type,
    /// Anthropic's `message`, Responses' `response`.
    Message,
    /// Blocks and items that carry a type.
    Blocks,
    Block,
    BlockType,
    /// Responses' `status`.
    Status,
    /// Responses' `id`.
    ResponseId,
    Incomplete,
    Content,
    Parts,
    Part,
}

impl Node {
    /// The node of an array's elements.
    pub(super) fn item(self) -> Node {
        match self {
            Node::Choices => Node::Choice,
            Node::Blocks => Node::Block,
            Node::Parts => Node::Part,
            other => other,
        }
    }

    /// The node of an object's member.
    pub(super) fn child(self, api: Api, key: &[u8]) -> Node {
        match (self, key) {
            (Node::Usage | Node::InputDetails, _) => usage(self, key),
            (Node::Root, b"error") | (Node::Message, b"error") => Node::Error,
            (Node::Error, b"message") => Node::ErrorMessage,
            (Node::Error, b"type" | b"status") => Node::ErrorType,
            (Node::Error, b"code") => Node::ErrorCode,
            (Node::Text, b"type") => Node::Other,
            (Node::Text | Node::ToolCalls | Node::Media, _) => self,
            _ => match (api, api.family()) {
                (Api::Responses, _) => responses(self, key),
                (_, Family::OpenAi) => openai(self, key),
                (_, Family::Anthropic) => anthropic(self, key),
                (_, Family::Gemini) => gemini(self, key),
            },
        }
    }
}

fn usage(node: Node, key: &[u8]) -> Node {
    match (node, key) {
        (Node::Usage, b"prompt_tokens" | b"input_tokens" | b"promptTokenCount") => Node::Input,
        (Node::Usage, b"completion_tokens" | b"output_tokens" | b"candidatesTokenCount") => Node::Output,
        (Node::Usage, b"cache_read_input_tokens" | b"cachedContentTokenCount") => Node::Cached,
        (Node::Usage, b"cache_creation_input_tokens") => Node::CacheWrite,
        (Node::Usage, b"thoughtsTokenCount") => Node::Thoughts,
        (Node::Usage, b"toolUsePromptTokenCount") => Node::ToolInput,
        (Node::Usage, b"prompt_tokens_details" | b"input_tokens_details") => Node::InputDetails,
        (Node::InputDetails, b"cached_tokens") => Node::Cached,
        (Node::InputDetails, b"cache_write_tokens") => Node::CacheWrite,
        _ => Node::Other,
    }
}

fn openai(node: Node, key: &[u8]) -> Node {
    match (node, key) {
        (Node::Root, b"choices") => Node::Choices,
        (Node::Root, b"usage") => Node::Usage,
        // some servers send `{"object":"error","message":...}`
        (Node::Root, b"object") => Node::Type,
        (Node::Root, b"message") => Node::ErrorMessage,
        (Node::Root, b"code") => Node::ErrorCode,
        // embeddings
        (Node::Root, b"data") => Node::Media,
        (Node::Choice, b"index") => Node::Index,
        (Node::Choice, b"delta" | b"message") => Node::Delta,
        (Node::Choice, b"text") => Node::Text,
        (Node::Choice, b"finish_reason") => Node::EndReason,
        (Node::Delta, b"content" | b"reasoning" | b"reasoning_content" | b"refusal") => Node::Text,
        (Node::Delta, b"tool_calls" | b"function_call") => Node::ToolCalls,
        (Node::Delta, b"audio" | b"images") => Node::Media,
        _ => Node::Other,
    }
}

fn anthropic(node: Node, key: &[u8]) -> Node {
    match (node, key) {
        (Node::Root, b"type") => Node::Type,
        (Node::Root, b"message") => Node::Message,
        (Node::Root | Node::Message, b"usage") => Node::Usage,
        (Node::Root | Node::Message, b"content") => Node::Blocks,
        (Node::Root | Node::Message | Node::Delta, b"stop_reason") => Node::EndReason,
        (Node::Root, b"content_block") => Node::Block,
        (Node::Root, b"delta") => Node::Delta,
        (Node::Block, b"type") => Node::BlockType,
        (Node::Block | Node::Delta, b"text" | b"thinking") => Node::Text,
        (Node::Delta, b"partial_json") => Node::ToolCalls,
        _ => Node::Other,
    }
}

fn responses(node: Node, key: &[u8]) -> Node {
    match (node, key) {
        (Node::Root, b"type") => Node::Type,
        (Node::Root, b"response") => Node::Message,
        (Node::Root, b"delta") => Node::Text,
        (Node::Root, b"item") => Node::Block,
        // an `error` event has them beside its type
        (Node::Root, b"message") => Node::ErrorMessage,
        (Node::Root, b"code") => Node::ErrorCode,
        (Node::Root | Node::Message, b"usage") => Node::Usage,
        (Node::Root | Node::Message, b"status") => Node::Status,
        (Node::Root | Node::Message, b"id") => Node::ResponseId,
        (Node::Root | Node::Message, b"output") => Node::Blocks,
        (Node::Root | Node::Message, b"incomplete_details") => Node::Incomplete,
        (Node::Incomplete, b"reason") => Node::EndReason,
        (Node::Block, b"type") => Node::BlockType,
        (Node::Block, b"content" | b"summary") => Node::Text,
        _ => Node::Other,
    }
}

fn gemini(node: Node, key: &[u8]) -> Node {
    match (node, key) {
        (Node::Root, b"candidates") => Node::Choices,
        (Node::Root, b"usageMetadata") => Node::Usage,
        (Node::Root, b"promptFeedback") => Node::Feedback,
        (Node::Feedback, b"blockReason") => Node::BlockReason,
        (Node::Choice, b"index") => Node::Index,
        (Node::Choice, b"content") => Node::Content,
        (Node::Choice, b"finishReason") => Node::EndReason,
        (Node::Content, b"parts") => Node::Parts,
        (Node::Part, b"text") => Node::Text,
        (Node::Part, b"functionCall") => Node::ToolCalls,
        (Node::Part, b"inlineData" | b"executableCode" | b"codeExecutionResult" | b"fileData") => Node::Media,
        _ => Node::Other,
    }
}
