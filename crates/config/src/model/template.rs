//! Values of header fields with variables.

use std::sync::Arc;

/// A field whose value has variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Name of the field.
    pub name: Arc<str>,
    /// Its value.
    pub parts: Vec<Part>,
}

/// A part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it is written.
    Text(Arc<str>),
    /// What the request has.
    Variable(Variable),
}

/// What a value may have of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// Address of the client.
    ClientIp,
    /// Host that the request is for, as the client wrote it.
    Host,
    /// Method.
    Method,
    /// Normalised path, before a rewrite.
    Path,
    /// Query without `?`.
    Query,
    /// Id of the request.
    RequestId,
    /// Name of the route.
    Route,
    /// `http` or `https`: that of the connection.
    Scheme,
    /// Cipher suite of the connection.
    TlsCipher,
    /// Server name of the handshake.
    TlsSni,
    /// Version of TLS.
    TlsVersion,
    /// Id of the trace that the request belongs to.
    TraceId,
    /// Name of the upstream that the request goes to.
    Upstream,
    /// A request field; name in lower case.
    Header(Arc<str>),
    /// Who sends the request.
    Consumer,
    /// The consumer's tier.
    Tier,
    /// A claim, by its path.
    Claim(Arc<str>),
    /// A name of the key's `meta`.
    Meta(Arc<str>),
}

impl Variable {
    /// Whether it is known only once the sender is.
    pub fn is_of_identity(&self) -> bool {
        matches!(self, Variable::Consumer | Variable::Tier | Variable::Claim(_) | Variable::Meta(_))
    }
}

const NAMES: [(&str, Variable); 15] = [
    ("client_ip", Variable::ClientIp),
    ("consumer", Variable::Consumer),
    ("host", Variable::Host),
    ("method", Variable::Method),
    ("path", Variable::Path),
    ("query", Variable::Query),
    ("request_id", Variable::RequestId),
    ("route", Variable::Route),
    ("scheme", Variable::Scheme),
    ("tier", Variable::Tier),
    ("tls.cipher", Variable::TlsCipher),
    ("tls.sni", Variable::TlsSni),
    ("tls.version", Variable::TlsVersion),
    ("trace_id", Variable::TraceId),
    ("upstream", Variable::Upstream),
];

/// The parts of a value. `{name}` is a variable; `{{name}` stands for the text `{name}`; other braces stand for themselves.
///
/// # Errors
/// A variable that there is not.
pub fn parts(value: &str) -> Result<Vec<Part>, String> {
    pieces(value, Part::Text, |name| variable(name).map(Part::Variable))
}

/// The pieces of a text in which names are in braces, at least one.
pub(super) fn pieces<T>(
    value: &str,
    of_text: impl Fn(Arc<str>) -> T,
    of_name: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(name) = rest.strip_prefix('{').and_then(name_of) {
            text.push_str(&rest[..name.len() + 2]);
            rest = &rest[name.len() + 2..];
        } else if let Some(name) = name_of(rest) {
            if !text.is_empty() {
                pieces.push(of_text(std::mem::take(&mut text).into()));
            }
            pieces.push(of_name(name)?);
            rest = &rest[name.len() + 1..];
        } else {
            text.push('{');
        }
    }
    text.push_str(rest);
    if !text.is_empty() || pieces.is_empty() {
        pieces.push(of_text(text.into()));
    }
    Ok(pieces)
}

/// The name before the next `}`, if it can be one.
fn name_of(text: &str) -> Option<&str> {
    let name = text.split_once('}')?.0;
    let is_name = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    is_name.then_some(name)
}

fn variable(name: &str) -> Result<Variable, String> {
    if let Some(header) = name.strip_prefix("header.").filter(|header| !header.is_empty()) {
        return Ok(Variable::Header(header.to_ascii_lowercase().into()));
    }
    if let Some(path) = name.strip_prefix("claim.").filter(|path| !path.is_empty()) {
        return Ok(Variable::Claim(path.into()));
    }
    if let Some(meta) = name.strip_prefix("meta.").filter(|meta| !meta.is_empty()) {
        return Ok(Variable::Meta(meta.into()));
    }
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, variable)| variable.clone());
    known.ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!(
            "there is no variable `{{{name}}}`; there are {}, header.NAME, claim.PATH and meta.NAME; `{{{{{name}}}` is the text",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{Part, Variable, parts};

    #[test]
    fn braces_are_variables_only_where_they_hold_a_name() {
        let text = |text: &str| Part::Text(text.into());
        for (value, expected) in [
            ("", vec![text("")]),
            ("plain", vec![text("plain")]),
            ("{host}", vec![Part::Variable(Variable::Host)]),
            (
                "a {host}{path} b",
                vec![text("a "), Part::Variable(Variable::Host), Part::Variable(Variable::Path), text(" b")],
            ),
            ("{header.X-Tier}", vec![Part::Variable(Variable::Header("x-tier".into()))]),
            ("{claim.realm.tenant}", vec![Part::Variable(Variable::Claim("realm.tenant".into()))]),
            ("{meta.Region}", vec![Part::Variable(Variable::Meta("Region".into()))]),
            (r#"{"group":{"a":1}}"#, vec![text(r#"{"group":{"a":1}}"#)]),
            ("{{host}", vec![text("{host}")]),
            ("{ host}{", vec![text("{ host}{")]),
        ] {
            assert_eq!(parts(value).unwrap(), expected, "{value}");
        }
        let error = parts("{clientip}").unwrap_err();
        assert!(error.contains("no variable `{clientip}`") && error.contains("`{{clientip}`"), "{error}");
    }
}
