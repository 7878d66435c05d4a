//! Cross-origin resource sharing, as the Fetch standard requires servers to take part in it.

use h1::{Known, Method, RequestHead, encode};

use crate::config::Cors;

/// The method that a preflight announces; `None` when the request is no preflight.
pub fn requested_method<'a>(head: &'a RequestHead, buf: &'a [u8]) -> Option<&'a [u8]> {
    if head.method != Method::Options {
        return None;
    }
    head.fields.first(Known::Origin, buf)?;
    head.fields.first(Known::AccessControlRequestMethod, buf)
}

/// Lines of the response to a preflight. An origin, method or field that is not allowed gets a response without the line that would
/// allow it: the browser then refuses on its own.
pub fn preflight_fields(cors: &Cors, head: &RequestHead, buf: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    let Some(origin) = head.fields.first(Known::Origin, buf) else { return lines };
    if !write_origin(&mut lines, cors, origin) {
        return lines;
    }
    encode::field(&mut lines, b"Access-Control-Allow-Methods", cors.methods.join(", ").as_bytes());
    if !cors.headers.is_empty() {
        encode::field(&mut lines, b"Access-Control-Allow-Headers", cors.headers.join(", ").as_bytes());
    }
    encode::field(&mut lines, b"Access-Control-Max-Age", cors.max_age.as_secs().to_string().as_bytes());
    lines
}

/// Appends the lines that an ordinary response gets: none when the request comes from no other origin and the response does not depend
/// on it.
pub fn write_response_fields(lines: &mut Vec<u8>, cors: &Cors, head: &RequestHead, buf: &[u8]) {
    match head.fields.first(Known::Origin, buf) {
        Some(origin) => {
            write_origin(lines, cors, origin);
        }
        // A cache must not give a response without these lines to another origin.
        None if !is_open(cors) => encode::field(lines, b"Vary", b"Origin"),
        None => {}
    }
}

/// Whether every origin gets the same response.
fn is_open(cors: &Cors) -> bool {
    !cors.credentials && cors.origins.iter().any(|allowed| &**allowed == "*")
}

/// Writes who may read the response; false when this origin may not.
fn write_origin(lines: &mut Vec<u8>, cors: &Cors, origin: &[u8]) -> bool {
    if is_open(cors) {
        encode::field(lines, b"Access-Control-Allow-Origin", b"*");
        return true;
    }
    encode::field(lines, b"Vary", b"Origin");
    let allowed = cors.origins.iter().any(|allowed| &**allowed == "*" || allowed.as_bytes() == origin);
    if allowed {
        encode::field(lines, b"Access-Control-Allow-Origin", origin);
        if cors.credentials {
            encode::field(lines, b"Access-Control-Allow-Credentials", b"true");
        }
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cors(origins: &[&str], credentials: bool) -> Cors {
        Cors {
            origins: origins.iter().map(|&origin| origin.into()).collect(),
            methods: vec!["GET".into(), "PUT".into()],
            headers: vec!["x-token".into()],
            max_age: Duration::from_secs(600),
            credentials,
        }
    }

    fn parse(request: &str) -> (RequestHead, Vec<u8>) {
        let buf = request.as_bytes().to_vec();
        let mut head = RequestHead::default();
        head.parse(&buf, 0, buf.len(), &h1::Limits::default()).unwrap();
        (head, buf)
    }

    fn preflight(cors: &Cors, origin: &str) -> String {
        let request =
            format!("OPTIONS /a HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: PUT\r\n\r\n");
        let (head, buf) = parse(&request);
        assert_eq!(requested_method(&head, &buf), Some(&b"PUT"[..]));
        String::from_utf8(preflight_fields(cors, &head, &buf)).unwrap()
    }

    #[test]
    fn a_preflight_of_an_allowed_origin_says_what_is_allowed() {
        let lines = preflight(&cors(&["https://a.example"], true), "https://a.example");
        assert_eq!(
            lines,
            "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\nAccess-Control-Allow-Credentials: true\r\n\
             Access-Control-Allow-Methods: GET, PUT\r\nAccess-Control-Allow-Headers: x-token\r\nAccess-Control-Max-Age: 600\r\n"
        );
    }

    #[test]
    fn another_origin_is_told_nothing_but_that_it_matters() {
        assert_eq!(preflight(&cors(&["https://a.example"], false), "https://b.example"), "Vary: Origin\r\n");
    }

    #[test]
    fn an_open_resource_is_open_to_all_and_cached_once() {
        let (head, buf) = parse("GET /a HTTP/1.1\r\nHost: a\r\nOrigin: https://b.example\r\n\r\n");
        let response_fields = |cors: &Cors, head: &RequestHead, buf: &[u8]| {
            let mut lines = Vec::new();
            write_response_fields(&mut lines, cors, head, buf);
            lines
        };
        let lines = response_fields(&cors(&["*"], false), &head, &buf);
        assert_eq!(lines, b"Access-Control-Allow-Origin: *\r\n");
        let (head, buf) = parse("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(response_fields(&cors(&["*"], false), &head, &buf), b"");
        assert_eq!(response_fields(&cors(&["https://a.example"], false), &head, &buf), b"Vary: Origin\r\n");
    }

    #[test]
    fn with_credentials_the_star_is_never_written() {
        let (head, buf) = parse("GET /a HTTP/1.1\r\nHost: a\r\nOrigin: https://b.example\r\n\r\n");
        let mut lines = Vec::new();
        write_response_fields(&mut lines, &cors(&["*"], true), &head, &buf);
        assert!(!lines.windows(3).any(|window| window == b": *"));
    }
}
