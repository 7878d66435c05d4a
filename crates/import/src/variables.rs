//! Values of header fields in which variables stand.

/// A text without variables as the value of a field: `{name}` in it stays what it is.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        out.push_str(if is_name(rest) { "{{" } else { "{" });
    }
    out + rest
}

/// Whether what stands behind a brace is a name for Weir.
fn is_name(rest: &str) -> bool {
    rest.split_once('}').is_some_and(|(name, _)| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    })
}

/// A value with variables of nginx (`$name`, `${name}`) as Weir has it. None if one of them has no equivalent.
pub(crate) fn of_nginx(value: &str, server_name: Option<&str>) -> Option<String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        out.push_str(&literal(&rest[..at]));
        rest = &rest[at + 1..];
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, after) = match rest.strip_prefix('{') {
            Some(inner) => inner.split_once('}')?,
            None => rest.split_at(rest.find(|c| !is_letter(c)).unwrap_or(rest.len())),
        };
        rest = after;
        match (name, name.strip_prefix("http_")) {
            ("remote_addr", _) => out.push_str("{client_ip}"),
            ("http_host", _) => out.push_str("{host}"),
            ("request_method", _) => out.push_str("{method}"),
            ("args" | "query_string", _) => out.push_str("{query}"),
            ("request_id", _) => out.push_str("{request_id}"),
            ("scheme", _) => out.push_str("{scheme}"),
            ("ssl_cipher", _) => out.push_str("{tls.cipher}"),
            ("ssl_protocol", _) => out.push_str("{tls.version}"),
            ("ssl_server_name", _) => out.push_str("{tls.sni}"),
            ("server_name", _) => out.push_str(&literal(server_name?)),
            (_, Some(field)) if !field.is_empty() => {
                out.push_str(&format!("{{header.{}}}", field.to_ascii_lowercase().replace('_', "-")));
            }
            _ => return None,
        }
    }
    out.push_str(&literal(rest));
    Some(out)
}

/// A value with placeholders of Caddy as Weir has it. None if one of them has no equivalent.
pub(crate) fn of_caddy(value: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        let (name, after) = rest[at + 1..].split_once('}')?;
        rest = after;
        match (name, name.strip_prefix("http.request.header.")) {
            ("http.request.remote.host", _) => out.push_str("{client_ip}"),
            ("http.request.hostport", _) => out.push_str("{host}"),
            ("http.request.method", _) => out.push_str("{method}"),
            ("http.request.scheme", _) => out.push_str("{scheme}"),
            ("http.request.uri.path", _) => out.push_str("{path}"),
            ("http.request.uri.query", _) => out.push_str("{query}"),
            ("http.request.uuid", _) => out.push_str("{request_id}"),
            ("http.request.tls.version", _) => out.push_str("{tls.version}"),
            ("http.request.tls.cipher_suite", _) => out.push_str("{tls.cipher}"),
            ("http.request.tls.server_name", _) => out.push_str("{tls.sni}"),
            (_, Some(field)) if crate::document::is_token(field) => {
                out.push_str(&format!("{{header.{}}}", field.to_ascii_lowercase()));
            }
            _ => return None,
        }
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_braces_stays_a_text() {
        assert_eq!(literal("a {client_ip} {X} {{path} }"), "a {{client_ip} {X} {{{path} }");
        assert_eq!(of_nginx("{path} $remote_addr", None).as_deref(), Some("{{path} {client_ip}"));
    }

    #[test]
    fn variables_become_those_of_weir_or_the_value_is_not_written() {
        let name = Some("a.example");
        assert_eq!(of_nginx("for=${remote_addr};x", name).as_deref(), Some("for={client_ip};x"));
        assert_eq!(of_nginx("$http_x_a-$server_name", name).as_deref(), Some("{header.x-a}-a.example"));
        for unknown in ["$upstream_addr", "$", "${remote_addr", "$http_"] {
            assert_eq!(of_nginx(unknown, name), None, "{unknown}");
        }
        let value = of_caddy("{http.request.remote.host}:{http.request.header.X-A}");
        assert_eq!(value.as_deref(), Some("{client_ip}:{header.x-a}"));
        assert_eq!(of_caddy("{http.vars.x}"), None);
    }
}
