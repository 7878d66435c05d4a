//! `why`: one sentence that says what decided the response, where it is not simply that of the upstream.
//!
//! It has fixed texts, names of the configuration and addresses of targets; nothing of the request. It is put together on the stack: a line allocates
//! nothing.

use std::fmt::{self, Write};

use super::line::{Line, WHY};
use crate::error::{Error, Fault, Reason};

/// A text that is cut off rather than grow.
pub(super) struct Sentence {
    bytes: [u8; WHY],
    length: usize,
}

impl Sentence {
    /// What decided the response of the line; none if the upstream did.
    pub(super) fn of(line: &Line<'_>) -> Option<Sentence> {
        let own = match (line.error, line.own, line.cache) {
            (Some(error), ..) => return Some(Sentence::begin(|sentence| sentence.write_error(line, error))),
            (_, Some(own), _) => own,
            (_, _, Some("hit")) => "The cache has the response",
            (_, _, Some("stale")) => "The cache has a stale response, which may be served",
            (_, _, Some("revalidated")) => "The upstream confirmed the response that the cache has",
            (_, _, Some("coalesced")) => "The response is that to another request, which was in flight",
            _ if line.fallback => return Some(Sentence::begin(|sentence| sentence.write_fallback(line))),
            _ => return None,
        };
        Some(Sentence::begin(|sentence| sentence.write_str(own)))
    }

    fn begin(write: impl FnOnce(&mut Sentence) -> fmt::Result) -> Sentence {
        let mut sentence = Sentence { bytes: [0; WHY], length: 0 };
        // What is written is cut, never refused.
        let _ = write(&mut sentence);
        sentence
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The title of the reason, with what decided in brackets.
    fn write_error(&mut self, line: &Line<'_>, error: Error) -> fmt::Result {
        self.write_str(error.reason.title())?;
        if !error.detail.is_empty() {
            write!(self, ": {}", error.detail)?;
        }
        let mut separator = " (";
        let mut add = |sentence: &mut Sentence, value: fmt::Arguments<'_>| {
            sentence.write_str(std::mem::replace(&mut separator, ", "))?;
            sentence.write_fmt(value)
        };
        match error.reason {
            Reason::RateLimited | Reason::MissingKey => {
                if let Some(name) = line.limit {
                    add(self, format_args!("limit {name}"))?;
                }
            }
            Reason::Unauthenticated
            | Reason::Forbidden
            | Reason::AuthDenied
            | Reason::BadCredentials
            | Reason::AuthUnavailable
            | Reason::AuthorizerFailed => {
                if let Some(name) = line.authenticator {
                    add(self, format_args!("authenticator {name}"))?;
                }
                if let Some(outcome) = line.auth {
                    add(self, format_args!("{outcome}"))?;
                }
                if let Some(detail) = line.auth_detail.filter(|detail| *detail != error.detail) {
                    add(self, format_args!("{detail}"))?;
                }
            }
            reason if reason.fault() == Fault::Upstream => {
                if let Some(name) = line.upstream {
                    add(self, format_args!("upstream {name}"))?;
                }
                if let Some(target) = line.target {
                    add(self, format_args!("target {target}"))?;
                }
                if line.attempts > 1 {
                    add(self, format_args!("{} attempts", line.attempts))?;
                }
                if line.fallback {
                    add(self, format_args!("a fallback"))?;
                }
            }
            _ => {}
        }
        if separator == ", " { self.write_str(")") } else { Ok(()) }
    }

    fn write_fallback(&mut self, line: &Line<'_>) -> fmt::Result {
        self.write_str("A fallback responded")?;
        match (line.ai.and_then(|ai| ai.provider), line.upstream) {
            (Some(name), _) => write!(self, " (provider {name})"),
            (None, Some(name)) => write!(self, " (upstream {name})"),
            (None, None) => Ok(()),
        }
    }
}

impl Write for Sentence {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = text.floor_char_boundary(WHY - self.length);
        self.bytes[self.length..self.length + room].copy_from_slice(&text.as_bytes()[..room]);
        self.length += room;
        if room == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(line: &Line<'_>) -> Option<String> {
        Sentence::of(line).map(|sentence| String::from_utf8(sentence.text().to_vec()).expect("UTF-8"))
    }

    fn error(reason: Reason) -> Line<'static> {
        Line {
            error: Some(reason.into()),
            limit: Some("few"),
            authenticator: Some("keys"),
            auth: Some("invalid"),
            auth_detail: Some("the key is not known"),
            upstream: Some("app"),
            target: Some("10.0.0.5:80"),
            ..Line::default()
        }
    }

    #[test]
    fn it_says_what_decided() {
        for (line, expected) in [
            (Line { upstream: Some("app"), status: 404, cache: Some("miss"), ..Line::default() }, None),
            (Line { cache: Some("bypass"), attempts: 3, ..Line::default() }, None),
            (error(Reason::NotFound), Some("No route matches this request")),
            (error(Reason::RateLimited), Some("Too many requests (limit few)")),
            (Line { limit: None, ..error(Reason::RateLimited) }, Some("Too many requests")),
            (
                error(Reason::Unauthenticated),
                Some("The request needs valid credentials (authenticator keys, invalid, the key is not known)"),
            ),
            (
                Line {
                    error: Some(Error::new(Reason::AuthUnavailable, "no keys yet")),
                    auth: Some("unavailable"),
                    auth_detail: Some("no keys yet"),
                    ..error(Reason::AuthUnavailable)
                },
                Some("The credentials cannot be checked: no keys yet (authenticator keys, unavailable)"),
            ),
            (
                Line { attempts: 2, ..error(Reason::UpstreamReset) },
                Some(
                    "The upstream closed the connection without a response (upstream app, target 10.0.0.5:80, 2 attempts)",
                ),
            ),
            (error(Reason::ClientDisconnected), Some("The client disconnected")),
            (Line { cache: Some("hit"), ..Line::default() }, Some("The cache has the response")),
            (Line { cache: Some("hit"), own: Some("It is so"), ..Line::default() }, Some("It is so")),
            (
                Line { fallback: true, upstream: Some("node"), ..Line::default() },
                Some("A fallback responded (upstream node)"),
            ),
        ] {
            assert_eq!(why(&line).as_deref(), expected);
        }
    }

    #[test]
    fn it_is_cut_between_characters() {
        let long = "ü".repeat(WHY);
        for upstream in [&long[..], &format!("a{long}")] {
            let text = why(&Line { upstream: Some(upstream), ..error(Reason::ConnectFailed) }).unwrap();
            assert!((WHY - 1..=WHY).contains(&text.len()), "{}", text.len());
        }
    }
}
