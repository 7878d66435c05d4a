use super::*;

#[test]
fn every_name_is_recognised_in_any_case_and_wherever_it_ends() {
    for &(known, name) in Known::ALL {
        assert_eq!(known.name(), name);
        let mut mixed: Vec<u8> = name.bytes().collect();
        for byte in mixed.iter_mut().step_by(2) {
            byte.make_ascii_uppercase();
        }
        for text in [name.as_bytes(), name.to_ascii_uppercase().as_bytes(), &mixed] {
            assert_eq!(Known::of(text), known, "{name}");
            for behind in [&b""[..], b":", b": a value that is longer than a block", b"-and-more-of-the-name"] {
                let bytes = [text, behind].concat();
                assert_eq!(Known::at_start(&bytes, text.len()), known, "{name}");
            }
        }
    }
}

#[test]
fn a_name_that_differs_in_one_byte_is_another() {
    for &(known, name) in Known::ALL {
        for place in 0..name.len() {
            for byte in 0..=255 {
                let mut other = name.as_bytes().to_vec();
                other[place] = byte;
                let expected = Known::ALL
                    .iter()
                    .find(|(_, name)| other.eq_ignore_ascii_case(name.as_bytes()))
                    .map(|&(known, _)| known);
                assert_eq!(Known::of(&other), expected.unwrap_or(Known::Other), "{known:?} {}", other.escape_ascii());
                if crate::validate::is_token(&other) {
                    assert_eq!(Known::at_start(&other, other.len()), expected.unwrap_or(Known::Other));
                }
            }
        }
        assert_eq!(Known::of(&name.as_bytes()[1..]), Known::Other);
        assert_eq!(Known::of(&name.as_bytes()[..name.len() - 1]), Known::Other);
        assert_eq!(Known::of(&[name.as_bytes(), b"x"].concat()), Known::Other);
    }
    assert_eq!(Known::of(b""), Known::Other);
    assert_eq!(Known::of(&[b'x'; 4096]), Known::Other);
}

#[test]
fn the_longest_name_is_as_long_as_the_table_allows() {
    assert_eq!(Known::ALL.iter().map(|(_, name)| name.len()).max(), Some(LONGEST));
}

/// Rule 22: names that CGI and its heirs cannot tell from a known one.
#[test]
fn aliases_are_seen_through() {
    for (name, known) in [
        (&b"X_Forwarded_For"[..], Known::XForwardedFor),
        (b"x.forwarded.for", Known::XForwardedFor),
        (b"X-Forwarded_Proto", Known::XForwardedProto),
        (b"Content_Length", Known::ContentLength),
        (b"TRANSFER_ENCODING", Known::TransferEncoding),
        (b"Transfer.Encoding", Known::TransferEncoding),
        (b"Proxy_Connection", Known::ProxyConnection),
        (b"x!request~id", Known::XRequestId),
        (b"Access_Control_Request_Headers", Known::AccessControlRequestHeaders),
        // These are no aliases.
        (b"X-Forwarded-For", Known::Other),
        (b"Host", Known::Other),
        (b"H_st", Known::Other),
        (b"_", Known::Other),
        (b"", Known::Other),
        (b"Access_Control_Request_Headers_", Known::Other),
    ] {
        assert_eq!(Known::of_alias(name), known, "{}", name.escape_ascii());
    }
}

#[test]
fn fields_of_the_connection_are_these() {
    let hop: Vec<_> = Known::ALL.iter().filter(|(known, _)| known.is_hop_by_hop()).map(|&(_, name)| name).collect();
    assert_eq!(hop, ["connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "transfer-encoding"]);
    let open: Vec<_> = Known::ALL.iter().filter(|(known, _)| !known.is_protected()).map(|&(_, name)| name).collect();
    assert_eq!(open[..hop.len()], hop[..]);
    assert_eq!(open[hop.len()..], ["proxy-authenticate", "proxy-authorization", "http2-settings"]);
    assert!(!Known::Other.is_hop_by_hop() && !Known::Other.is_protected());
}
