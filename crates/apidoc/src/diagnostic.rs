//! Errors and warnings, each with the place in the document that it is about.

use std::fmt;

/// What sort of thing a [`Diagnostic`] reports; programs match on this, people read the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// A file could not be read: it is absent, not a regular file, or outside of the folder that may be read.
    Unreadable,
    /// The text is not well-formed YAML, JSON, RAML or API Blueprint, or is not UTF-8.
    Syntax,
    /// A limit of [`crate::Limits`] was passed: size, depth, number of files, expansion of aliases.
    TooLarge,
    /// The content is none of the kinds that are read.
    UnknownKind,
    /// The kind or its version is recognised and deliberately not read, such as RAML 0.8 or Swagger 1.2.
    Unsupported,
    /// A `$ref`, `!include`, `uses` or type name leads nowhere, or only back to itself.
    BadReference,
    /// A reference that would need a network: nothing is ever fetched.
    RemoteReference,
    /// The description breaks a rule of its own format, so that the model would be wrong.
    Invalid,
    /// Warning: a part of the description that the model has no place for was passed over.
    PassedOver,
    /// Warning: the description leaves something open, and a value was assumed.
    Assumed,
    /// Warning of a writer: the format written cannot say this.
    NotSayable,
}

impl Code {
    /// A short fixed name for logs and tests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Unreadable => "unreadable",
            Code::Syntax => "syntax",
            Code::TooLarge => "too-large",
            Code::UnknownKind => "unknown-kind",
            Code::Unsupported => "unsupported",
            Code::BadReference => "bad-reference",
            Code::RemoteReference => "remote-reference",
            Code::Invalid => "invalid",
            Code::PassedOver => "passed-over",
            Code::Assumed => "assumed",
            Code::NotSayable => "not-sayable",
        }
    }
}

/// One error or warning: what, where, and where possible what to do.
///
/// Displayed as `file:line:column: message (at #/json/pointer)`, without the parts that are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The sort of fault.
    pub code: Code,
    /// Name of the document as its [`crate::Source`] knows it; empty for a model that came from no file.
    pub file: String,
    /// Line, counted from 1; `None` when the fault concerns the whole document.
    pub line: Option<u32>,
    /// Column in characters, counted from 1.
    pub column: Option<u32>,
    /// JSON pointer (RFC 6901) of the value, as a fragment (`#/paths/~1a`); `None` where the text has no tree (API Blueprint, bad syntax).
    pub pointer: Option<String>,
    /// The fault in one sentence.
    pub message: String,
}

impl Diagnostic {
    /// A diagnostic about a whole document.
    pub(crate) fn whole(code: Code, file: &str, message: impl Into<String>) -> Self {
        Self { code, file: file.to_owned(), line: None, column: None, pointer: None, message: message.into() }
    }

    /// A diagnostic about a place that has a line but no tree.
    pub(crate) fn at_line(code: Code, file: &str, line: u32, column: Option<u32>, message: impl Into<String>) -> Self {
        Self { code, file: file.to_owned(), line: Some(line), column, pointer: None, message: message.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            f.write_str(&self.file)?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
                if let Some(column) = self.column {
                    write!(f, ":{column}")?;
                }
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)?;
        match &self.pointer {
            Some(pointer) => write!(f, " (at {pointer})"),
            None => Ok(()),
        }
    }
}

/// Why a description could not be read: every error that was found, not only the first, and the warnings up to there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// At least one error.
    pub errors: Vec<Diagnostic>,
    /// What was passed over or assumed before reading ended.
    pub warnings: Vec<Diagnostic>,
}

impl From<Diagnostic> for Problems {
    fn from(error: Diagnostic) -> Self {
        Self { errors: vec![error], warnings: Vec::new() }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// How many errors, and how many warnings, are kept; what comes after is counted in a last line.
const KEPT: usize = 500;

/// Collects what readers find.
#[derive(Debug, Default)]
pub(crate) struct Report {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    errors_dropped: usize,
    warnings_dropped: usize,
    /// Document and value of each operation of the model, in its order, where it is in a tree.
    pub(crate) places: Vec<Option<(u32, u32)>>,
}

impl Report {
    pub(crate) fn error(&mut self, diagnostic: Diagnostic) {
        if self.errors.contains(&diagnostic) {
            return; // a shared component is read once per use, its faults are told once
        }
        if self.errors.len() < KEPT {
            self.errors.push(diagnostic);
        } else {
            self.errors_dropped += 1;
        }
    }

    pub(crate) fn warn(&mut self, diagnostic: Diagnostic) {
        if self.warnings.contains(&diagnostic) {
            return;
        }
        if self.warnings.len() < KEPT {
            self.warnings.push(diagnostic);
        } else {
            self.warnings_dropped += 1;
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// `value` and the warnings when there was no error, all problems otherwise.
    pub(crate) fn conclude<T>(mut self, value: T) -> Result<(T, Vec<Diagnostic>), Problems> {
        let file = self.errors.first().or(self.warnings.first()).map(|d| d.file.clone()).unwrap_or_default();
        if self.errors_dropped > 0 {
            let more = format!("and {} more errors", self.errors_dropped);
            self.errors.push(Diagnostic::whole(Code::Invalid, &file, more));
        }
        if self.warnings_dropped > 0 {
            let more = format!("and {} more warnings", self.warnings_dropped);
            self.warnings.push(Diagnostic::whole(Code::PassedOver, &file, more));
        }
        if self.errors.is_empty() {
            Ok((value, self.warnings))
        } else {
            Err(Problems { errors: self.errors, warnings: self.warnings })
        }
    }
}
