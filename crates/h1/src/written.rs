//! Lines that were written by [`encode`](crate::encode) and are read again before they are sent: by policies that edit a head behind the exchange, and from
//! a store. No parser of what peers send: it trusts that heads are well formed.

/// Where the empty line begins that ends the first head of `text`.
pub fn fields_end(text: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, b"\r\n\r\n").map(|end| end + 2)
}

/// Where the fields begin: behind the first line.
pub fn fields_start(head: &[u8]) -> usize {
    memchr::memmem::find(head, b"\r\n").map_or(head.len(), |end| end + 2)
}

/// The whole lines of a head behind its first, and the names in them.
pub fn field_lines(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = &head[fields_start(head)..];
    std::iter::from_fn(move || {
        let end = memchr::memmem::find(rest, b"\r\n")? + 2;
        let (line, after) = rest.split_at(end);
        rest = after;
        Some((line, &line[..memchr::memchr(b':', line).unwrap_or(0)]))
    })
}

/// A line without its end; none for one that has no end.
pub fn without_end(line: &[u8]) -> Option<&[u8]> {
    line.strip_suffix(b"\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_head_are_found() {
        let head = b"HTTP/1.1 200 OK\r\nA: 1\r\nLong-Name: 2: 3\r\n\r\nB: body";
        let end = fields_end(head).expect("an end");
        assert_eq!(&head[end..], b"\r\nB: body");
        assert_eq!(&head[fields_start(head)..end], b"A: 1\r\nLong-Name: 2: 3\r\n");
        let lines: Vec<_> = field_lines(&head[..end]).collect();
        assert_eq!(lines, [(&b"A: 1\r\n"[..], &b"A"[..]), (b"Long-Name: 2: 3\r\n", b"Long-Name")]);
    }

    #[test]
    fn what_has_no_end_has_no_lines() {
        assert_eq!(fields_end(b"HTTP/1.1 200 OK\r\nA: 1\r\n"), None);
        assert_eq!(field_lines(b"HTTP/1.1 200 OK").count(), 0);
        assert_eq!((without_end(b"A: 1\r\n"), without_end(b"A: 1\n")), (Some(&b"A: 1"[..]), None));
    }
}
