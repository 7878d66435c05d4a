//! What this side sends.

use message::Known;

use super::Connection;
use crate::error::ErrorCode;
use crate::frame::{self, HEADER, MAX_PAYLOAD};
use crate::hpack::Encoder;

/// A frame that cannot be sent: a mistake of the caller, or the stream is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The stream is not open for sending: unknown, reset, or ended.
    Closed,
    /// Not in this order: data before the head, a second head.
    Order,
    /// No stream can be opened now.
    NoStream,
}

impl Connection {
    /// Sends a request; `line` is `:method`, `:scheme`, `:authority`, `:path` and for an extended CONNECT `:protocol`. Fields of the
    /// connection and Host are left out, names become lower case. Returns the stream.
    ///
    /// # Errors
    /// [`SendError::NoStream`] when [`Connection::available_streams`] is 0, or the peer does not offer what `:protocol` needs.
    pub fn send_request<'a>(
        &mut self,
        line: RequestLine<'_>,
        fields: impl Iterator<Item = (Known, &'a [u8], &'a [u8])>,
        end: bool,
    ) -> Result<u32, SendError> {
        if self.is_server
            || self.available_streams() == 0
            || line.protocol.is_some() && !self.peer.enable_connect_protocol
        {
            return Err(SendError::NoStream);
        }
        let id = self.next_local;
        self.next_local += 2;
        let is_head = line.method == b"HEAD";
        let stream = self.insert(id);
        stream.head_sent = true;
        stream.send_ended = end;
        stream.is_head_request = is_head;
        stream.is_connect = line.protocol.is_some();
        self.write_block(id, end, |encoder, out| {
            encoder.pseudo(out, b":method", 2, line.method, true);
            if let Some(protocol) = line.protocol {
                encoder.field(out, Known::Other, b":protocol", protocol);
            }
            encoder.pseudo(out, b":scheme", 6, line.scheme, true);
            encoder.pseudo(out, b":authority", 1, line.authority, true);
            encoder.pseudo(out, b":path", 4, line.path, false);
            write_fields(encoder, out, fields, true);
        });
        Ok(id)
    }

    /// Sends a final response head.
    ///
    /// # Errors
    /// The stream is over, or has its head already.
    pub fn send_response<'a>(
        &mut self,
        stream: u32,
        status: u16,
        fields: impl Iterator<Item = (Known, &'a [u8], &'a [u8])>,
        end: bool,
    ) -> Result<(), SendError> {
        let entry = self.streams.find(stream).filter(|entry| !entry.send_ended).ok_or(SendError::Closed)?;
        if entry.head_sent || !self.is_server || !(200..=999).contains(&status) {
            return Err(SendError::Order);
        }
        entry.head_sent = true;
        entry.send_ended = end;
        if status < 400 {
            self.budget.refund();
        }
        self.write_block(stream, end, |encoder, out| {
            encoder.status(out, status);
            write_fields(encoder, out, fields, false);
        });
        Ok(())
    }

    /// Sends an interim response.
    ///
    /// # Errors
    /// The stream is over, has its head already, or the status is not 1xx; 101 does not exist (section 8.6).
    pub fn send_interim<'a>(
        &mut self,
        stream: u32,
        status: u16,
        fields: impl Iterator<Item = (Known, &'a [u8], &'a [u8])>,
    ) -> Result<(), SendError> {
        let entry = self.streams.find(stream).filter(|entry| !entry.send_ended).ok_or(SendError::Closed)?;
        if entry.head_sent || !self.is_server || !(100..200).contains(&status) || status == 101 {
            return Err(SendError::Order);
        }
        self.write_block(stream, false, |encoder, out| {
            encoder.status(out, status);
            write_fields(encoder, out, fields, false);
        });
        Ok(())
    }

    /// Sends trailers and ends the stream.
    ///
    /// # Errors
    /// The stream is over or has no head yet.
    pub fn send_trailers<'a>(
        &mut self,
        stream: u32,
        fields: impl Iterator<Item = (Known, &'a [u8], &'a [u8])>,
    ) -> Result<(), SendError> {
        let entry = self.streams.find(stream).filter(|entry| !entry.send_ended).ok_or(SendError::Closed)?;
        if !entry.head_sent {
            return Err(SendError::Order);
        }
        entry.send_ended = true;
        self.write_block(stream, true, |encoder, out| write_fields(encoder, out, fields, false));
        Ok(())
    }

    /// Bytes of data that the windows allow now, at most one frame.
    pub fn capacity(&mut self, stream: u32) -> usize {
        let Some(entry) = self.streams.find(stream) else { return 0 };
        entry.send.available().min(self.send.available()).min(MAX_PAYLOAD)
    }

    /// Sends one frame of data, as much of it as windows and frame size allow, and returns how much that was; 0 for some means that
    /// the window is empty ([`super::Event::Writable`] follows). `end` ends the stream if all was taken.
    ///
    /// # Errors
    /// The stream is over or has no head yet.
    pub fn send_data(&mut self, stream: u32, data: &[u8], end: bool) -> Result<usize, SendError> {
        let connection_window = self.send.available();
        let entry = self.streams.find(stream).filter(|entry| !entry.send_ended).ok_or(SendError::Closed)?;
        if !entry.head_sent {
            return Err(SendError::Order);
        }
        let length = data.len().min(entry.send.available()).min(connection_window).min(MAX_PAYLOAD);
        if length == 0 && !(data.is_empty() && end) {
            entry.is_blocked = true;
            self.is_blocked |= connection_window == 0;
            return Ok(0);
        }
        let end = end && length == data.len();
        entry.send.take(length);
        entry.send_ended = end;
        self.send.take(length);
        self.data_frames_sent += 1;
        self.has_sent_since_ping = true;
        let flags = if end { frame::END_STREAM } else { 0 };
        self.out.extend_from_slice(&frame::header(length, frame::DATA, flags, stream));
        self.out.extend_from_slice(data.get(..length).unwrap_or_default());
        Ok(length)
    }

    /// Writes a status without fields, for requests that are refused here.
    pub(super) fn write_refusal(&mut self, stream: u32, status: u16) {
        self.write_block(stream, true, |encoder, out| encoder.status(out, status));
    }

    fn write_block(&mut self, stream: u32, end: bool, write: impl FnOnce(&mut Encoder, &mut Vec<u8>)) {
        self.has_sent_since_ping = true;
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER]);
        self.encoder.begin(&mut self.out);
        write(&mut self.encoder, &mut self.out);
        let length = self.out.len() - start - HEADER;
        let end_stream = if end { frame::END_STREAM } else { 0 };
        let (first, end_headers) = if length <= MAX_PAYLOAD { (length, frame::END_HEADERS) } else { (MAX_PAYLOAD, 0) };
        self.out[start..start + HEADER].copy_from_slice(&frame::header(
            first,
            frame::HEADERS,
            end_stream | end_headers,
            stream,
        ));
        if length > MAX_PAYLOAD {
            let rest = self.out.split_off(start + HEADER + MAX_PAYLOAD);
            let mut parts = rest.chunks(MAX_PAYLOAD).peekable();
            while let Some(part) = parts.next() {
                let flags = if parts.peek().is_none() { frame::END_HEADERS } else { 0 };
                self.out.extend_from_slice(&frame::header(part.len(), frame::CONTINUATION, flags, stream));
                self.out.extend_from_slice(part);
            }
        }
    }

    /// Ends the connection for a reason of this side.
    pub fn close(&mut self, code: ErrorCode) {
        let _: Result<(), _> = self.fail(code, "closed by this side");
    }
}

/// The pseudo-fields of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    /// `:method`
    pub method: &'a [u8],
    /// `:scheme`
    pub scheme: &'a [u8],
    /// `:authority`
    pub authority: &'a [u8],
    /// `:path`
    pub path: &'a [u8],
    /// `:protocol` (RFC 8441)
    pub protocol: Option<&'a [u8]>,
}

/// Fields but those of the connection and Host, which `:authority` replaces.
fn write_fields<'a>(
    encoder: &mut Encoder,
    out: &mut Vec<u8>,
    fields: impl Iterator<Item = (Known, &'a [u8], &'a [u8])>,
    is_request: bool,
) {
    for (known, name, value) in fields {
        let is_te = known == Known::Te && is_request && value.eq_ignore_ascii_case(b"trailers");
        if (known.is_hop_by_hop() && known != Known::Trailer && !is_te)
            || known == Known::Host
            || known == Known::Http2Settings
        {
            continue;
        }
        encoder.field(out, known, name, value);
    }
}
