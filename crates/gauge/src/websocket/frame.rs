//! Frames and messages (RFC 6455, sections 5 to 7). Extensions are not negotiated, so reserved bits are an error.

/// Bytes of the longest header: two, a length of 64 bits, a masking key.
const LONGEST: usize = 14;
/// Bytes of the longest payload of a control frame (section 5.5).
const CONTROL: u64 = 125;

/// Opcodes that are defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    fn of(bits: u8) -> Option<Self> {
        let all = [Opcode::Continuation, Opcode::Text, Opcode::Binary, Opcode::Close, Opcode::Ping, Opcode::Pong];
        all.into_iter().find(|opcode| *opcode as u8 == bits)
    }

    fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// Kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Binary,
}

impl Kind {
    /// The opcode of its first frame.
    pub(crate) fn opcode(self) -> Opcode {
        match self {
            Kind::Text => Opcode::Text,
            Kind::Binary => Opcode::Binary,
        }
    }
}

/// Who reads. A client masks all of its frames, a server none (section 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Something complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A message, which is [`Decoder::message`].
    Message(Kind),
    /// A ping; [`Decoder::control`] has its payload, which the pong repeats.
    Ping,
    /// A pong, with its payload likewise.
    Pong,
    /// The other side closes, with this code or without one; [`Decoder::control`] has the code's two bytes and the reason.
    Close(Option<u16>),
}

/// A rule that the other side broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Violation {
    /// A frame that must not be there, or not so.
    Protocol(&'static str),
    /// Text that is not valid UTF-8.
    NotText,
    /// A message that is longer than what is taken.
    TooLong,
}

impl Violation {
    /// In words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Violation::Protocol(text) => text,
            Violation::NotText => "a text that is not valid UTF-8",
            Violation::TooLong => "a message that is too long",
        }
    }

    /// The code that a connection is closed with for it (section 7.4.1).
    pub(crate) fn code(self) -> u16 {
        match self {
            Violation::Protocol(_) => 1002,
            Violation::NotText => 1007,
            Violation::TooLong => 1009,
        }
    }
}

/// Appends a frame; with a masking key that of a client.
pub(crate) fn write(out: &mut Vec<u8>, is_last: bool, opcode: Opcode, mask: Option<[u8; 4]>, payload: &[u8]) {
    out.push(u8::from(is_last) << 7 | opcode as u8);
    let masked = u8::from(mask.is_some()) << 7;
    match payload.len() {
        short @ 0..=125 => out.push(masked | short as u8),
        medium @ 126..=0xFFFF => {
            out.push(masked | 126);
            out.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            out.push(masked | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask.unwrap_or_default()[..if mask.is_some() { 4 } else { 0 }]);
    let at = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        apply(mask, 0, &mut out[at..]);
    }
}

/// Appends a close frame.
pub(crate) fn write_close(out: &mut Vec<u8>, code: Option<u16>, reason: &[u8], mask: Option<[u8; 4]>) {
    let mut payload = code.map_or(Vec::new(), |code| code.to_be_bytes().to_vec());
    if code.is_some() {
        payload.extend_from_slice(&reason[..reason.len().min(CONTROL as usize - 2)]);
    }
    write(out, true, Opcode::Close, mask, &payload);
}

/// Masks, or takes the mask off (section 5.3); `at` is where in the payload the bytes begin.
fn apply(mask: [u8; 4], at: u64, bytes: &mut [u8]) {
    let turned: [u8; 4] = std::array::from_fn(|index| mask[(index + (at % 4) as usize) % 4]);
    let wide = u64::from_ne_bytes(std::array::from_fn(|index| turned[index % 4]));
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(turned.iter().cycle()) {
        *byte ^= key;
    }
}

/// The frame whose payload is being read.
#[derive(Debug, Clone, Copy)]
struct Frame {
    is_last: bool,
    opcode: Opcode,
    mask: Option<[u8; 4]>,
    length: u64,
    /// Bytes of the payload that have been read.
    read: u64,
}

/// Reads the frames of one direction, in pieces of any length.
#[derive(Debug)]
pub(crate) struct Decoder {
    side: Side,
    /// Bytes of the longest message.
    most: u64,
    header: [u8; LONGEST],
    /// Bytes in it.
    filled: usize,
    frame: Option<Frame>,
    /// Of the message that has begun and not ended.
    kind: Option<Kind>,
    message: Vec<u8>,
    /// Whether the message was given, and the next one replaces it.
    given: bool,
    control: Vec<u8>,
    closed: bool,
}

impl Decoder {
    pub(crate) fn new(side: Side, most: u64) -> Self {
        Decoder {
            side,
            most,
            header: [0; LONGEST],
            filled: 0,
            frame: None,
            kind: None,
            message: Vec::new(),
            given: false,
            control: Vec::new(),
            closed: false,
        }
    }

    /// The message that came last, until the next call of [`Decoder::decode`].
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// The payload of the control frame that came last, likewise.
    pub(crate) fn control(&self) -> &[u8] {
        &self.control
    }

    /// Takes in bytes up to the end of the next event; how many those were, and the event if it is complete. Without an event all bytes are taken in.
    ///
    /// # Errors
    /// A rule that the other side broke. Nothing more is to be read then.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Result<(usize, Option<Event>), Violation> {
        let mut used = 0;
        loop {
            let Some(frame) = &mut self.frame else {
                match self.head(&bytes[used..])? {
                    (more, true) => used += more,
                    (more, false) => return Ok((used + more, None)),
                }
                continue;
            };
            let left = frame.length - frame.read;
            let more = left.min((bytes.len() - used) as u64) as usize;
            let payload = if frame.opcode.is_control() { &mut self.control } else { &mut self.message };
            let at = payload.len();
            payload.extend_from_slice(&bytes[used..used + more]);
            if let Some(mask) = frame.mask {
                apply(mask, frame.read, &mut payload[at..]);
            }
            frame.read += more as u64;
            used += more;
            if frame.read < frame.length {
                return Ok((used, None));
            }
            let frame = *frame;
            self.frame = None;
            if let Some(event) = self.end(frame)? {
                return Ok((used, Some(event)));
            }
        }
    }

    /// Takes in bytes of a header: how many, and whether it is complete.
    fn head(&mut self, bytes: &[u8]) -> Result<(usize, bool), Violation> {
        let mut used = 0;
        loop {
            let needed = match (self.filled, self.header[1]) {
                (0 | 1, _) => 2,
                (_, second) => {
                    let length = match second & 0x7F {
                        126 => 2,
                        127 => 8,
                        _ => 0,
                    };
                    2 + length + if second & 0x80 == 0 { 0 } else { 4 }
                }
            };
            if self.filled == needed {
                break;
            }
            let more = (needed - self.filled).min(bytes.len() - used);
            if more == 0 {
                return Ok((used, false));
            }
            self.header[self.filled..self.filled + more].copy_from_slice(&bytes[used..used + more]);
            self.filled += more;
            used += more;
        }
        self.begin()?;
        self.filled = 0;
        Ok((used, true))
    }

    /// Begins the frame whose header is complete.
    fn begin(&mut self) -> Result<(), Violation> {
        let wrong = |text| Err(Violation::Protocol(text));
        let [first, second, ..] = self.header;
        if self.closed {
            return wrong("a frame behind a close frame");
        }
        if first & 0x70 != 0 {
            return wrong("a frame with a reserved bit, of an extension that was not agreed on");
        }
        let Some(opcode) = Opcode::of(first & 0xF) else { return wrong("a frame with a reserved opcode") };
        let (is_last, is_masked) = (first & 0x80 != 0, second & 0x80 != 0);
        if is_masked != (self.side == Side::Server) {
            return wrong(if is_masked { "a masked frame of a server" } else { "a frame of a client without a mask" });
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (length, at, least) = match second & 0x7F {
            126 => (number(&self.header[2..4]), 4, CONTROL + 1),
            127 => (number(&self.header[2..10]), 10, 1 << 16),
            short => (u64::from(short), 2, 0),
        };
        if length < least || length >> 63 != 0 {
            return wrong("a length that is not written in its shortest form");
        }
        if opcode.is_control() {
            if !is_last || length > CONTROL {
                return wrong("a control frame that is fragmented or longer than 125 bytes");
            }
            self.control.clear();
        } else {
            if std::mem::take(&mut self.given) {
                self.message.clear();
            }
            match (self.kind, opcode) {
                (None, Opcode::Continuation) => return wrong("a continuation of no message"),
                (Some(_), Opcode::Text | Opcode::Binary) => return wrong("a message in the middle of another"),
                (None, Opcode::Text) => self.kind = Some(Kind::Text),
                (None, _) => self.kind = Some(Kind::Binary),
                (Some(_), _) => {}
            }
            if length > self.most.saturating_sub(self.message.len() as u64) {
                return Err(Violation::TooLong);
            }
        }
        let mask = is_masked.then(|| [self.header[at], self.header[at + 1], self.header[at + 2], self.header[at + 3]]);
        self.frame = Some(Frame { is_last, opcode, mask, length, read: 0 });
        Ok(())
    }

    /// What a frame that is complete completes.
    fn end(&mut self, frame: Frame) -> Result<Option<Event>, Violation> {
        Ok(match frame.opcode {
            Opcode::Ping => Some(Event::Ping),
            Opcode::Pong => Some(Event::Pong),
            Opcode::Close => {
                self.closed = true;
                Some(Event::Close(close_code(&self.control)?))
            }
            _ if !frame.is_last => None,
            _ => {
                let Some(kind) = self.kind.take() else { return Ok(None) };
                if kind == Kind::Text && std::str::from_utf8(&self.message).is_err() {
                    return Err(Violation::NotText);
                }
                self.given = true;
                Some(Event::Message(kind))
            }
        })
    }
}

/// The code of a close frame (section 7.4; those that IANA has registered since, and the private ones).
fn close_code(payload: &[u8]) -> Result<Option<u16>, Violation> {
    let (code, reason) = match payload {
        [] => return Ok(None),
        [first, second, reason @ ..] => (u16::from_be_bytes([*first, *second]), reason),
        [_] => return Err(Violation::Protocol("a close frame with half a code")),
    };
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Violation::Protocol("a close frame with a code that must not be sent"));
    }
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(Some(code)),
        Err(_) => Err(Violation::NotText),
    }
}
