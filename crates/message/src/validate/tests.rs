use super::*;

/// Every byte at every place of a block, among bytes of another class.
fn blocks_of<const N: usize>() -> impl Iterator<Item = [u8; N]> {
    let around = [b'a', b' ', 0xff, 0x00, b':'];
    around.into_iter().flat_map(|filler| {
        (0..N).flat_map(move |place| {
            (0..=255).map(move |byte| {
                let mut block = [filler; N];
                block[place] = byte;
                block
            })
        })
    })
}

fn bits<const N: usize>(block: &[u8; N], is_set: impl Fn(u8) -> bool) -> u64 {
    block.iter().enumerate().fold(0, |bits, (index, &byte)| bits | u64::from(is_set(byte)) << index)
}

#[test]
fn blocks_say_of_every_byte_at_every_place_what_one_byte_s_class_says() {
    for block in blocks_of::<16>() {
        assert_eq!(u64::from(blocks::controls(&block)), bits(&block, |byte| !is_text_byte(byte)));
        assert_eq!(u64::from(blocks::target_stops(&block)), bits(&block, |byte| byte == b'?' || !is_target_byte(byte)));
        let (colons, plain) = blocks::name_bytes(&block);
        assert_eq!(u64::from(colons), bits(&block, |byte| byte == b':'));
        assert_eq!(u64::from(plain), bits(&block, |byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    }
    for block in blocks_of::<64>() {
        let (feeds, returns) = blocks::line_ends(&block);
        assert_eq!((feeds, returns), (bits(&block, |byte| byte == b'\n'), bits(&block, |byte| byte == b'\r')));
    }
}

#[test]
fn searches_find_the_first_at_every_length_and_offset() {
    for length in 0..50 {
        for place in 0..=length {
            let mut bytes = vec![b'x'; length];
            if let Some(byte) = bytes.get_mut(place) {
                *byte = b'\n';
            }
            for from in 0..=place {
                assert_eq!(find_control(&bytes, from), place);
                assert_eq!(find_target_stop(&bytes, from), place);
                assert_eq!(name_length(&bytes[from..]), place - from);
            }
            assert_eq!(find_control(&bytes, length + 5), length + 5, "beyond the end there is nothing");
        }
    }
}

#[test]
fn a_name_ends_at_the_first_byte_that_is_no_token_whatever_follows() {
    for (bytes, length) in [
        (&b"Host: example.com and more"[..], 4),
        (b"Ho_st: example.com and more", 5),
        (b"Ho st: example.com and more", 2),
        (b"Host example.com:8080 and more", 4),
        (b": example.com and much more", 0),
        (b"A-Very-Long-Name-Indeed-Which-Is-Longer-Than-A-Block: 1", 52),
        (b"Exactly-16-Bytes: 1", 16),
        (b"Fifteen--Bytes-: 1", 15),
        (b"H:", 1),
        (b"Host", 4),
        (b"H\x80st: example.com and more", 1),
    ] {
        assert_eq!(name_length(bytes), length, "{}", bytes.escape_ascii());
    }
}

#[test]
fn tchar_is_what_rfc_9110_section_5_6_2_lists() {
    let delimiters = b"\"(),/:;<=>?@[\\]{}";
    for byte in 0..=255u8 {
        let expected = byte.is_ascii_graphic() && !delimiters.contains(&byte);
        assert_eq!(is_token_byte(byte), expected, "{byte:#x}");
    }
    assert!(!is_token(b""));
}
