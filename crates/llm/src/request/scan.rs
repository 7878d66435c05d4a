//! One pass over a request body.

use super::error::{Defect, RequestError};
use super::member::{Expected, Lookup, Member, lookup};
use super::strings::Strings;
use crate::Api;
use crate::json::{Lexer, Token, TokenKind, unescape, unescape_into};
use message::Span;
use std::borrow::Cow;
use std::ops::Range;

/// A name longer than this, escapes resolved, is not in the table.
const LONGEST_NAME: usize = 32;

/// What a request body says, as spans of its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestScan {
    values: [Option<Span>; Member::COUNT],
    /// One bit a member that is `null`.
    nulls: u32,
    /// Behind the `{` of the body.
    pub(super) open: u32,
    /// The body has no member at all.
    pub(super) is_empty: bool,
    /// Bytes of the strings of the prompt, tools included; names of members, roles, ids and encoded data are not counted.
    pub text_bytes: u64,
    /// Elements of `messages`, `contents` or `input`.
    pub messages: u32,
    /// Prompts in a list of them: texts, or lists of token ids.
    pub prompts: u32,
    /// Elements of `tools`.
    pub tools: u32,
    /// Images in the prompt.
    pub images: u32,
    /// Numbers in `prompt` and `input`: token ids.
    pub token_ids: u64,
}

impl RequestScan {
    /// The span of the member's value, quotes and braces included; `None` if it is absent or `null`.
    pub fn value(&self, member: Member) -> Option<Span> {
        if self.nulls & 1 << member as u32 != 0 { None } else { self.values[member as usize] }
    }

    /// Where the member's value stands, `null` included.
    pub(super) fn place(&self, member: Member) -> Option<Range<usize>> {
        self.values[member as usize].map(|value| value.range())
    }

    /// The value of a string member, its escapes resolved.
    pub fn string<'a>(&self, member: Member, body: &'a [u8]) -> Option<Cow<'a, str>> {
        let raw = body.get(self.value(member)?.range())?;
        unescape(raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?).ok()
    }

    /// The requested model.
    pub fn model<'a>(&self, body: &'a [u8]) -> Option<Cow<'a, str>> {
        self.string(Member::Model, body)
    }

    /// Whether the member is `true`.
    pub fn is_true(&self, member: Member, body: &[u8]) -> bool {
        self.value(member).and_then(|value| body.get(value.range())) == Some(b"true")
    }

    /// The member as a number that is not negative; fractions are cut off, larger ones become the largest.
    pub fn number(&self, member: Member, body: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(body.get(self.value(member)?.range())?).ok()?;
        text.parse().ok().or_else(|| {
            let value: f64 = text.parse().ok()?;
            (value >= 0.0).then_some(value as u64)
        })
    }

    /// Whether events are requested. Gemini says it in the path.
    pub fn stream(&self, body: &[u8]) -> bool {
        self.is_true(Member::Stream, body)
    }

    /// Choices that are generated, 1 unless the request says more. Completions generate them for each prompt, and `best_of` where only the best ones are returned.
    pub fn choices(&self, api: Api, body: &[u8]) -> u64 {
        let number = |member| self.number(member, body).unwrap_or(1).max(1);
        match api {
            Api::Gemini => number(Member::ConfigCandidateCount),
            Api::Completions => {
                number(Member::N).max(number(Member::BestOf)).saturating_mul(u64::from(self.prompts.max(1)))
            }
            _ => number(Member::N),
        }
    }

    /// Requested output tokens, in tokens per choice.
    pub fn max_output(&self, api: Api, body: &[u8]) -> Option<u64> {
        // Of another API's member a server takes no notice.
        let members: &[Member] = match api {
            Api::Responses => &[Member::MaxOutputTokens],
            Api::Gemini => &[Member::ConfigMaxOutputTokens],
            Api::Chat => &[Member::MaxCompletionTokens, Member::MaxTokens],
            _ => &[Member::MaxTokens],
        };
        members.iter().filter_map(|member| self.number(*member, body)).max()
    }

    /// Whether the response depends on state that lies with one provider.
    pub fn has_state(&self, body: &[u8]) -> bool {
        self.value(Member::PreviousResponseId).is_some()
            || self.value(Member::Conversation).is_some()
            || self.is_true(Member::Background, body)
    }
}

/// Reads a request body.
///
/// # Errors
/// Whatever two parsers could read differently: invalid JSON, bytes after its end, nesting over 128 levels, invalid UTF-8, a duplicate of
/// a member that is read, a name that differs from it in case only, a member of another type.
pub fn scan(body: &[u8]) -> Result<RequestScan, RequestError> {
    if body.len() > Span::MAX {
        return Err(RequestError { defect: Defect::TooLarge, at: 0 });
    }
    // Most prompts are ASCII, which is checked in a third of the time.
    if !body.is_ascii()
        && let Err(error) = std::str::from_utf8(body)
    {
        return Err(RequestError { defect: Defect::Utf8, at: error.valid_up_to() });
    }
    let mut scanner = Scanner::new(body);
    let mut at = 0;
    loop {
        let depth = scanner.lexer.depth();
        match scanner.lexer.next(body, &mut at) {
            Ok(Some(token)) => scanner.token(token, depth)?,
            Ok(None) => break,
            Err(error) => return Err(RequestError { defect: Defect::Json(error), at: at.saturating_sub(1) }),
        }
    }
    match scanner.lexer.finish() {
        Err(error) => Err(RequestError { defect: Defect::Json(error), at: body.len() }),
        Ok(()) => Ok(scanner.found),
    }
}

struct Scanner<'a> {
    body: &'a [u8],
    lexer: Lexer,
    found: RequestScan,
    /// The member of the top level whose value is being read.
    top: Option<Member>,
    /// The member one level down, in `stream_options` or `generationConfig`.
    inner: Option<Member>,
    /// Where the object or array that is the value of `top` starts.
    started: u32,
    /// What the name before says of the strings that follow.
    strings: Strings,
    /// One bit a member that was there, `null` or not.
    seen: u32,
}

const _: () = assert!(Member::COUNT <= 32, "a bit for each member");

impl<'a> Scanner<'a> {
    fn new(body: &'a [u8]) -> Self {
        Scanner {
            body,
            lexer: Lexer::new(),
            found: RequestScan { is_empty: true, ..RequestScan::default() },
            top: None,
            inner: None,
            started: 0,
            strings: Strings::Text,
            seen: 0,
        }
    }

    /// `depth`: containers that were open before the token.
    fn token(&mut self, token: Token, depth: u8) -> Result<(), RequestError> {
        match (depth, token.kind) {
            (0, TokenKind::ObjectStart) => self.found.open = token.end as u32,
            (0, _) => return Err(RequestError { defect: Defect::NotAnObject, at: token.start }),
            (1, TokenKind::Key(_)) => {
                self.found.is_empty = false;
                self.strings = Strings::Text;
                self.inner = None;
                self.top = self.name(token, None)?;
            }
            (1, TokenKind::ObjectEnd) => {}
            (1, kind) => {
                if let Some(member) = self.top {
                    self.value(member, token, kind)?;
                }
            }
            (2, TokenKind::ObjectEnd | TokenKind::ArrayEnd) => {
                if let Some(member) = self.top {
                    self.close(member, token);
                }
            }
            (_, kind) => match self.top {
                Some(member) if member.is_prompt() => self.prompt(member, token, depth),
                Some(parent @ (Member::StreamOptions | Member::GenerationConfig)) if depth == 2 => match kind {
                    TokenKind::Key(_) => self.inner = self.name(token, Some(parent))?,
                    _ => {
                        if let Some(member) = self.inner.take() {
                            self.value(member, token, kind)?;
                        }
                    }
                },
                _ => {}
            },
        }
        Ok(())
    }

    /// The member that a name is. It is a mistake if it was there before.
    fn name(&mut self, token: Token, parent: Option<Member>) -> Result<Option<Member>, RequestError> {
        let raw = &self.body[token.start..token.end];
        let fail = |defect| Err(RequestError { defect, at: token.start });
        let mut resolved = Vec::new();
        let name = if raw.contains(&b'\\') {
            // six bytes is the longest escape of one byte
            if raw.len() > 6 * LONGEST_NAME || unescape_into(raw, &mut resolved).is_err() {
                return Ok(None);
            }
            resolved.as_slice()
        } else {
            raw
        };
        match lookup(parent, name) {
            Lookup::Unknown => Ok(None),
            Lookup::CaseVariant(member) => fail(Defect::CaseVariant(member)),
            Lookup::Member(member) if self.seen & 1 << member as u32 != 0 => fail(Defect::Duplicate(member)),
            Lookup::Member(member) => {
                self.seen |= 1 << member as u32;
                Ok(Some(member))
            }
        }
    }

    /// The start of a member's value, which for a scalar is all of it.
    fn value(&mut self, member: Member, token: Token, kind: TokenKind) -> Result<(), RequestError> {
        let fits = match (member.expected(), kind) {
            (_, TokenKind::Null) | (Expected::Any, _) => true,
            (Expected::String | Expected::StringOrObject, TokenKind::String(_)) => {
                if unescape(&self.body[token.start..token.end]).is_err() {
                    return Err(RequestError { defect: Defect::InvalidString(member), at: token.start });
                }
                true
            }
            (Expected::Bool, TokenKind::Bool(_)) | (Expected::Number, TokenKind::Number(_)) => true,
            (Expected::Array, TokenKind::ArrayStart) => true,
            (Expected::Object | Expected::StringOrObject, TokenKind::ObjectStart) => true,
            _ => false,
        };
        if !fits {
            return Err(RequestError { defect: Defect::WrongType(member), at: token.start });
        }
        match kind {
            TokenKind::ObjectStart | TokenKind::ArrayStart => self.started = token.start as u32,
            TokenKind::String(_) => {
                self.found.values[member as usize] = Some(Span::new(token.start - 1, token.end + 1));
                if member.is_prompt() {
                    self.found.text_bytes += (token.end - token.start) as u64;
                }
            }
            _ => {
                if kind == TokenKind::Null {
                    self.found.nulls |= 1 << member as u32;
                }
                self.found.values[member as usize] = Some(Span::new(token.start, token.end));
            }
        }
        Ok(())
    }

    /// The end of an object or array that is a member's value.
    fn close(&mut self, member: Member, token: Token) {
        self.found.values[member as usize] = Some(Span { start: self.started, end: token.end as u32 });
    }

    /// A token inside the prompt: counts only.
    fn prompt(&mut self, member: Member, token: Token, depth: u8) {
        let starts_value = !matches!(token.kind, TokenKind::Key(_) | TokenKind::ObjectEnd | TokenKind::ArrayEnd);
        if depth == 2 && starts_value {
            match member {
                Member::Messages | Member::Contents | Member::Input => self.found.messages += 1,
                Member::Tools => self.found.tools += 1,
                Member::Prompt if matches!(token.kind, TokenKind::String(_) | TokenKind::ArrayStart) => {
                    self.found.prompts += 1;
                }
                _ => {}
            }
        }
        let bytes = &self.body[token.start..token.end];
        match token.kind {
            TokenKind::Key(_) => {
                self.strings = Strings::under(bytes);
                if matches!(bytes, b"inlineData" | b"inline_data" | b"fileData") {
                    self.found.images += 1;
                }
            }
            TokenKind::String(_) => match self.strings {
                Strings::Text => self.found.text_bytes += bytes.len() as u64,
                Strings::Kind if matches!(bytes, b"image_url" | b"input_image" | b"image") => self.found.images += 1,
                _ => {}
            },
            TokenKind::Number(_) if matches!(member, Member::Prompt | Member::Input) => self.found.token_ids += 1,
            TokenKind::ObjectEnd | TokenKind::ArrayEnd => self.strings = Strings::Text,
            _ => {}
        }
    }
}
