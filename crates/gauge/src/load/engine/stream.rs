//! What is seen of an event stream while it arrives (`text/event-stream` of the HTML standard, section 9.2): when it begins, how many events it has, and how many
//! arrived by themselves.

use super::clock;

/// The body of one response.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stream {
    /// When its first byte came; 0: none came.
    pub(crate) first: u64,
    /// Events that ended: each ends with an empty line.
    pub(crate) events: u64,
    /// Reads in which at least one event ended.
    pub(crate) arrivals: u64,
    /// Something is on the line that has not ended.
    in_line: bool,
    /// There was a line since the last event.
    in_event: bool,
}

impl Stream {
    /// Bytes of the body, in order.
    pub(crate) fn data(&mut self, bytes: &[u8]) {
        if self.first == 0 && !bytes.is_empty() {
            self.first = clock::now();
        }
        for byte in bytes {
            match byte {
                b'\n' if self.in_line => self.in_line = false,
                b'\n' => {
                    self.events += u64::from(self.in_event);
                    self.in_event = false;
                }
                b'\r' => {}
                _ => (self.in_line, self.in_event) = (true, true),
            }
        }
    }

    /// One read has been taken in; before it there were so many events.
    pub(crate) fn read(&mut self, before: u64) {
        self.arrivals += u64::from(self.events > before);
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    fn read(stream: &mut Stream, bytes: &[u8]) {
        let before = stream.events;
        stream.data(bytes);
        stream.read(before);
    }

    #[test]
    fn events_are_counted_wherever_they_are_cut() {
        let text = b"id: 1\r\ndata: a\r\n\r\n: a comment\n\ndata: b\ndata: c\n\n\n\n";
        for cut in 0..text.len() {
            let mut stream = Stream::default();
            read(&mut stream, &text[..cut]);
            read(&mut stream, &text[cut..]);
            assert_eq!(stream.events, 3, "cut at {cut}");
            assert!((1..=2).contains(&stream.arrivals), "cut at {cut}");
        }
    }

    #[test]
    fn events_that_arrive_together_are_one_arrival() {
        let mut stream = Stream::default();
        read(&mut stream, b"data: 1\n\n");
        read(&mut stream, b"data: 2\n\ndata: 3\n\nda");
        read(&mut stream, b"ta: 4\n");
        assert_eq!((stream.events, stream.arrivals), (3, 2), "the fourth has not ended");
        assert!(stream.first > 0);
    }
}
