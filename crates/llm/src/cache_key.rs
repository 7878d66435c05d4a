//! The key of the response cache: two requests share one only if they mean the same.

use crate::Api;
use crate::json::{Lexer, Token, TokenKind, push_escaped, unescape};
use crate::request::{Member, RequestScan};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Members that say who sends the request, not what it contains. Of the Responses API they count: its responses repeat them.
const LEFT_OUT: [&str; 7] = [
    "user",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
];

/// Members that let the provider run tools, or that refer to state of the provider, beside those that the scanner reads.
const HOSTED: [&str; 6] =
    ["web_search_options", "mcp_servers", "container", "cachedContent", "cached_content", "context_management"];

/// Values of a body that are sorted and compared; a body with more of them has no key, because a worker must not be busy with it.
const MOST_VALUES: usize = 200_000;
/// A nested object with a longer canonical text is represented by the digest of it: its text is not copied once for each level above.
const LONGEST_TEXT: usize = 256;

/// A key of the cache.
pub type CacheKey = [u8; 32];

/// The key: SHA-256 of partition, path, model and canonical body. `None` if the body has no one meaning: a name occurs twice in an
/// object, or a string has a surrogate without its partner. Also `None` where its response does not depend on the body alone: a member lets
/// the provider run tools or use its state; and for more values than are compared.
pub fn cache_key(api: Api, partition: &[u8], path: &[u8], model: &[u8], body: &[u8]) -> Option<CacheKey> {
    let left_out: &[&str] = if api == Api::Responses { &[] } else { &LEFT_OUT };
    let canonical = canonical(body, left_out)?;
    let mut hash = Sha256::new();
    for part in [partition, path, model, &canonical] {
        // with its length, so that no two lists of parts look alike
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    Some(hash.finalize().into())
}

/// Why a request is not looked up in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bypass {
    /// Neither `temperature: 0` nor a `seed`.
    Random,
    /// More than one choice.
    Choices,
    /// Tools that the provider runs.
    HostedTools,
    /// State that lies with the provider, or is stored there.
    State,
}

/// Whether a response may be looked up; `any_temperature` allows random ones.
pub fn bypass(api: Api, request: &RequestScan, body: &[u8], any_temperature: bool) -> Option<Bypass> {
    if api == Api::Embeddings {
        return None;
    }
    let zero = |member| {
        let text = request
            .value(member)
            .and_then(|value| body.get(value.range()))
            .and_then(|text| std::str::from_utf8(text).ok());
        text.and_then(|text| text.parse::<f64>().ok()) == Some(0.0)
    };
    let repeatable = [Member::Temperature, Member::ConfigTemperature].into_iter().any(zero)
        || [Member::Seed, Member::ConfigSeed].into_iter().any(|member| request.value(member).is_some());
    let store = request.value(Member::Store).and_then(|value| body.get(value.range()));
    let is_stored = match api {
        // Stored unless the request says otherwise.
        Api::Responses => store != Some(b"false"),
        _ => store.is_some_and(|store| store != b"false"),
    };
    if request.has_state(body) || is_stored {
        Some(Bypass::State)
    } else if request.choices(api, body) != 1 {
        Some(Bypass::Choices)
    } else if request.value(Member::Tools).is_some_and(|tools| hosted_tools(api, &body[tools.range()])) {
        Some(Bypass::HostedTools)
    } else if !repeatable && !any_temperature {
        Some(Bypass::Random)
    } else {
        None
    }
}

/// Whether one of the tools is not a function of the client's.
fn hosted_tools(api: Api, tools: &[u8]) -> bool {
    let Ok(serde_json::Value::Array(tools)) = serde_json::from_slice(tools) else { return true };
    !tools.iter().all(|tool| match api {
        Api::Gemini => tool.as_object().is_some_and(|tool| {
            tool.keys().all(|name| matches!(name.as_str(), "functionDeclarations" | "function_declarations"))
        }),
        Api::Messages => tool.get("type").is_none_or(|kind| kind == "custom"),
        _ => tool.get("type").is_some_and(|kind| kind == "function" || kind == "custom"),
    })
}

/// The body with members sorted, white space removed, escapes resolved and numbers by value; without the members that are left out. Nested
/// objects with a long text are their digest.
fn canonical(body: &[u8], left_out: &[&str]) -> Option<Vec<u8>> {
    let mut parser = Parser { body, left_out, lexer: Lexer::new(), at: 0, values: 0 };
    let mut out = Vec::with_capacity(body.len());
    let first = parser.token()?;
    parser.value(first, &mut out, true)?;
    parser.rest().then_some(out)
}

struct Parser<'a> {
    body: &'a [u8],
    /// Members of the body that do not count.
    left_out: &'a [&'a str],
    lexer: Lexer,
    at: usize,
    /// Values so far.
    values: usize,
}

impl Parser<'_> {
    fn token(&mut self) -> Option<Token> {
        self.lexer.next(self.body, &mut self.at).ok().flatten()
    }

    /// Whether nothing follows.
    fn rest(&mut self) -> bool {
        matches!(self.lexer.next(self.body, &mut self.at), Ok(None)) && self.lexer.finish().is_ok()
    }

    fn text(&self, token: Token) -> Option<Cow<'_, str>> {
        unescape(&self.body[token.start..token.end]).ok()
    }

    /// Appends the value that starts with `token`. Nesting is bounded by the lexer.
    fn value(&mut self, token: Token, out: &mut Vec<u8>, top: bool) -> Option<()> {
        self.values += 1;
        if self.values > MOST_VALUES {
            return None;
        }
        match token.kind {
            TokenKind::ObjectStart => {
                let begin = out.len();
                let mut members: Vec<(String, Vec<u8>)> = Vec::new();
                loop {
                    let name = self.token()?;
                    if name.kind == TokenKind::ObjectEnd {
                        break;
                    }
                    let name = self.text(name)?.into_owned();
                    let mut value = Vec::new();
                    let first = self.token()?;
                    self.value(first, &mut value, false)?;
                    members.push((name, value));
                }
                members.sort();
                if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                    return None;
                }
                if top {
                    if members.iter().any(|(name, value)| HOSTED.contains(&name.as_str()) && value != b"null") {
                        return None;
                    }
                    members.retain(|(name, _)| !self.left_out.contains(&name.as_str()));
                }
                out.push(b'{');
                for (i, (name, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    push_escaped(name, out);
                    out.push(b':');
                    out.extend_from_slice(value);
                }
                out.push(b'}');
                if !top && out.len() - begin > LONGEST_TEXT {
                    let digest = Sha256::digest(&out[begin..]);
                    out.truncate(begin);
                    // No value begins so, and the digest has one length.
                    out.push(b'#');
                    out.extend_from_slice(&digest);
                }
            }
            TokenKind::ArrayStart => {
                out.push(b'[');
                let start = out.len();
                loop {
                    let item = self.token()?;
                    if item.kind == TokenKind::ArrayEnd {
                        break;
                    }
                    if out.len() > start {
                        out.push(b',');
                    }
                    self.value(item, out, false)?;
                }
                out.push(b']');
            }
            TokenKind::String(_) => push_escaped(&self.text(token)?, out),
            TokenKind::Number(_) => out.extend_from_slice(number(&self.body[token.start..token.end])?.as_bytes()),
            TokenKind::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            TokenKind::Null => out.extend_from_slice(b"null"),
            TokenKind::ObjectEnd | TokenKind::ArrayEnd | TokenKind::Key(_) => return None,
        }
        Some(())
    }
}

/// A number by its value: digits without zeros at either end, and the exponent of the last. Exact for every length.
fn number(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |text| ("-", text));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Some("0".into());
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    let exponent = exponent.parse::<i64>().ok()?.checked_add(zeros as i64)?.checked_sub(fraction.len() as i64)?;
    Some(format!("{sign}{significant}e{exponent}"))
}

#[cfg(test)]
mod tests;
