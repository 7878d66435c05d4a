//! Bodies with large parts that are made when a campaign starts, so that nobody has to keep them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::load::payload;
use crate::load::workload::Body;

/// Bodies that are made when a campaign starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// One, with large parts.
    Fill(Fill),
    /// Events, all different.
    Events {
        /// About so many bytes each.
        bytes: usize,
        /// The same seed makes the same events.
        seed: u64,
    },
}

/// Bytes of the events that are called `default`.
pub(crate) const DEFAULT_EVENT: usize = 400;

/// Events of one workload; their entities are written again and again.
const EVENTS: u64 = 256;
/// The seed where an evaluation has none of its own.
pub(crate) const SEED: u64 = 1;

/// What evaluations and reports call events of this size: `default`, `4k`.
pub(crate) fn event_name(bytes: usize) -> String {
    match bytes {
        DEFAULT_EVENT => "default".to_owned(),
        bytes if bytes % 1024 == 0 => format!("{}k", bytes / 1024),
        bytes => bytes.to_string(),
    }
}

impl Made {
    /// What reports call it: `default`, `4k`.
    pub fn payload(&self) -> Option<String> {
        match self {
            Made::Fill(_) => None,
            Made::Events { bytes, .. } => Some(event_name(*bytes)),
        }
    }

    /// The body, or one a line.
    pub fn make(&self) -> String {
        match self {
            Made::Fill(fill) => fill.make(),
            Made::Events { bytes, seed } => {
                (0..EVENTS).map(|number| payload::event(*bytes, *seed, number) + "\n").collect()
            }
        }
    }

    /// The first of the bodies.
    pub fn one(&self) -> String {
        match self {
            Made::Fill(fill) => fill.make(),
            Made::Events { bytes, seed } => payload::event(*bytes, *seed, 0),
        }
    }

    /// As the generator takes it from this file.
    pub fn body(&self, file: PathBuf) -> Body {
        match self {
            Made::Fill(_) => Body::File(file),
            Made::Events { .. } => Body::Lines(file),
        }
    }
}

/// A text with parts that are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fill {
    /// With `{name}` where a part goes.
    pub text: String,
    /// The parts by name.
    pub parts: BTreeMap<String, Part>,
}

/// Bytes that are made: the same ones every time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// So many bytes that begin and end as a JPEG image does, in base64.
    Jpeg(u64),
    /// So many bytes that nothing can compress, in base64.
    Random(u64),
    /// So many letters.
    Letters(u64),
}

/// Largest part: the generator sends bodies of up to 32 MiB.
pub(crate) const MOST: u64 = 32 << 20;

/// Start of image, and a JFIF header without a thumbnail.
const JPEG_BEGIN: [u8; 20] = [0xff, 0xd8, 0xff, 0xe0, 0, 16, b'J', b'F', b'I', b'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0];
const JPEG_END: [u8; 2] = [0xff, 0xd9];

impl Part {
    /// How many bytes are made, before base64.
    pub fn bytes(self) -> u64 {
        let (Part::Jpeg(bytes) | Part::Random(bytes) | Part::Letters(bytes)) = self;
        bytes
    }

    /// The part as it is in the text.
    fn make(self) -> String {
        let length = self.bytes().min(MOST) as usize;
        let mut random = fastrand::Rng::with_seed(self.bytes());
        match self {
            Part::Letters(_) => (0..length).map(|_| random.lowercase()).collect(),
            Part::Random(_) => {
                let mut bytes = vec![0; length];
                random.fill(&mut bytes);
                BASE64_STANDARD.encode(bytes)
            }
            Part::Jpeg(_) => {
                let mut bytes = vec![0; length.max(JPEG_BEGIN.len() + JPEG_END.len())];
                random.fill(&mut bytes);
                let end = bytes.len() - JPEG_END.len();
                bytes[..JPEG_BEGIN.len()].copy_from_slice(&JPEG_BEGIN);
                bytes[end..].copy_from_slice(&JPEG_END);
                BASE64_STANDARD.encode(bytes)
            }
        }
    }
}

impl Fill {
    /// The whole text.
    pub fn make(&self) -> String {
        let mut text = self.text.clone();
        for (name, part) in &self.parts {
            text = text.replace(&format!("{{{name}}}"), &part.make());
        }
        text
    }
}
