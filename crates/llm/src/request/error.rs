//! Why a request body is refused.

use super::Member;
use crate::json::JsonError;
use std::fmt;

/// A request body that is refused with 400, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestError {
    /// What is wrong.
    pub defect: Defect,
    /// Bytes before it.
    pub at: usize,
}

/// What is wrong with a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// Not one JSON value.
    Json(JsonError),
    /// Not valid UTF-8.
    Utf8,
    /// The body is not an object.
    NotAnObject,
    /// The member occurs twice.
    Duplicate(Member),
    /// A name that differs from the member's in case only.
    CaseVariant(Member),
    /// The member has another type.
    WrongType(Member),
    /// The member's string has escapes without one meaning.
    InvalidString(Member),
    /// The body is larger than 4 GiB.
    TooLarge,
}

impl Defect {
    /// The member at fault, for the `param` of an error.
    pub fn member(self) -> Option<Member> {
        match self {
            Defect::Duplicate(member)
            | Defect::CaseVariant(member)
            | Defect::WrongType(member)
            | Defect::InvalidString(member) => Some(member),
            _ => None,
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.defect {
            Defect::Json(error) => error.fmt(f),
            Defect::Utf8 => f.write_str("not valid UTF-8"),
            Defect::NotAnObject => f.write_str("the request body is not a JSON object"),
            Defect::Duplicate(member) => write!(f, "the member '{}' occurs twice", member.name()),
            Defect::CaseVariant(member) => {
                write!(f, "a member differs from '{}' in case only; parsers disagree about it", member.name())
            }
            Defect::WrongType(member) => write!(f, "the member '{}' has the wrong type", member.name()),
            Defect::InvalidString(member) => {
                write!(f, "the string of '{}' contains an invalid escape sequence", member.name())
            }
            Defect::TooLarge => f.write_str("the request body is larger than 4 GiB"),
        }?;
        write!(f, " (at byte {})", self.at)
    }
}

impl std::error::Error for RequestError {}
