use std::sync::Arc;

use message::Known;
use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    list: Vec<(Vec<u8>, Vec<u8>, Known)>,
}

impl Sink for Lines {
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    fn line(&mut self, start: usize, name_len: usize, known: Known, _: FieldKind) {
        let line = &self.text[start..];
        let value = line[name_len + 2..line.len() - 2].to_vec();
        self.list.push((line[..name_len].to_vec(), value, known));
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let nibble = |byte: u8| char::from(byte).to_digit(16).expect("hexadecimal") as u8;
    digits.chunks(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect()
}

fn decode(decoder: &mut Decoder, hex: &str) -> Vec<(String, String)> {
    let mut lines = Lines::default();
    decoder.decode(&bytes(hex), &mut lines).expect("a valid block");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("ASCII");
    lines.list.into_iter().map(|(name, value, _)| (text(name), text(value))).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const FIRST: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];

/// RFC 7541 appendix C.2.
#[test]
fn literal_representations_appendix_c_2() {
    let mut decoder = Decoder::default();
    let got = decode(&mut decoder, "400a637573746f6d2d6b65790d637573746f6d2d686561646572");
    assert_eq!(got, pairs(&[("custom-key", "custom-header")]));
    assert_eq!(decoder.table_size(), 55);
    let mut decoder = Decoder::default();
    assert_eq!(decode(&mut decoder, "040c2f73616d706c652f70617468"), pairs(&[(":path", "/sample/path")]));
    assert_eq!(decode(&mut decoder, "100870617373776f726406736563726574"), pairs(&[("password", "secret")]));
    assert_eq!(decode(&mut decoder, "82"), pairs(&[(":method", "GET")]));
    assert_eq!(decoder.table_size(), 0);
}

/// RFC 7541 appendices C.3 and C.4.
#[test]
fn requests_appendix_c_3_and_c_4() {
    let plain = [
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ];
    let coded = [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        assert_eq!(decode(&mut decoder, blocks[0]), pairs(FIRST));
        assert_eq!(decoder.table_size(), 57);
        let second = [FIRST, &[("cache-control", "no-cache")]].concat();
        assert_eq!(decode(&mut decoder, blocks[1]), pairs(&second));
        assert_eq!(decoder.table_size(), 110);
        let third = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ];
        assert_eq!(decode(&mut decoder, blocks[2]), pairs(&third));
        assert_eq!((decoder.table_size(), decoder.table_len()), (164, 3));
    }
}

/// RFC 7541 appendices C.5 and C.6: eviction, in a table of 256 bytes.
#[test]
fn responses_appendix_c_5_and_c_6() {
    let plain = [
        "3fe101 4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
        "4803333037c1c0bf",
    ];
    let coded = [
        "3fe101 488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
        "4883640effc1c0bf",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        let rest = [
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ];
        assert_eq!(decode(&mut decoder, blocks[0]), pairs(&[&[(":status", "302")], &rest[..]].concat()));
        assert_eq!(decoder.table_size(), 222);
        assert_eq!(decode(&mut decoder, blocks[1]), pairs(&[&[(":status", "307")], &rest[..]].concat()));
        assert_eq!((decoder.table_size(), decoder.table_len()), (222, 4));
    }
}

#[test]
fn broken_blocks_are_errors() {
    for (block, error) in [
        ("80", HpackError::Index),
        ("be", HpackError::Index),
        ("7f", HpackError::Truncated),
        ("ffffffffff7f", HpackError::Integer),
        ("4001", HpackError::Truncated),
        ("3fe21f", HpackError::SizeUpdate),      // 4097
        ("2020208 2", HpackError::SizeUpdate),   // three
        ("8220", HpackError::SizeUpdate),        // not at the start
        ("0084ffffffff00", HpackError::Huffman), // end of string
        ("0081ff00", HpackError::Huffman),       // padding of 8 bits
        ("00810000", HpackError::Huffman),       // padding of zeros
    ] {
        assert_eq!(Decoder::default().decode(&bytes(block), &mut Lines::default()), Err(error), "{block}");
    }
}

/// Rule 22.
#[test]
fn sensitive_fields_are_never_indexed_rule_22() {
    let mut encoder = Encoder::default();
    encoder.set_sensitive(Arc::new(SensitiveNames::new(["X-Door-Key", "origin"])));
    let of_http = ["authorization", "cookie", "set-cookie", "proxy-authorization"];
    let of_keys = ["x-api-key", "api-key", "X-Goog-Api-Key", "x-auth-token", "x-door-key", "X-DOOR-KEY", "origin"];
    for name in of_http.into_iter().chain(of_keys) {
        // A value that is short enough to be guessed is no exception.
        let mut out = Vec::new();
        encoder.field(&mut out, Known::of(name.as_bytes()), name.as_bytes(), b"s");
        let once = out.len();
        encoder.field(&mut out, Known::of(name.as_bytes()), name.as_bytes(), b"s");
        assert_eq!(out[0] & 0xf0, 0x10, "{name}");
        assert_eq!(out[..once], out[once..], "{name}: the table has nothing of it");
    }
    // Others enter the table.
    for name in ["x-door-kez", "x-api-kez", "referer"] {
        let mut out = Vec::new();
        encoder.field(&mut out, Known::of(name.as_bytes()), name.as_bytes(), b"s");
        assert_eq!(out[0] & 0xc0, 0x40, "{name}");
    }
    assert!(!SensitiveNames::common().contains(Known::Other, b"x-door-key"));
}

/// Places hold the low bits of insertion numbers, which repeat: values that come again long after find an entry that is another one, or none.
#[test]
fn fields_come_back_when_the_numbers_of_entries_begin_again() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
    for number in 0..200_000_u32 {
        // Values that repeat after more insertions than a place has numbers, and one that is used again and again.
        for value in [number % 66_000, 1] {
            let value = format!("{value:05}");
            let (mut out, mut lines) = (Vec::new(), Lines::default());
            encoder.begin(&mut out);
            encoder.field(&mut out, Known::Other, b"x", value.as_bytes());
            assert_eq!(decoder.decode(&out, &mut lines), Ok(()));
            assert_eq!(lines.list, [(b"x".to_vec(), value.into_bytes(), Known::Other)]);
        }
    }
}

proptest! {
    #[test]
    fn huffman_text_comes_back(text: Vec<u8>) {
        let (mut coded, mut plain) = (Vec::new(), Vec::new());
        huffman::encode(&text, &mut coded);
        prop_assert_eq!(coded.len(), huffman::encoded_len(&text));
        prop_assert_eq!(huffman::decode(&coded, &mut plain), Ok(()));
        prop_assert_eq!(plain, text);
    }

    #[test]
    fn any_block_is_decoded_or_refused(blocks in proptest::collection::vec(any::<Vec<u8>>(), 1..6)) {
        let mut decoder = Decoder::default();
        for block in blocks {
            if decoder.decode(&block, &mut Lines::default()).is_err() {
                break;
            }
            prop_assert!(decoder.table_size() <= 4096);
        }
    }

    /// What the encoder writes, the decoder reads, over many blocks, through evictions and size updates; and names are recognised.
    #[test]
    fn fields_come_back(blocks in proptest::collection::vec(
        (proptest::option::of(0..5000_usize),
         proptest::collection::vec(("[a-zA-Z]{1,3}|Cookie|accept|x-long-name-[0-9]{1,2}|content-length", "[ -~]{0,6}|[a-z]{200}"), 0..30)),
        1..20,
    )) {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        for (resize, fields) in blocks {
            if let Some(size) = resize {
                encoder.set_max_size(size);
            }
            let mut out = Vec::new();
            encoder.begin(&mut out);
            for (name, value) in &fields {
                encoder.field(&mut out, Known::of(name.as_bytes()), name.as_bytes(), value.as_bytes());
            }
            let mut lines = Lines::default();
            prop_assert_eq!(decoder.decode(&out, &mut lines), Ok(()));
            let expected: Vec<_> = fields.iter().map(|(name, value)|
                (name.to_ascii_lowercase().into_bytes(), value.clone().into_bytes(), Known::of(name.as_bytes()))).collect();
            prop_assert_eq!(lines.list, expected);
        }
    }
}
