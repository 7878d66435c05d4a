use super::*;
use proptest::prelude::*;

#[test]
fn verify_finds_each_broken_invariant() {
    let mut text = Vec::new();
    let mut fields = Fields::default();
    assert!(fields.append(&mut text, b"Cookie", b" a=1\t"));
    assert!(fields.append(&mut text, b"x-other", b"two"));
    assert_eq!(text, b"Cookie: a=1\r\nx-other: two\r\n");
    assert_eq!(fields.verify(&text), Ok(()));
    for broken in [
        &b"Cookie: a=1\r\nx-other: tw\n\r\n"[..], // control in a value
        b"Coo ie: a=1\r\nx-other: two\r\n",       // name
        b"Cookie: a=1\r\nx-other: tw \r\n",       // blank at the end
        b"Cookie; a=1\r\nx-other: two\r\n",       // colon
        b"Cookie: a=1\r\rx-other: two\r\n",       // line end
        b"Corkie: a=1\r\nx-other: two\r\n",       // another name
        b"Cookie: a=1",                           // outside
    ] {
        assert!(fields.verify(broken).is_err(), "{}", broken.escape_ascii());
    }
}

#[test]
fn crumbs_are_joined_in_order_where_the_first_was() {
    let mut text = Vec::new();
    let mut fields = Fields::default();
    for (name, value) in [("a", "1"), ("cookie", "x=1"), ("b", "2"), ("cookie", ""), ("Cookie", "y=2")] {
        assert!(fields.append(&mut text, name.as_bytes(), value.as_bytes()));
    }
    fields.join(Known::Cookie, b"; ", &mut text);
    assert_eq!(fields.verify(&text), Ok(()));
    let list: Vec<_> = fields.iter().map(|field| (field.name.of_buf(&text), field.value.of_buf(&text))).collect();
    assert_eq!(list, [(&b"a"[..], &b"1"[..]), (b"cookie", b"x=1; y=2"), (b"b", b"2")]);
}

proptest! {
    /// Invariant M2 for everything that is appended.
    #[test]
    fn what_is_appended_keeps_the_invariants(lines in proptest::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..8), join: bool) {
        let (mut text, mut fields) = (Vec::new(), Fields::default());
        let mut count = 0;
        for (index, (name, value)) in lines.iter().enumerate() {
            let name = if index % 2 == 0 { &b"cookie"[..] } else { name };
            count += usize::from(fields.append(&mut text, name, value));
        }
        prop_assert_eq!(fields.len(), count);
        if join {
            fields.join(Known::Cookie, b"; ", &mut text);
        }
        prop_assert_eq!(fields.verify(&text), Ok(()));
    }
}
