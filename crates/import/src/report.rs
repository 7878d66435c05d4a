//! What became of each part of a source.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLocation {
    /// The file, as it was named by the user or by the file that includes it.
    pub file: Arc<str>,
    /// From 1; 0 is the file as a whole.
    pub line: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 { f.write_str(&self.file) } else { write!(f, "{}:{}", self.file, self.line) }
    }
}

/// How well a part was expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It means the same.
    Exact,
    /// It is there, and something about it is not the same.
    Differs,
    /// It is not there.
    LeftOut,
}

impl Kind {
    /// As the report writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Exact => "exact",
            Kind::Differs => "differs",
            Kind::LeftOut => "left out",
        }
    }
}

/// One part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Finding {
    /// How well it was expressed.
    pub kind: Kind,
    /// Where the source has it.
    pub place: SourceLocation,
    /// The part, in the source's own words.
    pub what: String,
    /// What it became, how that differs, or why it is not there.
    pub how: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.kind.name(), self.what)?;
        if self.how.is_empty() { Ok(()) } else { write!(f, ": {}", self.how) }
    }
}

/// What became of all parts, in the order of the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// One for each part; what holds for the whole file comes first.
    pub findings: Vec<Finding>,
    /// The same, to find one at once.
    told: HashSet<Finding>,
}

impl Report {
    pub(crate) fn add(&mut self, kind: Kind, place: &SourceLocation, what: impl Into<String>, how: impl Into<String>) {
        let finding = Finding { kind, place: place.clone(), what: one_line(what.into()), how: one_line(how.into()) };
        // A file that is included twice, or a setting that several routes inherit, is told of once.
        if self.told.insert(finding.clone()) {
            self.findings.push(finding);
        }
    }

    pub(crate) fn exact(&mut self, place: &SourceLocation, what: impl Into<String>, how: impl Into<String>) {
        self.add(Kind::Exact, place, what, how);
    }

    pub(crate) fn differs(&mut self, place: &SourceLocation, what: impl Into<String>, how: impl Into<String>) {
        self.add(Kind::Differs, place, what, how);
    }

    pub(crate) fn left_out(&mut self, place: &SourceLocation, what: impl Into<String>, how: impl Into<String>) {
        self.add(Kind::LeftOut, place, what, how);
    }

    /// In the order of files and lines, the worst of a line first.
    pub(crate) fn sort(&mut self) {
        self.findings.sort_by(|a, b| a.place.cmp(&b.place).then(b.kind.cmp(&a.kind)));
    }

    /// How many parts are of a kind.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
        self.findings.iter().filter(|finding| finding.kind == kind).count()
    }

    /// A line for each finding and one with the counts.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out: String = self.findings.iter().map(|finding| format!("{finding}\n")).collect();
        let count = |kind| self.count(kind);
        out.push_str(&format!(
            "{} exact, {} differ, {} left out\n",
            count(Kind::Exact),
            count(Kind::Differs),
            count(Kind::LeftOut)
        ));
        out
    }

    /// `{"exact": 1, "differs": 0, "left_out": 0, "findings": [{"kind", "file", "line", "what", "how"}]}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let findings: Vec<serde_json::Value> = self
            .findings
            .iter()
            .map(|finding| {
                serde_json::json!({
                    "kind": finding.kind.name().replace(' ', "_"),
                    "file": &*finding.place.file,
                    "line": finding.place.line,
                    "what": finding.what,
                    "how": finding.how,
                })
            })
            .collect();
        let report = serde_json::json!({
            "exact": self.count(Kind::Exact),
            "differs": self.count(Kind::Differs),
            "left_out": self.count(Kind::LeftOut),
            "findings": findings,
        });
        format!("{report:#}\n")
    }
}

/// Texts of a source may hold anything; a report has one line for each finding, and no control characters for a terminal.
fn one_line(text: String) -> String {
    const MAX: usize = 400;
    let mut out: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX).collect();
    if text.chars().nth(MAX).is_some() {
        out.push('…');
    }
    out
}
