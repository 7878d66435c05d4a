//! Heads of responses. Those of a server differ in little but the second of their `Date`: one that is byte for byte the last one says the same, and is
//! neither scanned nor parsed again.

use h1::{Limits, Method, ParseError, ResponseHead};

/// The head that was parsed last.
#[derive(Debug)]
pub(super) struct Heads {
    head: ResponseHead,
    /// Its bytes; none when it cannot be used again.
    text: Vec<u8>,
    /// The method that it responds to: a head means something else to HEAD.
    method: Method,
}

impl Default for Heads {
    fn default() -> Self {
        Heads { head: ResponseHead::default(), text: Vec::new(), method: Method::Get }
    }
}

impl Heads {
    /// The last head, and its length, if `bytes` begin with it. A complete head is never the beginning of a longer one.
    #[inline]
    pub(super) fn again(&self, bytes: &[u8], method: Method) -> Option<(&ResponseHead, usize)> {
        let is_same = !self.text.is_empty() && self.method == method && bytes.starts_with(&self.text);
        is_same.then_some((&self.head, self.text.len()))
    }

    /// The head at `bytes[start..end]`; spans are of `bytes`.
    pub(super) fn parse(
        &mut self,
        bytes: &[u8],
        start: usize,
        end: usize,
        method: Method,
        limits: &Limits,
    ) -> Result<&ResponseHead, ParseError> {
        self.text.clear();
        self.head.parse(bytes, start, end, method, limits)?;
        // Its spans hold for bytes that it begins; and what follows an interim head is not known yet.
        if start == 0 && !self.head.is_interim() {
            self.text.extend_from_slice(&bytes[..end]);
            self.method = method;
        }
        Ok(&self.head)
    }
}

#[cfg(test)]
mod tests {
    use h1::BodyKind;

    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";

    fn parsed(bytes: &[u8], start: usize) -> Heads {
        let mut heads = Heads::default();
        heads.parse(bytes, start, bytes.len(), Method::Get, &Limits::default()).expect("a head");
        heads
    }

    #[test]
    fn the_same_bytes_are_the_same_head() {
        let heads = parsed(HEAD, 0);
        let (head, length) = heads.again(&[HEAD, b"hello"].concat(), Method::Get).expect("known");
        assert_eq!((head.status, head.body, length), (200, BodyKind::Length(5), HEAD.len()));
    }

    #[test]
    fn other_bytes_fewer_bytes_and_another_method_are_not() {
        let heads = parsed(HEAD, 0);
        assert!(Heads::default().again(HEAD, Method::Get).is_none());
        assert!(heads.again(HEAD, Method::Head).is_none());
        assert!(heads.again(&HEAD[..HEAD.len() - 1], Method::Get).is_none());
        assert!(heads.again(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", Method::Get).is_none());
    }

    #[test]
    fn neither_a_head_behind_another_nor_an_interim_nor_a_broken_one_is_known_again() {
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
        assert!(parsed(interim, 0).again(interim, Method::Get).is_none());
        assert!(parsed(&[interim, HEAD].concat(), interim.len()).again(HEAD, Method::Get).is_none());
        let mut heads = parsed(HEAD, 0);
        let broken = b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n";
        assert!(heads.parse(broken, 0, broken.len(), Method::Get, &Limits::default()).is_err());
        assert!(heads.again(HEAD, Method::Get).is_none() && heads.again(broken, Method::Get).is_none());
    }
}
