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
        let (dots, stops) = blocks::host_bytes(&block);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~.".contains(&byte);
        assert_eq!(u64::from(dots), bits(&block, |byte| byte == b'.'));
        assert_eq!(u64::from(stops), bits(&block, |byte| !is_name(byte)));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        assert_eq!(u64::from(blocks::not_plain(&block)), bits(&block, |byte| !is_plain(byte)));
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
                assert_eq!(name_end(&bytes, from), place);
            }
            for at in [length + 5, length + 50] {
                assert_eq!(
                    (find_control(&bytes, at), name_end(&bytes, at)),
                    (at, at),
                    "beyond the end there is nothing"
                );
            }
        }
    }
}

/// Hosts are the same wherever in a buffer they lie, at every length, with a fault at every place.
#[test]
fn hosts_are_judged_byte_by_byte_wherever_they_lie() {
    let is_good = |host: &[u8]| {
        let (name, port) = match host.iter().position(|&byte| byte == b':') {
            Some(colon) => (&host[..colon], &host[colon + 1..]),
            None => (host, &b""[..]),
        };
        let labels: Vec<&[u8]> = name.split(|&byte| byte == b'.').collect();
        let (last, before) = labels.split_last().unwrap();
        before.iter().all(|label| !label.is_empty())
            && (!last.is_empty() || !before.is_empty())
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_~.".contains(byte))
            && port.len() <= 5
            && port.iter().all(u8::is_ascii_digit)
    };
    for length in 1..40 {
        for place in 0..length {
            for byte in *b".a-_~:0/@ \r[\x80" {
                for next in *b".a:9" {
                    let mut host = vec![b'x'; length];
                    host[place] = byte;
                    if let Some(behind) = host.get_mut(place + 1) {
                        *behind = next;
                    }
                    let expected = !host.starts_with(b"[") && is_good(&host);
                    assert_eq!(is_authority(&host), expected, "{}", host.escape_ascii());
                    for (before, behind) in [("", "\r\n"), ("Host: ", "\r\nAccept: */*\r\n\r\n"), ("x.", ".x:1")] {
                        let text = [before.as_bytes(), &host, behind.as_bytes()].concat();
                        let found = is_authority_at(&text, before.len(), before.len() + host.len());
                        assert_eq!(found, expected, "{}", text.escape_ascii());
                    }
                }
            }
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
        (b"Ho_st_and_more_than_a_block_of_it: example.com", 33),
        (b"A-Very-Long-Name-Indeed-Which-Is_Longer-Than-A-Block: 1", 52),
    ] {
        assert_eq!(name_end(bytes, 0), length, "{}", bytes.escape_ascii());
        let framed = [b"before: 1\r\n", bytes, b"\r\n"].concat();
        assert_eq!(name_end(&framed, 11), 11 + length, "{}", framed.escape_ascii());
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

#[test]
fn letters_of_ascii_become_small_and_nothing_else_changes() {
    for length in 0..40 {
        for byte in 0..=255 {
            let text: Vec<u8> = (0..length).map(|at| if at % 3 == 0 { byte } else { b'A' + at }).collect();
            let mut out = b"KEPT".to_vec();
            push_lower(&mut out, &text);
            assert_eq!(out, [b"KEPT", &*text.to_ascii_lowercase()].concat());
        }
    }
}
