//! Gemini's generateContent: requests and responses to and from the other two APIs.
//!
//! Names and meanings of members are those of `google-genai` 3.6.1 (`types.py`, `models.py`) and of the REST reference
//! (<https://ai.google.dev/api/generate-content>).

mod call_id;
mod from_chat;
mod from_messages;
mod request;
mod response;
mod schema;
mod stream;
mod to_chat;
mod to_response;

pub use call_id::CallIds;
pub use from_chat::chat_to_gemini;
pub use from_messages::messages_to_gemini;
pub use response::{gemini_response_to_chat, gemini_response_to_message};
pub use stream::{GeminiToChatStream, GeminiToMessagesStream};
pub use to_chat::{gemini_to_chat, gemini_to_messages};
pub use to_response::{
    ChatToGeminiStream, MessagesToGeminiStream, chat_response_to_gemini, message_response_to_gemini,
};

/// The major version in a model's name: 2 of `gemini-2.5-flash`.
fn version(model: &str) -> Option<u32> {
    let (_, rest) = model.rsplit_once("gemini-")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests;
