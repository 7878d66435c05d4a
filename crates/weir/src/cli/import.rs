//! `weir import`

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use import::{Format, Kind};
use weir::config::{load_text, process_environment};

use super::{BAD_CONFIGURATION, print};

/// Something of the source is not in the file that was written.
const LEFT_OUT: u8 = 3;

/// Reads the file and what it includes below its folder; starts and changes nothing else.
///
/// Exit codes: 0 everything was imported (what differs is in the report), 3 something was left out, 64 the file cannot be read or is not in
/// the format.
#[derive(Args)]
pub(super) struct Import {
    /// Program that the file is for.
    #[arg(value_parser = format_parser())]
    format: Format,
    /// Its configuration file.
    file: PathBuf,
    /// Write to this file, which must not exist yet; without it, to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output file.
    #[arg(long, requires = "output")]
    force: bool,
    /// Form of the report, which goes to standard error.
    #[arg(long, value_enum, default_value_t = ReportForm::Text)]
    report: ReportForm,
}

#[derive(Clone, Copy, ValueEnum)]
enum ReportForm {
    /// One line for each part: FILE:LINE: exact, differs or left out: PART: how.
    Text,
    /// One JSON object.
    Json,
}

fn format_parser() -> impl clap::builder::TypedValueParser<Value = Format> {
    use clap::builder::TypedValueParser as _;
    clap::builder::PossibleValuesParser::new(Format::ALL.map(Format::name)).try_map(|name| name.parse::<Format>())
}

impl Import {
    pub(super) fn run(self) -> ExitCode {
        let imported = match import::import(self.format, &self.file) {
            Ok(imported) => imported,
            Err(error) => {
                eprintln!("weir: {error}");
                return ExitCode::from(BAD_CONFIGURATION);
            }
        };
        let written = match &self.output {
            None => print(&imported.yaml),
            Some(path) => {
                let mut options = fs::OpenOptions::new();
                options.write(true);
                if self.force {
                    options.create(true).truncate(true);
                } else {
                    options.create_new(true);
                }
                match options.open(path).and_then(|mut file| file.write_all(imported.yaml.as_bytes())) {
                    Ok(()) => ExitCode::SUCCESS,
                    Err(error) => {
                        let hint = if error.kind() == std::io::ErrorKind::AlreadyExists {
                            "; --force replaces it"
                        } else {
                            ""
                        };
                        eprintln!("weir: cannot write {}: {error}{hint}", path.display());
                        return ExitCode::from(BAD_CONFIGURATION);
                    }
                }
            }
        };
        match self.report {
            ReportForm::Text => eprint!("{}", imported.report.to_text()),
            ReportForm::Json => eprint!("{}", imported.report.to_json()),
        }
        // Files that the configuration names, such as one of passwords, are looked for as at a start.
        let name = self.output.as_ref().map_or("the written file".to_owned(), |path| path.display().to_string());
        if let (Err(problems), ReportForm::Text) = (load_text(&name, &imported.yaml, &process_environment), self.report)
        {
            eprintln!("`weir check` reports about the written configuration:\n{problems}");
        }
        match imported.report.count(Kind::LeftOut) {
            0 => written,
            _ => ExitCode::from(LEFT_OUT),
        }
    }
}
