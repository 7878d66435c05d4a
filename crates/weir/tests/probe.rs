//! A table of raw requests with the outcome that the RFCs require of a server, in the manner of the public probe suites for HTTP/1.1 servers: what
//! must be refused, what must be accepted, and after what the connection ends. Where the RFCs leave a choice the gateway's is named.

use testkit::{RawClient, Upstream, Weir, answer};

/// What has to come of a request.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    /// One of these statuses, `Connection: close`, and the end of the connection: where the next request begins is not certain.
    Refused(&'static [u16]),
    /// One of these statuses; the connection may go on.
    Declined(&'static [u16]),
    /// The upstream's response, and the connection goes on.
    Served,
    /// The upstream's response, and the end of the connection.
    ServedLast,
    /// No response, but the end of the connection: there was no request.
    Closed,
}
use Outcome::{Closed, Declined, Refused, Served, ServedLast};

const BAD: Outcome = Refused(&[400]);
/// What does not come is given up.
const LATE: Outcome = Refused(&[408]);

/// Name, section, bytes, outcome.
type Case = (&'static str, &'static str, &'static str, Outcome);

const REQUEST_LINE: &[Case] = &[
    ("a plain request", "9112 3", "GET / HTTP/1.1\r\nHost: test\r\n\r\n", Served),
    ("an empty line before it", "9112 2.2", "\r\nGET / HTTP/1.1\r\nHost: test\r\n\r\n", Served),
    ("several spaces", "9112 3", "GET  / HTTP/1.1\r\nHost: test\r\n\r\n", BAD),
    ("a tab for a space", "9112 3", "GET\t/\tHTTP/1.1\r\nHost: test\r\n\r\n", BAD),
    ("a space behind the version", "9112 3", "GET / HTTP/1.1 \r\nHost: test\r\n\r\n", BAD),
    ("a space in the target", "9112 3.2", "GET /a b HTTP/1.1\r\nHost: test\r\n\r\n", BAD),
    ("no target", "9112 3", "GET HTTP/1.1\r\nHost: test\r\n\r\n", BAD),
    ("only white space", "9112 2.2", "   \r\n\r\n", BAD),
    ("HTTP/0.9", "9112 2.3", "GET /\r\n\r\n", BAD),
    ("a fragment", "9112 3.2", "GET /a#b HTTP/1.1\r\nHost: test\r\n\r\n", BAD),
    ("no minor version", "9112 2.3", "GET / HTTP/1\r\nHost: test\r\n\r\n", BAD),
    ("zeros in the version", "9112 2.3", "GET / HTTP/01.01\r\nHost: test\r\n\r\n", BAD),
    ("space in the version", "9112 2.3", "GET / HTTP/ 1.1\r\nHost: test\r\n\r\n", BAD),
    ("a version in another case", "9112 2.3", "GET / http/1.1\r\nHost: test\r\n\r\n", BAD),
    ("another protocol", "9112 2.3", "GET / HTPT/1.1\r\nHost: test\r\n\r\n", BAD),
    ("HTTP/9.9", "9110 15.6.6", "GET / HTTP/9.9\r\nHost: test\r\n\r\n", Refused(&[505])),
    ("HTTP/1.2", "9112 2.3", "GET / HTTP/1.2\r\nHost: test\r\n\r\n", Refused(&[505])),
    ("the preface of HTTP/2", "9113 3.4", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refused(&[400, 505])),
    ("a method in another case", "9110 9.1", "get / HTTP/1.1\r\nHost: test\r\n\r\n", BAD),
    ("a method of another's", "9110 9.1", "PURGE-IT / HTTP/1.1\r\nHost: test\r\n\r\n", Served),
    ("CONNECT", "9110 9.3.6", "CONNECT a:443 HTTP/1.1\r\nHost: test\r\n\r\n", Refused(&[501])),
    ("absolute form", "9112 3.2.2", "GET http://test/ HTTP/1.1\r\nHost: test\r\n\r\n", Served),
    ("absolute form, another host", "9112 3.2.2", "GET http://other/ HTTP/1.1\r\nHost: test\r\n\r\n", Served),
    ("absolute form with userinfo", "9110 4.2.4", "GET http://a@test/ HTTP/1.1\r\nHost: test\r\n\r\n", BAD),
    ("* with GET", "9112 3.2.4", "GET * HTTP/1.1\r\nHost: test\r\n\r\n", BAD),
    ("NUL in the target", "9112 3.2", "GET /\0a HTTP/1.1\r\nHost: test\r\n\r\n", BAD),
    ("UTF-8 in the target", "9112 3.2", "GET /caf\u{e9} HTTP/1.1\r\nHost: test\r\n\r\n", BAD),
    ("an encoded NUL", "3986 2.1", "GET /%00 HTTP/1.1\r\nHost: test\r\n\r\n", Declined(&[400])),
    ("encoded line ends", "3986 2.1", "GET /a%0d%0aX:%20y HTTP/1.1\r\nHost: test\r\n\r\n", Declined(&[400])),
    ("a backslash", "3986 3.3", "GET /a\\b HTTP/1.1\r\nHost: test\r\n\r\n", Declined(&[400])),
];

const FIELDS: &[Case] = &[
    ("LF behind the request line", "9112 2.2", "GET / HTTP/1.1\nHost: test\r\n\r\n", BAD),
    ("LF behind a field", "9112 2.2", "GET / HTTP/1.1\r\nHost: test\n\r\n", BAD),
    ("CR for line ends", "9112 2.2", "GET / HTTP/1.1\rHost: test\r\r", BAD),
    ("CR in a value", "9112 2.2", "GET / HTTP/1.1\r\nA: b\rc\r\nHost: test\r\n\r\n", BAD),
    ("NUL in a value", "9110 5.5", "GET / HTTP/1.1\r\nA: b\0c\r\nHost: test\r\n\r\n", BAD),
    ("controls in a value", "9110 5.5", "GET / HTTP/1.1\r\nA: \x07\x08\x0b\r\nHost: test\r\n\r\n", BAD),
    ("a space before the colon", "9112 5.1", "GET / HTTP/1.1\r\nHost : test\r\n\r\n", BAD),
    (
        "a space before the colon of a length",
        "9112 5.1",
        "POST / HTTP/1.1\r\nHost: test\r\nContent-Length : 5\r\n\r\nhello",
        BAD,
    ),
    ("a tab in a name", "9110 5.1", "GET / HTTP/1.1\r\nX\tA: b\r\nHost: test\r\n\r\n", BAD),
    ("a folded line", "9112 5.2", "GET / HTTP/1.1\r\nA: b\r\n c\r\nHost: test\r\n\r\n", BAD),
    ("white space before the first field", "9112 2.2", "GET / HTTP/1.1\r\n A: b\r\nHost: test\r\n\r\n", BAD),
    ("an empty name", "9112 5", "GET / HTTP/1.1\r\n: b\r\nHost: test\r\n\r\n", BAD),
    ("brackets in a name", "9110 5.1", "GET / HTTP/1.1\r\nA[b]: c\r\nHost: test\r\n\r\n", BAD),
    ("UTF-8 in a name", "9110 5.1", "GET / HTTP/1.1\r\nX-T\u{eb}st: v\r\nHost: test\r\n\r\n", BAD),
    ("no colon", "9112 5", "GET / HTTP/1.1\r\nabc\r\nHost: test\r\n\r\n", BAD),
    ("UTF-8 in a value", "9110 5.5", "GET / HTTP/1.1\r\nA: caf\u{e9}\r\nHost: test\r\n\r\n", Served),
    ("no Host", "9112 3.2", "GET / HTTP/1.1\r\n\r\n", BAD),
    ("an empty Host", "9112 3.2", "GET / HTTP/1.1\r\nHost:\r\n\r\n", BAD),
    ("two Hosts", "9112 3.2", "GET / HTTP/1.1\r\nHost: test\r\nHost: other\r\n\r\n", BAD),
    ("the same Host twice", "9112 3.2", "GET / HTTP/1.1\r\nHost: test\r\nHost: test\r\n\r\n", BAD),
    ("a list of Hosts", "9110 7.2", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", BAD),
    ("userinfo in Host", "9110 7.2", "GET / HTTP/1.1\r\nHost: a@test\r\n\r\n", BAD),
    ("a path in Host", "9110 7.2", "GET / HTTP/1.1\r\nHost: test/a\r\n\r\n", BAD),
    ("HTTP/1.0 without Host", "9112 3.2", "GET / HTTP/1.0\r\n\r\n", ServedLast),
    ("HTTP/1.0 with Host", "9112 9.3", "GET / HTTP/1.0\r\nHost: test\r\n\r\n", ServedLast),
    ("Connection: close", "9112 9.6", "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n", ServedLast),
    ("an unknown expectation", "9110 10.1.1", "GET / HTTP/1.1\r\nHost: test\r\nExpect: tea\r\n\r\n", Declined(&[417])),
    (
        "an upgrade to an unknown protocol",
        "9110 7.8",
        "GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: tea/1\r\n\r\n",
        Served,
    ),
    ("an upgrade without the option", "9110 7.8", "GET / HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\n\r\n", Served),
    (
        "an upgrade in HTTP/1.0",
        "9110 7.8",
        "GET / HTTP/1.0\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        ServedLast,
    ),
    ("nothing", "9112 9.5", "", Closed),
    ("half a head", "9112 2.2", "GET / HTTP/1.1\r\nHost: te", LATE),
    ("garbage", "9112 2.2", "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03\r\n\r\n", BAD),
];

/// Fields of a POST, `|`, its body.
const FRAMING: &[Case] = &[
    ("a length", "9112 6.2", "Content-Length: 5|hello", Served),
    ("a length of 0", "9112 6.2", "Content-Length: 0|", Served),
    ("neither length nor coding", "9112 6.3", "A: b|", Served),
    ("a tab before the length", "9110 5.6.3", "Content-Length:\t5|hello", Served),
    ("spaces around the length", "9110 5.5", "Content-Length:  5  |hello", Served),
    ("zeros before the length", "9110 8.6", "Content-Length: 0005|hello", Served),
    ("no digits", "9110 8.6", "Content-Length: abc|hello", BAD),
    ("an empty length", "9110 8.6", "Content-Length:|", BAD),
    ("a plus", "9110 8.6", "Content-Length: +5|hello", BAD),
    ("a minus", "9110 8.6", "Content-Length: -5|hello", BAD),
    ("minus 0", "9110 8.6", "Content-Length: -0|", BAD),
    ("an underscore", "9110 8.6", "Content-Length: 1_0|helloworld", BAD),
    ("octal", "9110 8.6", "Content-Length: 0o5|hello", BAD),
    ("hexadecimal", "9110 8.6", "Content-Length: 0x5|hello", BAD),
    ("a space inside", "9110 8.6", "Content-Length: 1 0|helloworld", BAD),
    ("too many digits", "9110 8.6", "Content-Length: 99999999999999999999|", BAD),
    ("two lengths", "9112 6.3", "Content-Length: 5\r\nContent-Length: 6|hello", BAD),
    ("the same length twice", "9112 6.3", "Content-Length: 5\r\nContent-Length: 5|hello", BAD),
    ("a list of lengths", "9112 6.3", "Content-Length: 5, 6|hello", BAD),
    ("a list of one length", "9112 6.3", "Content-Length: 5, 5|hello", BAD),
    ("too little", "9112 6.3", "Content-Length: 10|hello", LATE),
    ("a huge length and nothing", "9112 6.3", "Content-Length: 999999999999|", LATE),
    ("chunks", "9112 7.1", "Transfer-Encoding: chunked|5\r\nhello\r\n0\r\n\r\n", Served),
    ("several chunks", "9112 7.1", "Transfer-Encoding: chunked|2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", Served),
    ("no chunk", "9112 7.1", "Transfer-Encoding: chunked|0\r\n\r\n", Served),
    ("upper case digits", "9112 7.1", "Transfer-Encoding: chunked|A\r\nhelloworld\r\n0\r\n\r\n", Served),
    ("a trailer", "9112 7.1.2", "Transfer-Encoding: chunked|5\r\nhello\r\n0\r\nT: u\r\n\r\n", Served),
    ("a length in a trailer", "9110 6.5.1", "Transfer-Encoding: chunked|0\r\nContent-Length: 9\r\n\r\n", Served),
    ("Host in a trailer", "9110 6.5.1", "Transfer-Encoding: chunked|0\r\nHost: other\r\n\r\n", Served),
    ("an extension", "9112 7.1.1", "Transfer-Encoding: chunked|5;a=b\r\nhello\r\n0\r\n\r\n", Served),
    ("a coding in another case", "9112 7", "Transfer-Encoding: Chunked|0\r\n\r\n", Served),
    ("a field name in another case", "9110 5.1", "TRANSFER-ENCODING: chunked|0\r\n\r\n", Served),
    ("a tab before the coding", "9110 5.5", "Transfer-Encoding:\tchunked|0\r\n\r\n", Served),
    ("a space behind the coding", "9110 5.5", "Transfer-Encoding: chunked |0\r\n\r\n", Served),
    ("no last chunk", "9112 7.1", "Transfer-Encoding: chunked|5\r\nhello\r\n", LATE),
    ("length and coding", "9112 6.3", "Content-Length: 5\r\nTransfer-Encoding: chunked|0\r\n\r\n", BAD),
    ("coding and length", "9112 6.3", "Transfer-Encoding: chunked\r\nContent-Length: 5|0\r\n\r\n", BAD),
    ("chunked not last", "9112 6.3", "Transfer-Encoding: chunked, gzip|0\r\n\r\n", BAD),
    ("an unknown coding alone", "9112 6.3", "Transfer-Encoding: gzip|hello", BAD),
    ("an unknown coding before", "9112 6.1", "Transfer-Encoding: gzip, chunked|0\r\n\r\n", Refused(&[501])),
    ("xchunked", "9112 6.3", "Transfer-Encoding: xchunked|0\r\n\r\n", BAD),
    ("identity", "9112 7", "Transfer-Encoding: identity|hello", BAD),
    ("chunked twice", "9112 6.1", "Transfer-Encoding: chunked, chunked|0\r\n\r\n", BAD),
    ("two lines of codings", "9112 6.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity|0\r\n\r\n", BAD),
    ("an empty coding", "9112 6.1", "Transfer-Encoding:|0\r\n\r\n", BAD),
    ("a comma behind", "9110 5.6.1", "Transfer-Encoding: chunked,|0\r\n\r\n", BAD),
    ("a comma before", "9110 5.6.1", "Transfer-Encoding: ,chunked|0\r\n\r\n", BAD),
    ("parameters", "9112 7", "Transfer-Encoding: chunked;q=1|0\r\n\r\n", BAD),
    ("a vertical tab", "9110 5.5", "Transfer-Encoding: chunked\x0b|0\r\n\r\n", BAD),
    ("a form feed", "9110 5.5", "Transfer-Encoding: \x0cchunked|0\r\n\r\n", BAD),
    ("NUL in a coding", "9110 5.5", "Transfer-Encoding: chunked\0|0\r\n\r\n", BAD),
    ("a space before the colon of a coding", "9112 5.1", "Transfer-Encoding : chunked|0\r\n\r\n", BAD),
    ("a folded coding", "9112 5.2", "Transfer-Encoding:\r\n chunked|0\r\n\r\n", BAD),
    ("a lone semicolon", "9112 7.1.1", "Transfer-Encoding: chunked|5;\r\nhello\r\n0\r\n\r\n", BAD),
    ("a prefixed size", "9112 7.1", "Transfer-Encoding: chunked|0x5\r\nhello\r\n0\r\n\r\n", BAD),
    ("an underscore in a size", "9112 7.1", "Transfer-Encoding: chunked|1_0\r\nhello\r\n0\r\n\r\n", BAD),
    ("a space before a size", "9112 7.1", "Transfer-Encoding: chunked| 5\r\nhello\r\n0\r\n\r\n", BAD),
    ("a space behind a size", "9112 7.1", "Transfer-Encoding: chunked|5 \r\nhello\r\n0\r\n\r\n", BAD),
    ("a minus in a size", "9112 7.1", "Transfer-Encoding: chunked|-1\r\nhello\r\n0\r\n\r\n", BAD),
    ("an overflowing size", "9112 7.1", "Transfer-Encoding: chunked|FFFFFFFFFFFFFFFFF\r\nhello\r\n", BAD),
    ("no line end behind data", "9112 7.1", "Transfer-Encoding: chunked|5\r\nhello0\r\n\r\n", BAD),
    ("more data than the size", "9112 7.1", "Transfer-Encoding: chunked|5\r\nhellooo\r\n0\r\n\r\n", BAD),
    ("NUL in an extension", "9112 7.1.1", "Transfer-Encoding: chunked|5;a\0b\r\nhello\r\n0\r\n\r\n", BAD),
    ("CR in an extension", "9112 2.2", "Transfer-Encoding: chunked|5;a\rb\r\nhello\r\n0\r\n\r\n", BAD),
    ("LF in an extension", "9112 2.2", "Transfer-Encoding: chunked|5;a\nhello\r\n0\r\n\r\n", BAD),
    ("LF behind a size", "9112 2.2", "Transfer-Encoding: chunked|5\nhello\r\n0\r\n\r\n", BAD),
    ("LF behind data", "9112 2.2", "Transfer-Encoding: chunked|5\r\nhello\n0\r\n\r\n", BAD),
    ("CR behind a size", "9112 2.2", "Transfer-Encoding: chunked|5\rhello\r\n0\r\n\r\n", BAD),
    ("LF behind a trailer", "9112 2.2", "Transfer-Encoding: chunked|0\r\nT: u\n\r\n", BAD),
    ("LF for the end", "9112 2.2", "Transfer-Encoding: chunked|0\r\n\n", BAD),
    ("a length with underscore", "9110 5.1", "Content_Length: 5|", Served),
    ("a coding with underscore", "9110 5.1", "Transfer_Encoding: chunked|", Served),
];

fn gateway(upstream: &Upstream) -> Weir {
    let yaml = format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nserver: {{head_timeout: 100ms, body_idle_timeout: 100ms, keep_alive: 20s}}\nupstreams:\n  u:\n    \
         targets: [{}]\n    eject: none\nroutes:\n  - match: {{path: /*}}\n    upstream: u\n",
        upstream.url()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

/// Sends the bytes, each character as one byte, and says what is wrong with what comes of them.
fn probe(weir: &Weir, bytes: &[u8], outcome: Outcome) -> Result<(), String> {
    let mut client: RawClient = weir.connect();
    if matches!(outcome, Closed) {
        client.half_close();
        return if client.read_to_close().is_empty() { Ok(()) } else { Err("a response to nothing".into()) };
    }
    let _ = client.try_send(bytes);
    let reply = client.try_read_response().map_err(|error| error.to_string())?;
    let closes = reply.field("connection") == Some("close");
    let (is_right, ends) = match outcome {
        Refused(statuses) => (statuses.contains(&reply.status()) && closes, true),
        Declined(statuses) => (statuses.contains(&reply.status()), false),
        Served => (reply.status() == 200 && reply.text() == "hello" && !closes, false),
        ServedLast => (reply.status() == 200 && reply.text() == "hello" && closes, true),
        Closed => (false, true),
    };
    if !is_right {
        return Err(format!("{} {}{}", reply.status(), reply.text(), if closes { ", closes" } else { "" }));
    }
    if ends {
        client.half_close();
        let rest = client.read_to_close();
        return if rest.is_empty() { Ok(()) } else { Err(format!("then came {}", rest.escape_ascii())) };
    }
    // What goes on is in step.
    match client.get("/next").text() {
        "hello" => Ok(()),
        other => Err(format!("the next request got {other}")),
    }
}

fn as_bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

#[test]
fn every_case_of_the_table_is_right() {
    let upstream = Upstream::start(answer::ok("hello"));
    let weir = gateway(&upstream);
    let framing = FRAMING.iter().map(|&(name, section, text, outcome)| {
        let (lines, body) = text.split_once('|').unwrap();
        (name, section, format!("POST / HTTP/1.1\r\nHost: test\r\n{lines}\r\n\r\n{body}"), outcome)
    });
    let heads = REQUEST_LINE
        .iter()
        .chain(FIELDS)
        .map(|&(name, section, text, outcome)| (name, section, text.to_owned(), outcome));
    let mut cases: Vec<(&str, &str, Vec<u8>, Outcome)> =
        framing.chain(heads).map(|(name, section, text, outcome)| (name, section, as_bytes(&text), outcome)).collect();
    let long = "A".repeat(100_000);
    let many = "A: b\r\n".repeat(10_000);
    for (name, section, text, outcome) in [
        ("a target of 100 kB", "9110 15.5.15", format!("GET /{long} HTTP/1.1\r\nHost: test\r\n\r\n"), Refused(&[414])),
        ("a method of 100 kB", "9112 3", format!("{long} / HTTP/1.1\r\nHost: test\r\n\r\n"), Refused(&[400, 414, 501])),
        (
            "a value of 100 kB",
            "9110 5.4",
            format!("GET / HTTP/1.1\r\nHost: test\r\nA: {long}\r\n\r\n"),
            Refused(&[431]),
        ),
        ("a name of 100 kB", "9110 5.4", format!("GET / HTTP/1.1\r\nHost: test\r\n{long}: b\r\n\r\n"), Refused(&[431])),
        ("10,000 fields", "6585 5", format!("GET / HTTP/1.1\r\nHost: test\r\n{many}\r\n"), Refused(&[431])),
        (
            "extensions of 64 kB",
            "9112 7.1.1",
            format!(
                "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5;a={}\r\nhello\r\n0\r\n\r\n",
                &long[..65_536]
            ),
            BAD,
        ),
        ("a target of 7 kB", "9112 3", format!("GET /{} HTTP/1.1\r\nHost: test\r\n\r\n", &long[..7_000]), Served),
    ] {
        cases.push((name, section, text.into_bytes(), outcome));
    }
    assert!(cases.len() >= 140, "{}", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(name, section, bytes, outcome)| {
            let wrong = probe(&weir, bytes, *outcome).err()?;
            let shown = &bytes[..bytes.len().min(200)];
            Some(format!("{name} (RFC {section}), expected {outcome:?}: {wrong}\n  {}", shown.escape_ascii()))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases are wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    println!("{} cases are right", cases.len());
}
