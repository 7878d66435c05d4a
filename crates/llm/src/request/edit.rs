//! Splices: what a gateway changes in a request, as replacements in the original bytes.

use super::{Member, RequestScan};
use crate::json::push_escaped;
use std::ops::Range;

/// What the upstream's request must say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Another model.
    pub model: Option<&'a str>,
    /// Usage at the end of a stream: `stream_options.include_usage` is true. Only for chat and completions with `stream: true`.
    pub include_usage: bool,
    /// At most so many output tokens, in place of a larger number that the request has.
    pub max_output: Option<u64>,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The bytes that are replaced; empty for an insertion.
    pub range: Range<usize>,
    /// What takes their place.
    pub text: Vec<u8>,
}

/// Replacements in order, none overlapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits(Vec<Edit>);

impl Edits {
    /// The edits that make the body of `request` say what is wanted.
    pub fn of(request: &RequestScan, body: &[u8], wanted: &Wanted<'_>) -> Self {
        let mut edits = Vec::new();
        let mut inserted: Vec<Vec<u8>> = Vec::new();
        if let Some(model) = wanted.model
            && request.model(body).as_deref() != Some(model)
        {
            let mut text = Vec::with_capacity(model.len() + 2);
            push_escaped(model, &mut text);
            match request.place(Member::Model) {
                Some(range) => edits.push(Edit { range, text }),
                None => inserted.push([b"\"model\":".as_slice(), &text].concat()),
            }
        }
        if wanted.include_usage && !request.is_true(Member::IncludeUsage, body) {
            const OBJECT: &[u8] = b"{\"include_usage\":true}";
            match (request.place(Member::IncludeUsage), request.value(Member::StreamOptions)) {
                (Some(range), _) => edits.push(Edit { range, text: b"true".to_vec() }),
                (None, Some(options)) => {
                    let start = options.start as usize + 1;
                    let empty = body[start..options.end as usize - 1].trim_ascii().is_empty();
                    let text: &[u8] = if empty { b"\"include_usage\":true" } else { b"\"include_usage\":true," };
                    edits.push(Edit { range: start..start, text: text.to_vec() });
                }
                (None, None) => match request.place(Member::StreamOptions) {
                    Some(range) => edits.push(Edit { range, text: OBJECT.to_vec() }),
                    None => inserted.push([b"\"stream_options\":".as_slice(), OBJECT].concat()),
                },
            }
        }
        if let Some(most) = wanted.max_output {
            for member in
                [Member::MaxTokens, Member::MaxCompletionTokens, Member::MaxOutputTokens, Member::ConfigMaxOutputTokens]
            {
                if request.number(member, body).is_some_and(|requested| requested > most)
                    && let Some(range) = request.place(member)
                {
                    edits.push(Edit { range, text: most.to_string().into_bytes() });
                }
            }
        }
        if !inserted.is_empty() {
            let mut text = inserted.join(&b',');
            if !request.is_empty {
                text.push(b',');
            }
            let at = request.open as usize;
            edits.push(Edit { range: at..at, text });
        }
        edits.sort_by_key(|edit| edit.range.start);
        Edits(edits)
    }

    /// One replacement.
    pub(crate) fn one(edit: Edit) -> Self {
        Edits(vec![edit])
    }

    /// Whether the bytes stay as they are.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From where on the bytes stay as they are, to the end.
    pub fn unchanged_from(&self) -> usize {
        self.0.last().map_or(0, |edit| edit.range.end)
    }

    /// The length of the new body.
    pub fn len_after(&self, body: &[u8]) -> usize {
        self.0.iter().fold(body.len(), |len, edit| len + edit.text.len() - edit.range.len())
    }

    /// The new body in pieces: original bytes and replacements in turn, for a gathering write.
    pub fn pieces<'a>(&'a self, body: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut from = 0;
        let last = self.unchanged_from();
        self.0
            .iter()
            .flat_map(move |edit| {
                let before = &body[from..edit.range.start];
                from = edit.range.end;
                [before, edit.text.as_slice()]
            })
            .chain(std::iter::once(&body[last..]))
            .filter(|piece| !piece.is_empty())
    }

    /// The new body in one piece.
    pub fn apply(&self, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len_after(body));
        self.pieces(body).for_each(|piece| out.extend_from_slice(piece));
        out
    }
}
