//! Heads as readers see them: what was received, with what policies changed.

use crate::{Field, Fields, Known, Overlay, RequestHead, ResponseHead};

/// A field section with its arena and its overlay. The text is private: a view is the only way to read a head.
#[derive(Debug, Clone, Copy)]
pub struct FieldsView<'a> {
    fields: &'a Fields,
    text: &'a [u8],
    overlay: Option<&'a Overlay>,
}

impl<'a> FieldsView<'a> {
    /// A section as it was received, for instance trailers.
    pub fn new(fields: &'a Fields, text: &'a [u8]) -> Self {
        FieldsView { fields, text, overlay: None }
    }

    /// A section with changes.
    pub fn with_overlay(fields: &'a Fields, text: &'a [u8], overlay: &'a Overlay) -> Self {
        let overlay = (!overlay.is_empty()).then_some(overlay);
        FieldsView { fields, text, overlay }
    }

    fn listed(self) -> impl Iterator<Item = (&'a Field, &'a [u8])> {
        let original = self.fields.iter().enumerate();
        let kept = original.filter(move |(index, _)| !self.overlay.is_some_and(|overlay| overlay.is_removed(*index)));
        let added =
            self.overlay.into_iter().flat_map(|overlay| overlay.added().iter().map(|field| (field, overlay.text())));
        kept.map(move |(_, field)| (field, self.text)).chain(added)
    }

    /// First value of a known name.
    #[inline]
    pub fn first(self, known: Known) -> Option<&'a [u8]> {
        match self.overlay {
            None => self.fields.first(known, self.text),
            Some(_) => {
                self.listed().find(|(field, _)| field.known == known).map(|(field, text)| field.value.of_buf(text))
            }
        }
    }

    /// First value of a name in any case.
    pub fn get(self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields().find(|(_, other, _)| other.eq_ignore_ascii_case(name)).map(|(_, _, value)| value)
    }

    /// Name, recognised and as written, and value of each field, in order; added ones last.
    pub fn fields(self) -> impl Iterator<Item = (Known, &'a [u8], &'a [u8])> {
        self.listed().map(|(field, text)| (field.known, field.name.of_buf(text), field.value.of_buf(text)))
    }

    /// Calls `each` with the lines of the fields that `keep` accepts, neighbours together: an HTTP/1 writer copies each run at once.
    pub fn runs(self, mut keep: impl FnMut(&Field) -> bool, mut each: impl FnMut(&[u8])) {
        let mut run: Option<(usize, usize, &[u8])> = None;
        for (field, text) in self.listed() {
            if !keep(field) {
                continue;
            }
            let line = field.line().range();
            run = match run {
                Some((start, end, of)) if end == line.start && std::ptr::eq(of, text) => Some((start, line.end, of)),
                other => {
                    if let Some((start, end, of)) = other {
                        each(&of[start..end]);
                    }
                    Some((line.start, line.end, text))
                }
            };
        }
        if let Some((start, end, of)) = run {
            each(&of[start..end]);
        }
    }
}

/// A request head as readers see it.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'a> {
    /// The head as received: spans, which only the view can read.
    pub head: &'a RequestHead,
    text: &'a [u8],
    overlay: &'a Overlay,
}

impl<'a> RequestView<'a> {
    /// A view of a head in its arena.
    pub fn new(head: &'a RequestHead, text: &'a [u8], overlay: &'a Overlay) -> Self {
        RequestView { head, text, overlay }
    }

    /// The fields with their changes.
    pub fn section(self) -> FieldsView<'a> {
        FieldsView::with_overlay(&self.head.fields, self.text, self.overlay)
    }

    /// First value of a known name.
    #[inline]
    pub fn first(self, known: Known) -> Option<&'a [u8]> {
        self.section().first(known)
    }

    /// First value of a name in any case.
    pub fn get(self, name: &[u8]) -> Option<&'a [u8]> {
        self.section().get(name)
    }

    /// Name, recognised and as written, and value of each field.
    pub fn fields(self) -> impl Iterator<Item = (Known, &'a [u8], &'a [u8])> {
        self.section().fields()
    }

    /// Lines for an HTTP/1 writer: see [`FieldsView::runs`].
    pub fn runs(self, keep: impl FnMut(&Field) -> bool, each: impl FnMut(&[u8])) {
        self.section().runs(keep, each);
    }

    /// Method as written.
    pub fn method(self) -> &'a [u8] {
        self.head.method_name.of_buf(self.text)
    }

    /// Authority.
    pub fn authority(self) -> Option<&'a [u8]> {
        self.overlay.authority().or_else(|| self.head.authority.map(|span| span.of_buf(self.text)))
    }

    /// `:protocol` of an extended CONNECT.
    pub fn connect_protocol(self) -> Option<&'a [u8]> {
        self.head.connect_protocol.map(|span| span.of_buf(self.text))
    }

    /// Path and query.
    pub fn path_and_query(self) -> (&'a [u8], Option<&'a [u8]>) {
        match self.overlay.target() {
            Some(target) => match target.iter().position(|&byte| byte == b'?') {
                Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
                None => (target, None),
            },
            None => (self.head.path.of_buf(self.text), self.head.query.map(|query| query.of_buf(self.text))),
        }
    }
}

/// A response head as readers see it.
#[derive(Debug, Clone, Copy)]
pub struct ResponseView<'a> {
    /// The head as received: spans, which only the view can read.
    pub head: &'a ResponseHead,
    text: &'a [u8],
    overlay: &'a Overlay,
}

impl<'a> ResponseView<'a> {
    /// A view of a head in its arena.
    pub fn new(head: &'a ResponseHead, text: &'a [u8], overlay: &'a Overlay) -> Self {
        ResponseView { head, text, overlay }
    }

    /// Status.
    pub fn status(self) -> u16 {
        self.overlay.status().unwrap_or(self.head.status)
    }

    /// The fields with their changes.
    pub fn section(self) -> FieldsView<'a> {
        FieldsView::with_overlay(&self.head.fields, self.text, self.overlay)
    }

    /// First value of a known name.
    #[inline]
    pub fn first(self, known: Known) -> Option<&'a [u8]> {
        self.section().first(known)
    }
}
