use proptest::prelude::*;

use super::*;
use crate::config::UntrustedHeaders;
use crate::exchange::forged::strip_forged_headers;
use crate::policy::spoofable;

/// What the upstream gets of a request with these lines, by a peer that is trusted or not.
fn forwarded(lines: &str, is_trusted: bool, untrusted: &UntrustedHeaders) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let buf = request.as_bytes();
    let mut head = RequestHead::default();
    head.parse(buf, 0, buf.len(), &h1::Limits::default()).unwrap();
    let trusted = is_trusted.then(|| "192.0.2.0/24".parse().unwrap()).into_iter().collect();
    let client = Client::of_peer("192.0.2.1".parse().unwrap(), &trusted);
    strip_forged_headers(&mut head.fields, buf, is_trusted, "X-Request-Id", untrusted, &ForgedNames::default(), &[]);
    let mut out = Vec::new();
    ToUpstream {
        auth: (&RouteEdits::default(), &ForgedNames::default()),
        identity: b"",
        buf,
        head: &head,
        target: b"/",
        host: b"a",
        client: &client,
        request_id: ("X-Request-Id", b"id"),
        trace: b"",
        variables: b"",
        edits: &Edits::default(),
        upgrade: None,
        body: BodyKind::None,
        forwards_trailers: false,
        accepts_trailers: false,
        grpc_timeout: None,
        previous_attempts: 0,
        conditions: None,
    }
    .write(&mut out);
    String::from_utf8(out).unwrap()
}

fn strict() -> UntrustedHeaders {
    UntrustedHeaders { strip: true, keep: Vec::new() }
}

/// Those that the gateway writes itself, in any spelling; no peer's line is copied.
fn is_written_by_gateway(name: &str) -> bool {
    ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]
        .iter()
        .any(|own| Known::is_alias(name.as_bytes(), own.as_bytes()))
}

/// A name of the list in some spelling, with something in place of `*`.
fn spelling() -> impl Strategy<Value = String> {
    let names = prop::sample::select(spoofable::NAMES);
    (names, "[a-z][a-z0-9-]{0,40}", any::<u64>(), prop::sample::select(&['-', '_', '.', '~'][..])).prop_map(
        |(name, more, capitals, separator)| {
            let spell = |(index, letter): (usize, char)| match letter {
                '-' => separator,
                letter if capitals >> (index % 64) & 1 == 1 => letter.to_ascii_uppercase(),
                letter => letter.to_ascii_lowercase(),
            };
            name.replace('*', &more).chars().enumerate().map(spell).collect()
        },
    )
}

proptest! {
    /// Rule 28: whatever the spelling and the place in the head.
    #[test]
    fn fields_that_identify_pass_from_trusted_peers_only(name in spelling(), before in 0..3_usize, after in 0..3_usize) {
        prop_assume!(!is_written_by_gateway(&name));
        let neighbours = ["Accept: */*\r\n", "X-Api-Key: k\r\n", "X-Forwarded-For: 6.6.6.6\r\n"];
        let lines = format!("{}{name}: forged\r\n{}", neighbours[..before].concat(), neighbours[..after].concat());
        let line = format!("\r\n{name}: forged\r\n");
        let untrusted = forwarded(&lines, false, &strict());
        prop_assert!(!untrusted.contains("forged"), "{untrusted}");
        for neighbour in neighbours[..before.max(after).min(2)].iter() {
            prop_assert!(untrusted.contains(neighbour), "{untrusted}");
        }
        prop_assert!(forwarded(&lines, true, &strict()).contains(&line));
        let off = UntrustedHeaders { strip: false, keep: Vec::new() };
        prop_assert!(forwarded(&lines, false, &off).contains(&line));
        let kept = UntrustedHeaders { strip: true, keep: vec![name.as_str().into()] };
        prop_assert!(forwarded(&lines, false, &kept).contains(&line));
        let other = UntrustedHeaders { strip: true, keep: vec!["x-none-of-these".into()] };
        prop_assert!(!forwarded(&lines, false, &other).contains("forged"));
    }
}
