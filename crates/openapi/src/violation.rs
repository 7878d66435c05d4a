//! What a request does that its description does not allow.

/// Violations of one request that are told.
pub const MOST: usize = 10;
/// Bytes of a pointer that are told.
const POINTER_BYTES: usize = 256;

/// Where a violation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Location {
    /// A parameter in the path.
    Path,
    /// A parameter in the query.
    Query,
    /// A header field.
    Header,
    /// A cookie.
    Cookie,
    /// The body.
    Body,
}

impl Location {
    /// As it is told.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Location::Path => "path",
            Location::Query => "query",
            Location::Header => "header",
            Location::Cookie => "cookie",
            Location::Body => "body",
        }
    }
}

/// One violation. It never holds a value of the request, only names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where.
    pub place: Location,
    /// JSON pointer (RFC 6901): into the body, or the name of a parameter and what follows in its value.
    pub pointer: String,
    /// The keyword of JSON Schema that does not hold, or a word of [`rule`].
    pub rule: &'static str,
}

/// Rules that are no keyword of JSON Schema.
pub mod rule {
    /// The media type is not described, or the body has a coding.
    pub const CONTENT_TYPE: &str = "content_type";
    /// It is not what its format demands: JSON, percent encoding, UTF-8.
    pub const SYNTAX: &str = "syntax";
    /// It is there more than once: readers differ in which counts.
    pub const DUPLICATE: &str = "duplicate";
    /// It is not described.
    pub const UNKNOWN: &str = "unknown";
    /// It nests deeper than is checked.
    pub const DEPTH: &str = "depth";
    /// Too many alternatives would have to be tried.
    pub const COMPLEXITY: &str = "complexity";
    /// It is missing.
    pub const REQUIRED: &str = "required";

    /// The rule that a document breaks which is not JSON.
    pub(crate) fn of(refused: strict_json::Refused) -> &'static str {
        match refused {
            strict_json::Refused::Syntax => SYNTAX,
            strict_json::Refused::Duplicate => DUPLICATE,
            strict_json::Refused::Depth => DEPTH,
        }
    }
}

/// Every rule that a violation can have, for counters.
pub const RULES: &[&str] = &[
    rule::CONTENT_TYPE,
    rule::SYNTAX,
    rule::DUPLICATE,
    rule::UNKNOWN,
    rule::DEPTH,
    rule::COMPLEXITY,
    "required",
    "type",
    "enum",
    "const",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minProperties",
    "maxProperties",
    "additionalProperties",
    "propertyNames",
    "dependentRequired",
    "unevaluatedProperties",
    "unevaluatedItems",
    "anyOf",
    "oneOf",
    "not",
    "false",
    "other",
];

/// The rule of this name; `other` for one that is not in [`RULES`].
pub(crate) fn rule_named(keyword: &str) -> &'static str {
    RULES.iter().find(|known| **known == keyword).copied().unwrap_or("other")
}

/// The violations of one request: at most [`MOST`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether no further one is taken.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    /// All of them.
    #[must_use]
    pub fn list(&self) -> &[Violation] {
        &self.0
    }

    /// Whether all that is wrong is the media type of the body (415).
    #[must_use]
    pub fn is_media_type(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|one| one.rule == rule::CONTENT_TYPE)
    }

    /// Adds one, if there is room. A pointer that is too long is cut at the end.
    pub(crate) fn add(&mut self, place: Location, mut pointer: String, rule: &'static str) {
        if self.is_full() {
            return;
        }
        if pointer.len() > POINTER_BYTES {
            let end = (0..=POINTER_BYTES).rev().find(|&end| pointer.is_char_boundary(end)).unwrap_or(0);
            pointer.truncate(end);
        }
        // Names come from clients, and violations go into logs.
        if pointer.contains(char::is_control) {
            pointer = pointer.replace(char::is_control, "\u{fffd}");
        }
        let violation = Violation { place, pointer, rule };
        if !self.0.contains(&violation) {
            self.0.push(violation);
        }
    }

    /// Appends those of another check of the same request.
    pub fn extend(&mut self, others: Violations) {
        for one in others.0 {
            self.add(one.place, one.pointer, one.rule);
        }
    }

    /// Appends them as a JSON array, `[{"in":"body","pointer":"/items/0/qty","rule":"minimum"}]`.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, one) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"in\":\"");
            out.extend_from_slice(one.place.as_str().as_bytes());
            out.extend_from_slice(b"\",\"pointer\":");
            // Text is always JSON.
            let _ = serde_json::to_writer(&mut *out, &one.pointer);
            out.extend_from_slice(b",\"rule\":\"");
            out.extend_from_slice(one.rule.as_bytes());
            out.extend_from_slice(b"\"}");
        }
        out.push(b']');
    }
}

/// Appends a step to a JSON pointer.
pub(crate) fn push_step(pointer: &mut String, step: &str) {
    pointer.push('/');
    for letter in step.chars() {
        match letter {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            letter => pointer.push(letter),
        }
    }
}

/// A JSON pointer of one step.
pub(crate) fn step(name: &str) -> String {
    let mut pointer = String::with_capacity(name.len() + 1);
    push_step(&mut pointer, name);
    pointer
}
