//! Configurations of other gateways, written as Weir's.
//!
//! [`import`] reads a file (and what it includes below its own folder) and returns the text of a configuration with the source's file and
//! line as a comment at each part, and a [`Report`] that says of every part of the source whether it is [`Kind::Exact`], [`Kind::Differs`] or
//! [`Kind::LeftOut`]. Nothing is guessed silently: what is not understood is in the report, by name and line. What protects a route and
//! cannot be expressed closes the route instead of opening it.
//!
//! Nothing here opens a socket or writes a file.
//!
//! ```
//! use import::{Format, Kind, import_text};
//!
//! let nginx = "http { server { listen 80; location /api/ { proxy_pass http://127.0.0.1:9000; } } }";
//! let imported = import_text(Format::Nginx, "nginx.conf", nginx).unwrap();
//! assert!(imported.yaml.contains("/api/*"));
//! assert_eq!(imported.report.count(Kind::LeftOut), 0);
//! ```

mod caddy;
mod document;
mod expression;
mod kong;
mod litellm;
mod nginx;
mod pattern;
mod precedence;
mod report;
mod source;
mod template;
mod traefik;
mod tree;
mod units;
mod variables;
mod write;

use std::path::Path;
use std::str::FromStr;

pub use report::{Finding, Kind, Report, SourceLocation};
pub use source::ImportError;

use source::Files;

/// A program whose configuration can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `nginx.conf`, whole or a file with `server` blocks.
    Nginx,
    /// Kong's declarative configuration, `_format_version` 3.0, 2.1 or 1.1.
    Kong,
    /// Dynamic configuration of Traefik's file provider, in YAML or, by the name of the file, TOML.
    Traefik,
    /// Caddy's JSON, as `caddy adapt` writes it.
    Caddy,
    /// LiteLLM's `config.yaml`.
    Litellm,
}

impl Format {
    /// All of them, in the order of the documentation.
    pub const ALL: [Format; 5] = [Format::Nginx, Format::Kong, Format::Traefik, Format::Caddy, Format::Litellm];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Nginx => "nginx",
            Format::Kong => "kong",
            Format::Traefik => "traefik",
            Format::Caddy => "caddy",
            Format::Litellm => "litellm",
        }
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Format::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            format!("unknown format `{text}`; expected one of {}", names.join(", "))
        })
    }
}

/// A configuration that was read.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The text of a file for Weir.
    pub yaml: String,
    /// What became of each part of the source.
    pub report: Report,
}

/// Reads a file, and what it includes below the folder in which it is.
///
/// # Errors
/// If a file cannot be read or is not in the format; the message has the file and the line.
pub fn import(format: Format, path: &Path) -> Result<Imported, ImportError> {
    let mut files = Files::below(path)?;
    let source = files.read(path)?;
    run(format, &source, &mut files)
}

/// Reads a text that is called `name` in comments and in the report. It cannot include files.
///
/// # Errors
/// If the text is not in the format; the message has the line.
pub fn import_text(format: Format, name: &str, text: &str) -> Result<Imported, ImportError> {
    let mut files = Files::none();
    let source = source::Source::new(name, text)?;
    run(format, &source, &mut files)
}

fn run(format: Format, source: &source::Source, files: &mut Files) -> Result<Imported, ImportError> {
    let mut document = match format {
        Format::Nginx => nginx::read(source, files)?,
        Format::Kong => kong::read(source)?,
        Format::Traefik => traefik::read(source)?,
        Format::Caddy => caddy::read(source)?,
        Format::Litellm => litellm::read(source)?,
    };
    document.unique_names();
    document.leave_secrets_uncompressed();
    let yaml = write::yaml(format.name(), &source.name, &document);
    Ok(Imported { yaml, report: document.report })
}
