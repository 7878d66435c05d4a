//! The syntax: directives, blocks, quotes, comments; `include` is followed.

use crate::report::{Report, SourceLocation};
use crate::source::{Files, ImportError, Source};

/// Levels of blocks and of includes.
const MAX_DEPTH: usize = 32;
/// Directives of all files.
const MAX_DIRECTIVES: usize = 200_000;

/// A word of a directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
}

/// `name args;` or `name args { ... }`.
#[derive(Debug, Clone)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    pub(super) place: SourceLocation,
}

impl Directive {
    /// As the report names it.
    pub(super) fn shown(&self) -> String {
        let mut out = self.name.clone();
        for arg in &self.args {
            out.push(' ');
            if arg.is_empty() || arg.contains([' ', ';', '\t']) {
                out.push('"');
                out.push_str(arg);
                out.push('"');
            } else {
                out.push_str(arg);
            }
        }
        out
    }

    /// An argument, empty when there is none.
    pub(super) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }
}

enum Token {
    Word(Word),
    Open,
    Close,
    End,
}

struct Lexer<'s> {
    text: &'s str,
    at: usize,
    line: usize,
}

impl<'s> Lexer<'s> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn next(&mut self) -> Result<Option<(Token, usize)>, (usize, String)> {
        loop {
            match self.peek() {
                None => return Ok(None),
                Some(c) if c.is_whitespace() => {
                    self.take();
                }
                Some('#') => while self.take().is_some_and(|c| c != '\n') {},
                Some(_) => break,
            }
        }
        let line = self.line;
        let token = match self.peek() {
            Some(';') => Token::End,
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some(quote @ ('"' | '\'')) => {
                self.take();
                return self
                    .quoted(quote)
                    .map(|word| Some((word, line)))
                    .ok_or((line, "a quote is not closed".to_owned()));
            }
            _ => return Ok(Some((self.word(), line))),
        };
        self.take();
        Ok(Some((token, line)))
    }

    fn quoted(&mut self, quote: char) -> Option<Token> {
        let mut text = String::new();
        loop {
            match self.take()? {
                '\\' => escape(&mut text, self.take()?),
                c if c == quote => break,
                c => text.push(c),
            }
        }
        Some(Token::Word(Word { text }))
    }

    fn word(&mut self) -> Token {
        let mut text = String::new();
        while let Some(c) = self.peek() {
            match c {
                ';' | '{' | '}' if !text.ends_with('$') || c != '{' => break,
                c if c.is_whitespace() => break,
                // `${name}` is a variable, not a block.
                '{' => {
                    while let Some(c) = self.take() {
                        text.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                    continue;
                }
                '\\' => {
                    self.take();
                    if let Some(c) = self.take() {
                        escape(&mut text, c);
                    }
                    continue;
                }
                _ => {}
            }
            self.take();
            text.push(c);
        }
        Token::Word(Word { text })
    }

    /// Skips code in another language up to the brace that ends it.
    fn code(&mut self) -> bool {
        let mut depth = 1_usize;
        while let Some(c) = self.take() {
            match c {
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        return true;
                    }
                }
                '"' | '\'' => loop {
                    match self.take() {
                        None => return false,
                        Some('\\') => {
                            self.take();
                        }
                        Some(end) if end == c || end == '\n' => break,
                        Some(_) => {}
                    }
                },
                '-' if self.peek() == Some('-') => while self.take().is_some_and(|c| c != '\n') {},
                _ => {}
            }
        }
        false
    }
}

/// nginx unescapes quotes, backslash, tab and line ends; of anything else the backslash stays, as regular expressions need it.
fn escape(text: &mut String, c: char) {
    match c {
        '"' | '\'' | '\\' => text.push(c),
        't' => text.push('\t'),
        'r' => text.push('\r'),
        'n' => text.push('\n'),
        c => {
            text.push('\\');
            text.push(c);
        }
    }
}

/// Reads files into directives.
pub(super) struct Reader<'f> {
    files: &'f mut Files,
    report: &'f mut Report,
    count: usize,
    includes: usize,
}

impl<'f> Reader<'f> {
    pub(super) fn new(files: &'f mut Files, report: &'f mut Report) -> Self {
        Self { files, report, count: 0, includes: 0 }
    }

    /// The directives of a file.
    pub(super) fn read(&mut self, source: &Source) -> Result<Vec<Directive>, ImportError> {
        let mut lexer = Lexer { text: &source.text, at: 0, line: 1 };
        self.block(&mut lexer, source, 0)
    }

    fn block(&mut self, lexer: &mut Lexer<'_>, source: &Source, depth: usize) -> Result<Vec<Directive>, ImportError> {
        let mut out = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut begin = lexer.line;
        let error = |line: usize, message: &str| Err(ImportError::new(&source.at(line), message));
        if depth > MAX_DEPTH {
            return error(lexer.line, "blocks are nested too deeply");
        }
        loop {
            let token = lexer.next().map_err(|(line, message)| ImportError::new(&source.at(line), message))?;
            let Some((token, line)) = token else {
                return match (words.is_empty(), depth) {
                    (true, 0) => Ok(out),
                    (true, _) => error(lexer.line, "the file ends inside a block: a `}` is missing"),
                    (false, _) => error(begin, &format!("`{}` is not ended by `;`", words[0])),
                };
            };
            if words.is_empty() {
                begin = line;
            }
            match token {
                Token::Word(word) => words.push(word.text),
                Token::Close if !words.is_empty() => {
                    return error(begin, &format!("`{}` is not ended by `;`", words[0]));
                }
                Token::Close if depth == 0 => return error(line, "`}` ends no block"),
                Token::Close => return Ok(out),
                Token::End if words.is_empty() => return error(line, "`;` ends no directive"),
                Token::Open if words.is_empty() => return error(line, "a block needs a name before `{`"),
                Token::End => {
                    let directive = self.directive(&mut words, None, source.at(begin))?;
                    if directive.name == "include" && depth_allows(self.includes) {
                        out.extend(self.include(&directive)?);
                    } else {
                        out.push(directive);
                    }
                }
                Token::Open => {
                    let block = if words[0].ends_with("_by_lua_block") {
                        if !lexer.code() {
                            return error(begin, "the Lua block is not closed");
                        }
                        Vec::new()
                    } else {
                        self.block(lexer, source, depth + 1)?
                    };
                    out.push(self.directive(&mut words, Some(block), source.at(begin))?);
                }
            }
        }
    }

    fn directive(
        &mut self,
        words: &mut Vec<String>,
        block: Option<Vec<Directive>>,
        place: SourceLocation,
    ) -> Result<Directive, ImportError> {
        self.count += 1;
        if self.count > MAX_DIRECTIVES {
            return Err(ImportError::new(&place, format!("more than {MAX_DIRECTIVES} directives")));
        }
        let mut words = std::mem::take(words).into_iter();
        Ok(Directive { name: words.next().unwrap_or_default(), args: words.collect(), block, place })
    }

    /// What the files hold that a pattern names. A file that is not there is in the report; only nginx' own folders may be missing.
    fn include(&mut self, directive: &Directive) -> Result<Vec<Directive>, ImportError> {
        let pattern = directive.arg(0).to_owned();
        let found = self.files.glob(&pattern);
        if found.is_empty() && !pattern.contains(['*', '?']) {
            self.missing(directive, "there are no files to include here");
        }
        let mut out = Vec::new();
        self.includes += 1;
        for path in found {
            match self.files.read(&path) {
                Ok(source) => out.extend(self.read(&source)?),
                Err(error) if error.message.contains("more than") => {
                    return Err(ImportError::new(&directive.place, error.message));
                }
                Err(error) => self.missing(directive, &error.message),
            }
        }
        self.includes -= 1;
        Ok(out)
    }

    fn missing(&mut self, directive: &Directive, why: &str) {
        // A list of media types, which Weir needs for nothing.
        if directive.arg(0).ends_with("mime.types") {
            self.report.differs(&directive.place, directive.shown(), "Weir serves no files and needs no media types");
        } else {
            self.report.left_out(&directive.place, directive.shown(), why);
        }
    }
}

/// Beyond this many files inside of one another an `include` stays a directive, which the report names.
fn depth_allows(includes: usize) -> bool {
    includes < MAX_DEPTH
}
