//! Lines of a stream.

use super::ApiError;

/// Bytes of one event: more than the server lets an object have.
const MOST: usize = 16 << 20;

/// Takes a stream in pieces and gives back its lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// The lines that end in this piece.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, ApiError> {
        let mut lines = Vec::new();
        let mut parts = piece.split(|&byte| byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            self.rest.extend_from_slice(part);
            if self.rest.len() > MOST {
                return Err(ApiError::LongLine(MOST));
            }
            if parts.peek().is_some() {
                let line = std::mem::take(&mut self.rest);
                if !line.trim_ascii().is_empty() {
                    lines.push(line);
                }
            }
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn lines_are_the_same_wherever_the_stream_is_cut() {
        let text = b"one\ntwo\n\nthree\n";
        for at in 0..text.len() {
            let mut lines = Lines::default();
            let mut all = lines.push(&text[..at]).unwrap();
            all.extend(lines.push(&text[at..]).unwrap());
            assert_eq!(all, [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()], "{at}");
        }
    }
}
