//! Whether a client wants a page for an error, or the problem document (RFC 9110 section 12.5.1).

/// Types of the problem document, either of which is one for a program.
const PROBLEMS: [&[u8]; 2] = [b"application/problem+json", b"application/json"];

/// Whether a page of this type goes to a client with these values of `Accept`. A page for programs takes the place of the problem document;
/// any other one goes to clients that like its type better, as browsers do.
pub fn wants_page<'a>(accept: impl Iterator<Item = &'a [u8]> + Clone, content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    if kind == "application/json" || kind.ends_with("+json") {
        return true;
    }
    let problem = PROBLEMS.iter().map(|problem| quality(accept.clone(), problem)).max().unwrap_or(0);
    quality(accept, kind.as_bytes()) > problem
}

/// What a client gives to a type, in thousandths: the most exact range decides.
fn quality<'a>(accept: impl Iterator<Item = &'a [u8]>, kind: &[u8]) -> u16 {
    let (mut exactness, mut found) = (0, 0);
    for member in accept.flat_map(|value| value.split(|&byte| byte == b',')) {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let range = parts.next().unwrap_or_default();
        let main = kind.split(|&byte| byte == b'/').next().unwrap_or_default();
        let exact = match range {
            b"*/*" => 1,
            _ if range.strip_suffix(b"/*").is_some_and(|start| start.eq_ignore_ascii_case(main)) => 2,
            _ if range.eq_ignore_ascii_case(kind) => 3,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
        let weight = match weight {
            None => 1000,
            Some(text) => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse::<f32>().ok())
                .filter(|weight| (0.0..=1.0).contains(weight))
                .map_or(0, |weight| (weight * 1000.0) as u16),
        };
        if exact > exactness {
            (exactness, found) = (exact, weight);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_pages_and_programs_get_problems() {
        let wants = |accept: &str, kind: &str| wants_page([accept.as_bytes()].into_iter(), kind);
        let html = "text/html; charset=utf-8";
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
        for (accept, kind, expected) in [
            (browser, html, true),
            (browser, "text/plain", false),
            ("text/*", html, true),
            ("*/*", html, false),
            ("", html, false),
            ("application/json", html, false),
            ("application/json, text/html;q=0.9", html, false),
            ("application/json;q=0.5, text/html;q=0.9", html, true),
            ("text/html;q=0, */*", html, false),
            ("text/html;q=2", html, false),
            ("*/*", "application/json", true),
            ("text/html", "application/json", true),
        ] {
            assert_eq!(wants(accept, kind), expected, "{accept}: {kind}");
        }
        assert!(!wants_page(std::iter::empty(), html));
    }
}
