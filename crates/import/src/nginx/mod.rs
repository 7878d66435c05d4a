//! nginx.
//!
//! Directives are inherited as nginx inherits them: a block takes those of the block around it unless it has one of the same name. Every
//! location becomes one or two routes; what Weir has no word for is named in the report.

mod action;
mod authorize;
mod http;
mod known;
mod listen;
mod location;
mod parse;
mod policy;
mod settings;
mod splits;
mod upstream;
mod values;

pub(crate) use action::prefix_rewrite;

use crate::document::Document;
use crate::source::{Files, ImportError, Source};

/// Reads a file.
pub(crate) fn read(source: &Source, files: &mut Files) -> Result<Document, ImportError> {
    let mut document = Document::default();
    let directives = {
        let mut report = std::mem::take(&mut document.report);
        let directives = parse::Reader::new(files, &mut report).read(source)?;
        document.report = report;
        directives
    };
    let mut importer = http::Importer::new(document, source.at(0));
    importer.main(&directives)?;
    Ok(importer.finish())
}
