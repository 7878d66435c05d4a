use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use super::*;

fn addresses(source: &str, destination: &str) -> Addresses {
    Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

fn client(source: &str, destination: &str) -> Origin {
    Origin::Client(addresses(source, destination))
}

fn origin(text: &[u8]) -> Result<Origin, Malformed> {
    let (header, length) = read(text, Accepts::Any)?.expect("a whole header");
    assert_eq!(length, text.len());
    Ok(header.origin)
}

/// A header of version 2 with this command, family and transport, and body.
fn binary(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = [v2::SIGNATURE, &[command, family]].concat();
    bytes.extend_from_slice(&(body.len() as u16).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

const FOUR: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb];

fn with_values(values: &[u8]) -> Vec<u8> {
    binary(0x21, 0x11, &[&FOUR, values].concat())
}

#[test]
fn lines_of_the_specification_are_read() {
    assert_eq!(
        origin(b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n"),
        Ok(client("192.0.2.1:56324", "198.51.100.2:443"))
    );
    assert_eq!(origin(b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n"), Ok(client("[2001:db8::1]:1", "[::1]:65535")));
    let longest = "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n";
    assert_eq!(origin(longest.as_bytes()), Ok(Origin::Unknown));
    assert_eq!(origin(b"PROXY UNKNOWN\r\n"), Ok(Origin::Unknown));
}

#[test]
fn a_line_that_breaks_a_rule_is_refused() {
    for line in [
        "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\n",
        "PROXY  TCP4 192.0.2.1 198.51.100.2 56324 443\r\n",
        "PROXY TCP4 192.0.2.1  198.51.100.2 56324 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443 \r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56324\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56324 65536\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 +1 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 01 443\r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.2 1 443\r\n",
        "PROXY TCP4 2001:db8::1 ::1 1 443\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.2 1 443\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 1 443\r\n",
        "PROXY tcp4 192.0.2.1 198.51.100.2 1 443\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.2 1 443\r\n",
        "PROXY \r\n",
        "PROXY TCP4 \u{e9} 198.51.100.2 1 443\r\n",
    ] {
        assert!(matches!(origin(line.as_bytes()), Err(Malformed::Invalid(_))), "{line:?}");
    }
    assert_eq!(read(b"GET / HTTP/1.1\r\n", Accepts::Any), Err(Malformed::Missing));
    assert_eq!(read(b"PROXYTCP4", Accepts::Any), Err(Malformed::Missing));
    assert_eq!(read(&[b'P'; 200], Accepts::Any), Err(Malformed::Missing));
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(92));
    assert_eq!(read(long.as_bytes(), Accepts::Any), Err(Malformed::TooLong));
    let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(91));
    assert_eq!((longest.len(), origin(longest.as_bytes())), (107, Ok(Origin::Unknown)));
}

#[test]
fn commands_families_and_transports() {
    assert_eq!(origin(&with_values(&[])), Ok(client("192.0.2.1:56324", "198.51.100.2:443")));
    let mut six = Vec::new();
    for ip in ["2001:db8::1", "2001:db8::2"] {
        six.extend_from_slice(&ip.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    six.extend_from_slice(&[0, 7, 1, 187]);
    assert_eq!(origin(&binary(0x21, 0x21, &six)), Ok(client("[2001:db8::1]:7", "[2001:db8::2]:443")));
    // LOCAL: whatever the addresses say, also none of them.
    assert_eq!(origin(&binary(0x20, 0x11, &FOUR)), Ok(Origin::Proxy));
    assert_eq!(origin(&binary(0x20, 0x00, &[])), Ok(Origin::Proxy));
    assert_eq!(origin(&binary(0x20, 0xff, b"?")), Ok(Origin::Proxy));
    assert_eq!(origin(&binary(0x21, 0x00, &[])), Ok(Origin::Unknown));
    assert_eq!(origin(&binary(0x21, 0x31, &[b'/'; 216])), Ok(Origin::Unknown));
    for (command, family, body) in [
        (0x11, 0x11, &FOUR[..]),
        (0x22, 0x11, &FOUR),
        (0x21, 0x41, &FOUR),
        (0x21, 0x13, &FOUR),
        (0x21, 0x12, &FOUR),
        (0x21, 0x11, &FOUR[..11]),
        (0x21, 0x21, &FOUR),
        (0x21, 0x31, &FOUR),
    ] {
        let result = origin(&binary(command, family, body));
        assert!(matches!(result, Err(Malformed::Invalid(_))), "{command:x} {family:x} {result:?}");
    }
    let long = [v2::SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat();
    assert_eq!(read(&long, Accepts::Any), Err(Malformed::TooLong));
}

#[test]
fn values_are_read_and_their_lengths_checked() {
    let bytes = with_values(b"\x02\0\x07a.b.com\x01\0\x02h2\x05\0\x03id!\x04\0\x01x\xea\0\x00");
    let (header, _) = read(&bytes, Accepts::V2).unwrap().unwrap();
    let expected = (Some(&b"a.b.com"[..]), Some(&b"h2"[..]), Some(&b"id!"[..]));
    assert_eq!((header.authority, header.alpn, header.unique_id), expected);
    for values in [&b"\x02"[..], b"\x02\0", b"\x02\0\x02a", b"\x03\0\x03abc", b"\x02\0\x01a\x02\0\x01b"] {
        assert!(matches!(origin(&with_values(values)), Err(Malformed::Invalid(_))), "{values:?}");
    }
    let id = [&b"\x05\0\x81"[..], &[b'i'; 129]].concat();
    assert!(matches!(origin(&with_values(&id)), Err(Malformed::Invalid(_))));
}

#[test]
fn a_wrong_checksum_is_refused_wherever_it_stands() {
    let mut right = with_values(b"\x03\0\x04\0\0\0\0\x02\0\x01a");
    let sum = crc32c::of(&[&right]);
    right[31..35].copy_from_slice(&sum.to_be_bytes());
    assert!(origin(&right).is_ok());
    // Every other byte, but for the signature and the length.
    for position in (12..14).chain(16..right.len()) {
        let mut wrong = right.clone();
        wrong[position] ^= 0x40;
        // Without its type it is not a checksum.
        assert!(position == 28 || origin(&wrong).is_err(), "{position}");
    }
    let mut wrong = right.clone();
    wrong[17] ^= 1;
    assert_eq!(origin(&wrong), Err(Malformed::Checksum));
}

#[test]
fn only_the_version_that_is_wanted_is_taken() {
    let (one, two) = (&b"PROXY UNKNOWN\r\n"[..], with_values(&[]));
    assert_eq!(read(one, Accepts::V2), Err(Malformed::Version(Version::V1)));
    assert_eq!(read(&two, Accepts::V1), Err(Malformed::Version(Version::V2)));
    assert!(read(one, Accepts::V1).unwrap().is_some() && read(&two, Accepts::V2).unwrap().is_some());
    assert_eq!(read(b"", Accepts::V2), Ok(None));
}

fn socket() -> impl Strategy<Value = SocketAddr> {
    let four = any::<[u8; 4]>().prop_map(IpAddr::from);
    let six = any::<[u16; 8]>().prop_map(IpAddr::from);
    (prop_oneof![four, six], any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn any_origin() -> impl Strategy<Value = Origin> {
    let client =
        (socket(), socket()).prop_map(|(source, destination)| Origin::Client(Addresses { source, destination }));
    prop_oneof![client, Just(Origin::Unknown), Just(Origin::Proxy)]
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        origin in any_origin(),
        authority in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
        id in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..=128)),
        behind in proptest::collection::vec(any::<u8>(), 0..40),
        is_binary in any::<bool>(),
    ) {
        let version = if is_binary { Version::V2 } else { Version::V1 };
        let mut header = Header::new(version, origin);
        if is_binary {
            (header.authority, header.unique_id) = (authority.as_deref(), id.as_deref());
        }
        let mut bytes = Vec::new();
        write(&mut bytes, &header);
        let length = bytes.len();
        bytes.extend_from_slice(&behind);
        // Complete neither too early nor too late, and what is behind it is not touched.
        for cut in 0..length {
            prop_assert_eq!(read(&bytes[..cut], Accepts::Any), Ok(None));
        }
        let (again, end) = read(&bytes, Accepts::Any).unwrap().unwrap();
        prop_assert_eq!(end, length);
        if again.origin != Origin::Proxy {
            prop_assert_eq!((again.authority, again.unique_id), (header.authority, header.unique_id));
        }
        match (origin, again.origin) {
            (Origin::Client(sent), Origin::Client(got)) => {
                let same = |one: SocketAddr, other: SocketAddr| one.ip().to_canonical() == other.ip().to_canonical() && one.port() == other.port();
                prop_assert!(same(sent.source, got.source) && same(sent.destination, got.destination));
            }
            (Origin::Proxy, Origin::Unknown) => prop_assert!(!is_binary),
            (sent, got) => prop_assert_eq!(sent, got),
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic_and_alike_in_every_split(
        start in prop_oneof![Just(&b""[..]), Just(v1::PREFIX), Just(v2::SIGNATURE), Just(&b"PROXY TCP4 "[..])],
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = [start, &rest].concat();
        let whole = read(&bytes, Accepts::Any);
        for cut in 0..bytes.len() {
            match read(&bytes[..cut], Accepts::Any) {
                Ok(None) => {}
                other => {
                    prop_assert_eq!(other, whole);
                    break;
                }
            }
        }
    }
}
