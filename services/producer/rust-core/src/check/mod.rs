//! Whether a submitted event may be stored, and if not, why: the same rules and the same words in all six services.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::{date, json};

/// Characters (Unicode scalar values) that an entity's type or id may have; what the table's columns hold.
const NAME_CHARS: usize = 255;

/// A member of a JSON object whose type was looked at.
#[derive(Debug, Default)]
pub enum Field<T> {
    /// Missing, or `null`.
    #[default]
    Absent,
    /// Of the type that the contract says.
    Is(T),
    /// Of another type.
    Other,
}

/// A scalar member: the contract wants a string, and for dates a number will do.
#[derive(Debug, Default)]
pub enum Text<'a> {
    /// Missing, or `null`.
    #[default]
    Absent,
    /// A string.
    Is(Cow<'a, str>),
    /// A number, as it was written.
    Number(&'a str),
    /// Of another type.
    Other,
}

impl<'a> Text<'a> {
    /// The member that a protobuf string is: without a presence of its own, so empty means absent.
    pub fn from_proto(text: &'a str) -> Self {
        if text.is_empty() { Self::Absent } else { Self::Is(Cow::Borrowed(text)) }
    }
}

/// An event as it came, its types known and nothing else.
#[derive(Debug, Default)]
pub struct Submitted<'a> {
    /// `eventHeader`
    pub header: Field<Header<'a>>,
    /// `eventBody`
    pub body: Field<Body<'a>>,
}

/// `eventHeader`
#[derive(Debug, Default)]
pub struct Header<'a> {
    /// Optional, any text.
    pub uuid: Text<'a>,
    /// Required.
    pub event_name: Text<'a>,
    /// Optional, see [`date::is_date`].
    pub created_date: Text<'a>,
    /// Optional, see [`date::is_date`].
    pub saved_date: Text<'a>,
    /// Optional, any text.
    pub event_type: Text<'a>,
}

/// `eventBody`
#[derive(Debug, Default)]
pub struct Body<'a> {
    /// At least one.
    pub entities: Field<Vec<Field<Update<'a>>>>,
}

/// One of `entities`.
#[derive(Debug, Default)]
pub struct Update<'a> {
    /// 1 to 255 characters.
    pub entity_type: Text<'a>,
    /// 1 to 255 characters.
    pub entity_id: Text<'a>,
    /// The text of a JSON object.
    pub attributes: Field<Cow<'a, str>>,
}

/// An event that may be stored, a column each for the types, ids and attributes of its entities, as the statement wants them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Entity types.
    pub types: Vec<String>,
    /// Entity ids.
    pub ids: Vec<String>,
    /// Attributes: the text of a JSON object each.
    pub attributes: Vec<String>,
}

/// Why an event is refused, in the words of the contract.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub Cow<'static, str>);

impl From<&'static str> for Refusal {
    fn from(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

/// Checks an event. `scan_attributes` may be false only where the whole body was scanned already and neither a NUL nor
/// more than [`json::ATTRIBUTE_DEPTH`] levels were found.
///
/// # Errors
/// The first rule that the event breaks: header, then body, then entity by entity.
pub fn check(event: Submitted<'_>, max_entities: usize, scan_attributes: bool) -> Result<Event, Refusal> {
    let header = member(event.header, "Invalid type: event_header must be an object")?.unwrap_or_default();
    match text(&header.event_name, "Invalid type: event_name must be a string")? {
        None | Some("") => return Err("Event header event_name is required".into()),
        Some(_) => {}
    }
    text(&header.uuid, "Invalid type: uuid must be a string")?;
    check_date(&header.created_date, "Invalid date: created_date")?;
    check_date(&header.saved_date, "Invalid date: saved_date")?;
    text(&header.event_type, "Invalid type: event_type must be a string")?;

    let body = member(event.body, "Invalid type: event_body must be an object")?.unwrap_or_default();
    let updates = member(body.entities, "Invalid type: entities must be an array")?.unwrap_or_default();
    if updates.is_empty() {
        return Err("Event body must contain at least one entity".into());
    }
    if updates.len() > max_entities {
        return Err(Refusal(format!("Event body must not contain more than {max_entities} entities").into()));
    }
    let mut checked = Event::default();
    for update in updates {
        let Field::Is(update) = update else {
            return Err("Invalid type: entity must be an object".into());
        };
        checked.types.push(name(update.entity_type, &TYPE)?);
        checked.ids.push(name(update.entity_id, &ID)?);
        checked.attributes.push(attributes(update.attributes, scan_attributes)?);
    }
    Ok(checked)
}

fn member<T>(field: Field<T>, wrong: &'static str) -> Result<Option<T>, Refusal> {
    match field {
        Field::Absent => Ok(None),
        Field::Is(value) => Ok(Some(value)),
        Field::Other => Err(wrong.into()),
    }
}

fn text<'t>(text: &'t Text<'_>, wrong: &'static str) -> Result<Option<&'t str>, Refusal> {
    match text {
        Text::Absent => Ok(None),
        Text::Is(value) => Ok(Some(value)),
        Text::Number(_) | Text::Other => Err(wrong.into()),
    }
}

fn check_date(text: &Text<'_>, wrong: &'static str) -> Result<(), Refusal> {
    let readable = match text {
        Text::Absent => true,
        // The empty string is what a protobuf client sends for "none"; both protocols take it so.
        Text::Is(value) => value.is_empty() || date::is_date(value),
        Text::Number(number) => date::is_epoch_millis(number),
        Text::Other => false,
    };
    if readable { Ok(()) } else { Err(wrong.into()) }
}

/// The words for what is wrong with a type or an id.
struct Words {
    wrong_type: &'static str,
    empty: &'static str,
    long: &'static str,
    nul: &'static str,
}

const TYPE: Words = Words {
    wrong_type: "Invalid type: entity_type must be a string",
    empty: "Entity type cannot be empty",
    long: "Entity type must not be longer than 255 characters",
    nul: "Entity type must not contain NUL",
};

const ID: Words = Words {
    wrong_type: "Invalid type: entity_id must be a string",
    empty: "Entity ID cannot be empty",
    long: "Entity ID must not be longer than 255 characters",
    nul: "Entity ID must not contain NUL",
};

fn name(given: Text<'_>, words: &Words) -> Result<String, Refusal> {
    let name = match given {
        Text::Absent => return Err(words.empty.into()),
        Text::Is(name) => name.into_owned(),
        Text::Number(_) | Text::Other => return Err(words.wrong_type.into()),
    };
    // A character has at least one byte: short names are not counted.
    if name.is_empty() {
        Err(words.empty.into())
    } else if name.len() > NAME_CHARS && name.chars().count() > NAME_CHARS {
        Err(words.long.into())
    } else if name.contains('\0') {
        Err(words.nul.into())
    } else {
        Ok(name)
    }
}

fn attributes(given: Field<Cow<'_, str>>, scan: bool) -> Result<String, Refusal> {
    let Some(text) = member(given, "Invalid type: updated_attributes must be an object")? else {
        return Ok("{}".to_owned());
    };
    if scan {
        let found = json::scan(text.as_bytes());
        if found.depth > json::ATTRIBUTE_DEPTH + 1 {
            return Err("Attributes must not be nested deeper than 64 levels".into());
        }
        if found.nul {
            return Err("Attributes must not contain NUL".into());
        }
    }
    Ok(text.into_owned())
}
