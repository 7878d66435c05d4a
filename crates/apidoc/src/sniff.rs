//! Which kind of description a text is, by its content; names of files say nothing reliable.

use crate::diagnostic::{Code, Diagnostic};
use crate::tree::Node;
use crate::{records, shorthand};

/// The kinds of description that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// OpenAPI 3.0, 3.1 or 3.2.
    OpenApi,
    /// Swagger 2.0.
    Swagger2,
    /// RAML 1.0.
    Raml,
    /// API Blueprint, format 1A.
    Blueprint,
    /// Paths with methods and no `openapi` key.
    Shorthand,
    /// The internal records.
    Records,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::OpenApi => "OpenAPI 3",
            Kind::Swagger2 => "Swagger 2.0",
            Kind::Raml => "RAML 1.0",
            Kind::Blueprint => "API Blueprint",
            Kind::Shorthand => "the OpenAPI shorthand",
            Kind::Records => "endpoint records",
        })
    }
}

/// What the text alone says, before it is parsed: RAML by its first line, API Blueprint by its form.
pub(crate) fn by_text(file: &str, text: &str) -> Result<Option<Kind>, Diagnostic> {
    let first = text.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("");
    let unsupported = |what: String| Err(Diagnostic::whole(Code::Unsupported, file, what));
    if let Some(header) = first.strip_prefix("#%RAML") {
        let mut words = header.split_whitespace();
        return match (words.next(), words.next()) {
            (Some("1.0"), None) => Ok(Some(Kind::Raml)),
            (Some("1.0"), Some(fragment)) => {
                let text = format!(
                    "this is a RAML fragment ({fragment}), not an API; give the file that starts with '#%RAML 1.0' alone"
                );
                unsupported(text)
            }
            (version, _) => {
                unsupported(format!("RAML {} is not read, only 1.0", version.unwrap_or("without a version")))
            }
        };
    }
    if first.starts_with('<') {
        let kind = if text.contains("wadl") {
            "WADL"
        } else if text.contains("wsdl") {
            "WSDL"
        } else {
            "XML or HTML"
        };
        return unsupported(format!(
            "this is {kind}, which is not read; read are OpenAPI 3, Swagger 2, RAML 1.0, API Blueprint and records"
        ));
    }
    let format = text.lines().take_while(|l| !l.trim_start().starts_with('#')).find_map(|l| {
        let (key, value) = l.split_once(':')?;
        key.trim().eq_ignore_ascii_case("format").then(|| value.trim())
    });
    match format {
        Some(version) if version.eq_ignore_ascii_case("1A") || version.to_ascii_uppercase().starts_with("1A") => {
            return Ok(Some(Kind::Blueprint));
        }
        Some(version) if version.len() == 2 && version.ends_with(['A', 'B']) => {
            return unsupported(format!("API Blueprint format {version} is not read, only 1A"));
        }
        _ => {}
    }
    Ok(text.lines().any(is_blueprint_heading).then_some(Kind::Blueprint))
}

/// A heading such as `## Message [/message/{id}]`, `### List [GET /messages]`, `# GET /message` or `# Group Users`.
fn is_blueprint_heading(line: &str) -> bool {
    let Some(title) = line.strip_prefix('#').map(|t| t.trim_start_matches('#').trim()) else {
        return false;
    };
    let method = |word: &str| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase());
    if let Some(inside) = title.strip_suffix(']').and_then(|t| t.rsplit_once('[')).map(|(_, inside)| inside.trim()) {
        let mut words = inside.split_whitespace();
        let first = words.next().unwrap_or("");
        return first.starts_with('/') || (method(first) && words.next().is_none_or(|w| w.starts_with('/')));
    }
    let mut words = title.split_whitespace();
    let (first, second) = (words.next().unwrap_or(""), words.next());
    (method(first) && second.is_some_and(|w| w.starts_with('/')))
        || (first.starts_with('/') && second.is_none() && line.starts_with("# "))
}

/// What the root of a parsed document says.
pub(crate) fn by_tree(root: Node<'_>) -> Result<Kind, Diagnostic> {
    let version = |key: &str| root.given(key).map(|n| (n, n.text().unwrap_or("").trim().to_owned()));
    let refuse = |node: Node<'_>, what: String| Err(node.diagnostic(Code::Unsupported, what));
    if let Some((node, v)) = version("openapi") {
        let three = v.strip_prefix('3').is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        return if three {
            Ok(Kind::OpenApi)
        } else {
            refuse(node, format!("OpenAPI '{v}' is not read, only 3.0, 3.1 and 3.2"))
        };
    }
    if let Some((node, v)) = version("swagger") {
        return if v == "2.0" || v == "2" {
            Ok(Kind::Swagger2)
        } else {
            refuse(node, format!("Swagger '{v}' is not read, only 2.0"))
        };
    }
    if let Some((node, v)) = version("swaggerVersion") {
        return refuse(node, format!("Swagger {v} is not read, only 2.0"));
    }
    if let Some((node, v)) = version("asyncapi") {
        return refuse(node, format!("this is AsyncAPI {v}: it describes messages, not HTTP operations"));
    }
    if root.get("info").is_some_and(|i| {
        i.get("_postman_id").is_some() || i.get("schema").and_then(Node::str).is_some_and(|s| s.contains("postman"))
    }) {
        return refuse(root, "this is a Postman collection, which is not read; export it as OpenAPI".to_owned());
    }
    if root.get("discoveryVersion").is_some() {
        return refuse(root, "this is a Google API discovery document, which is not read".to_owned());
    }
    if records::is_records(root) {
        return Ok(Kind::Records);
    }
    if shorthand::is_shorthand(root) {
        return Ok(Kind::Shorthand);
    }
    if root.get("paths").is_some() && root.get("info").is_some() {
        let text = "this looks like OpenAPI, but the key 'openapi' (or 'swagger') that says the version is missing";
        return Err(root.diagnostic(Code::UnknownKind, text));
    }
    let text = format!(
        "this is {} that is none of: OpenAPI 3 (key 'openapi'), Swagger 2 (key 'swagger'), RAML 1.0 (first line '#%RAML 1.0'), API Blueprint ('FORMAT: 1A'), paths with methods, endpoint records",
        root.what()
    );
    Err(root.diagnostic(Code::UnknownKind, text))
}
