//! A stream that broke off, and another response of the same model that goes on from there.
//!
//! The request is sent again. What the second response repeats of what the client has is withheld, as long as it is the same byte for byte; what
//! comes behind it goes on to the client. A difference ends the attempt ([`Differs`]): two responses are never mixed.
//!
//! The text is compared, not its events, which may be cut elsewhere: the text of each choice, of each member of it and of each tool call by itself.
//! Ids that providers make for a response or a call are not compared; the first ones stay. Nothing of the second response is passed on before it
//! has repeated all of the first one. What cannot be compared, such as probabilities, citations and members that nobody here knows, makes a response
//! one that nothing can go on with.

mod chat;
mod messages;
mod text;

use crate::Api;
use crate::translate::event_data;
use chat::Chat;
use messages::Messages;
use serde_json::Value;

/// Most bytes that are kept of one response: nothing can go on with a longer one.
const MOST: usize = 8 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The response says something else than what the client has, or something that cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Differs;

/// What may still be kept of a response.
#[derive(Debug, Clone)]
struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Room(MOST)
    }
}

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Differs> {
        self.0 = self.0.checked_sub(bytes).ok_or(Differs)?;
        Ok(())
    }
}

/// What a client has of a stream.
#[derive(Debug)]
pub struct Splice {
    parts: Parts,
    /// Events of the response on its way so far.
    events: u64,
    /// What the client had when the response on its way began, until that one has repeated all.
    before: Option<Parts>,
    /// What is new in a response that has not repeated all yet.
    held: Vec<u8>,
    /// The response on its way has gone on with the one before.
    has_continued: bool,
    /// The response is not the first one.
    is_repeated: bool,
    /// It goes on behind the text: nothing of it is compared.
    is_behind: bool,
    /// What the client has cannot be compared.
    is_opaque: bool,
    /// Pieces of an event that is not at its end; `None` if it is too long to be kept.
    event: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
enum Parts {
    Chat(Chat),
    Messages(Messages),
}

impl Splice {
    /// For a client of this API; `None` if its streams cannot be compared.
    pub fn new(api: Api) -> Option<Self> {
        let parts = match api {
            Api::Chat | Api::Completions => Parts::Chat(Chat::default()),
            Api::Messages => Parts::Messages(Messages::default()),
            _ => return None,
        };
        Some(Splice {
            parts,
            events: 0,
            before: None,
            held: Vec::new(),
            has_continued: false,
            is_repeated: false,
            is_behind: false,
            is_opaque: false,
            event: Some(Vec::new()),
        })
    }

    /// Takes whole events, or pieces of one, `last` with its end. Appends to `out` what the client gets: of the first response everything, as it is.
    ///
    /// # Errors
    /// The response is another one. What was appended before remains true.
    pub fn piece(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), Differs> {
        if !self.is_repeated {
            out.extend_from_slice(bytes);
        }
        let held = match &mut self.event {
            Some(held) if held.is_empty() && last => return self.events(bytes, out),
            Some(held) if held.len() + bytes.len() <= MOST => {
                held.extend_from_slice(bytes);
                self.event.take_if(|_| last)
            }
            _ if self.is_repeated => return Err(Differs),
            _ => {
                self.is_opaque = true;
                self.event = None;
                None
            }
        };
        if last {
            self.event = Some(Vec::new());
        }
        self.events(&held.unwrap_or_default(), out)
    }

    /// A translated event is several, or none.
    fn events(&mut self, events: &[u8], out: &mut Vec<u8>) -> Result<(), Differs> {
        events_of(events).try_for_each(|event| self.event(event, out))
    }

    fn event(&mut self, event: &[u8], out: &mut Vec<u8>) -> Result<(), Differs> {
        self.events += 1;
        // A mark that does not begin the stream is part of a field name that nobody knows.
        let is_seen = self.events == 1 || !event.starts_with(BYTE_ORDER_MARK);
        let data = event_data(event).filter(|_| is_seen);
        let value = match data.as_deref().map(<[u8]>::trim_ascii) {
            Some(b"[DONE]") if self.is_repeated && !self.has_caught_up() => return Err(Differs),
            Some(b"[DONE]") if self.is_behind && !self.has_ended() => return Err(Differs),
            // Or a comment.
            None | Some(b"[DONE]" | b"") => {
                if self.is_repeated {
                    out.extend_from_slice(event);
                }
                return Ok(());
            }
            Some(data) => serde_json::from_slice::<Value>(data),
        };
        if !self.is_repeated {
            self.is_opaque |= match value {
                Ok(mut value) => !self.is_opaque && self.take(&mut value).is_err(),
                Err(_) => true,
            };
            return Ok(());
        }
        if self.is_behind {
            return self.behind(event, value.ok(), out);
        }
        let mut value = value.map_err(|_| Differs)?;
        if self.take(&mut value)? {
            if let Parts::Messages(_) = self.parts {
                self.held.extend_from_slice(b"event: ");
                self.held.extend_from_slice(value["type"].as_str().unwrap_or_default().as_bytes());
                self.held.push(b'\n');
            }
            self.held.extend_from_slice(b"data: ");
            self.held.extend_from_slice(value.to_string().as_bytes());
            self.held.extend_from_slice(b"\n\n");
        }
        if self.has_caught_up() {
            self.before = None;
            self.has_continued |= !self.held.is_empty();
            out.append(&mut self.held);
        } else if self.held.len() > MOST {
            return Err(Differs);
        }
        Ok(())
    }

    /// Takes an event that is not compared. What is not known there passes, and nothing can go on with the response any more.
    fn behind(&mut self, event: &[u8], value: Option<Value>, out: &mut Vec<u8>) -> Result<(), Differs> {
        let Some(whole) = value else {
            self.is_opaque = true;
            self.has_continued = true;
            out.extend_from_slice(event);
            return Ok(());
        };
        let mut value = whole.clone();
        let is_new = if self.is_opaque { Err(Differs) } else { self.take(&mut value) };
        if is_new.is_err() {
            self.is_opaque = true;
            value = whole;
            if let Parts::Chat(chat) = &self.parts {
                chat.put_id(&mut value);
            }
        }
        if is_new != Ok(false) {
            self.has_continued = true;
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(value.to_string().as_bytes());
            out.extend_from_slice(b"\n\n");
        }
        Ok(())
    }

    /// Whether every choice of which the client has anything has ended, as far as that is known.
    fn has_ended(&self) -> bool {
        match &self.parts {
            Parts::Chat(chat) => self.is_opaque || chat.has_ended(),
            Parts::Messages(_) => true,
        }
    }

    fn take(&mut self, event: &mut Value) -> Result<bool, Differs> {
        match &mut self.parts {
            Parts::Chat(chat) => chat.take(event),
            Parts::Messages(messages) => messages.take(event),
        }
    }

    /// Whether another response can go on from here.
    pub fn can_go_on(&self) -> bool {
        !self.is_opaque
    }

    /// The text that the client has, if it has nothing else of the response, and not its end: what a model may be told to go on with.
    pub fn plain_text(&self) -> Option<&str> {
        match self.before.as_ref().unwrap_or(&self.parts) {
            Parts::Chat(chat) if !self.is_opaque => chat.plain_text(),
            _ => None,
        }
    }

    /// Another response begins, which does not repeat this one but goes on behind its [text](Self::plain_text).
    pub fn restart_behind(&mut self) {
        self.begin();
        self.is_behind = true;
        if let Parts::Chat(chat) = &mut self.parts {
            chat.restart_behind();
        }
    }

    fn begin(&mut self) {
        self.is_repeated = true;
        self.is_behind = false;
        // What was held the client does not have.
        if let Some(before) = self.before.take() {
            self.parts = before;
        }
        self.events = 0;
        self.held = Vec::new();
        self.has_continued = false;
        self.event = Some(Vec::new());
    }

    /// Another response begins.
    pub fn restart(&mut self) {
        self.begin();
        self.before = Some(self.parts.clone());
        match &mut self.parts {
            Parts::Chat(chat) => chat.restart(),
            Parts::Messages(messages) => messages.restart(),
        }
    }

    /// Whether the client has something of the response on its way that the one before had not.
    pub fn has_continued(&self) -> bool {
        self.has_continued
    }

    /// Whether the response has repeated all that the client has.
    pub fn has_caught_up(&self) -> bool {
        match &self.parts {
            Parts::Chat(chat) => chat.has_caught_up(),
            Parts::Messages(messages) => messages.has_caught_up(),
        }
    }
}

/// Whole events, with their blank lines.
fn events_of(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let mut at = 0;
        let mut is_blank = true;
        // A line ends with CR LF, LF or CR; an event with an empty one.
        let end = loop {
            let Some(byte) = bytes.get(at) else { break bytes.len() };
            at += 1;
            let ends = match byte {
                b'\r' => {
                    at += usize::from(bytes.get(at) == Some(&b'\n'));
                    true
                }
                b'\n' => true,
                _ => false,
            };
            match ends {
                true if is_blank && at > 2 => break at,
                _ => is_blank = ends,
            }
        };
        let (event, rest) = bytes.split_at(end);
        bytes = rest;
        Some(event)
    })
}

#[cfg(test)]
mod tests;
