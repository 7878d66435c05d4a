//! `gauge describe`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use apidoc::{Api, Code, Format, Problems, Read, Syntax};
use clap::{Args, ValueEnum};

use crate::cli::{BAD_INPUT, UNREADABLE, UNWRITABLE, grouped, print};

const EXAMPLES: &str = "\
Examples:
  gauge describe api.yaml                        the internal records, one for each operation, as YAML
  gauge describe api.raml --format table         what there is, a line for each operation
  gauge describe api.apib --format openapi -o api.openapi.yaml
                                                 any description that is read, as OpenAPI 3.1
  gauge describe swagger.json --format records --json | jq '.endpoints[].endpoint_path'

The description may be OpenAPI 3.0 or 3.1, Swagger 2.0, RAML 1.0, API Blueprint, OpenAPI shorthand or records; the content shows which. The local
files that it refers to are read too. A part that is not understood is a warning on standard error; a part that would make the result wrong
is an error with file, line and JSON pointer.";

/// Reads an API description and writes what is in it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Describe {
    /// Description of an API
    file: PathBuf,
    /// What to write
    #[arg(short, long, value_enum, default_value_t = Output::Records)]
    format: Output,
    /// JSON instead of YAML (records, openapi, swagger2, shorthand)
    #[arg(long)]
    json: bool,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// No warnings
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// One record for each operation: base path, path, method, parameters, body, security
    Records,
    /// OpenAPI 3.1
    Openapi,
    /// Swagger 2.0
    Swagger2,
    /// RAML 1.0
    Raml,
    /// OpenAPI 3.1 without its `openapi` key
    Shorthand,
    /// A line for each operation, for people
    Table,
}

impl Describe {
    pub(crate) fn run(self) -> ExitCode {
        let read = match read(&self.file, self.quiet) {
            Ok(read) => read,
            Err(code) => return code,
        };
        let text = match self.text(&read) {
            Ok(text) => text,
            Err(why) => {
                eprintln!("gauge: {why}");
                return ExitCode::from(BAD_INPUT);
            }
        };
        match &self.output {
            None => print(&text),
            Some(file) => match std::fs::write(file, text) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("gauge: {}: {error}", file.display());
                    ExitCode::from(UNWRITABLE)
                }
            },
        }
    }

    fn text(&self, read: &Read) -> Result<String, String> {
        let format = match self.format {
            Output::Records => Format::Records,
            Output::Openapi | Output::Shorthand => Format::OpenApi,
            Output::Swagger2 => Format::Swagger2,
            Output::Raml => Format::Raml,
            Output::Table if self.json => {
                return Err("a table cannot be JSON; use --format records --json".to_owned());
            }
            Output::Table => return Ok(table(&read.api)),
        };
        if self.json && format == Format::Raml {
            return Err("RAML is always YAML: leave --json out".to_owned());
        }
        let written = apidoc::write(&read.api, format, if self.json { Syntax::Json } else { Syntax::Yaml });
        if !self.quiet {
            written.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        }
        if self.format == Output::Shorthand {
            // The version is the first key.
            let key = if self.json { "\"openapi\":" } else { "openapi:" };
            let lines = written.text.lines().enumerate();
            let mut first = true;
            return Ok(lines
                .filter(|(_, line)| !(line.trim_start().starts_with(key) && std::mem::take(&mut first)))
                .fold(String::new(), |text, (_, line)| text + line + "\n"));
        }
        Ok(written.text)
    }
}

/// Reads a description; its warnings are printed unless `quiet`, and its errors always.
pub(crate) fn read(file: &Path, quiet: bool) -> Result<Read, ExitCode> {
    match gauge::plan::read_description(file) {
        Ok(read) => {
            if !quiet {
                let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
                grouped(&warnings).iter().for_each(|warning| eprintln!("warning: {warning}"));
            }
            Ok(read)
        }
        Err(problems) => {
            eprintln!("{problems}");
            Err(ExitCode::from(exit_code(&problems, file)))
        }
    }
}

/// A file that is not there is another fault than one that is wrong.
fn exit_code(problems: &Problems, file: &Path) -> u8 {
    let unreadable = |code: Code, name: &str| code == Code::Unreadable && name == file.to_string_lossy();
    match problems.errors.as_slice() {
        [only] if unreadable(only.code, &only.file) => UNREADABLE,
        _ => BAD_INPUT,
    }
}

/// Columns as wide as their widest cell.
fn table(api: &Api) -> String {
    let mut rows = vec![["METHOD", "PATH", "SERVER", "SECURITY", "OPERATION"].map(str::to_owned)];
    for operation in &api.operations {
        let schemes: Vec<String> = operation
            .security
            .0
            .iter()
            .map(|together| together.keys().cloned().collect::<Vec<_>>().join("+"))
            .map(|schemes| if schemes.is_empty() { "anonymous".to_owned() } else { schemes })
            .collect();
        rows.push([
            operation.method.to_string(),
            operation.full_path(),
            operation.origin().unwrap_or("-").to_owned(),
            if schemes.is_empty() { "-".to_owned() } else { schemes.join("|") },
            operation.id.clone(),
        ]);
    }
    let widths: Vec<usize> = (0..5).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
