//! `weir`: the command line. What it does is in the library.

mod cli;

use std::path::PathBuf;
use std::process::ExitCode;

use weir::server::{self, Options, ServeError, Source};

fn main() -> ExitCode {
    match cli::parse() {
        Ok(cli) => cli.run(serve),
        Err(code) => code,
    }
}

/// Runs the gateway, configured by a file or by the environment alone.
fn serve(config: Option<PathBuf>, options: Options) -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    serve_source(config.map_or(Source::Environment, Source::File), options)
}

/// Runs the gateway, configured by `source`.
fn serve_source(source: Source, options: Options) -> ExitCode {
    match server::serve(source, options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match &error {
                // Each line of these begins with the place, for editors to jump to.
                ServeError::Config(error) => eprintln!("{error}"),
                error => eprintln!("weir: {error}"),
            }
            ExitCode::from(error.exit_code())
        }
    }
}
