//! Messages over WebSocket: each is another one, so that the echo of one is not taken for that of another.

use super::workload::{MessageKind, WebSocket};
use crate::websocket::Kind;

/// Bytes of the longest message.
const MOST: u64 = 16 << 20;

/// What is sent.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) kind: Kind,
    /// A message but for its number.
    template: Vec<u8>,
    /// Messages over a connection.
    pub(crate) per_connection: u64,
}

impl Messages {
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn new(plan: &WebSocket) -> Result<Self, String> {
        if plan.size > MOST {
            return Err(format!("messages of {} bytes; there are up to {MOST}", plan.size));
        }
        if plan.messages == Some(0) {
            return Err("`messages: 0`; a connection has at least one message".to_owned());
        }
        let (kind, template) = match plan.kind {
            MessageKind::Binary => (Kind::Binary, (0..plan.size).map(|at| (at % 251) as u8).collect()),
            MessageKind::Text => (Kind::Text, (0..plan.size).map(|at| b'a' + (at % 26) as u8).collect()),
        };
        Ok(Messages { kind, template, per_connection: plan.messages.unwrap_or(u64::MAX) })
    }

    /// Bytes of a message.
    pub(crate) fn size(&self) -> u64 {
        self.template.len() as u64
    }

    /// The message of a number, which it begins with as far as there is room.
    pub(crate) fn make(&self, number: u64, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.clear();
        out.extend_from_slice(&self.template);
        let mut text = [0; 16];
        let number = match self.kind {
            Kind::Binary => &number.to_be_bytes()[..],
            Kind::Text => {
                for (place, digit) in text.iter_mut().enumerate() {
                    *digit = DIGITS[(number >> (60 - 4 * place) & 0xF) as usize];
                }
                &text[..]
            }
        };
        let length = number.len().min(out.len());
        out[..length].copy_from_slice(&number[number.len() - length..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_size_and_differ_by_their_number() {
        for kind in [MessageKind::Binary, MessageKind::Text] {
            for size in [0, 1, 8, 15, 16, 128, 70_000] {
                let messages = Messages::new(&WebSocket { size, kind, messages: None }).expect("messages");
                let (mut one, mut other) = (Vec::new(), Vec::new());
                messages.make(0x0123_4567_89AB_CDEF, &mut one);
                messages.make(0x0123_4567_89AB_CDEE, &mut other);
                assert_eq!((one.len() as u64, messages.size()), (size, size));
                assert_eq!(one == other, size == 0, "{size}");
                assert!(kind == MessageKind::Binary || one.is_ascii());
            }
        }
        let text =
            Messages::new(&WebSocket { kind: MessageKind::Text, size: 18, messages: Some(3) }).expect("messages");
        let mut one = Vec::new();
        text.make(0x0123_4567_89AB_CDEF, &mut one);
        assert_eq!((one.as_slice(), text.per_connection), (&b"0123456789abcdefqr"[..], 3));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (size, messages, expected) in [(MOST + 1, None, "16777217 bytes"), (1, Some(0), "at least one message")] {
            let error = Messages::new(&WebSocket { size, messages, ..WebSocket::default() }).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
